"""Runs that repeat one action on a mount. Each mount is in its own guest, and each run reports in a line.

A run is a subclass of `Run`. It defines its mount (`_mounted`), the action (`_work`) and the result (`result`, `told`,
`line`). `go_through` creates one for each mount, runs it and reports.
"""

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite
from proving.kernel_client import faults, guest, kernels, mounted, tickets

# The exceptions that end the work on a mount. Each is a failure of the run.
TROUBLE = (mounted.RunFailed, guest.GuestEnded, OSError)


@contextlib.contextmanager
def in_one_guest(tally: Tally) -> Iterator[None]:
    """The frame of a suite with one server and one guest: an early end is reported, and the tally ends the process."""
    try:
        yield
    except (guest.GuestEnded, OSError, subprocess.SubprocessError) as reason:
        tally.add("fail", "guest", str(reason))
    except servers.CannotStart as reason:
        tally.add(reason.result, "server", str(reason))
    sys.exit(tally.close())


class Run:
    """One mount: the work and the failures."""

    # Whether the work ends the server and starts it again, which its counts do not outlive.
    restarts_server = False

    def __init__(self, kind: str, seed: int) -> None:
        self.kind, self._seed = kind, seed
        self.failures: list[str] = []
        self.errors: dict[str, int] = {}
        self.steps = 0
        # The current action, for a failure's report.
        self.where = "mount"

    def mount(self) -> str:
        """Return the kind of mount in words."""
        raise NotImplementedError

    def amount(self) -> str:
        """Return the amount of work done."""
        raise NotImplementedError

    def told(self) -> str:
        """Return a description of the run."""
        raise NotImplementedError

    def line(self) -> dict[str, Any]:
        """Return the numbers that are counted."""
        raise NotImplementedError

    def _mounted(self) -> mounted.Mounted:
        raise NotImplementedError

    def _work(self, mount: Any, count: int) -> None:
        raise NotImplementedError

    def name(self) -> str:
        return f"{self.mount()}, seed {self._seed}"

    def label(self) -> str:
        return f"{self.kind}: {self.name()}"

    def go(self, count: int) -> None:
        """Boot, mount, do the work `count` times, and check the remaining files."""
        mount = self._mounted()
        try:
            with mount:
                try:
                    self._work(mount, count)
                    self.where = "end"
                    if not self.restarts_server:
                        self.failures += tickets.never_ended(mount.server)
                    self.failures += self._finish(mount)
                    if self.failures:
                        mount.explain()
                except TROUBLE as reason:
                    self.failures.append(f"{self.where}: {reason}")
                    mount.explain()
        except TROUBLE as reason:
            self.failures.append(f"{self.where}: {reason}")
        self._note(mount)

    def _finish(self, mount: Any) -> list[str]:
        return mount.finish()

    def _note(self, mount: mounted.Mounted) -> None:
        self.errors, self.steps = dict(mount.errors), sum(mount.steps.values())

    def result(self) -> str:
        """Return the counted result."""
        return "fail" if self.failures else "pass"

    def report(self, tally: Tally, out: Path | None) -> None:
        """Count the run, print its description, and append its line to the file `out`."""
        tally.add(self.result(), f"{self.label()}, {self.amount()}", "; ".join(self.failures))
        print(f"        {self.told()}", flush=True)
        if out:
            line = {"server": self.kind, "mount": self.name(), "failures": self.failures, "steps": self.steps,
                    "kernels": [kernels.GuestKernel.kernel.release()], **self.line()}
            with open(out, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def parser(what: str, count: int, per_mount: int, description: str) -> argparse.ArgumentParser:
    """Return the arguments that all runs accept; `what` names the counted thing."""
    arguments = kernels.parser(description)
    arguments.add_argument(f"--{what}", type=int, default=count, dest="count")
    arguments.add_argument("--per-mount", type=int, default=per_mount)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--out", type=Path)
    return arguments


def begin(suite: str, *more: Callable[[], str]) -> Tally:
    """Clean up on a signal, and skip everything if a requirement is missing. Each of `more` returns a reason or an
    empty string."""
    servers.clean_up_when_told_to_end()
    for lacks in (guest.missing, faults.missing, guest.cannot_boot, *more):
        if reason := lacks():
            skip_whole_suite(kernels.suite(suite), reason)
    return Tally(kernels.suite(suite))


def go_through(tally: Tally, options: argparse.Namespace, of_seed: Callable[[int], Sequence[Run]], reported: Callable[[Any], None] = lambda run: None) -> None:
    """Run and report the runs that `of_seed` creates for each mount."""
    for turn, start in enumerate(range(0, options.count, options.per_mount)):
        for run in of_seed(options.seed + turn):
            try:
                run.go(min(options.per_mount, options.count - start))
            except servers.CannotStart as reason:
                tally.add(reason.result, run.label(), str(reason))
                continue
            run.report(tally, options.out)
            reported(run)


def end(tally: Tally) -> NoReturn:
    sys.exit(tally.close())
