"""What several channels of one session bring and cost: the cases, how they are measured, and their table.

Only our own server and generator are measured here: one client process with one session, which uses 1, 2 or 4 connections.
Every number of channels is measured in every round, each round beginning with another. Start reading at `measure`.
"""

import functools
import json
import statistics
import subprocess
from dataclasses import dataclass

from proving.bench import headers, spread
from proving.bench.cases import FILE_BYTES, PROTECTION, SHARE, trunkline_target

CHANNELS = (1, 2, 4)
# How much slower the last of the channels is in the second part of a capped case.
SLOW = 4
MIB = 1 << 20
# All that a case compares takes so many turns in each round, for half the time: the machine drifts by more than what is decided on.
# Capped cases, of which a turn takes longer, have half as many.
TURNS = 4


@dataclass(frozen=True)
class Case:
    """`goal` is what is wanted: `capped`, `cpu` or `same`, as `verdicts` tells."""

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
    """One load: bytes for a second, µs of both processors for a MiB and for an operation, median latency in µs, and bytes in a second that
    its connections carried in the fuller direction, headers among them."""

    rate: float
    cpu_mib: float
    cpu_op: float
    latency: float
    carried: float


def _load(case, server, secret, user, seconds, channels, *more):
    """Loads with each of `channels` in turn; gives pairs of channels and Sample in that order."""
    command = [*trunkline_target(server, SHARE, user, secret), "--rw", case.workload, "--bs", str(case.block), "--iodepth", str(case.depth),
               "--runtime", f"{seconds * 1000:.0f}ms", "--ramp_time", "1", "--filesize", str(FILE_BYTES),
               "--channels", ",".join(map(str, channels)), *more, *PROTECTION[case.protection]]
    done = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=True)
    return [(int(job["job options"]["channels"]), _sample(job)) for job in json.loads(done.stdout)["jobs"]]


def _sample(job):
    part = job["write"] if job["write"]["total_ios"] else job["read"]
    own = job["trunkline"]
    cpu = (own["server_cpu_ns"] + own["client_cpu_ns"]) / 1000
    seconds = part["runtime"] / 1000
    return Sample(part["io_bytes"] / seconds, cpu / (part["io_bytes"] / MIB), cpu / part["total_ios"],
                  part["clat_ns"]["percentile"]["50.000000"] / 1000, headers.carried(part["total_ios"] / seconds, own["channels"]))


def measure(case, server, secret, user, options):
    """One case, so many turns in each round; gives for each time a dictionary of samples, by channels, `uncapped` and `slow`."""
    load = functools.partial(_load, case, server, secret, user, options.seconds / 2)
    rounds = []
    for number in range(options.rounds):
        first = number % len(CHANNELS)
        order = CHANNELS[first:] + CHANNELS[:first]
        if case.goal == "capped":
            rounds += [_capped(load, order) for _ in range(TURNS // 2)]
            continue
        # To and fro, all with one file: how it lies in memory decides more than how many channels there are.
        pairs = load((*order, *reversed(order)) * (TURNS // 2))
        rounds += [dict(pairs[at:at + len(order)]) for at in range(0, len(pairs), len(order))]
    return rounds


def _capped(load, order):
    """One turn of a capped case, in which what holds the connections is measured first."""
    [(_, uncapped)] = load([1])
    cap = ["--channel-rate", str(int(uncapped.carried / max(CHANNELS)))]
    samples = dict(load(order, *cap))
    [(_, slow)] = load([max(CHANNELS)], *cap, "--slow-channel", str(SLOW))
    return {**samples, "uncapped": uncapped, "slow": slow}


def _median(rounds, of):
    return statistics.median(of(samples) for samples in rounds)


def verdicts(case, rounds):
    """What is wanted, as (text, the ratios of all turns, bound, whether less is better)."""
    def each(of):
        return [of(samples) for samples in rounds]

    most = max(CHANNELS)
    if case.goal == "capped":
        sum_of_caps = (most - 1 + 1 / SLOW) / most
        return [
            ("of the uncapped rate", each(lambda it: it[most].rate / it["uncapped"].rate), 0.9, False),
            ("of the sum of the caps with one slow", each(lambda it: it["slow"].rate / it["uncapped"].rate / sum_of_caps), 0.9, False),
        ]
    if case.goal == "cpu":
        return [
            ("of the CPU for a MiB", each(lambda it: it[most].cpu_mib / it[1].cpu_mib), 1.1, True),
            # What differs by less than this differs between two runs of the same.
            ("of the rate", each(lambda it: it[most].rate / it[1].rate), 0.98, False),
        ]
    return [
        ("of the CPU for an operation", each(lambda it: it[most].cpu_op / it[1].cpu_op), 1.02, True),
        ("of the median latency", each(lambda it: it[most].latency / it[1].latency), 1.02, True),
    ]


def _tell(case, rounds):
    texts = []
    for text, values, bound, less in verdicts(case, rounds):
        value = statistics.median(values)
        met = value <= bound if less else value >= bound
        texts.append(f"{spread.told(values)} {text}, wanted {'≤' if less else '≥'} {bound:g}: {'met' if met else '**not met**'}")
    return "; ".join(texts)


def _columns(case, rounds):
    """For each number of channels what matters in this case."""
    shown = []
    for key in (*CHANNELS, "slow"):
        if key not in rounds[0]:
            shown.append("–")
            continue
        rate = _median(rounds, lambda it: it[key].rate) / MIB
        if case.goal == "capped":
            shown.append(f"{rate:,.0f} MiB/s")
        elif case.goal == "cpu":
            shown.append(f"{rate:,.0f} MiB/s, {_median(rounds, lambda it: it[key].cpu_mib):,.0f} µs/MiB")
        else:
            shown.append(f"{_median(rounds, lambda it: it[key].latency):.1f} µs, {_median(rounds, lambda it: it[key].cpu_op):.1f} µs CPU")
    return shown


def line(case, rounds):
    """One case for the terminal."""
    named = [f"{name}: {text}" for name, text in zip([*CHANNELS, "one slow"], _columns(case, rounds)) if text != "–"]
    return f"channels, {case.name} ({case.goal}): {'; '.join(named)}; {_tell(case, rounds)}"


def section(results, cores):
    """The part of the page."""
    rows = []
    for case in CASES:
        if case.name in results:
            rounds = results[case.name]
            uncapped = f"{_median(rounds, lambda it: it['uncapped'].rate) / MIB:,.0f} MiB/s" if case.goal == "capped" else "–"
            rows.append(f"| {case.name} | {uncapped} | {' | '.join(_columns(case, rounds))} | {_tell(case, rounds)} |")
        else:
            rows.append(f"| {case.name} | – | – | – | – | – | not measured |")
    return (
        f"\n## Channels\n\nOne client process with one session over 1, 2 or 4 connections to Trunkline, which take {TURNS} turns in each\n"
        f"round, {TURNS // 2} where they are capped; ratios are taken within a turn, and told with the least and the most of all turns in brackets. Client and server share {cores} processor cores here, which one connection already fills: what more cores\n"
        "would bring does not show. CPU is that of client and server together.\n\n"
        "Where an uncapped rate stands, it is what one connection reaches in that turn, and each connection is then held to a quarter of\n"
        "it, counted in the bytes that the connection carries: the client itself reads and writes no faster, and the server knows nothing of it. This stands for paths whose single connection\n"
        "is slow, such as a queue of a network interface or a long line; it is not such a path. “One slow” is four channels of which one\n"
        f"is held to {SLOW} times less than the others. The other cases are not capped.\n\n"
        "| case | one, uncapped | 1 channel | 2 channels | 4 channels | 4, one slow | 4 channels against 1 |\n" + "|---" * 7 + "|\n"
        + "\n".join(rows) + "\n"
    )
