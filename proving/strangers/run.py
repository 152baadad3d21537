#!/usr/bin/env python3
"""The permitted effect of strangers: many of each kind at once, and ordinary clients beside them.

    run.py                              the short form: 4 of each kind for 10 s; `make test` runs it
    run.py --strangers 32 --seconds 300 --members --memory
                                        the long form, one of the long counts (proving/soak)
    run.py --only smb-unread            one kind; may be repeated

The server may have 2.5 GB of address space and 4,096 descriptors. Strangers are niced and come from addresses of their
own below 127.0.0.0/8; so do the good clients, one for each protocol. First the good clients work beside niced busy
loops, as many as there will be strangers, then beside the strangers. The suite passes when the server survives, no
request of a good client fails or takes more than a second, and the median of each client's requests is at most three
times the one beside the loops. With `--memory` the server's memory must also come back to at most a fifth above its
value after serving the good clients beside the loops. Without it the figures are only printed. The server has no huge
pages here: with them the figures would show the pages that the host has joined, not the memory in use.

A kind is a function in kinds.py or members.py, the good clients are in good.py, and smb.py is the SMB client of both.
"""

import argparse
import ctypes
import json
import multiprocessing
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally
from proving.strangers import good, kinds, members
from proving.strangers.stranger import Stranger, Target

ADDRESS_SPACE, DESCRIPTORS = 2_500_000_000, 4096
USER, PASSWORD, SHARE, UID = "alice", "Open-Sesame-7", "files", 1000
LEASE_S = 10
LONGEST_S, MOST_TIMES_SLOWER, MOST_MEMORY = 1.0, 3.0, 1.2
# The time for leases to end, for workers to return unused memory, and for the allocator to return it to the host.
SETTLES_S = 40
# The short form only prints the remaining memory after this time.
SHORT_SETTLES_S = 15
NICENESS = 19
PR_SET_THP_DISABLE = 41

# The account of the strangers that log on.
ACCOUNT, PASSWORD_OF_ACCOUNT, UID_OF_ACCOUNT = "mallory", "Close-Barley-3", 1001


def without_huge_pages() -> None:
    """Make the host give this process pages of 4 KiB (prctl(2)). With huge pages the host itself decides, and later,
    which 2 MiB count for one page in use."""
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_THP_DISABLE")


class Server:
    """The server with its limits."""

    def __init__(self, directory: Path) -> None:
        self.ports = servers.free_port(), servers.free_port()
        share = directory / SHARE
        share.mkdir()
        share.chmod(0o777)
        members.prepare(share)
        config = directory / "trunkline.toml"
        users = [(USER, PASSWORD, UID), (ACCOUNT, PASSWORD_OF_ACCOUNT, UID_OF_ACCOUNT)]
        config.write_text(
            f'[server]\nlisten = ["127.0.0.1"]\nsmb_port = {self.ports[0]}\nnfs_port = {self.ports[1]}\n'
            f'state_dir = "{directory / "state"}"\ndiscovery = false\nnfs_lease_time_s = {LEASE_S}\nlog_level = "warn"\n'
            f'{"".join(self.user(directory, *user) for user in users)}'
            f'[share.{SHARE}]\npath = "{share}"\nusers = {{ "*" = "full" }}\nprotocols = ["smb", "nfs"]\n'
            f'nfs_secure_port = false\n')
        self.log = directory / "log"
        command = ["prlimit", f"--as={ADDRESS_SPACE}", f"--nofile={DESCRIPTORS}", servers.program(), "serve", "--config", str(config)]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, preexec_fn=without_huge_pages)
        self.pid = self._process.pid

    @staticmethod
    def user(directory: Path, name: str, password: str, uid: int) -> str:
        """Return the configuration lines of a user."""
        file = directory / f"password-of-{name}"
        file.write_text(password)
        file.chmod(0o600)
        return f'[[user]]\nname = "{name}"\npassword_file = "{file}"\n' + (f"uid = {uid}\ngid = {uid}\n" if os.geteuid() == 0 else "")

    def place(self, source: str | None) -> Target:
        """Return its address for a client from `source`."""
        smb, nfs = (("127.0.0.1", port) for port in self.ports)
        return Target(smb, nfs, source, USER, PASSWORD, ACCOUNT, PASSWORD_OF_ACCOUNT, SHARE, UID)

    def wait_until_it_serves(self, limit_s: float = 20) -> bool:
        end = time.monotonic() + limit_s
        while time.monotonic() < end and self.lives():
            try:
                for port in self.ports:
                    kinds.smb.connect(("127.0.0.1", port)).close()
                return True
            except OSError:
                time.sleep(0.1)
        return False

    def lives(self) -> bool:
        return self._process.poll() is None

    def memory(self) -> int:
        """Return the bytes of its private memory."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        return 0

    def stop(self) -> None:
        if self.lives():
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _niced(function: Callable[..., Any], *arguments: Any) -> None:
    os.nice(NICENESS)
    function(*arguments)


def _good(name: str, place: Target, until: float, found: Any) -> None:
    times = good.CLIENTS[name](place, until)
    found.put((name, times.taken, times.failed))


def beside(server: Server, seconds: float, others: Any) -> dict[str, Any]:
    """Let the good clients work for a while beside `others(until)`. Returns for each client its times and its failures."""
    until = time.monotonic() + seconds
    found: multiprocessing.Queue[Any] = multiprocessing.Queue()
    running = [multiprocessing.Process(target=_niced, args=other, daemon=True) for other in others(until)]
    clients = [multiprocessing.Process(target=_good, args=(name, server.place(f"127.0.{at + 1}.1"), until, found), daemon=True)
               for at, name in enumerate(good.CLIENTS)]
    for process in running + clients:
        process.start()
    results = {}
    try:
        for _ in clients:
            name, taken, failed = found.get(timeout=seconds + 120)
            results[name] = (taken, failed)
    finally:
        for process in running + clients:
            process.kill()
            process.join()
    return results


def judge(tally: Tally, server: Server, quiet: Any, loud: Any) -> None:
    """Compare the measurements with the limits."""
    tally.add("pass" if server.lives() else "fail", "the server lives", server.log.read_text(errors="replace")[-2000:])
    for name, (taken, failed) in loud.items():
        asked = f"{len(taken)} requests over {name}"
        tally.add("fail" if failed or not taken else "pass", f"{asked}: none fails", "; ".join(failed[:5]))
        longest = max(taken, default=0.0)
        tally.add("pass" if longest <= LONGEST_S else "fail", f"{asked}: none takes over {LONGEST_S:.0f} s", f"one took {longest:.2f} s")
        usual, now = (statistics.median(times) if times else 0.0 for times in (quiet[name][0], taken))
        told = f"median {now * 1000:.2f} ms, beside busy loops {usual * 1000:.2f} ms"
        tally.add("pass" if now <= MOST_TIMES_SLOWER * usual else "fail", f"{name}: at most {MOST_TIMES_SLOWER:.0f} times slower: {told}", told)


def judge_memory(tally: Tally, before: int, after: int) -> None:
    """Compare the remaining memory with the limit."""
    told = f"{before >> 20} MiB before, {after >> 20} MiB after"
    tally.add("pass" if after <= MOST_MEMORY * before else "fail", f"the memory comes back: {told}", told)


def settled(server: Server, before: int, limit_s: float) -> int:
    """Return the memory once it has come back, or after the time limit."""
    end = time.monotonic() + limit_s
    while server.lives() and server.memory() > MOST_MEMORY * before and time.monotonic() < end:
        time.sleep(0.5)
    return server.memory() if server.lives() else 0


def run(tally: Tally, args: argparse.Namespace) -> dict[str, Any]:
    names = args.only or [kind for kind in kinds.KINDS if args.members or kind not in members.KINDS]
    count = args.strangers * len(names)
    with tempfile.TemporaryDirectory(prefix="trunkline-strangers-") as directory:
        server = Server(Path(directory))
        try:
            if not server.wait_until_it_serves():
                tally.add("fail", "the server starts", server.log.read_text(errors="replace")[-2000:])
                return {}
            quiet = beside(server, args.quiet, lambda until: [(kinds.busy, until)] * count)
            before = server.memory()

            def strangers(until: float) -> list[tuple[Callable[..., None], str, Stranger]]:
                place = server.place(None)
                everyone = [(kinds.run, kind, Stranger(number * len(names) + at, place, until))
                            for number in range(args.strangers) for at, kind in enumerate(names)]
                random.Random(args.seed).shuffle(everyone)
                return everyone

            loud = beside(server, args.seconds, strangers)
            peak = server.memory() if server.lives() else 0
            after = settled(server, before, SETTLES_S if args.memory else SHORT_SETTLES_S)
            judge(tally, server, quiet, loud)
            if args.memory:
                judge_memory(tally, before, after)
            log = server.log.read_text(errors="replace")
            print(f"memory: {before >> 20} MiB before, {peak >> 20} MiB with the strangers, {after >> 20} MiB after; "
                  f"{len(log.splitlines())} lines in the log", flush=True)
            if args.log:
                Path(args.log).write_text(log)
            return {"requests": sum(len(taken) for taken, _ in loud.values()), "slowest_s": round(max(max(t, default=0) for t, _ in loud.values()), 3),
                    "mib_before": before >> 20, "mib_after": after >> 20}
        finally:
            server.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(kinds.KINDS))
    parser.add_argument("--strangers", type=int, default=4, help="of each kind")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--quiet", type=float, default=5.0, help="seconds beside busy loops")
    parser.add_argument("--members", action="store_true", help="with those that log on, too")
    parser.add_argument("--memory", action="store_true", help="fail when the memory does not come back")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", help="write the server's log there")
    parser.add_argument("--out", help="append a line of JSON for the long counts")
    args = parser.parse_args()
    servers.clean_up_when_told_to_end()
    multiprocessing.set_start_method("fork")
    tally = Tally("strangers")
    found = run(tally, args)
    if args.out:
        with open(args.out, "a", encoding="utf-8") as out:
            out.write(json.dumps(dict(found, server="trunkline", done=1 if found else 0, failures=tally.notes)) + "\n")
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
