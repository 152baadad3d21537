"""The benefit and cost of several channels in one session: the cases, their measurement, and their table.

Only our own server and generator are measured here: one client process with one session, which uses 1, 2 or 4
connections. Every round measures every number of channels, and each round begins with another number. Start reading at
`measure`.
"""

import argparse
import functools
import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from proving.bench import headers, spread
from proving.bench.cases import FILE_BYTES, PROTECTION, SHARE, trunkline_target
from proving.bench.spread import Values
from proving.harness import server as servers

CHANNELS = (1, 2, 4)
MOST = max(CHANNELS)
# The factor by which the last channel is slower in the second part of a capped case.
SLOW = 4
MIB = 1 << 20
# The turns in each round for every number that a case compares, each for half the time. One turn is not enough, because
# the machine drifts by more than the limits of the verdict. Capped cases have half as many turns, since theirs take
# longer.
TURNS = 4


@dataclass(frozen=True)
class Case:
    """`goal` selects the goals: `capped`, `cpu` or `same`, see `verdicts`."""

    name: str
    goal: str
    workload: str
    block: int
    depth: int
    protection: str = "plain"


CASES = [
    Case("random read 4 KiB, depth 128", "capped", "randread", 4096, 128),
    Case("read 64 KiB, depth 32", "capped", "read", 65536, 32),
    Case("read 1 MiB, depth 16", "capped", "read", MIB, 16),
    Case("read 1 MiB, signed GMAC, depth 16", "capped", "read", MIB, 16, "gmac"),
    Case("write 1 MiB, depth 16", "capped", "write", MIB, 16),
    Case("read 1 MiB, sealed GCM, depth 8", "cpu", "read", MIB, 8, "sealed"),
    Case("write 1 MiB, sealed GCM, depth 8", "cpu", "write", MIB, 8, "sealed"),
    Case("random read 4 KiB, one at a time", "same", "randread", 4096, 1),
    Case("random write 4 KiB, one at a time", "same", "randwrite", 4096, 1),
    Case("random read 4 KiB of one file, depth 32", "same", "randread", 4096, 32),
    Case("random write 4 KiB of one file, depth 32", "same", "randwrite", 4096, 32),
]


@dataclass(frozen=True)
class Sample:
    """One load: bytes per second, µs of both processors for each MiB and each operation, the median latency in µs, and
    the bytes per second that its connections carried in the fuller direction, headers included."""

    rate: float
    cpu_mib: float
    cpu_op: float
    latency: float
    carried: float


# The keys are the numbers of channels, `uncapped` and `slow`.
Turn = dict[int | str, Sample]


def _load(case: Case, server: servers.Server, secret: str, user: str, seconds: float, channels: Sequence[int], *more: str) -> list[tuple[int, Sample]]:
    """Run the load with each of `channels` in turn. Returns pairs of channels and Sample in that order."""
    command = [*trunkline_target(server, SHARE, user, secret), "--rw", case.workload, "--bs", str(case.block), "--iodepth", str(case.depth),
               "--runtime", f"{seconds * 1000:.0f}ms", "--ramp_time", "1", "--filesize", str(FILE_BYTES),
               "--channels", ",".join(map(str, channels)), *more, *PROTECTION[case.protection]]
    done = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=True)
    return [(int(job["job options"]["channels"]), _sample(job)) for job in json.loads(done.stdout)["jobs"]]


def _sample(job: dict[str, Any]) -> Sample:
    part = job["write"] if job["write"]["total_ios"] else job["read"]
    own = job["trunkline"]
    cpu = (own["server_cpu_ns"] + own["client_cpu_ns"]) / 1000
    seconds = part["runtime"] / 1000
    return Sample(part["io_bytes"] / seconds, cpu / (part["io_bytes"] / MIB), cpu / part["total_ios"],
                  part["clat_ns"]["percentile"]["50.000000"] / 1000, headers.carried(part["total_ios"] / seconds, own["channels"]))


def measure(case: Case, server: servers.Server, secret: str, user: str, options: argparse.Namespace) -> list[Turn]:
    """Measure one case, `TURNS` times in each round. Returns for each turn a dictionary of samples, by channels,
    `uncapped` and `slow`."""
    load = functools.partial(_load, case, server, secret, user, options.seconds / 2)
    rounds = []
    for number in range(options.rounds):
        first = number % len(CHANNELS)
        order = CHANNELS[first:] + CHANNELS[:first]
        if case.goal == "capped":
            rounds += [_capped(load, order) for _ in range(TURNS // 2)]
            continue
        # Forward and back, all with one file: the file's layout in memory matters more than the number of channels.
        pairs = load((*order, *reversed(order)) * (TURNS // 2))
        rounds += [dict(pairs[at:at + len(order)]) for at in range(0, len(pairs), len(order))]
    return rounds


def _capped(load: Callable[..., list[tuple[int, Sample]]], order: Sequence[int]) -> Turn:
    """Run one turn of a capped case. It first measures the rate of an uncapped connection, from which the cap follows."""
    [(_, uncapped)] = load([1])
    cap = ["--channel-rate", str(int(uncapped.carried / MOST))]
    samples: Turn = dict(load(order, *cap))
    [(_, slow)] = load([MOST], *cap, "--slow-channel", str(SLOW))
    return {**samples, "uncapped": uncapped, "slow": slow}


# The numbers that the page shows for each number of channels.
TOLD = {"capped": ["rate"], "cpu": ["rate", "cpu_mib"], "same": ["latency", "cpu_op"]}


@dataclass(frozen=True)
class Goal:
    """A ratio of one turn, the value it must reach, and whether less is better."""

    text: str
    of: Callable[[Turn], float]
    bound: float
    is_less: bool


SUM_OF_CAPS = (MOST - 1 + 1 / SLOW) / MOST
WANTED = {
    "capped": [
        Goal("of the uncapped rate", lambda it: it[MOST].rate / it["uncapped"].rate, 0.9, False),
        Goal("of the sum of the caps with one slow", lambda it: it["slow"].rate / it["uncapped"].rate / SUM_OF_CAPS, 0.9, False),
    ],
    "cpu": [
        Goal("of the CPU for a MiB", lambda it: it[MOST].cpu_mib / it[1].cpu_mib, 1.1, True),
        # A smaller difference also occurs between two runs of the same case.
        Goal("of the rate", lambda it: it[MOST].rate / it[1].rate, 0.98, False),
    ],
    "same": [
        Goal("of the CPU for an operation", lambda it: it[MOST].cpu_op / it[1].cpu_op, 1.02, True),
        Goal("of the median latency", lambda it: it[MOST].latency / it[1].latency, 1.02, True),
    ],
}


def values(case: Case, turns: list[Turn]) -> Values:
    """Return the numbers of a case: those of each number of channels, and those of its goals."""
    found = {f"{key} {number}": spread.of(getattr(turn[key], number) for turn in turns) for key in turns[0] for number in TOLD[case.goal]}
    return found | {wanted.text: spread.of(map(wanted.of, turns)) for wanted in WANTED[case.goal]}


def _tell(case: Case, of: Values) -> str:
    texts = []
    for wanted in WANTED[case.goal]:
        value = of[wanted.text]
        met = value.median <= wanted.bound if wanted.is_less else value.median >= wanted.bound
        texts.append(f"{value.told()} {wanted.text}, wanted {'≤' if wanted.is_less else '≥'} {wanted.bound:g}: {'met' if met else '**not met**'}")
    return "; ".join(texts)


def _columns(case: Case, of: Values) -> list[str]:
    """Return for each number of channels the numbers that matter in this case."""
    shown = []
    for key in (*CHANNELS, "slow"):
        numbers = {number: of[f"{key} {number}"].median for number in TOLD[case.goal] if f"{key} {number}" in of}
        if not numbers:
            shown.append("–")
        elif case.goal == "capped":
            shown.append(f"{numbers['rate'] / MIB:,.0f} MiB/s")
        elif case.goal == "cpu":
            shown.append(f"{numbers['rate'] / MIB:,.0f} MiB/s, {numbers['cpu_mib']:,.0f} µs/MiB")
        else:
            shown.append(f"{numbers['latency']:.1f} µs, {numbers['cpu_op']:.1f} µs CPU")
    return shown


def line(case: Case, of: Values) -> str:
    """Return one case as a line for the terminal."""
    named = [f"{name}: {text}" for name, text in zip([*CHANNELS, "one slow"], _columns(case, of), strict=True) if text != "–"]
    return f"channels, {case.name} ({case.goal}): {'; '.join(named)}; {_tell(case, of)}"


def section(results: Mapping[str, Values], cores: int) -> str:
    """Return this section of the page."""
    rows = []
    for case in CASES:
        if case.name in results:
            of = results[case.name]
            uncapped = f"{of['uncapped rate'].median / MIB:,.0f} MiB/s" if case.goal == "capped" else "–"
            rows.append(f"| {case.name} | {uncapped} | {' | '.join(_columns(case, of))} | {_tell(case, of)} |")
        else:
            rows.append(f"| {case.name} | – | – | – | – | – | not measured |")
    return (
        f"\n## Channels\n\nOne client process with one session over 1, 2 or 4 connections to Trunkline, which take {TURNS} turns in each\n"
        f"round, {TURNS // 2} where they are capped; ratios are taken within a turn, and told with the least and the most of all turns in "
        f"brackets. Client and server share {cores} processor cores here, which one connection already fills: what more cores\n"
        "would bring does not show. CPU is that of client and server together.\n\n"
        "Where an uncapped rate stands, it is what one connection reaches in that turn, and each connection is then held to a quarter of\n"
        "it, counted in the bytes that the connection carries: the client itself reads and writes no faster, and the server knows nothing "
        "of it. This stands for paths whose single connection\n"
        "is slow, such as a queue of a network interface or a long line; it is not such a path. “One slow” is four channels of which one\n"
        f"is held to {SLOW} times less than the others. The other cases are not capped.\n\n"
        "| case | one, uncapped | 1 channel | 2 channels | 4 channels | 4, one slow | 4 channels against 1 |\n" + "|---" * 7 + "|\n"
        + "\n".join(rows) + "\n"
    )
