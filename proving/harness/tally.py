"""Counts of a suite's results, and the file from which `scripts/test` collects them."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

# Where Debian has its programs, whoever runs a suite.
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"

# What ends a case as failed, and not the suite.
TROUBLE = (AssertionError, RuntimeError, OSError, subprocess.SubprocessError, ValueError, KeyError)


class CaseFailed(AssertionError):
    """A case has not gone as it must."""


@dataclass
class Tally:
    """Passed, failed and skipped cases of one suite, with a note for each that did not pass."""

    suite: str
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    # A remark beside the counts, for a suite that did not run as a whole.
    remark: str = ""
    notes: list = field(default_factory=list)

    def add(self, result: str, name: str, detail: str = "") -> None:
        """Count one case whose `result` is pass, fail or skip, and print it."""
        if result == "pass":
            self.passed += 1
        elif result == "skip":
            self.skipped += 1
        else:
            self.failed += 1
        if result != "pass":
            self.notes.append(f"{result}: {name}: {detail}")
        print(f"{result.upper():7} {self.suite}: {name}{': ' + detail if detail and result != 'pass' else ''}", flush=True)

    def case(self, name: str, work: Callable[[], str | None]) -> None:
        """Run one case and count it. It may return a remark, which is printed. One that fails keeps no other from running."""
        begun = time.monotonic()
        try:
            remark = work()
        except TROUBLE as reason:
            self.add("fail", name, f"{reason} ({time.monotonic() - begun:.1f} s)")
        else:
            self.add("pass", name)
            if remark:
                print(f"        {remark}", flush=True)

    def close(self) -> int:
        """Print the closing line, write the counts to TALLY_FILE if it is set, and return the exit status."""
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped", flush=True)
        path = os.environ.get("TALLY_FILE")
        if path:
            row = {"suite": self.suite, "passed": self.passed, "failed": self.failed, "skipped": self.skipped, "remark": self.remark}
            with open(path, "a", encoding="utf-8") as out:
                out.write(json.dumps(row) + "\n")
        return 1 if self.failed else 0


def missing_packages(programs: Mapping[str, str]) -> str:
    """Which of these programs, by the Debian packages that have them, are not here: the reason as one line, or nothing."""
    absent = sorted({package for program, package in programs.items() if shutil.which(program, path=PATH) is None})
    return f"needs the Debian packages {', '.join(absent)}: scripts/foreign all" if absent else ""


def skip_whole_suite(suite: str, reason: str, remark: str = "") -> NoReturn:
    """End the process with one skipped case, since something that the suite needs is missing. `remark` is what is known
    without it."""
    tally = Tally(suite, remark=remark)
    tally.add("skip", "whole suite", f"{reason}; {remark}" if remark else reason)
    sys.exit(tally.close())
