"""The presentation of results: a line for each case during the run, and the page docs/benchmarks.md."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from proving.bench import spread
from proving.bench.cases import Case
from proving.bench.loads import Row
from proving.bench.spread import Values

Results = Mapping[str, Values]


def processor() -> str:
    """Return the processor's name, as the kernel reports it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return "unknown processor"


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


# The numbers of a server, in the order of a round's tuple (loads.py).
NUMBERS = CPU, RATE, CPU_MIB = "cost", "rate", "cost of a MiB"


def values(samples: Mapping[str, Sequence[Row]]) -> Values:
    """Return the numbers of a case, by server."""
    columns = {f"{kind} {number}": [row[at] for row in rows] for kind, rows in samples.items() for at, number in enumerate(NUMBERS)}
    return {name: spread.of(known) for name, rounds in columns.items() if (known := [one for one in rounds if one is not None])}


def _median(of: Values, kind: str, number: str) -> float | None:
    """Return the median, or None without a measurement."""
    return of[f"{kind} {number}"].median if f"{kind} {number}" in of else None


def _told(of: Values, kind: str, number: str) -> str:
    """Return the median, with the smallest and largest value."""
    name = f"{kind} {number}"
    return spread.told(of, name, 0 if name in of and of[name].most >= 100 else 1)


def _ratios(of: Values) -> tuple[float, float] | None:
    """Return operations for each CPU-second and operations per second, ours over Samba's; None unless both were measured."""
    (cpu, rate), (their_cpu, their_rate) = ([_median(of, kind, number) for number in (CPU, RATE)] for kind in ("trunkline", "samba"))
    return (their_cpu / cpu, rate / their_rate) if cpu and rate and their_cpu is not None and their_rate else None


def _extra(case: Case, results: Results) -> float | None:
    """Return the protection's extra CPU for each MiB over the plain case, in µs."""
    plain, here = (_median(results.get(name, {}), "trunkline", CPU_MIB) for name in (case.base, case.name))
    return here - plain if plain is not None and here is not None else None


def _verdict(case: Case, results: Results) -> str:
    ratios = _ratios(results[case.name])
    if case.extra_us_per_mib is not None:
        extra = _extra(case, results)
        return "–" if extra is None else f"{extra:+.0f} µs/MiB, wanted ≤ {case.extra_us_per_mib:.0f}: {_word(extra <= case.extra_us_per_mib)}"
    if ratios is None or case.cpu_ratio is None:
        return "–"
    return f"wanted ≥ {case.cpu_ratio:.1f}: {_word(ratios[0] >= case.cpu_ratio and ratios[1] >= 1.0)}"


def _word(met: bool) -> str:
    return "met" if met else "**not met**"


def line(case: Case, results: Results) -> str:
    """Return one case as a line for the terminal."""
    of = results[case.name]
    kinds = [name.removesuffix(f" {CPU}") for name in of if name.endswith(f" {CPU}")]
    parts = [f"{kind} {_number(_median(of, kind, CPU))} µs CPU/op, {_number(_median(of, kind, RATE))} op/s" for kind in kinds]
    ratios = _ratios(of)
    tail = f"; for a CPU-second ×{ratios[0]:.2f}, for a second ×{ratios[1]:.2f}" if ratios else ""
    return f"{case.name}: {'; '.join(parts)}{tail}; {_verdict(case, results)}"


def page(newest: str, cases: list[Case], results: Results, versions: list[str], machine: str) -> str:
    """Return the beginning of the page: the method, the leading section, and the installed Samba."""
    rows = []
    for case in cases:
        if case.name not in results:
            rows.append(f"| {case.name} | – | – | – | – | – | – | not measured |")
            continue
        of = results[case.name]
        cpu, per_second = ([_told(of, kind, number) for kind in ("trunkline", "samba")] for number in (CPU, RATE))
        ratio, rate = (f"{value:.2f}" for value in ratios) if (ratios := _ratios(of)) else ("–", "–")
        rows.append(f"| {case.name} | {' | '.join(cpu)} | {ratio} | {' | '.join(per_second)} | {rate} | {_verdict(case, results)} |")
    head = "| case | CPU µs/op | Samba's | ops for a CPU-second, ×Samba | op/s | Samba's | op/s, ×Samba | |\n" + "|---" * 8 + "|\n"
    return (
        "# Benchmarks\n\nWritten by `make bench`; do not edit. Each number is the median of several rounds, with the least and the most in brackets, in which\n"
        "the servers take turns; how many, of how long, stands at the end. CPU is user and system time of the\n"
        "server with all its processes, from /proc. Shares lie in memory: a disk would affect the result. The\n"
        "metadata cases work in a case-insensitive directory that already holds 10,000 names, of a share with `metadata_caching`, and "
        "without where nothing is\n"
        "remembered. One connection, the same client for both; beside this year's peers it is woken for every segment, and elsewhere, while a reply\n"
        "of 32 KiB or more comes in, it asks the host to be woken for all of it, at most 256 KiB (SO_RCVLOWAT), since on one machine a server pays\n"
        "for waking its client. Trunkline chooses how to send plain reads of this size ([large-reads.md](large-reads.md)); what signing and\n"
        "sealing add is counted from the same read copied (`send_file = false`), since what they protect has to be copied first.\n"
        + newest + "\n## The installed Samba\n\n" + head + "\n".join(rows) + "\n\n"
        + "".join(f"* {version}\n" for version in versions) + f"* Machine of the last run: {machine}; the others are at the end\n"
        "* Command: `proving/bench/run.py`, which loads with `trunkline load smb://USER@HOST:PORT/SHARE/DIRECTORY --json --server-pid PID --rw KIND --bs SIZE\n"
        "  --iodepth DEPTH --runtime TIME --ramp_time 1 --filesize 256m`, or `--metadata KIND --files NAMES --number-ios COUNT`; below with "
        "`--channels 1,2,4` and\n"
        "  `--channel-rate`, and `nfs://HOST:PORT/EXPORT`\n"
    )
