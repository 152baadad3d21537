"""How results are told: a line for each case while it runs, and the page docs/benchmarks.md."""

import statistics
from pathlib import Path

from proving.bench import spread


def processor():
    """The processor's name, as the kernel tells it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def _number(value):
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


# What a round gives for a server: CPU µs for an operation, operations for a second, CPU µs for a MiB.
CPU, RATE, CPU_MIB = range(3)


def _column(result, kind, column):
    """What all rounds gave for a server."""
    return [row[column] for row in result.get(kind, []) if row[column] is not None]


def _median(result, kind, column):
    """Nothing where nothing was measured."""
    values = _column(result, kind, column)
    return statistics.median(values) if values else None


def _spread(result, kind, column):
    """The median, with the least and the most."""
    values = _column(result, kind, column)
    return spread.told(values, 0 if max(values) >= 100 else 1) if values else "–"


def _ratios(result):
    """Operations for a CPU-second and operations for a second, ours over Samba's; nothing without both."""
    ours, theirs = ([_median(result, kind, column) for column in (CPU, RATE)] for kind in ("trunkline", "samba"))
    if None in theirs or not all(ours):
        return None, None
    return theirs[CPU] / ours[CPU], ours[RATE] / theirs[RATE]


def _extra(case, results):
    """What a protection adds to our CPU for a MiB over the plain case, in µs."""
    plain, here = (_median(results.get(name, {}), "trunkline", CPU_MIB) for name in (case.base, case.name))
    return here - plain if plain is not None and here is not None else None


def _verdict(case, results):
    ratio, rate = _ratios(results[case.name])
    if case.extra_us_per_mib is not None:
        extra = _extra(case, results)
        return "–" if extra is None else f"{extra:+.0f} µs/MiB, wanted ≤ {case.extra_us_per_mib:.0f}: {_word(extra <= case.extra_us_per_mib)}"
    if ratio is None or case.cpu_ratio is None:
        return "–"
    return f"wanted ≥ {case.cpu_ratio:.1f}: {_word(ratio >= case.cpu_ratio and rate >= 1.0)}"


def _word(met):
    return "met" if met else "**not met**"


def line(case, results):
    """One case for the terminal."""
    result = results[case.name]
    parts = [f"{kind} {_number(_median(result, kind, CPU))} µs CPU/op, {_number(_median(result, kind, RATE))} op/s" for kind in result]
    ratio, rate = _ratios(result)
    tail = f"; for a CPU-second ×{ratio:.2f}, for a second ×{rate:.2f}" if ratio else ""
    return f"{case.name}: {'; '.join(parts)}{tail}; {_verdict(case, results)}"


def page(newest, cases, results, versions, machine):
    """The begin of the page: how it is measured, what leads it, and the installed Samba."""
    rows = []
    for case in cases:
        if case.name not in results:
            rows.append(f"| {case.name} | – | – | – | – | – | – | not measured |")
            continue
        result = results[case.name]
        cpu, per_second = ([_spread(result, kind, column) for kind in ("trunkline", "samba")] for column in (CPU, RATE))
        ratio, rate = (f"{value:.2f}" if value else "–" for value in _ratios(result))
        rows.append(f"| {case.name} | {' | '.join(cpu)} | {ratio} | {' | '.join(per_second)} | {rate} | {_verdict(case, results)} |")
    head = "| case | CPU µs/op | Samba's | ops for a CPU-second, ×Samba | op/s | Samba's | op/s, ×Samba | |\n" + "|---" * 8 + "|\n"
    return (
        "# Benchmarks\n\nWritten by `make bench`; do not edit. Each number is the median of several rounds, with the least and the most in brackets, in which\n"
        "the servers take turns; how many, of how long, stands at the end. CPU is user and system time of the\n"
        "server with all its processes, from /proc. Shares lie in memory: a disk and its file system would have their say in it. The\n"
        "metadata cases work in a case-insensitive directory that already holds 10,000 names, of a share with `metadata_caching`, and without where nothing is\n"
        "remembered. One connection, the same client for both; beside this year's peers it is woken for every segment, and elsewhere, while a reply\n"
        "of 32 KiB or more comes in, it asks the host to be woken for all of it, at most 256 KiB (SO_RCVLOWAT), since on one machine a server pays\n"
        "for waking its client. Plain reads of this size leave Trunkline as suits the connection ([large-reads.md](large-reads.md)); what signing and\n"
        "sealing add is counted from the same read copied (`send_file = false`), since what they protect has to be copied first.\n"
        + newest + "\n## The installed Samba\n\n" + head + "\n".join(rows) + "\n\n"
        + "".join(f"* {version}\n" for version in versions) + f"* Machine: {machine}\n"
        "* Command: `proving/bench/run.py`, which loads with `trunkline load smb://USER@HOST:PORT/SHARE/DIRECTORY --json --server-pid PID --rw KIND --bs SIZE\n"
        "  --iodepth DEPTH --runtime TIME --ramp_time 1 --filesize 256m`, or `--metadata KIND --files NAMES --number-ios COUNT`; below with `--channels 1,2,4` and\n"
        "  `--channel-rate`, and `nfs://HOST:PORT/EXPORT`\n"
    )
