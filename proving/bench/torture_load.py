#!/usr/bin/env python3
"""A load by the benches of this year's smbtorture, reported as loads.py expects it from any foreign generator.

    torture_load.py PORT SHARE USER PASSWORD read|write|open SECONDS DEPTH BLOCK

smb2.bench.read and smb2.bench.write keep one request of BLOCK bytes in flight on each of DEPTH files of BLOCK bytes,
over one connection. The files for reading are holes, since nobody has written to them. `open` is
smb2.bench.path-contention-shared, which keeps DEPTH opens and closes of the share's directory in flight. The program prints `ready` and
`over` around the measurement, and ends with one JSON object of ops, bytes and seconds.
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.smbtorture import torture

# smbtorture's last line: the length of the run in seconds, and operations per second by its own count.
RESULT = re.compile(r"([\d.]+) second: (?:read|write|open)\[num/s=([\d,]+);")
# The benches that have another name than their load.
BENCHES = {"open": "path-contention-shared"}
# Extra time for a connection, the files and their removal.
ASIDE_S = 60


def command(release: torture.Release, target: list[str], kind: str, seconds: int, depth: int, block: int) -> list[str]:
    """Return the command line of one bench. `target` is port, share, user and password."""
    port, share, user, password = target
    settings = {"progress": "false", "nprocs": 1, "qdepth": depth, "io_size": block, "timelimit": seconds}
    return [*release.command, f"//127.0.0.1/{share}", "-p", port, "-U", f"{user}%{password}",
            *(f"--option=torture:{key}={value}" for key, value in settings.items()), f"smb2.bench.{BENCHES.get(kind, kind)}"]


def listen(lines: Iterable[str]) -> tuple[tuple[float, int] | None, list[str]]:
    """Print when the bench begins and ends. Returns (seconds, operations per second), or None, and the whole output."""
    found, said = None, []
    for line in lines:
        said.append(line.strip())
        if line.startswith("Running for"):
            print("ready", flush=True)
        elif result := RESULT.search(line):
            print("over", flush=True)
            found = float(result[1]), int(result[2].replace(",", ""))
    return found, said


def main() -> None:
    *target, kind, seconds, depth, block = sys.argv[1:]
    release = torture.newest()
    if release is None:
        sys.exit("torture_load.py: this year's smbtorture is missing: scripts/foreign")
    # smbtorture's clock knows whole seconds.
    limit = max(1, round(float(seconds)))
    with tempfile.TemporaryDirectory(prefix="torture-") as directory:
        process = subprocess.Popen(command(release, target, kind, limit, int(depth), int(block)), cwd=directory, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", env=torture.environment(),
                                   start_new_session=True)
        watchdog = threading.Timer(limit + ASIDE_S, os.killpg, (process.pid, signal.SIGKILL))
        watchdog.start()
        assert process.stdout is not None
        found, said = listen(process.stdout)
        status = process.wait()
        watchdog.cancel()
    if found is None or status != 0:
        sys.exit(f"torture_load.py: ended with {status}: {' | '.join(said[-3:])}")
    elapsed, for_a_second = found
    operations = for_a_second * limit
    print(json.dumps({"ops": operations, "bytes": operations * int(block), "seconds": elapsed}))


if __name__ == "__main__":
    main()
