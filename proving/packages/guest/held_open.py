#!/usr/bin/env python3
"""In the machine: a program that works on a mount and minds every error.

    held_open.py DIRECTORY RESULT

It holds one file open with a byte-range lock, and writes numbered blocks to another, with fsync, until SIGTERM. Then it reads
through both descriptors. RESULT is one JSON object: `blocks`, `longest_s` (of one block), `errors`, and `passing`. Linux' SMB
client gives some errors to callers while a connection is lost, whatever the server (workload.py, `PASSING`); the same call is
then made again, and these are counted there.
"""

import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from proving.kernel_client.workload import PASSING, PATIENCE_S

BLOCK = 16 << 10
PAUSE_S = 0.02


def content(number: int) -> bytes:
    """Return block `number`."""
    return f"{number:015d}\n".encode() * (BLOCK // 16)


class Work:
    """The two files, and what became of them."""

    def __init__(self, directory: Path, result: Path) -> None:
        self._result = result
        self._said: dict[str, Any] = {"blocks": 0, "longest_s": 0.0, "errors": [], "passing": 0, "over": False}
        self._held = os.open(directory / "held", os.O_RDWR | os.O_CREAT, 0o644)
        os.write(self._held, content(0))
        fcntl.lockf(self._held, fcntl.LOCK_EX | fcntl.LOCK_NB, 4096, 0)
        self._written = os.open(directory / "written", os.O_RDWR | os.O_CREAT, 0o644)

    def write(self) -> bool:
        """Write the next block. Returns whether that went well."""
        began, number = time.monotonic(), self._said["blocks"]
        try:
            self._do(lambda: os.pwrite(self._written, content(number), number * BLOCK))
            self._do(lambda: os.fsync(self._written))
            self._said["blocks"] += 1
        except OSError as reason:
            self._said["errors"].append(f"block {number}: {reason}")
        self._said["longest_s"] = max(self._said["longest_s"], round(time.monotonic() - began, 2))
        self._tell()
        return not self._said["errors"]

    def finish(self) -> None:
        """Read everything through the descriptors, unlock and close."""
        errors = self._said["errors"]
        try:
            for number in range(self._said["blocks"]):
                if self._do(lambda: os.pread(self._written, BLOCK, number * BLOCK)) != content(number):
                    errors.append(f"block {number} is another")
            if self._do(lambda: os.pread(self._held, BLOCK, 0)) != content(0):
                errors.append("the held file is another")
            self._do(lambda: fcntl.lockf(self._held, fcntl.LOCK_UN, 4096, 0))
            os.close(self._held)
            os.close(self._written)
        except OSError as reason:
            errors.append(f"at the end: {reason}")
        self._said["over"] = True
        self._tell()

    def _do(self, call: Callable[[], Any]) -> Any:
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                return call()
            except OSError as reason:
                if reason.errno not in PASSING or time.monotonic() > end:
                    raise
                self._said["passing"] += 1
                time.sleep(PAUSE_S)

    def _tell(self) -> None:
        fresh = self._result.with_suffix(".new")
        fresh.write_text(json.dumps(self._said))
        fresh.rename(self._result)


def main() -> None:
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    work = Work(Path(sys.argv[1]), Path(sys.argv[2]))
    while not told and work.write():
        time.sleep(PAUSE_S)
    work.finish()


if __name__ == "__main__":
    main()
