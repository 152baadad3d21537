"""The benefit of caching names and files (docs/metadata-caching.md). The same work runs on two shares of one server
that differ only in `metadata_caching`. The shares take turns within each round.

On a local directory the server's processor time counts. On the second server each directory call for names or
attributes takes a millisecond longer, and so does the return of an open file (`metadata_delay_us` in
`[server.testing]`). This is an honest stand-in for a distant store, not a measurement of one. There the latency and the
rate count. Names lie four directories deep. Start reading at `run`.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from proving.bench import spread
from proving.bench.cases import DIRECTORY, SHARE
from proving.bench.result_store import Chooses, Part
from proving.bench.spread import Values
from proving.harness import server as servers

DEEP = f"{DIRECTORY}/a/b/c"
# The share without caching.
OFF = "t4"
PROFILES = {("smb", False): "cache", ("nfs", False): "cache-nfs", ("smb", True): "cache-far", ("nfs", True): "cache-far-nfs"}
# Operations in one round, on the local and on the delayed server.
NEAR, FAR = {"create": 3_000, "open": 20_000, "unlink": 3_000}, 400
FAR_NAMES, FAR_DEPTH = 300, 16
# Fewer names than the server caches where a process has 20,000 descriptors.
NEAR_NAMES, LARGE = 400, 100_000


@dataclass(frozen=True)
class Case:
    """`counts` names the compared number: processor time of the server, latency, or rate. `at_most` (for rates
    `at_least`) is the wanted ratio to the other share."""

    name: str
    protocol: str
    workload: str
    counts: str
    far: bool = False
    depth: int = 32
    at_most: float | None = None
    at_least: float | None = None
    # Compares names in another case on the same share with exact ones.
    other_case: bool = False


def _cases() -> Iterator[Case]:
    for protocol in ("smb", "nfs"):
        told = protocol.upper()
        yield Case(f"{told}: open, close", protocol, "open", "cpu", at_most=0.7)
        yield Case(f"{told}: create, write 4 KiB, close", protocol, "create", "cpu", at_most=1.05)
        yield Case(f"{told}: delete", protocol, "unlink", "cpu", at_most=1.05)
    yield Case("SMB: open, close in another case, of 100,000 names", "smb", "open", "cpu", at_most=1.05, other_case=True)
    for protocol in ("smb", "nfs"):
        for workload in ("create", "open", "close", "unlink"):
            yield Case(f"{protocol.upper()}, 1 ms: {workload}", protocol, workload, "latency", far=True, depth=1, at_most=0.7)
        for workload in ("open", "create"):
            yield Case(f"{protocol.upper()}, 1 ms: {workload}, depth {FAR_DEPTH}", protocol, workload, "rate", far=True, depth=FAR_DEPTH,
                       at_least=1.6)


CASES = list(_cases())


def _load(case: Case, server: servers.Server, share: str, secret: str, *options: str) -> dict[str, Any]:
    """Run one load. Returns the server's processor time for each operation in µs, the mean latency in µs, and
    operations per second."""
    where = f"127.0.0.1:{server.port}/{share}/{DEEP}"
    if case.protocol == "smb":
        target = [f"smb://{servers.accounts()[0][0]}@{where}", "--password-file", secret, "--signing", "off"]
    else:
        target = [f"nfs://{where}"]
    names = LARGE if case.other_case else FAR_NAMES if case.far else NEAR_NAMES
    count = FAR if case.far else NEAR.get(case.workload, 20_000)
    command = [servers.program(), "load", *target, "--json", "--server-pid", str(server.pid), "--metadata", case.workload, "--files", str(names),
               "--number-ios", str(count), "--iodepth", str(case.depth), "--bs", "4096", *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=True)
    job = json.loads(done.stdout)["jobs"][0]
    part = job["trunkline"]["metadata"]
    return {"cpu": job["trunkline"]["server_cpu_ns"] / 1000 / part["total_ios"], "latency": part["clat_ns"]["mean"] / 1000,
            "rate": part["total_ios"] / (part["runtime"] / 1000)}


def _once(case: Case, server: servers.Server, secret: str, number: int) -> tuple[float, float]:
    """Load both sides in turn. Returns (the compared number, the reference number)."""
    sides = [(SHARE, "--other-case"), (SHARE,)] if case.other_case else [(SHARE,), (OFF,)]
    order = [0, 1] if number % 2 == 0 else [1, 0]
    seen = {side: _load(case, server, sides[side][0], secret, *sides[side][1:]) for side in order}
    return seen[0][case.counts], seen[1][case.counts]


def values(rounds: list[tuple[float, float]]) -> Values:
    """Return the numbers of a case. Each ratio is taken within a round."""
    one, other = (spread.of(side) for side in zip(*rounds, strict=True))
    return {"one": one, "other": other, "ratio": spread.of(one / other for one, other in rounds)}


def _row(case: Case, of: Values) -> list[str]:
    unit = {"cpu": "µs of CPU", "latency": "µs", "rate": "for a second"}[case.counts]
    ratio = of["ratio"]
    if case.at_least is not None:
        wanted, met = f"≥ {case.at_least:g}", ratio.median >= case.at_least
    else:
        wanted, met = f"≤ {case.at_most:g}", case.at_most is not None and ratio.median <= case.at_most
    return [*(f"{of[side].median:,.1f} {unit}" for side in ("one", "other")), ratio.told(), f"{wanted}: {'met' if met else '**not met**'}"]


def _measure(cases: list[Case], profile: str, options: argparse.Namespace, results: Part, secret: str) -> None:
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(servers.Server("trunkline", profile))
        for share in (SHARE, OFF):
            at = server.share_directory(share)
            for part in DEEP.split("/"):
                at /= part
                at.mkdir()
                at.chmod(0o777)
        for case in cases:
            try:
                # The first load creates the names. The server does not cache recent names yet.
                _once(case, server, secret, 0)
                results.add(case.name, values([_once(case, server, secret, number) for number in range(options.rounds)]))
            except (subprocess.CalledProcessError, OSError, ValueError, KeyError, ZeroDivisionError) as reason:
                print(f"cache, {case.name}: not measured: {reason}", file=sys.stderr)
                continue
            print(f"cache, {case.name}: {'; '.join(_row(case, results[case.name]))}", flush=True)


def run(options: argparse.Namespace, is_chosen: Chooses, results: Part) -> bool:
    """Measure the chosen cases, print a line for each and add it to `results`. Returns whether no case is missing."""
    chosen = [case for case in CASES if is_chosen(case, results)]
    with tempfile.NamedTemporaryFile("w") as secret:
        secret.write(servers.accounts()[0][1])
        secret.flush()
        for (protocol, far), profile in PROFILES.items():
            cases = [case for case in chosen if (case.protocol, case.far) == (protocol, far)]
            try:
                if cases:
                    _measure(cases, profile, options, results, secret.name)
            except servers.CannotStart as reason:
                print(f"bench: cache: {reason}", file=sys.stderr)
                return False
    return len(results.fresh) == len(chosen)


def section(results: Part) -> str:
    """Return this section of the page."""
    rows = [f"| {case.name} | {' | '.join(_row(case, results[case.name]) if case.name in results else ['–', '–', '–', 'not measured'])} |"
            for case in CASES]
    return (
        "\n## Remembering names and files\n\nThe same work on two shares of one server, with `metadata_caching` on and off "
        "([how it works](metadata-caching.md)), names four\ndirectories deep; in another case: such names and exact ones, both with it on. \"1 ms\": "
        "each call on the directory about names or\nattributes takes a millisecond longer, as a stand-in for a store far away. Azure Files "
        "says of its own metadata "
        "caching: latency of\nCreate, Open, Close and Delete lower by 30 % or more, rates higher by 60 % or more.\n\n"
        "| case | on, or in another case | off, or exact | ratio | |\n" + "|---" * 5 + "|\n" + "\n".join(rows) + "\n"
    )
