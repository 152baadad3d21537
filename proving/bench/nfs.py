"""NFSv4.1: our server's cost compared with Debian's Ganesha, and the gain of nconnect where each connection is slow.

Both servers run at the same time, and our own generator loads them in turn. Ratios are taken of the medians. The second
part is the list of fio runs with which users measure nconnect. It runs on our own server, with each connection limited
to a quarter of the rate that one unlimited connection reaches in the same round. Start reading at `run`.
"""

import argparse
import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from proving.bench import headers, spread
from proving.bench.cases import DIRECTORY, FILE_BYTES, NAMES, OPERATIONS, SHARE
from proving.bench.result_store import Chooses, Part
from proving.bench.spread import Values
from proving.harness import server as servers

MIB = 1 << 20
CONNECTIONS = (1, 4)
# The names in each new directory before the measured ones.
NAMES_BEFORE = 1_000
KINDS = servers.NFS_KINDS
# The list: block sizes, in both directions, at this depth, over these numbers of connections.
BLOCKS = (4096, 8192, 65536, MIB)
NCONNECT = (1, 2, 4, 8, 16)
DEPTH = 64
# The number of capped connections that must together carry the load of one uncapped connection, and the sufficient part
# of it.
CAPPED, ENOUGH = 4, 0.9


@dataclass(frozen=True)
class Case:
    """`workload` is --rw or --metadata of the load command; `cpu_ratio` is the wanted ratio of our operations for each
    CPU-second of the server to Ganesha's."""

    name: str
    workload: str
    block: int = 0
    depth: int = 32
    cpu_ratio: float | None = None
    # The operations on names in one round, for our server and for another; OPERATIONS has the default.
    counts: tuple[int, int] | None = None

    def operations(self, server: servers.Server) -> int:
        """Return the number of operations on names for this server in one round."""
        if self.counts is None:
            return OPERATIONS[self.workload]
        return self.counts[0 if server.kind == KINDS[0] else 1]


CASES = [
    Case("random read 4 KiB, depth 64", "randread", 4096, 64, 4.0),
    Case("read 64 KiB, depth 16", "read", 65536, 16),
    Case("write 64 KiB, depth 16", "write", 65536, 16),
    Case("read 1 MiB, depth 8", "read", MIB, 8, 1.5),
    Case("write 1 MiB, depth 8", "write", MIB, 8, 1.5),
    Case("create, write 4 KiB, close, depth 32", "create", cpu_ratio=3.0),
    Case("open, close, depth 32", "open", cpu_ratio=3.0),
    Case("stat, depth 32", "stat", cpu_ratio=3.0),
    Case("remove, depth 32", "unlink", cpu_ratio=3.0),
]


@dataclass(frozen=True)
class Fio:
    """One line of the list."""

    workload: str
    block: int

    @property
    def name(self) -> str:
        return f"{self.workload} {self.block >> 10} KiB, depth {DEPTH}, capped"


LIST = [Fio(workload, block) for workload in ("randread", "randwrite") for block in BLOCKS]
ALL = [*CASES, *LIST]


@dataclass(frozen=True)
class Sample:
    """One load: operations and bytes per second, and µs of the server's processor for each operation."""

    ops: float
    rate: float
    cpu: float
    # Bytes per second that its connections carried in the fuller direction, headers included.
    carried: float


# By kind of server and connections. A line of the list has connections or `uncapped` as its key.
Measured = dict[str, dict[int, list[Sample]]]
FioRound = dict[int | str, Sample]


def _load(server: servers.Server, channels: Sequence[int], *options: str, below: str = "", through: Sequence[str] = ()) -> dict[int, Sample]:
    """Run a load with each of `channels` connections in turn, in a directory below ours. Returns connections -> Sample.
    `through` is a command that runs the generator."""
    target = f"nfs://127.0.0.1:{server.port}/{SHARE}/{DIRECTORY}{below}"
    command = [*through, servers.program(), "load", target, "--json", "--server-pid", str(server.pid), "--channels", ",".join(map(str, channels)), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=True)
    return {int(job["job options"]["channels"]): _sample(job) for job in json.loads(done.stdout)["jobs"]}


def _sample(job: dict[str, Any]) -> Sample:
    own = job["trunkline"]
    part = next(part for part in (job["read"], job["write"], own["metadata"]) if part["total_ios"])
    seconds = part["runtime"] / 1000
    ops = part["total_ios"] / seconds
    return Sample(ops, part["io_bytes"] / seconds, own["server_cpu_ns"] / 1000 / part["total_ios"], headers.carried(ops, own["channels"]))


def _data(workload: str, block: int, depth: int, options: argparse.Namespace) -> list[str]:
    return ["--rw", workload, "--bs", str(block), "--iodepth", str(depth), "--runtime", f"{options.seconds * 1000:.0f}ms",
            "--ramp_time", "1", "--filesize", str(FILE_BYTES)]


def _options(case: Case, server: servers.Server, options: argparse.Namespace) -> list[str]:
    if case.block:
        return _data(case.workload, case.block, case.depth, options)
    return ["--metadata", case.workload, "--files", str(NAMES), "--number-ios", str(case.operations(server)), "--iodepth", str(case.depth),
            "--bs", "4096"]


def _measure_once(case: Case, server: servers.Server, number: int, options: argparse.Namespace, through: Sequence[str]) -> list[tuple[int, Sample]]:
    """Return pairs of connections and Sample. Each time the names are created in a new directory, and none is deleted
    before the end. ext4 without a journal does not reuse a deleted file's inode for a minute to six, and skips each
    such inode at every file that it creates. That would cost more than either server, and most for the last one."""
    if case.workload != "create":
        return list(_load(server, CONNECTIONS, *_options(case, server, options), through=through).items())
    order = CONNECTIONS if number % 2 == 0 else reversed(CONNECTIONS)
    made = ["--metadata", "create", "--keep", "--files", str(NAMES_BEFORE), "--number-ios", str(case.operations(server)), "--iodepth",
            str(case.depth), "--bs", "4096"]
    return [(connections, _load(server, [connections], *made, below=f"/create-{number}-{connections}", through=through)[connections])
            for connections in order]


def measure(case: Case, running: list[servers.Server], options: argparse.Namespace, through: Sequence[str] = ()) -> Measured:
    """Measure one case on every server in turn, `rounds` times. Returns kind -> connections -> list of samples."""
    samples: Measured = {server.kind: {connections: [] for connections in CONNECTIONS} for server in running}
    for number in range(options.rounds):
        # The first server of one round is the last of the next.
        for server in running if number % 2 == 0 else reversed(running):
            for connections, sample in _measure_once(case, server, number, options, through):
                samples[server.kind][connections].append(sample)
    return samples


def measure_list(fio: Fio, server: servers.Server, options: argparse.Namespace) -> list[FioRound]:
    """Measure one line of the list, `rounds` times. Returns for each round connections or `uncapped` -> Sample."""
    rounds: list[FioRound] = []
    load = _data(fio.workload, fio.block, DEPTH, options)
    for number in range(options.rounds):
        first = number % len(NCONNECT)
        uncapped = _load(server, [1], *load)[1]
        cap = ["--channel-rate", str(int(uncapped.carried / CAPPED))]
        rounds.append(dict(_load(server, NCONNECT[first:] + NCONNECT[:first], *load, *cap)) | {"uncapped": uncapped})
    return rounds


def values(result: Measured) -> Values:
    """Return the numbers of a case, by server and connections."""
    found: Values = {}
    for kind, of_kind in result.items():
        for connections, samples in of_kind.items():
            found[f"{kind} {connections} cost"] = spread.of(it.cpu for it in samples)
            found[f"{kind} {connections} rate"] = spread.of(it.ops for it in samples)
    return found


def list_values(rounds: list[FioRound]) -> Values:
    """Return the numbers of a line of the list. Ratios are taken within a round."""
    found = {f"{key} rate": spread.of(it[key].rate for it in rounds) for key in rounds[0]}
    return found | {"share": spread.of(it[CAPPED].rate / it["uncapped"].rate for it in rounds)}


def _verdict(case: Case, of: Values, connections: int) -> str:
    """Return Ganesha's processor time for each operation over ours, as text. It is empty unless both were measured."""
    ours, theirs = (of.get(f"{kind} {connections} cost") for kind in KINDS)
    if not ours or not theirs or not ours.median:
        return "–"
    ratio = theirs.median / ours.median
    if case.cpu_ratio is None:
        return f"{ratio:.1f}"
    return f"{ratio:.1f}, wanted ≥ {case.cpu_ratio:g}: {'met' if ratio >= case.cpu_ratio else '**not met**'}"


def _columns(of: Values, connections: int) -> list[str]:
    names = [f"{kind} {connections}" for kind in KINDS]
    return [f"{of[f'{name} cost'].told(1)} µs, {of[f'{name} rate'].median:,.0f}/s" if f"{name} cost" in of else "–" for name in names]


def _list_verdict(of: Values) -> str:
    share = of["share"]
    return f"{share.told()}, wanted ≥ {ENOUGH:g}: {'met' if share.median >= ENOUGH else '**not met**'}"


def run(options: argparse.Namespace, is_chosen: Chooses, results: Part) -> bool:
    """Measure the chosen cases, print a line for each and add it to `results`. Returns whether no case is missing."""
    cases = [case for case in CASES if is_chosen(case, results)]
    lines = [fio for fio in LIST if is_chosen(fio, results)]
    if not cases and not lines:
        return True
    with contextlib.ExitStack() as stack:
        running = []
        for kind in KINDS:
            try:
                running.append(stack.enter_context(servers.Server(kind, "nfs")))
            except servers.CannotStart as reason:
                print(f"bench: nfs: {reason}", file=sys.stderr)
        for server in running:
            directory = server.share_directory(SHARE) / DIRECTORY
            directory.mkdir()
            directory.chmod(0o777)
        for case in cases:
            with _told(case):
                of = results.add(case.name, values(measure(case, running, options)))
                for connections in CONNECTIONS:
                    shown = "; ".join(f"{kind} {text}" for kind, text in zip(KINDS, _columns(of, connections), strict=True))
                    print(f"nfs, {case.name}, {connections} connections: {shown}; {_verdict(case, of, connections)}", flush=True)
        ours = next((server for server in running if server.kind == KINDS[0]), None)
        for fio in lines if ours else []:
            with _told(fio):
                assert ours is not None
                of = results.add(fio.name, list_values(measure_list(fio, ours, options)))
                print(f"nfs, {fio.name}: {'; '.join(_row(of))}", flush=True)
    return len(running) == len(KINDS) and len(results.fresh) == len(cases) + len(lines)


@contextlib.contextmanager
def _told(case: Case | Fio) -> Iterator[None]:
    """Print the reason if a case could not be measured, and continue."""
    try:
        yield
    except (subprocess.CalledProcessError, OSError, ValueError, KeyError, StopIteration, ZeroDivisionError) as reason:
        print(f"nfs, {case.name}: not measured: {reason}", file=sys.stderr)


def _row(of: Values) -> list[str]:
    """Return one line of the list, as the columns of its table behind the name."""
    rate = [f"{of[f'{key} rate'].median / MIB:,.0f} MiB/s" for key in ("uncapped", *NCONNECT)]
    return [*rate, _list_verdict(of)]


def section(results: Part) -> str:
    """Return this section of the page."""
    rows = []
    for case in CASES:
        for connections in CONNECTIONS:
            if case.name in results:
                shown = [*_columns(results[case.name], connections), _verdict(case, results[case.name], connections)]
            else:
                shown = ["–", "–", "not measured"]
            rows.append(f"| {case.name} | {connections} | {' | '.join(shown)} |")
    lines = [f"| {fio.workload} {fio.block >> 10} KiB | "
             f"{' | '.join(_row(results[fio.name]) if fio.name in results else ['–'] * (len(NCONNECT) + 1) + ['not measured'])} |"
             for fio in LIST]
    return (
        "\n## NFSv4.1\n\nOne client process with one session over 1 or 4 connections, to Trunkline and to Ganesha in turns within each round. A cell is\n"
        "processor time of the server for an operation, and operations for a second; the last column is Ganesha's processor time over ours.\n"
        "Creating sends an OPEN, an unstable WRITE and a CLOSE, opening an OPEN and a CLOSE, one after the other as Linux does.\n\n"
        "| case | connections | Trunkline | Ganesha | Ganesha / Trunkline |\n" + "|---" * 5 + "|\n" + "\n".join(rows)
        + f"\n\nnconnect on Trunkline, {DEPTH} requests under way, each connection held to a quarter of what one uncapped connection reaches in the\n"
        "same round, counted in the bytes that the connection carries: the client itself reads and writes no faster, and the server knows "
        "nothing of it. This stands for a path whose single\n"
        "connection is slow; it is not such a path. The last column is what four connections carry of the uncapped rate.\n\n"
        "| load | one, uncapped | " + " | ".join(f"nconnect={count}" for count in NCONNECT) + " | four against uncapped |\n"
        + "|---" * (len(NCONNECT) + 3) + "|\n"
        + "\n".join(lines) + "\n"
    )
