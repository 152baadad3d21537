#!/usr/bin/env python3
"""In the machine: a program that works on a mount and minds every error.

    held_open.py DIRECTORY RESULT

It holds one file open with a byte-range lock, and writes numbered blocks to another, with fsync, until SIGTERM. Then it reads
through both descriptors, and writes to RESULT one JSON object: `blocks`, `longest_s` (of one block), `errors`.
"""

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

BLOCK = 16 << 10
PAUSE_S = 0.02


def content(number: int) -> bytes:
    """Return block `number`."""
    return f"{number:015d}\n".encode() * (BLOCK // 16)


def main() -> None:
    directory, result = Path(sys.argv[1]), Path(sys.argv[2])
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    errors, longest, blocks = [], 0.0, 0
    held = os.open(directory / "held", os.O_RDWR | os.O_CREAT, 0o644)
    os.write(held, content(0))
    fcntl.lockf(held, fcntl.LOCK_EX | fcntl.LOCK_NB, 4096, 0)
    written = os.open(directory / "written", os.O_RDWR | os.O_CREAT, 0o644)
    while not told:
        began = time.monotonic()
        try:
            os.pwrite(written, content(blocks), blocks * BLOCK)
            os.fsync(written)
            blocks += 1
        except OSError as reason:
            errors.append(f"block {blocks}: {reason}")
            break
        longest = max(longest, time.monotonic() - began)
        _tell(result, blocks, longest, errors)
        time.sleep(PAUSE_S)
    try:
        for number in range(blocks):
            if os.pread(written, BLOCK, number * BLOCK) != content(number):
                errors.append(f"block {number} is another")
        if os.pread(held, BLOCK, 0) != content(0):
            errors.append("the held file is another")
        fcntl.lockf(held, fcntl.LOCK_UN, 4096, 0)
        os.close(held)
        os.close(written)
    except OSError as reason:
        errors.append(f"at the end: {reason}")
    _tell(result, blocks, longest, errors, over=True)


def _tell(result: Path, blocks: int, longest: float, errors: list[str], over: bool = False) -> None:
    fresh = result.with_suffix(".new")
    fresh.write_text(json.dumps({"blocks": blocks, "longest_s": round(longest, 2), "errors": errors, "over": over}))
    fresh.rename(result)


if __name__ == "__main__":
    main()
