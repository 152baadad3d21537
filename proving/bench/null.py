"""The machine's own limit: a null server reads a file and sends it, without any protocol (crates/load/src/null.rs).

A plain loop asks it as quickly as it can; beside that loop shows what our generator costs, which asks the same server, and what
our server and client reach together over four channels. All of it takes turns within each round. Start reading at `run`.
"""

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from proving.bench import spread
from proving.bench.cases import DIRECTORY, FILE_BYTES, SHARE, trunkline_target
from proving.harness import server as servers

MIB = 1 << 20
CHANNELS = 4
# What is compared takes so many turns in each round, for half the time: the machine drifts by more than what is decided on.
TURNS = 4
# The generator's rate over the loop's, its processor time for an operation in µs, and what a server reaches of the loop's rate.
GENERATOR, CPU_US, SERVED = 0.9, 4.0, 0.7


@dataclass(frozen=True)
class Case:
    name: str
    block: int
    depth: int
    connections: int = 1
    # Whether our server over as many channels is what is compared, not the generator alone.
    served: bool = False
    cpu_us: float | None = None


CASES = [
    Case("generator, random read 4 KiB, depth 32", 4096, 32, cpu_us=CPU_US),
    Case("generator, read 1 MiB, depth 8", MIB, 8),
    Case(f"SMB, read 1 MiB over {CHANNELS} channels, depth 16", MIB, 16, CHANNELS, served=True),
]


@dataclass(frozen=True)
class Sample:
    """Bytes for a second, and µs of the client's processor for an operation."""

    rate: float
    cpu: float


@contextlib.contextmanager
def _null_server():
    """A null server of a file as large as the others' files; gives HOST:PORT."""
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(FILE_BYTES // MIB):
            file.write(os.urandom(MIB))
        file.flush()
        with subprocess.Popen([servers.program(), "null-server", file.name], stdout=subprocess.PIPE, text=True) as process:
            try:
                yield process.stdout.readline().strip()
            finally:
                process.terminate()


def _json(command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=True)
    return json.loads(done.stdout)


def _shape(case):
    return ["--bs", str(case.block), "--filesize", str(FILE_BYTES)]


def _plain(case, place, seconds):
    # Each of several connections has its part of the depth.
    command = [servers.program(), "null-loop", place, "--iodepth", str(case.depth // case.connections), "--connections", str(case.connections),
               "--runtime", f"{seconds * 1000:.0f}ms", *_shape(case)]
    done = _json(command)
    return Sample(done["bytes"] / done["seconds"], done["client_cpu_ns"] / 1000 / max(done["ops"], 1))


def _load(case, command, seconds):
    command = [*command, "--iodepth", str(case.depth), "--rw", "read" if case.block >= MIB else "randread", "--runtime",
               f"{seconds * 1000:.0f}ms", "--ramp_time", "1", *_shape(case)]
    job = _json(command)["jobs"][0]
    part = job["read"]
    return Sample(part["io_bytes"] / (part["runtime"] / 1000), job["trunkline"]["client_cpu_ns"] / 1000 / part["total_ios"])


def _once(case, place, server, secret, seconds):
    """The loop and what is compared with it."""
    if case.served:
        user = servers.accounts()[0][0]
        command = [*trunkline_target(server, SHARE, user, secret), "--signing", "off", "--channels", str(case.connections)]
    else:
        command = [servers.program(), "load", f"null://{place}", "--json"]
    return {"plain": _plain(case, place, seconds), "compared": _load(case, command, seconds)}


def measure(case, place, server, secret, options):
    """One case, `TURNS` times in each round."""
    return [_once(case, place, server, secret, options.seconds / 2) for _ in range(options.rounds * TURNS)]


def verdicts(case, rounds):
    """What is wanted and whether it is met, as (text, met)."""
    ratios = [it["compared"].rate / it["plain"].rate for it in rounds]
    wanted = SERVED if case.served else GENERATOR
    told = [(f"{spread.told(ratios)} of the loop's rate, wanted ≥ {wanted:g}", statistics.median(ratios) >= wanted)]
    if case.cpu_us is not None:
        cpu = statistics.median(it["compared"].cpu for it in rounds)
        told.append((f"{cpu:.1f} µs of CPU for an operation, wanted ≤ {case.cpu_us:g}", cpu <= case.cpu_us))
    return told


def _row(case, rounds):
    rates = (statistics.median(it[key].rate for it in rounds) for key in ("plain", "compared"))
    verdict = "; ".join(f"{text}: {'met' if met else '**not met**'}" for text, met in verdicts(case, rounds))
    return [*(f"{rate / MIB:,.0f} MiB/s" for rate in rates), verdict]


def run(options, is_chosen, results):
    """Measures what is chosen, says it line by line and adds it to `results`; gives whether nothing is missing."""
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
                results[case.name] = measure(case, place, server, secret.name, options)
            except (subprocess.CalledProcessError, OSError, ValueError, KeyError, ZeroDivisionError) as reason:
                print(f"null, {case.name}: not measured: {reason}", file=sys.stderr)
                continue
            print(f"null, {case.name}: {'; '.join(_row(case, results[case.name]))}", flush=True)
    return len(results.fresh) == len(cases)


def section(results):
    """The part of the page."""
    rows = [f"| {case.name} | {' | '.join(_row(case, results[case.name]) if case.name in results else ['–', '–', 'not measured'])} |"
            for case in CASES]
    return (
        "\n## The machine's own limit\n\nA null server reads a file and sends it, without any protocol, and a plain loop asks it as quickly as it can. Below,\n"
        "the generator asks the same server, and then Trunkline, over as many connections as the loop has. Ratios are taken within a turn.\n\n"
        "| case | plain loop | compared | |\n" + "|---" * 4 + "|\n" + "\n".join(rows) + "\n"
    )
