"""Runs that do one thing to a mount again and again: mount after mount, each in a guest of its own, each told in a line.

A run is a subclass of `Run` that says what its mount is (`_mounted`), what is done to it (`_work`) and what came of it (`result`,
`told`, `line`); `go_through` makes one for each mount, and lets it go and report.
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
from proving.kernel_client import faults, guest, kernels, mounted

# What ends the work on a mount, and is a failure of it.
TROUBLE = (mounted.RunFailed, guest.GuestEnded, OSError)


@contextlib.contextmanager
def in_one_guest(tally: Tally) -> Iterator[None]:
    """Around the work of a suite with one server and one guest: what ends it early is told, and the tally ends the process."""
    try:
        yield
    except (guest.GuestEnded, OSError, subprocess.SubprocessError) as reason:
        tally.add("fail", "guest", str(reason))
    except servers.CannotStart as reason:
        tally.add(reason.result, "server", str(reason))
    sys.exit(tally.close())


class Run:
    """One mount: what was done and what went wrong."""

    def __init__(self, kind: str, seed: int) -> None:
        self.kind, self._seed = kind, seed
        self.failures: list[str] = []
        self.errors: dict[str, int] = {}
        self.steps = 0
        # What is being done, for a failure.
        self.where = "mount"

    def mount(self) -> str:
        """The kind of mount in words."""
        raise NotImplementedError

    def amount(self) -> str:
        """How much was done."""
        raise NotImplementedError

    def told(self) -> str:
        """What it was like."""
        raise NotImplementedError

    def line(self) -> dict[str, Any]:
        """What is counted of it."""
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
        """Boot, mount, do the work `count` times, and check what is left."""
        mount = self._mounted()
        try:
            with mount:
                try:
                    self._work(mount, count)
                    self.where = "end"
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
        """What it counts as."""
        return "fail" if self.failures else "pass"

    def report(self, tally: Tally, out: Path | None) -> None:
        """Count it, print what it was like, and append its line to the file `out`."""
        tally.add(self.result(), f"{self.label()}, {self.amount()}", "; ".join(self.failures))
        print(f"        {self.told()}", flush=True)
        if out:
            line = {"server": self.kind, "mount": self.name(), "failures": self.failures, "steps": self.steps,
                    "kernels": [kernels.GuestKernel.kernel.release()], **self.line()}
            with open(out, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")


def parser(what: str, count: int, per_mount: int, description: str) -> argparse.ArgumentParser:
    """The arguments that all of them take; `what` is what is counted."""
    arguments = kernels.parser(description)
    arguments.add_argument(f"--{what}", type=int, default=count, dest="count")
    arguments.add_argument("--per-mount", type=int, default=per_mount)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--out", type=Path)
    return arguments


def begin(suite: str, *more: Callable[[], str]) -> Tally:
    """Clean up when told to end, and skip everything when something is lacking; each of `more` gives a reason, or nothing."""
    servers.clean_up_when_told_to_end()
    for lacks in (guest.missing, faults.missing, guest.cannot_boot, *more):
        if reason := lacks():
            skip_whole_suite(kernels.suite(suite), reason)
    return Tally(kernels.suite(suite))


def go_through(tally: Tally, options: argparse.Namespace, of_seed: Callable[[int], Sequence[Run]], reported: Callable[[Any], None] = lambda run: None) -> None:
    """For each mount let the runs that `of_seed` makes go and report."""
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
