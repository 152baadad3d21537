"""This year's peers and our server: Samba with its defaults and with an administrator's tuning, and Ganesha.

All servers of one protocol run at the same time and are loaded in turn within each round. The loads are our own
generator, the crates `smb2` and `nfs-rs` (nfs_rs.py), the benches of smbtorture (torture_load.py), and Linux' own
client (linux.py). We wrote only the first of these. A ratio is taken within a round, and reported with its smallest and
largest value of all rounds. Start reading at `run`. servers/README.md describes the peers and their origin.
"""

import argparse
import contextlib
import dataclasses
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from proving.bench import every_segment, linux, loads, nfs, nfs_rs, ratios
from proving.bench.cases import DIRECTORY, SHARE, Case, Generator, every_segment_load, peer_load, torture_load, trunkline_load
from proving.bench.result_store import Chooses, Part
from proving.bench.spread import Values
from proving.harness import server as servers
from proving.peers import run as peers

KIB, MIB = 1 << 10, 1 << 20
OURS, PLAIN, TUNED = "trunkline", "samba", "samba, tuned"
# Kind, profile and label.
SMB_STARTS = [(OURS, "bench", None), ("samba", "bench", PLAIN), ("samba", "bench-tuned", TUNED)]
NFS_STARTS: list[linux.Start] = [(kind, "nfs", None) for kind in nfs.KINDS]
# The operations on names in a round, for our server and for a peer.
COUNTS = {"create": (3_000, 750), "open": (20_000, 5_000), "stat": (20_000, 5_000), "unlink": (5_000, 1_250), "list": (40, 10)}
COUNTS_ALONE = {"create": (1_000, 250), "open": (4_000, 1_000), "stat": (4_000, 1_000), "unlink": (2_000, 500)}


def _data(name: str, workload: str, block: int, depth: int, cost: float | None, rate: float | None, protection: str = "plain") -> Case:
    return Case(name, workload, block, depth, protection, cpu_ratio=cost, rate_ratio=rate)


def _names(name: str, workload: str, depth: int, cost: float | None, rate: float | None) -> Case:
    counts = COUNTS_ALONE if depth == 1 and workload in COUNTS_ALONE else COUNTS
    return Case(name, workload, depth=depth, cpu_ratio=cost, rate_ratio=rate, counts=counts[workload])


SMB = [
    _data("random read 4 KiB, depth 32", "randread", 4 * KIB, 32, 4.5, 2),
    _data("random write 4 KiB, depth 32", "randwrite", 4 * KIB, 32, 3.5, 2),
    _data("random read 4 KiB, depth 1", "randread", 4 * KIB, 1, 1.2, 1.1),
    _data("random write 4 KiB, depth 1", "randwrite", 4 * KIB, 1, 1.2, 1.1),
    _data("read 64 KiB, depth 8", "read", 64 * KIB, 8, 1.3, 1.1),
    _data("write 64 KiB, depth 8", "write", 64 * KIB, 8, 1.3, 1.1),
    _data("read 1 MiB, depth 8", "read", MIB, 8, 1.2, 1.05),
    _data("write 1 MiB, depth 8", "write", MIB, 8, 1.15, 1.1),
    _data("read 1 MiB, signed GMAC, depth 8", "read", MIB, 8, 1.3, 1.2, "gmac"),
    _data("write 1 MiB, signed GMAC, depth 8", "write", MIB, 8, 1.3, 1.2, "gmac"),
    _data("read 1 MiB, sealed GCM, depth 8", "read", MIB, 8, 1.5, 1.2, "sealed"),
    _data("write 1 MiB, sealed GCM, depth 8", "write", MIB, 8, 2, 1.2, "sealed"),
    _names("create, write 4 KiB, close, depth 32", "create", 32, 5, 5),
    _names("open, close, depth 32", "open", 32, 8, 5),
    _names("stat, depth 32", "stat", 32, 8, 5),
    _names("unlink, depth 32", "unlink", 32, 8, 5),
    _names("create, write 4 KiB, close, depth 1", "create", 1, 1.9, 1.1),
    _names("open, close, depth 1", "open", 1, 1.9, 1.1),
    _names("stat, depth 1", "stat", 1, 1.9, 1.1),
    _names("unlink, depth 1", "unlink", 1, 1.9, 1.1),
    _names("list 10,000 names", "list", 1, 6, 5),
]
# Our own client with its default, which asks the kernel to wake it for whole parts of large replies. All other rows run
# without that.
WHOLE_PARTS = [
    _data("read 64 KiB, depth 8, SO_RCVLOWAT", "read", 64 * KIB, 8, None, None),
    _data("read 1 MiB, depth 8, SO_RCVLOWAT", "read", MIB, 8, None, None),
]
# The cases that the foreign generator supports.
FOREIGN = [
    Case("crate smb2: random read 4 KiB, depth 32", "randread", 4096, 32),
    Case("crate smb2: read 1 MiB, depth 8", "read", MIB, 8),
    Case("crate smb2: stat, depth 8", "stat", depth=8),
]
TORTURE = [
    _data("torture: read 4 KiB, depth 32", "read", 4 * KIB, 32, 2.5, 2),
    _data("torture: write 4 KiB, depth 32", "write", 4 * KIB, 32, 2, 2),
    _data("torture: read 64 KiB, depth 8", "read", 64 * KIB, 8, 1.3, 1.1),
    _data("torture: write 64 KiB, depth 8", "write", 64 * KIB, 8, 1.3, 1.1),
    _data("torture: read 1 MiB, depth 8", "read", MIB, 8, 1, 1.05),
    _data("torture: write 1 MiB, depth 8", "write", MIB, 8, 1.15, 1.1),
]
GENERATED: list[tuple[Generator, list[Case]]] = [(every_segment_load, SMB), (trunkline_load, WHOLE_PARTS), (peer_load, FOREIGN), (torture_load, TORTURE)]


@dataclass(frozen=True)
class OverNfs:
    """One case of nfs.py under another name."""

    of: nfs.Case
    cpu_ratio: float | None = None
    rate_ratio: float | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether the crate `nfs-rs` makes the load, and not our own generator."""
        return self.of in nfs_rs.CASES

    @property
    def name(self) -> str:
        return self.of.name if self.is_foreign else f"NFS: {self.of.name}"


# The goals for cost and rate, by workload and block.
_OVER_NFS = {
    ("randread", 4 * KIB): (8, 1.2), ("read", 64 * KIB): (2, 1.2), ("write", 64 * KIB): (2, 1.2), ("read", MIB): (2.5, 1.2), ("write", MIB): (1.5, 1.2),
    ("create", 0): (4, 2.5), ("open", 0): (4, 2.5), ("stat", 0): (4, 2.5), ("unlink", 0): (4, 2.5), ("list", 0): (1.5, 1.5),
}
NFS = [OverNfs(dataclasses.replace(case, counts=COUNTS.get(case.workload)), *_OVER_NFS[case.workload, case.block])
       for case in (*nfs.CASES, nfs.Case("list 10,000 names", "list", depth=1))] + [OverNfs(case) for case in nfs_rs.CASES]
ALL: list[Any] = [*(case for _, cases in GENERATED for case in cases), *NFS, *linux.CASES]
# Room for all files of the NFS cases, which are created in one run.
STORAGE_BYTES = 2 << 30


@contextlib.contextmanager
def _of_this_year() -> Iterator[None]:
    """Start the newer generation of foreign servers while this context lasts."""
    before = os.environ.get("GENERATION")
    os.environ["GENERATION"] = "newer"
    try:
        yield
    finally:
        if before is None:
            del os.environ["GENERATION"]
        else:
            os.environ["GENERATION"] = before


def run(options: argparse.Namespace, is_chosen: Chooses, results: Part) -> Any:
    """Measure the chosen cases, print a line for each and add it to `results`. Returns whether no case is missing."""
    chosen = {case.name for case in ALL if is_chosen(case, results)}

    def of(cases: Iterable[Any]) -> list[Any]:
        return [case for case in cases if case.name in chosen]

    with _of_this_year():
        _smb([(generator, of(cases)) for generator, cases in GENERATED], options, results)
        _nfs(of(NFS), options, results)
        for protocol, starts in ("smb", SMB_STARTS), ("nfs", NFS_STARTS):
            _linux(protocol, starts, of(case for case in linux.CASES if case.protocol == protocol), options, results)
    return chosen <= results.fresh


def _smb(generated: list[tuple[Generator, list[Case]]], options: argparse.Namespace, results: Part) -> None:
    if not any(cases for _, cases in generated):
        return
    with contextlib.ExitStack() as stack:
        try:
            running = [stack.enter_context(servers.Server(kind, profile, label=label)) for kind, profile, label in SMB_STARTS]
        except servers.CannotStart as reason:
            print(f"bench: newest: {reason}", file=sys.stderr)
            return
        is_foreign = any(cases for generator, cases in generated if generator is peer_load)
        for server in running:
            loads.prepare(server, "smb2-crate" if is_foreign else "trunkline")
        for generator, cases in generated:
            for case in cases:
                with _told(case):
                    _keep(case, loads.measure(case, running, generator, options), results)


def _nfs(cases: Iterable[Any], options: argparse.Namespace, results: Part) -> None:
    if not cases:
        return
    with contextlib.ExitStack() as stack:
        try:
            # Ganesha 15 exports no tmpfs. Both servers therefore use an XFS whose image lies in memory.
            running = [stack.enter_context(servers.Server(kind, profile, shares_storage=True, storage_bytes=STORAGE_BYTES)) for kind, profile, _ in NFS_STARTS]
        except (servers.CannotStart, servers.CannotSetUp) as reason:
            print(f"bench: newest: {reason}", file=sys.stderr)
            return
        for server in running:
            directory = server.share_directory(SHARE) / DIRECTORY
            directory.mkdir()
            directory.chmod(0o777)
        for case in cases:
            with _told(case):
                if case.is_foreign:
                    _keep(case, nfs_rs.measure(case.of, running, options), results)
                else:
                    _keep(case, nfs.measure(case.of, running, options, through=every_segment.COMMAND), results)


def _linux(protocol: str, starts: list[linux.Start], cases: Iterable[Any], options: argparse.Namespace, results: Part) -> None:
    if not cases:
        return
    try:
        with linux.client(protocol, starts) as client:
            for case in cases:
                with _told(case):
                    _keep(case, client.measure(case, options.rounds), results)
    except (servers.CannotStart, servers.CannotSetUp, *_TROUBLE) as reason:
        print(f"bench: newest: {reason}", file=sys.stderr)


_TROUBLE = (loads.CannotMeasure, peers.Missing, linux.guest.GuestEnded, subprocess.SubprocessError, OSError, ValueError, KeyError, StopIteration,
            ZeroDivisionError)


@contextlib.contextmanager
def _told(case: Any) -> Iterator[None]:
    """Print the reason if a case could not be measured, and continue."""
    try:
        yield
    except _TROUBLE as reason:
        print(f"newest, {case.name}: not measured: {reason}", file=sys.stderr)


def _keep(case: Any, rounds: Any, results: Part) -> None:
    if rounds is None:
        print(f"newest, {case.name}: the generator does not support it", file=sys.stderr)
        return
    of = results.add(case.name, values(case, rounds), [servers.version(kind) for kind in _kinds(case)])
    for name, shown in _lines(case, of):
        print(f"newest, {name}: {'; '.join(shown)}", flush=True)


def _kinds(case: Any) -> tuple[str, ...]:
    over_nfs = isinstance(case, OverNfs) or isinstance(case, linux.Case) and case.protocol == "nfs"
    return nfs.KINDS if over_nfs else (OURS, "samba")


def _peers(case: Any) -> tuple[str, ...]:
    return nfs.KINDS[1:] if _kinds(case) == nfs.KINDS else (PLAIN, TUNED)


def values(case: Any, rounds: Any) -> Values:
    """Return the numbers of a case, of all of its rows."""
    peers = _peers(case)
    if isinstance(case, OverNfs):
        found: Values = {}
        for connections in nfs.CONNECTIONS:
            columns = {kind: ([it.cpu for it in rounds[kind][connections]], [it.ops for it in rounds[kind][connections]]) for kind in nfs.KINDS}
            found |= ratios.values(columns, OURS, peers, f"{connections}: ")
        return found
    if isinstance(case, linux.Case) and case.work == "trees":
        return linux.tree_values(rounds, OURS, peers)
    columns = {label: ([row[ratios.CPU] for row in rows], [row[ratios.RATE] for row in rows]) for label, rows in rounds.items()}
    return ratios.values(columns, OURS, peers)


def _lines(case: Any, of: Values) -> Iterator[tuple[str, list[str]]]:
    """Return the rows of one case: name and columns."""
    if isinstance(case, OverNfs):
        for connections in nfs.CONNECTIONS:
            yield (f"{case.name}, {connections} connection{'s' if connections > 1 else ''}",
                   ratios.cells(of, _peers(case), case.cpu_ratio, case.rate_ratio, f"{connections}: "))
    elif isinstance(case, linux.Case) and case.work == "trees":
        for step in linux.STEPS:
            yield f"{case.name}: {step}", linux.tree_row(case, of, step, _peers(case))
    else:
        yield case.name, ratios.cells(of, _peers(case), case.cpu_ratio, case.rate_ratio)


def _table(results: Part, cases: Iterable[Any], *head: str) -> str:
    """Return the rows of these cases under a head."""
    rows = []
    for case in cases:
        if case.name in results:
            rows += [f"| {name} | {' | '.join(shown)} |" for name, shown in _lines(case, results[case.name])]
        else:
            rows.append(f"| {case.name} | {'– | ' * (len(head) - 2)}not measured |")
    return f"| {' | '.join(head)} |\n{'|---' * len(head)}|\n" + "\n".join(rows) + "\n"


def section(results: Part) -> str:
    """Return the section that leads the page."""
    versions = sorted({version for case in ALL if case.name in results for version in results.versions(case.name)})
    moved, trees = ({protocol: [case for case in linux.CASES if case.protocol == protocol and (case.work == "trees") == of_trees]
                     for protocol in ("smb", "nfs")} for of_trees in (False, True))
    smb = [case for _, cases in GENERATED for case in cases]
    samba, ganesha = ("Samba: cost, ×", "rate, ×", "tuned: cost, ×", "rate, ×"), ("Ganesha: cost, ×", "rate, ×")
    return (
        "\n## This year's peers\n\n" + "".join(f"* {version}\n" for version in versions)
        + "\nCost is processor time of the server for an operation. × is the peer's cost over ours, and our rate over the peer's, within a round: above 1\n"
        "Trunkline is ahead. What is wanted counts against the best of the peers in that row. Samba is measured as it comes, and tuned:\n"
        "`aio read size = 0`, `aio write size = 0`, `use sendfile = yes`, `min receivefile size = 16384`. The client is `trunkline load` where no other is\n"
        "named, and here it is woken for every segment, as most clients are; where SO_RCVLOWAT is named it asks for whole parts of large replies. Nobody here\n"
        "wrote the crate `smb2` (it signs), smbtorture of this year's Samba (`smb2.bench.read` and `.write`; the files that it reads are holes),\n"
        "the crate `nfs-rs` (0.11.1, NFSv4.1; a mount of it has one connection, so four connections are four mounts of one process),\n"
        "and Linux (6.1, user-mode-linux behind a virtual cable; `dd` with blocks of 4 MiB past its caches; an operation is a MiB there).\n"
        "Over NFS, and wherever Linux is the client, the files lie on an XFS whose image is in memory, since Ganesha 15 exports no tmpfs. "
        "[speed-not-met.md](speed-not-met.md)\n"
        "says what takes the time in the rows that miss what is wanted, and what was tried.\n\n"
        + _table(results, [*smb, *moved["smb"]], "SMB", "Trunkline", "", *samba, "")
        + "\n" + _table(results, [*NFS, *moved["nfs"]], "NFSv4.1 (Linux: 4.2)", "Trunkline", "", *ganesha, "")
        + f"\nTrees: what people do to {linux.FILES} files in {linux.DIRECTORIES} directories, through Linux' own client, with the mount's "
          f"options as they come.\n"
        "Each step begins with nothing in the client's caches. × is the peer's time over ours, within a round.\n\n"
        + _table(results, trees["smb"], "SMB", "Trunkline", "Samba, ×", "tuned, ×", "") + "\n"
        + _table(results, trees["nfs"], "NFSv4.2", "Trunkline", "Ganesha, ×", "")
    )
