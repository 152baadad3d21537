"""The machine's own limit: a null server reads a file and sends it, without any protocol (crates/load/src/null.rs).

A plain loop requests data from it as fast as it can. The first comparison with that loop is our generator against the
same server, which shows the generator's cost. The second is our server and client together over four channels. All of
them take turns within each round. Start reading at `run`.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proving.bench import spread
from proving.bench.cases import DIRECTORY, FILE_BYTES, SHARE, trunkline_target
from proving.bench.result_store import Chooses, Part
from proving.bench.spread import Values
from proving.harness import server as servers

MIB = 1 << 20
CHANNELS = 4
# The turns of each comparison in a round, each for half the time: the machine drifts by more than the limits of the
# verdict.
TURNS = 4
# The goals: the generator's rate over the loop's, its processor time for each operation in µs, and the server's part of
# the loop's rate.
GENERATOR, CPU_US, SERVED = 0.9, 4.0, 0.7


@dataclass(frozen=True)
class Case:
    name: str
    block: int
    depth: int
    connections: int = 1
    # Compares our server over as many channels, not the generator alone.
    served: bool = False
    cpu_us: float | None = None


CASES = [
    Case("generator, random read 4 KiB, depth 32", 4096, 32, cpu_us=CPU_US),
    Case("generator, read 1 MiB, depth 8", MIB, 8),
    Case(f"SMB, read 1 MiB over {CHANNELS} channels, depth 16", MIB, 16, CHANNELS, served=True),
]


@dataclass(frozen=True)
class Sample:
    """Bytes per second, and µs of the client's processor for each operation."""

    rate: float
    cpu: float


# The sample of the loop, and the one compared with it.
Turn = dict[str, Sample]


@contextlib.contextmanager
def _null_server() -> Iterator[str]:
    """Start a null server of a file as large as the others' files. Returns HOST:PORT."""
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(FILE_BYTES // MIB):
            file.write(os.urandom(MIB))
        file.flush()
        with subprocess.Popen([servers.program(), "null-server", file.name], stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                yield process.stdout.readline().strip()
            finally:
                process.terminate()


def _json(command: list[str]) -> Any:
    done = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=True)
    return json.loads(done.stdout)


def _shape(case: Case) -> list[str]:
    return ["--bs", str(case.block), "--filesize", str(FILE_BYTES)]


def _plain(case: Case, place: str, seconds: float) -> Sample:
    # Each of several connections has an equal part of the depth.
    command = [servers.program(), "null-loop", place, "--iodepth", str(case.depth // case.connections), "--connections", str(case.connections),
               "--runtime", f"{seconds * 1000:.0f}ms", *_shape(case)]
    done = _json(command)
    return Sample(done["bytes"] / done["seconds"], done["client_cpu_ns"] / 1000 / max(done["ops"], 1))


def _load(case: Case, command: list[str], seconds: float) -> Sample:
    command = [*command, "--iodepth", str(case.depth), "--rw", "read" if case.block >= MIB else "randread", "--runtime",
               f"{seconds * 1000:.0f}ms", "--ramp_time", "1", *_shape(case)]
    job = _json(command)["jobs"][0]
    part = job["read"]
    return Sample(part["io_bytes"] / (part["runtime"] / 1000), job["trunkline"]["client_cpu_ns"] / 1000 / part["total_ios"])


def _once(case: Case, place: str, server: servers.Server, secret: str, seconds: float) -> Turn:
    """Measure the loop and its comparison."""
    if case.served:
        user = servers.accounts()[0][0]
        command = [*trunkline_target(server, SHARE, user, secret), "--signing", "off", "--channels", str(case.connections)]
    else:
        command = [servers.program(), "load", f"null://{place}", "--json"]
    return {"plain": _plain(case, place, seconds), "compared": _load(case, command, seconds)}


def measure(case: Case, place: str, server: servers.Server, secret: str, options: argparse.Namespace) -> list[Turn]:
    """Measure one case, `TURNS` times in each round."""
    return [_once(case, place, server, secret, options.seconds / 2) for _ in range(options.rounds * TURNS)]


def values(rounds: list[Turn]) -> Values:
    """Return the numbers of a case. The ratio is taken within a turn."""
    return {"plain rate": spread.of(it["plain"].rate for it in rounds), "compared rate": spread.of(it["compared"].rate for it in rounds),
            "compared cost": spread.of(it["compared"].cpu for it in rounds),
            "ratio": spread.of(it["compared"].rate / it["plain"].rate for it in rounds)}


def verdicts(case: Case, of: Values) -> list[tuple[str, bool]]:
    """Return the goals and whether they are met, as (text, met)."""
    ratio, cpu = of["ratio"], of["compared cost"].median
    wanted = SERVED if case.served else GENERATOR
    told = [(f"{ratio.told()} of the loop's rate, wanted ≥ {wanted:g}", ratio.median >= wanted)]
    if case.cpu_us is not None:
        told.append((f"{cpu:.1f} µs of CPU for an operation, wanted ≤ {case.cpu_us:g}", cpu <= case.cpu_us))
    return told


def _row(case: Case, of: Values) -> list[str]:
    verdict = "; ".join(f"{text}: {'met' if met else '**not met**'}" for text, met in verdicts(case, of))
    return [*(f"{of[name].median / MIB:,.0f} MiB/s" for name in ("plain rate", "compared rate")), verdict]


def run(options: argparse.Namespace, is_chosen: Chooses, results: Part) -> bool:
    """Measure the chosen cases, print a line for each and add it to `results`. Returns whether no case is missing."""
    cases = [case for case in CASES if is_chosen(case, results)]
    if not cases:
        return True
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(servers.Server("trunkline", "bench"))
        except servers.CannotStart as reason:
            print(f"bench: null: {reason}", file=sys.stderr)
            return False
        directory = Path(server.share_directory(SHARE)) / DIRECTORY
        directory.mkdir()
        directory.chmod(0o777)
        place = stack.enter_context(_null_server())
        secret = stack.enter_context(tempfile.NamedTemporaryFile("w"))
        secret.write(servers.accounts()[0][1])
        secret.flush()
        for case in cases:
            try:
                results.add(case.name, values(measure(case, place, server, secret.name, options)))
            except (subprocess.CalledProcessError, OSError, ValueError, KeyError, ZeroDivisionError) as reason:
                print(f"null, {case.name}: not measured: {reason}", file=sys.stderr)
                continue
            print(f"null, {case.name}: {'; '.join(_row(case, results[case.name]))}", flush=True)
    return len(results.fresh) == len(cases)


def section(results: Part) -> str:
    """Return this section of the page."""
    rows = [f"| {case.name} | {' | '.join(_row(case, results[case.name]) if case.name in results else ['–', '–', 'not measured'])} |"
            for case in CASES]
    return (
        "\n## The machine's own limit\n\nA null server reads a file and sends it, without any protocol, and a plain loop asks it as quickly as it can. Below,\n"
        "the generator asks the same server, and then Trunkline, over as many connections as the loop has. Ratios are taken within a turn.\n\n"
        "| case | plain loop | compared | |\n" + "|---" * 4 + "|\n" + "\n".join(rows) + "\n"
    )
