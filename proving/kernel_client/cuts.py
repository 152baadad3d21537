#!/usr/bin/env python3
"""Cut one to three of four channels of Linux's own client repeatedly while it works.

    cuts.py [--cuts 10] [--per-mount 5] [--seed N] [--server trunkline|samba|both] [--out FILE]
            [--sec krb5|krb5i [--ticket-life SECONDS]]

A mount with four channels, over one NIC or two, signed or sealed, carries four writers, four readers and two name
changers (workload.py). Every cut (faults.py) hits one to three channels. Checks after each cut: four channels are back
within 60 s and carry requests, and every worker continues. Checks at the end of a mount: no forbidden state was seen,
and the server's own files hold the flushed data and no other names. Check over the whole run: at most one of twenty
recoveries took longer than 15 s.

Linux returns transient errors (EAGAIN and the like) to its callers when a channel goes, with any server. They are
counted for both servers in turns in one run. Trunkline's may exceed Samba's only by chance. --out appends the counts to
a file of JSON lines (proving/soak). Without --server both servers take the same cuts.
"""

import math
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally
from proving.kernel_client import faults, guest, mounted, runs, tickets

SUITE = "kernel-cuts"
# The time within which four channels must carry requests again, with one exception in twenty cuts. Linux doubles its
# wait from one attempt to the next, which a busy host can push over the first limit. No cut may exceed the second.
BACK_WITHIN_S, BACK_AT_ALL_S = 15, 60
# The time for a worker's next step once the channels are back. Linux does not answer a lease break that came with an
# answer it never received, and any server waits 35 s for that. A worker may meet several.
STEP_WITHIN_S = 180


# The number of errors that occur together.
CLUMP = 3


class Cuts(runs.Run):
    """One mount's cuts, over any protocol: the cuts, the failures, and the transient errors."""

    back_within_s, back_at_all_s, step_within_s = BACK_WITHIN_S, BACK_AT_ALL_S, STEP_WITHIN_S

    def __init__(self, kind: str, seed: int, name: str) -> None:
        super().__init__(kind, seed)
        self._random = random.Random(f"{name} {seed}")
        self.faults: Counter[str] = Counter()
        self.back_s: list[float] = []
        self.step_s: list[float] = []

    def done(self) -> int:
        """Return the number of cuts."""
        return sum(self.faults.values())

    def _work(self, mount: mounted.Mounted, count: int) -> None:
        mount.start(mounted.STORM, self._seed)
        mount.wait_for_channels(time.monotonic(), {}, 60)
        for _ in range(count):
            mended = self._cut(mount)
            before = mount.progress()["steps"]
            self.back_s.append(mount.wait_for_channels(mended, mount.cutter.connections(), self.back_at_all_s))
            self.step_s.append(mount.wait_for_steps(before, self.step_within_s))

    def late(self) -> int:
        """Return the number of late recoveries."""
        return sum(took > self.back_within_s for took in self.back_s)

    def _choose(self, clients: list[faults.Client]) -> tuple[str, list[faults.Client], int, float]:
        """Return a fault, the connections that it hits, the NIC and the duration."""
        raise NotImplementedError

    def _cut(self, mount: mounted.Mounted) -> float:
        """Make and mend one fault. Returns the time of the mending."""
        fault, hit, nic, seconds = self._choose(sorted(mount.carrying()))
        self.faults[fault] += 1
        mount.answers_were_lost = True
        mended = faults.cut(mount.cutter, mount.guest, fault, hit, nic, seconds)
        self.where = f"cut {self.done()} ({fault} of {len(hit)}{'' if fault == 'reset' else f' for {seconds} s'})"
        return mended

    def result(self) -> str:
        """Return the counted result. Failures of another server are printed but do not fail the suite."""
        return "pass" if not self.failures else "fail" if self.kind == "trunkline" else "skip"

    def amount(self) -> str:
        return f"{self.done()} cuts"

    def _slowest(self) -> tuple[float, float]:
        return max(self.back_s, default=0.0), max(self.step_s, default=0.0)

    def told(self) -> str:
        back, step = self._slowest()
        return (f"{dict(self.faults)}; back after {back:.1f} s at most, {self.late()} times after more than {self.back_within_s} s; next "
                f"step {step:.1f} s later at most; {self.steps} steps; "
                f"passing errors {self.errors}")

    def line(self) -> dict[str, Any]:
        back, step = self._slowest()
        return {"done": self.done(), "kinds": dict(self.faults), "passing_errors": self.errors, "late_back": self.late(),
                "slowest_back_s": round(back, 1), "slowest_step_s": round(step, 1), "mounts": {self.mount(): self.done()}}


class Run(Cuts):
    """One mount's cuts over SMB."""

    def __init__(self, kind: str, seed: int) -> None:
        super().__init__(kind, seed, "cuts")
        # Seeds that are ten apart, as in slices, must cover every kind of mount too.
        self._nics, self._options = mounted.MOUNTS[(seed + seed // 10) % len(mounted.MOUNTS)]

    def mount(self) -> str:
        """Return the kind of mount in words."""
        return mounted.describe(self._nics, self._options)

    def _mounted(self) -> mounted.Mounted:
        return mounted.Mounted(self.kind, "four-channels", self._nics, mounted.MULTICHANNEL + self._options)

    def _choose(self, clients: list[faults.Client]) -> tuple[str, list[faults.Client], int, float]:
        """Return a fault, the connections that it hits, the NIC and the duration."""
        fault = self._random.choice([f for f in faults.FAULTS if f != "link" or self._nics > 1])
        nic = self._random.randrange(self._nics)
        seconds = self._random.choice((0.5, 2, 4, 8))
        hit = self._random.sample(clients, min(self._random.randint(1, mounted.CHANNELS - 1), len(clients)))
        if fault == "link":
            hit = [client for client in clients if client[0] == guest.guest_address(nic)]
        return fault, hit, nic, seconds


def few_late(late: int, cuts: float) -> bool:
    """Return whether enough recoveries over a whole run were in time: all but one of twenty. A short run may have one
    exception, too."""
    return late <= max(1, cuts / 20)


def judge_late(tally: Tally, counts: Counter[str], within_s: float) -> None:
    """Compare our own server's `counts` with that limit."""
    done, late = counts["done"], counts["late"]
    detail = f"{late} of {done} times later than after {within_s} s"
    if done:
        tally.add("pass" if few_late(late, done) else "fail", "back in time", detail)
        print(f"        {detail}")


def within_chance(our_errors: int, our_cuts: int, their_errors: int, their_cuts: int) -> bool:
    """Return whether our errors for each cut do not exceed the other's, apart from chance, which gets three standard
    deviations.

    Both counts are samples. The spread is therefore that of their difference where both have the same rate. Errors
    occur in groups, since one cut hits several workers and each of their attempts.
    """
    rate = (our_errors + their_errors) / (our_cuts + their_cuts)
    spread = math.sqrt(CLUMP * rate * our_cuts * (1 + our_cuts / their_cuts))
    return our_errors - their_errors * our_cuts / their_cuts <= 3 * spread


def judge(tally: Tally, counts: dict[str, Counter[str]], errors: str, runs_of: str) -> None:
    """Compare our `errors` in `counts` with Samba's of the same run. `runs_of` names the run."""
    ours, theirs = counts["trunkline"], counts["samba"]
    if not ours["done"] or not theirs["done"]:
        tally.add("skip", errors, f"needs {runs_of} of both servers in one run")
        return
    few = within_chance(ours["errors"], ours["done"], theirs["errors"], theirs["done"])
    detail = f"{ours['errors']} in {ours['done']} {runs_of}, with Samba {theirs['errors']} in {theirs['done']}"
    tally.add("pass" if few else "fail", errors, detail)
    print(f"        {detail}")


def main() -> None:
    parser = tickets.add_arguments(runs.parser("cuts", 10, 5, __doc__))
    parser.add_argument("--server", choices=(*servers.KINDS, "both"), default="both")
    options = parser.parse_args()
    tally = runs.begin(tickets.suite(SUITE), faults.cannot_cut, tickets.missing, tickets.lacks_channels)
    kinds = servers.KINDS if options.server == "both" else (options.server,)
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in servers.KINDS}

    def count(run: Cuts) -> None:
        counts[run.kind]["done"] += run.done()
        counts[run.kind]["late"] += run.late()
        counts[run.kind]["errors"] += sum(run.errors.values())

    runs.go_through(tally, options, lambda seed: [Run(kind, seed) for kind in kinds], count)
    judge_late(tally, counts["trunkline"], BACK_WITHIN_S)
    if options.server == "both":
        judge(tally, counts, "passing errors", "cuts")
    runs.end(tally)


if __name__ == "__main__":
    main()
