"""How results are told: a line for each case while it runs, and the page docs/benchmarks.md."""

from pathlib import Path


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


def _ratios(result):
    """Operations for a CPU-second and operations for a second, ours over Samba's; nothing without both."""
    if "trunkline" not in result or "samba" not in result or not result["trunkline"][0]:
        return None, None
    return result["samba"][0] / result["trunkline"][0], result["trunkline"][1] / result["samba"][1]


def _extra(case, results):
    """What a protection adds to our CPU for a MiB over the plain case, in µs."""
    plain, here = results.get(case.base, {}).get("trunkline"), results.get(case.name, {}).get("trunkline")
    return here[2] - plain[2] if plain and here and plain[2] is not None else None


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
    parts = [f"{kind} {_number(row[0])} µs CPU/op, {_number(row[1])} op/s" for kind, row in result.items()]
    ratio, rate = _ratios(result)
    tail = f"; for a CPU-second ×{ratio:.2f}, for a second ×{rate:.2f}" if ratio else ""
    return f"{case.name}: {'; '.join(parts)}{tail}; {_verdict(case, results)}"


def page(cases, results, versions, machine):
    """The whole page."""
    rows = []
    for case in cases:
        if case.name not in results:
            rows.append(f"| {case.name} | – | – | – | – | – | – | not measured |")
            continue
        result = results[case.name]
        ours, theirs = result.get("trunkline", [None] * 3), result.get("samba", [None] * 3)
        ratio, rate = (f"{value:.2f}" if value else "–" for value in _ratios(result))
        rows.append(f"| {case.name} | {_number(ours[0])} | {_number(theirs[0])} | {ratio} | {_number(ours[1])} | "
                    f"{_number(theirs[1])} | {rate} | {_verdict(case, results)} |")
    head = "| case | CPU µs/op | Samba's | ops for a CPU-second, ×Samba | op/s | Samba's | op/s, ×Samba | |\n" + "|---" * 8 + "|\n"
    return (
        "# Benchmarks\n\nWritten by `make bench`; do not edit. Each number is the median of several rounds, in which\n"
        "the servers take turns; how many, of how long, stands at the end. CPU is user and system time of the\n"
        "server with all its processes, from /proc. Shares lie in memory: a disk and its file system would have their say in it. The\n"
        "metadata cases work in a case-insensitive directory that already holds 10,000 names. One connection, the same client for both; while a reply of 32 KiB or more comes\n"
        "in, it asks the host to be woken for all of it, at most 256 KiB (SO_RCVLOWAT), since on one machine a server pays for waking its\n"
        "client. Plain reads of this size leave Trunkline uncopied (sendfile); what signing and sealing add is counted from the\n"
        "same read copied (`send_file = false`), since what they protect has to be copied first.\n\n"
        + head + "\n".join(rows) + "\n\n"
        + "".join(f"* {version}\n" for version in versions) + f"* Machine: {machine}\n* Command: `proving/bench/run.py`\n"
    )
