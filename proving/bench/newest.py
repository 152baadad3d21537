"""This year's peers: Samba as it comes and as administrators tune it, and Ganesha, beside ours.

All servers of one protocol run at the same time and are loaded in turn within each round, first by our own generator, then by the crate
`smb2`, which nobody here wrote. A ratio is taken within a round, and told with the least and the most of all rounds. Start reading
at `run`. What the peers are and where they come from says servers/README.md.
"""

import contextlib
import os
import statistics
import subprocess
import sys
from dataclasses import dataclass

import loads
import nfs
import spread
from cases import DIRECTORY, GENERATORS, SHARE, Case
from harness import server as servers

MIB = 1 << 20
OURS, PLAIN, TUNED = "trunkline", "samba", "samba, tuned"
SMB = [
    Case("random read 4 KiB, depth 32", "randread", 4096, 32),
    Case("random write 4 KiB, depth 32", "randwrite", 4096, 32),
    Case("read 64 KiB, depth 8", "read", 64 << 10, 8),
    Case("write 64 KiB, depth 8", "write", 64 << 10, 8),
    Case("read 1 MiB, depth 8", "read", MIB, 8),
    Case("write 1 MiB, depth 8", "write", MIB, 8),
    Case("create, write 4 KiB, close, depth 32", "create", depth=32),
    Case("open, close, depth 32", "open", depth=32),
    Case("stat, depth 32", "stat", depth=32),
    Case("unlink, depth 32", "unlink", depth=32),
]
# What the foreign generator can make.
FOREIGN = [
    Case("crate smb2: random read 4 KiB, depth 32", "randread", 4096, 32),
    Case("crate smb2: read 1 MiB, depth 8", "read", MIB, 8),
    Case("crate smb2: stat, depth 8", "stat", depth=8),
]


@dataclass(frozen=True)
class OverNfs:
    """One case of nfs.py, under a name of its own."""

    of: nfs.Case

    @property
    def name(self):
        return f"NFS: {self.of.name}"


NFS = [OverNfs(case) for case in nfs.CASES]
ALL = [*SMB, *FOREIGN, *NFS]
# Room for all files of the NFS cases, which are made in one run.
STORAGE_BYTES = 2 << 30
# CPU µs for an operation and operations for a second, as loads.measure gives them.
CPU, RATE = 0, 1


@contextlib.contextmanager
def _of_this_year():
    """Other servers than ours are started in the newer generation meanwhile."""
    before = os.environ.get("GENERATION")
    os.environ["GENERATION"] = "newer"
    try:
        yield
    finally:
        if before is None:
            del os.environ["GENERATION"]
        else:
            os.environ["GENERATION"] = before


def run(options, is_chosen, results):
    """Measures what is chosen, says it line by line and adds it to `results`; gives whether nothing is missing."""
    ours, foreign, over_nfs = ([case for case in cases if is_chosen(case, results)] for cases in (SMB, FOREIGN, NFS))
    with _of_this_year():
        for generator, cases in ("trunkline", ours), ("smb2-crate", foreign):
            if cases:
                _smb(generator, cases, options, results)
        if over_nfs:
            _nfs(over_nfs, options, results)
    return len(results.fresh) == len(ours) + len(foreign) + len(over_nfs)


def _smb(generator, cases, options, results):
    starts = (OURS, "bench", None), ("samba", "bench", PLAIN), ("samba", "bench-tuned", TUNED)
    with contextlib.ExitStack() as stack:
        try:
            running = [stack.enter_context(servers.Server(kind, profile, label=label)) for kind, profile, label in starts]
        except servers.CannotStart as reason:
            print(f"bench: newest: {reason}", file=sys.stderr)
            return
        for server in running:
            loads.prepare(server, generator)
        versions = [servers.version(kind) for kind in (OURS, "samba")]
        for case in cases:
            with _told(case):
                rounds = loads.measure(case, running, GENERATORS[generator], options)
                results[case.name] = {"versions": versions, "rounds": rounds}
                print(f"newest, {case.name}: {'; '.join(_smb_row(results[case.name]['rounds']))}", flush=True)


def _nfs(cases, options, results):
    with contextlib.ExitStack() as stack:
        try:
            # Ganesha 15 exports no tmpfs: an XFS whose image lies in memory, for both.
            running = [stack.enter_context(servers.Server(kind, "nfs", shares_storage=True, storage_bytes=STORAGE_BYTES)) for kind in nfs.KINDS]
        except (servers.CannotStart, servers.CannotSetUp) as reason:
            print(f"bench: newest: {reason}", file=sys.stderr)
            return
        for server in running:
            directory = server.share_directory(SHARE) / DIRECTORY
            directory.mkdir()
            directory.chmod(0o777)
        versions = [servers.version(kind) for kind in nfs.KINDS]
        for case in cases:
            with _told(case):
                results[case.name] = {"versions": versions, "rounds": nfs.measure(case.of, running, options)}
                for connections in nfs.CONNECTIONS:
                    print(f"newest, {case.name}, {connections} connections: {'; '.join(_nfs_row(results[case.name]['rounds'], connections))}", flush=True)


@contextlib.contextmanager
def _told(case):
    """Says what could not be measured, and goes on."""
    try:
        yield
    except (loads.CannotMeasure, subprocess.CalledProcessError, OSError, ValueError, KeyError, StopIteration, ZeroDivisionError) as reason:
        print(f"newest, {case.name}: not measured: {reason}", file=sys.stderr)


def _within_rounds(ours, theirs, of):
    """What `of` makes of the pair of each round."""
    return [of(one, other) for one, other in zip(ours, theirs) if one and other]


def _smb_row(rounds):
    """The columns behind the name: our cost and rate, then each peer's cost over ours and our rate over its own."""
    columns = {label: ([row[CPU] for row in rows], [row[RATE] for row in rows]) for label, rows in rounds.items()}
    cpu, rate = columns[OURS]
    shown = [f"{spread.told(cpu, 1)} µs", f"{statistics.median(rate):,.0f}/s"]
    for label in PLAIN, TUNED:
        their_cpu, their_rate = columns[label]
        shown.append(spread.told(_within_rounds(cpu, their_cpu, lambda own, other: other / own)))
        shown.append(spread.told(_within_rounds(rate, their_rate, lambda own, other: own / other)))
    return shown


def _nfs_row(rounds, connections):
    ours, theirs = (rounds[kind][connections] for kind in nfs.KINDS)
    pairs = list(zip(ours, theirs))
    return [f"{spread.told((one.cpu for one in ours), 1)} µs", f"{statistics.median(one.ops for one in ours):,.0f}/s",
            spread.told(other.cpu / one.cpu for one, other in pairs if one.cpu), spread.told(one.ops / other.ops for one, other in pairs)]


def section(results):
    """The part of the page that leads it."""
    def rows(cases, row, width):
        for case in cases:
            shown = row(results[case.name]["rounds"]) if case.name in results else ["–"] * (width - 1) + ["not measured"]
            yield f"| {case.name} | {' | '.join(shown)} |"

    over_nfs = []
    for connections in nfs.CONNECTIONS:
        each = rows(NFS, lambda rounds, connections=connections: _nfs_row(rounds, connections), 4)
        over_nfs += [line.replace("| NFS: ", f"| {connections} | ", 1) for line in each]
    versions = sorted({version for case in ALL if case.name in results for version in results[case.name]["versions"]})
    return (
        "\n## This year's peers\n\n" + "".join(f"* {version}\n" for version in versions)
        + "\nCost is processor time of the server for an operation. × is the peer's cost over ours, and our rate over the peer's, within a round: above 1\n"
        "Trunkline is ahead. Samba is measured as it comes, and tuned: `aio read size = 0`, `aio write size = 0`, `use sendfile = yes`,\n"
        "`min receivefile size = 16384`. The crate `smb2` is a client that nobody here wrote; it signs. Over NFS the files lie\n"
        "on an XFS whose image is in memory, since Ganesha 15 exports no tmpfs.\n\n"
        "| SMB | Trunkline | | Samba: cost, × | rate, × | tuned: cost, × | rate, × |\n" + "|---" * 7 + "|\n" + "\n".join(rows([*SMB, *FOREIGN], _smb_row, 6))
        + "\n\n| connections | NFSv4.1 | Trunkline | | Ganesha: cost, × | rate, × |\n" + "|---" * 6 + "|\n" + "\n".join(over_nfs) + "\n"
    )
