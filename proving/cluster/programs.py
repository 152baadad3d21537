"""Programs in the clients' guest that hold files open and locked while the server dies (guest.py, `Guest`).

| program | what it does on its mount |
|---|---|
| held | keeps a file open and a range locked; writes a record and syncs it every 20 ms |
| new | makes a file, writes, syncs, closes it, and removes the one that it made 20 files ago |
| intruder | asks for the range that a held program has locked, over NFS 4.1, ten times a second |

Each program remembers what the server has promised: a record whose sync succeeded, a file whose sync succeeded. `check`
reads all of it again.
"""

import errno
import fcntl
import os
import resource
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.kernel_client import console

SLOTS, RECORD_BYTES = 64, 64
LOCKED_FROM, LOCKED_BYTES = 1 << 20, 100
KEPT = 20
READABLE_WITHIN_S = 30


class Program(threading.Thread):
    """One program. `step` does its work once and raises OSError if the server or the client refuses it."""

    pause_s = 0.02

    def __init__(self, label: str, path: str) -> None:
        super().__init__(daemon=True)
        self.label, self.path = label, path
        self.steps = self.granted = self.refused = 0
        self.errors: Counter[str] = Counter()
        self._longest = 0.0
        self._last = time.monotonic()
        self.over = False

    def step(self) -> None:
        """Do the work once."""
        raise NotImplementedError

    def run(self) -> None:
        self._last = time.monotonic()
        while not self.over:
            try:
                self.step()
            except OSError as wrong:
                self.errors[f"{self.doing} {errno.errorcode.get(wrong.errno or 0, str(wrong))}"] += 1
                time.sleep(0.1)
                continue
            now = time.monotonic()
            self._longest, self._last = max(self._longest, now - self._last), now
            self.steps += 1
            time.sleep(self.pause_s)

    # The call that a refusal is counted under.
    doing = ""

    def told(self) -> dict[str, Any]:
        """Return the counts, and the longest time between two finished steps since the last mark. One under way counts."""
        return {"steps": self.steps, "longest_s": max(self._longest, time.monotonic() - self._last), "errors": dict(self.errors),
                "granted": self.granted, "refused": self.refused}

    def mark(self) -> None:
        """Begin to count anew."""
        self._longest = 0.0
        self.errors.clear()
        self.granted = 0

    def check(self) -> list[str]:
        """Return what the server promised and does not have."""
        return []


def record(label: str, number: int) -> bytes:
    """Return a record of a held file."""
    return f"{number:012d} {label}".encode().ljust(RECORD_BYTES - 1, b".") + b"\n"


class Held(Program):
    """A file that stays open and locked."""

    def __init__(self, label: str, path: str) -> None:
        super().__init__(label, path)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        os.pwrite(self._file, b"." * SLOTS * RECORD_BYTES, 0)
        fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, LOCKED_BYTES, LOCKED_FROM)
        self._inode = os.fstat(self._file).st_ino
        self._number = 0
        self.synced: dict[int, int] = {}

    def step(self) -> None:
        self._number += 1
        slot = self._number % SLOTS
        self.doing = "write"
        os.pwrite(self._file, record(self.label, self._number), slot * RECORD_BYTES)
        self.doing = "fsync"
        os.fsync(self._file)
        self.synced[slot] = self._number

    def check(self) -> list[str]:
        promised = dict(self.synced)
        os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)
        data = os.pread(self._file, SLOTS * RECORD_BYTES, 0)
        wrong = [] if os.stat(self.path).st_ino == self._inode else [f"{self.label}: the name leads to another file"]
        return wrong + compare(self.label, data, promised, self._number)


def compare(label: str, data: bytes, promised: dict[int, int], newest: int) -> list[str]:
    """Return the slots of a held file that are older than what was promised, or not a record of it."""
    wrong = []
    for slot, number in promised.items():
        found = data[slot * RECORD_BYTES:(slot + 1) * RECORD_BYTES]
        possible = {record(label, later) for later in range(number, newest + 1, SLOTS)}
        if found not in possible:
            wrong.append(f"{label}: slot {slot} has {found[:24]!r}, and record {number} was synced")
    return wrong


class New(Program):
    """Files that are made and removed."""

    pause_s = 0.05

    def __init__(self, label: str, path: str) -> None:
        super().__init__(label, path)
        os.makedirs(path, exist_ok=True)
        self._number = 0
        self._kept: list[int] = []

    def step(self) -> None:
        self._number += 1
        name = f"{self.path}/{self._number}"
        self.doing = "open"
        file = os.open(name, os.O_WRONLY | os.O_CREAT, 0o666)
        try:
            self.doing = "write"
            os.write(file, record(self.label, self._number))
            self.doing = "fsync"
            os.fsync(file)
        finally:
            # The client says that of a write behind, which the sync has said.
            try:
                os.close(file)
            except OSError as wrong:
                self.errors[f"close {errno.errorcode.get(wrong.errno or 0)}"] += 1
        self._kept.append(self._number)
        if len(self._kept) > KEPT:
            self.doing = "unlink"
            os.unlink(f"{self.path}/{self._kept.pop(0)}")

    def check(self) -> list[str]:
        wrong = []
        for number in list(self._kept)[2:]:
            try:
                if self._read(number) != record(self.label, number):
                    wrong.append(f"{self.label}: file {number} has other data than was synced")
            except OSError as reason:
                # One that was removed meanwhile is not among them any more.
                if number in self._kept:
                    wrong.append(f"{self.label}: file {number}, which was synced: {reason}")
        return wrong

    def _read(self, number: int) -> bytes:
        """Read a file by its name. Linux gives EIO for some seconds for one that it closed right before a server died and
        started again, in place too: the server keeps that open for it, and refuses another."""
        end = time.monotonic() + READABLE_WITHIN_S
        while True:
            try:
                return Path(f"{self.path}/{number}").read_bytes()
            except OSError as wrong:
                if wrong.errno != errno.EIO or time.monotonic() > end:
                    raise
            time.sleep(0.2)


class Intruder(Program):
    """Somebody else who wants the locked range."""

    pause_s = 0.1

    def __init__(self, label: str, path: str) -> None:
        super().__init__(label, path)
        self._file = os.open(path, os.O_RDWR)

    def step(self) -> None:
        self.doing = "lock"
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, LOCKED_BYTES, LOCKED_FROM)
        except OSError as refused:
            if refused.errno not in (errno.EAGAIN, errno.EACCES):
                raise
            self.refused += 1
            return
        self.granted += 1
        fcntl.lockf(self._file, fcntl.LOCK_UN, LOCKED_BYTES, LOCKED_FROM)


KINDS = {"held": Held, "new": New, "intruder": Intruder}


class Programs:
    """The actions that the host asks for."""

    def __init__(self) -> None:
        self._running: dict[str, Program] = {}
        self._many: dict[str, list[int]] = {}

    def mount(self, kind: str, source: str, where: str, options: str) -> str:
        """Mount. Returns the error, or an empty string."""
        os.makedirs(where, exist_ok=True)
        done = subprocess.run(["mount", "-t", kind, "-o", options, source, where], capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"

    def add_address(self, address: str) -> str:
        """Give this guest an IPv6 address. Returns the error, or an empty string."""
        # The kernel loads its module for the first socket.
        socket.socket(socket.AF_INET6).close()
        done = subprocess.run(["ip", "addr", "add", address, "dev", "vec0", "nodad"], capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"

    def start(self, kind: str, label: str, path: str) -> str:
        """Start a program."""
        self._running[label] = KINDS[kind](label, path)
        self._running[label].start()
        return ""

    def told(self) -> dict[str, dict[str, Any]]:
        """Return what each program has counted since the last mark."""
        return {label: program.told() for label, program in self._running.items()}

    def mark(self) -> str:
        """Begin to count anew."""
        for program in self._running.values():
            program.mark()
        return ""

    def check(self) -> list[str]:
        """Return what the server promised to any program and does not have."""
        return [wrong for program in self._running.values() for wrong in program.check()]

    def open_many(self, where: str, count: int) -> str:
        """Open so many more files and keep them open."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (32_768, 32_768))
        os.makedirs(where, exist_ok=True)
        self._many[where] = [os.open(f"{where}/{number}", os.O_RDWR | os.O_CREAT, 0o666) for number in range(count)]
        return ""

    def bad_among_many(self) -> list[str]:
        """Write to each of the many files. Returns the refusals."""
        wrong = []
        for where, files in self._many.items():
            for number, file in enumerate(files):
                try:
                    os.pwrite(file, b"y", 0)
                except OSError as refused:
                    wrong.append(f"{where}/{number}: {refused}")
        return wrong

    def stop(self) -> dict[str, dict[str, int]]:
        """End the programs. Returns for each held file the record that was synced last in each slot."""
        for program in self._running.values():
            program.over = True
        for program in self._running.values():
            program.join(timeout=60)
        stuck = [label for label, program in self._running.items() if program.is_alive()]
        if stuck:
            raise OSError(f"did not end: {', '.join(stuck)}")
        return {label: {str(slot): number for slot, number in program.synced.items()}
                for label, program in self._running.items() if isinstance(program, Held)}

    def kernel_log(self) -> list[str]:
        """Return the last lines of the guest's kernel log."""
        return subprocess.run(["dmesg"], capture_output=True, text=True).stdout.splitlines()[-30:]


def main() -> None:
    programs = Programs()

    def answer(do: str, arguments: dict[str, Any]) -> Any:
        try:
            return getattr(programs, do)(**arguments)
        except Exception as error:  # the host decides whether a failed action is a failure
            return {"refused": f"{type(error).__name__} {error}"}

    console.serve(answer)


if __name__ == "__main__":
    main()
