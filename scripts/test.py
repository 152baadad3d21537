#!/usr/bin/env python3
"""Everything that CI runs: the checks, the release build, then every foreign suite against the server that was built.

It ends with one table and the line `N passed, N failed, N skipped`; the exit status is 1 when anything failed. A check counts
as one case, `cargo test` with each of its tests; a suite writes its counts to TALLY_FILE (proving/harness/tally.py).
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

CHECKS = [
    ("format", ["cargo", "fmt", "--check"]),
    ("lints", ["cargo", "clippy", "-q", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    ("layers", ["cargo", "run", "-q", "-p", "xtask", "--", "layers"]),
    ("tidy", ["cargo", "run", "-q", "-p", "xtask", "--", "tidy"]),
]
UNIT_TESTS = ["cargo", "test", "--workspace", "--no-fail-fast"]
BUILD = ["cargo", "build", "--release", "--workspace"]
# Name, program, and the longest it may take in seconds.
SUITES = [
    ("peers", ["proving/peers/run.py"], 1200),
    ("kernel-client", ["proving/kernel-client/run.py"], 1200),
    ("smbtorture", ["proving/smbtorture/run.py", "--out", "{target}/smbtorture.json"], 1500),
]
CHECK_LIMIT_S = 1500


class Row:
    """One line of the table."""

    def __init__(self, name, passed=0, failed=0, skipped=0, seconds=0.0):
        self.name, self.passed, self.failed, self.skipped, self.seconds = name, passed, failed, skipped, seconds


def target():
    """Where cargo builds."""
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")


def run(command, limit_s, environment=None, capture=False):
    """Run a command with a time limit; gives (status, output). Nothing that it started outlives the limit."""
    print(f"\n=== {' '.join(command)}", flush=True)
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, start_new_session=True,
                               stdout=subprocess.PIPE if capture else None, text=True, errors="replace")
    try:
        output, _ = process.communicate(timeout=limit_s)
        status = process.returncode
    except subprocess.TimeoutExpired:
        # First a chance to stop its servers, then the end.
        os.killpg(process.pid, signal.SIGINT)
        try:
            output, _ = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
        print(f"=== not over after {limit_s} s", flush=True)
        status = 124
    if capture:
        print(output, end="", flush=True)
    return status, output or ""


def check(name, command):
    began = time.monotonic()
    status, _ = run(command, CHECK_LIMIT_S)
    return Row(name, passed=int(status == 0), failed=int(status != 0), seconds=time.monotonic() - began)


def unit_tests():
    began = time.monotonic()
    status, output = run(UNIT_TESTS, CHECK_LIMIT_S, capture=True)
    counts = [tuple(map(int, found)) for found in re.findall(r"(\d+) passed; (\d+) failed; (\d+) ignored", output)]
    passed, failed, ignored = (sum(column) for column in zip(*counts)) if counts else (0, 0, 0)
    if status != 0 and failed == 0:
        failed = 1  # it did not build, or a test program died
    return Row("unit tests", passed, failed, ignored, time.monotonic() - began)


def suite(name, command, limit_s):
    began = time.monotonic()
    with tempfile.NamedTemporaryFile("r", suffix=".tally") as tally:
        environment = dict(os.environ, TALLY_FILE=tally.name)
        words = [word.format(target=target()) for word in command]
        status, _ = run([sys.executable, *words], limit_s, environment)
        counts = [json.loads(line) for line in tally.read().splitlines()]
    row = Row(name, seconds=time.monotonic() - began)
    for count in counts:
        row.passed += count["passed"]
        row.failed += count["failed"]
        row.skipped += count["skipped"]
    if status != 0 and row.failed == 0:
        row.failed = 1  # it broke off before it could count
    return row


def print_table(rows):
    print(f"\n{'suite':<16}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}")
    for row in rows:
        print(f"{row.name:<16}{row.passed:>8}{row.failed:>8}{row.skipped:>9}{row.seconds:>9.0f}")
    passed, failed, skipped = (sum(getattr(row, column) for row in rows) for column in ("passed", "failed", "skipped"))
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


def main():
    run(["scripts/foreign"], 900)
    rows = [check(name, command) for name, command in CHECKS]
    rows.append(unit_tests())
    build = check("release build", BUILD)
    rows.append(build)
    if build.failed:
        rows += [Row(name, failed=1) for name, _, _ in SUITES]
    else:
        rows += [suite(*entry) for entry in SUITES]
    sys.exit(print_table(rows))


if __name__ == "__main__":
    main()
