#!/usr/bin/env python3
"""Cut one to three of four channels under Linux's own client while it works, again and again.

    cuts.py [--cuts 10] [--per-mount 5] [--seed N] [--server trunkline|samba|both] [--out FILE]

A mount with four channels, over one NIC or two, signed or sealed, carries four writers, four readers and two name changers
(workload.py). Every cut (faults.py) hits one to three channels. Checked after each: four channels are back within 60 s and
carry requests, and every worker gets on. Checked at the end of a mount: nothing that must never happen was seen, and the server's
own files hold what was flushed and no other names. Checked over the whole run: of twenty times one at most was later than 15 s.

Linux hands passing errors (EAGAIN and the like) to its callers when a channel goes, whatever the server. They are counted for
both servers in turns in one run, and Trunkline's may not be more than chance allows beyond Samba's. --out appends the counts
to a file of JSON lines (proving/soak). Without --server both servers take the same cuts.
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
from proving.kernel_client import faults, guest, mounted, runs

SUITE = "kernel-cuts"
# What four channels may take to carry requests again, with one exception in twenty cuts: Linux waits twice as long from one try to
# the next, which a host without time to spare can push over it. None may take longer than the second.
BACK_WITHIN_S, BACK_AT_ALL_S = 15, 60
# How long a worker may take for its next step once the channels are back. Linux does not answer a break of a lease that came
# with an answer it never saw, and any server waits 35 s for that; a worker may meet several.
STEP_WITHIN_S = 180


# How many errors come together.
CLUMP = 3


class Cuts(runs.Run):
    """One mount's cuts, whatever it is mounted over: what was done, what went wrong, what passed."""

    back_within_s, back_at_all_s, step_within_s = BACK_WITHIN_S, BACK_AT_ALL_S, STEP_WITHIN_S

    def __init__(self, kind: str, seed: int, name: str) -> None:
        super().__init__(kind, seed)
        self._random = random.Random(f"{name} {seed}")
        self.faults: Counter[str] = Counter()
        self.back_s: list[float] = []
        self.step_s: list[float] = []

    def done(self) -> int:
        """How many cuts were made."""
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
        """How many times connections were back later than they should."""
        return sum(took > self.back_within_s for took in self.back_s)

    def _choose(self, clients: list[faults.Client]) -> tuple[str, list[faults.Client], int, float]:
        """A fault, the connections that it hits, the NIC and for how long."""
        raise NotImplementedError

    def _cut(self, mount: mounted.Mounted) -> float:
        """Make and mend one fault; gives when it was mended."""
        fault, hit, nic, seconds = self._choose(sorted(mount.carrying()))
        self.faults[fault] += 1
        mount.answers_were_lost = True
        mended = faults.cut(mount.cutter, mount.guest, fault, hit, nic, seconds)
        self.where = f"cut {self.done()} ({fault} of {len(hit)}{'' if fault == 'reset' else f' for {seconds} s'})"
        return mended

    def result(self) -> str:
        """What it counts as. What another server gets wrong is told and does not fail us."""
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
        # Seeds that are ten apart, as slices have them, must meet every kind of mount too.
        self._nics, self._options = mounted.MOUNTS[(seed + seed // 10) % len(mounted.MOUNTS)]

    def mount(self) -> str:
        """The kind of mount in words."""
        return mounted.describe(self._nics, self._options)

    def _mounted(self) -> mounted.Mounted:
        return mounted.Mounted(self.kind, "four-channels", self._nics, mounted.MULTICHANNEL + self._options)

    def _choose(self, clients: list[faults.Client]) -> tuple[str, list[faults.Client], int, float]:
        """A fault, the connections that it hits, the NIC and for how long."""
        fault = self._random.choice([f for f in faults.FAULTS if f != "link" or self._nics > 1])
        nic = self._random.randrange(self._nics)
        seconds = self._random.choice((0.5, 2, 4, 8))
        hit = self._random.sample(clients, min(self._random.randint(1, mounted.CHANNELS - 1), len(clients)))
        if fault == "link":
            hit = [client for client in clients if client[0] == guest.guest_address(nic)]
        return fault, hit, nic, seconds


def few_late(late: int, cuts: float) -> bool:
    """Whether connections were back in time often enough over a whole run: all of twenty times but one. A short run has one, too."""
    return late <= max(1, cuts / 20)


def judge_late(tally: Tally, counts: Counter[str], within_s: float) -> None:
    """Hold what `counts` has of our own server against that."""
    done, late = counts["done"], counts["late"]
    detail = f"{late} of {done} times later than after {within_s} s"
    if done:
        tally.add("pass" if few_late(late, done) else "fail", "back in time", detail)
        print(f"        {detail}")


def within_chance(our_errors: int, our_cuts: int, their_errors: int, their_cuts: int) -> bool:
    """Whether our errors for a cut are no more than the other's; chance gets three standard deviations.

    Both counts are samples, so the spread is that of their difference where the rate is the same for both. Errors come in clumps,
    since one cut is met by several workers and by each of their tries.
    """
    rate = (our_errors + their_errors) / (our_cuts + their_cuts)
    spread = math.sqrt(CLUMP * rate * our_cuts * (1 + our_cuts / their_cuts))
    return our_errors - their_errors * our_cuts / their_cuts <= 3 * spread


def judge(tally: Tally, counts: dict[str, Counter[str]], errors: str, runs_of: str) -> None:
    """Compare what `counts` has of `errors` for a run with what Samba has in the same go; `runs_of` names what was run."""
    ours, theirs = counts["trunkline"], counts["samba"]
    if not ours["done"] or not theirs["done"]:
        tally.add("skip", errors, f"needs {runs_of} of both servers in one run")
        return
    few = within_chance(ours["errors"], ours["done"], theirs["errors"], theirs["done"])
    detail = f"{ours['errors']} in {ours['done']} {runs_of}, with Samba {theirs['errors']} in {theirs['done']}"
    tally.add("pass" if few else "fail", errors, detail)
    print(f"        {detail}")


def main() -> None:
    parser = runs.parser("cuts", 10, 5, __doc__)
    parser.add_argument("--server", choices=(*servers.KINDS, "both"), default="both")
    options = parser.parse_args()
    tally = runs.begin(SUITE, faults.cannot_cut)
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
