#!/usr/bin/env python3
"""What a server costs before anybody uses it: the time until it answers, and its memory when idle.

    run.py [--rounds N] [--json FILE]

It prints medians with the least and the most, and counts each against its goal (docs/install.md). A server has answered
when an SMB2 NEGOTIATE and an NFS NULL call have their replies. Start reading at `main`.
"""

import argparse
import contextlib
import json
import os
import shutil
import socket
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally

# Longest time from the start of the program to both replies, in ms, by the number of shares.
START_GOAL_MS = {1: 50, 400: 500}
# Most memory of an idle server, in KiB as /proc/PID/status counts.
IDLE_GOAL_KIB = {"RssAnon": 16 << 10, "VmRSS": 24 << 10}
PATIENCE_S = 60
# As the packages have it. The symbols of a build for debugging count as memory of the process where the host maps them along.
_stripped = Path()
# Workers of the servers whose memory is measured. 0 is the server's own choice, one for each processor.
WORKERS = (0, 16)
# Longest time after the load until an idle server has returned the memory of the load.
IDLE_WITHIN_S = 30


class Ports(NamedTuple):
    """The ports of one server on 127.0.0.1."""

    smb: int
    nfs: int


class Server:
    """A configured server that can be started and ended several times."""

    def __init__(self, home: Path, shares: int, workers: int = 0) -> None:
        self.home = home
        self.ports = Ports(servers.free_port(), servers.free_port())
        lines = ["[server]", 'listen = ["127.0.0.1"]', f"smb_port = {self.ports.smb}", f"nfs_port = {self.ports.nfs}",
                 f'state_dir = "{home}/state"', "discovery = false", f"workers = {workers}"]
        for number in range(shares):
            folder = home / "shares" / str(number)
            folder.mkdir(parents=True)
            lines += [f"[share.s{number}]", f'path = "{folder}"', 'protocols = ["smb", "nfs"]', 'users = { "*" = "full" }']
        (home / "trunkline.toml").write_text("\n".join(lines) + "\n")

    @contextlib.contextmanager
    def started(self) -> Iterator[subprocess.Popen[bytes]]:
        """The running process, right after its start; it is ended when the block is left."""
        with open(self.home / "log", "ab") as log:
            process = subprocess.Popen([str(_stripped), "serve", "--config", str(self.home / "trunkline.toml")],
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def until_answered(self, process: subprocess.Popen[bytes]) -> float:
        """The time from now until the server has answered over SMB and NFS, in ms."""
        began = time.monotonic()
        for port, request in ((self.ports.smb, negotiate()), (self.ports.nfs, null_call())):
            while not _answers(port, request):
                if process.poll() is not None or time.monotonic() - began > PATIENCE_S:
                    raise AssertionError("the server did not answer: " + (self.home / "log").read_text(errors="replace")[-500:])
        return (time.monotonic() - began) * 1000


def strip(home: Path) -> None:
    """Make the program as it is installed."""
    global _stripped
    _stripped = home / "trunkline"
    subprocess.run(["strip", "-o", str(_stripped), servers.program()], check=True, timeout=PATIENCE_S)


def negotiate() -> bytes:
    """A NEGOTIATE request for SMB 2.1 alone (MS-SMB2 2.2.3) in its transport frame (2.1)."""
    header = struct.pack("<4sHHIHHIIQIIQ16s", b"\xfeSMB", 64, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, bytes(16))
    body = struct.pack("<HHHHI16sQH", 36, 1, 1, 0, 0, bytes(range(16)), 0, 0x0210)
    return struct.pack(">I", len(header + body)) + header + body


def null_call() -> bytes:
    """A call of NFS version 4's procedure 0 (RFC 8881 section 17.1) with AUTH_NONE, as one record (RFC 5531 section 11)."""
    call = struct.pack(">10I", 1, 0, 2, 100003, 4, 0, 0, 0, 0, 0)
    return struct.pack(">I", 1 << 31 | len(call)) + call


def _answers(port: int, request: bytes) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
            connection.sendall(request)
            return len(connection.recv(4)) == 4
    except ConnectionError:
        # The port is not open yet.
        time.sleep(0.0005)
        return False


def start_times(shares: int, rounds: int) -> list[float]:
    """The times from the start of the program to its replies, in ms. The first start, which creates the state, does not count."""
    home = Path(tempfile.mkdtemp(prefix="footprint-"))
    try:
        server = Server(home, shares)
        times = []
        for _ in range(rounds + 1):
            with server.started() as process:
                times.append(server.until_answered(process))
        return times[1:]
    finally:
        shutil.rmtree(home, ignore_errors=True)


class IdleMemory(NamedTuple):
    """The memory of an idle server in KiB by the fields of /proc/PID/status, and the time after the load when it was read, in s."""

    used: dict[str, int]
    after_s: float


def idle_memory(workers: int) -> IdleMemory:
    """The memory of a server that has served reads and is idle again: once it is within its goals, or else at the end of the wait."""
    home = Path(tempfile.mkdtemp(prefix="footprint-"))
    try:
        server = Server(home, 1, workers)
        with server.started() as process:
            server.until_answered(process)
            words = [servers.program(), "load", f"smb://trunkline@127.0.0.1:{server.ports.smb}/s0", "--password-file",
                     str(home / "state" / "first-password"), "--rw", "read", "--bs", "1m", "--iodepth", "16", "--numjobs", "4",
                     "--filesize", "16m", "--runtime", "2"]
            loaded = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE_S)
            if loaded.returncode != 0:
                raise AssertionError(f"load: {loaded.stderr[-500:]}")
            began = time.monotonic()
            while True:
                used, after_s = _memory(process.pid), time.monotonic() - began
                if after_s > IDLE_WITHIN_S or all(used[field] <= goal for field, goal in IDLE_GOAL_KIB.items()):
                    return IdleMemory(used, after_s)
                time.sleep(0.5)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def _memory(pid: int) -> dict[str, int]:
    fields = (line.split() for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) for words in fields if words[0].rstrip(":") in IDLE_GOAL_KIB}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10, help="starts of each configuration")
    parser.add_argument("--json", type=Path, help="write the measured values to this file")
    options = parser.parse_args()
    servers.clean_up_when_told_to_end()
    tally = Tally("footprint")
    with tempfile.TemporaryDirectory(prefix="footprint-") as home:
        strip(Path(home))
        measure(options, tally)
    sys.exit(tally.close())


def measure(options: argparse.Namespace, tally: Tally) -> None:
    """Count each value against its goal."""
    measured: dict[str, list[float]] = {}
    for shares, goal in START_GOAL_MS.items():
        times = start_times(shares, options.rounds)
        measured[f"start with {shares} shares, ms"] = times
        shown = f"{statistics.median(times):.1f} ({min(times):.1f}-{max(times):.1f}) ms of {goal}, {options.rounds} starts"
        print(f"        from the start to an answer over SMB and NFS, {shares} share(s): {shown}")
        tally.add("pass" if statistics.median(times) <= goal else "fail", f"start with {shares} share(s)", shown)
    for workers in WORKERS:
        idle = idle_memory(workers)
        name = f"idle with {workers or os.cpu_count()} workers"
        measured[f"{name}, s after the load"] = [idle.after_s]
        for field, used in idle.used.items():
            measured[f"{name}, {field}, KiB"] = [used]
            shown = f"{used} KiB of {IDLE_GOAL_KIB[field]}, {idle.after_s:.1f} s after the load, {os.cpu_count()} processors"
            print(f"        {name}: {field} {shown}")
            tally.add("pass" if used <= IDLE_GOAL_KIB[field] else "fail", f"{name}, {field}", shown)
    if options.json:
        options.json.write_text(json.dumps(measured, indent=1) + "\n")


if __name__ == "__main__":
    main()
