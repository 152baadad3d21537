"""The tables on which users of cloud file shares rely, on an emulated path that slows each connection separately.

They show the gain of Multichannel and nconnect: many threads on many files, many threads on one file, one thread, and
the number of clients that fill a share. The path is emulated packet by packet where a connection's rate matters
(`trunkline link`, which needs root). The cases that must not become slower are measured without any path, where a loss
would show most. Only our own server and generator are measured here. Start reading at `run`.
"""

import argparse
import contextlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from proving.bench import network, spread
from proving.bench.cases import DIRECTORY, SHARE
from proving.bench.result_store import Chooses, Part
from proving.bench.spread import Values
from proving.harness import server as servers

KIB, MIB = 1 << 10, 1 << 20
CHANNELS = 4
# Files of a size that fits the page cache of a small machine. The tables' own files are 2 GiB, and a single file is 128
# GiB.
FILES, FILE_BYTES = 10, 32 * MIB
THREADS, DEPTH = 8, 8
RTT = "1ms"
# The sufficient part of an unlimited connection's rate for four connections, and of one channel's rate for several
# channels where they bring no gain. A smaller difference than the latter also occurs between two runs of the same case.
ENOUGH, NO_LOSS = 0.9, 0.98
# Pairs of turns in each round where nothing is capped: the machine drifts by more than the limits of the verdict.
TURNS = 8
# The number of clients that fill the line together with a connection each, and the goal for clients with four
# connections each.
CLIENTS, FEW = 20, 7
# The line counts as full from this part of its rate.
FULL = 0.95


class CannotMeasure(Exception):
    """The load or the link failed; the message is theirs."""


@dataclass(frozen=True)
class EmulatedPath:
    """An emulated path: its rate, and the bytes of a packet. A rate that the forwarder cannot sustain makes the path
    useless."""

    mbit: int
    mtu: int

    def behind(self, command: list[str], flow_bits: float | None = None) -> list[str]:
        """Return the command line that runs `command` behind the path, with this many bits per second for each connection."""
        flow = ["--flow-rate", f"{flow_bits:.0f}bit"] if flow_bits else []
        return [servers.program(), "link", "--rtt", RTT, "--rate", f"{self.mbit}Mbit", "--mtu", str(self.mtu), *flow, "--",
                *network.setting(command)]

    def bits(self, rate: float) -> float:
        """Return the bits per second on the path for `rate` bytes of payload per second. IP and TCP with time stamps
        use 52 bytes in each packet."""
        return rate * 8 * self.mtu / (self.mtu - 52)


ORDINARY = EmulatedPath(1000, 9000)
# 640 MiB are in flight at once. On the ordinary line that takes longer than the measured time.
WIDE = EmulatedPath(4000, 65520)


@dataclass(frozen=True)
class Sample:
    """Bytes per second, and µs of the server's and the generator's processor for each operation."""

    rate: float
    cpu: float


@dataclass(frozen=True)
class Case:
    """`files`, each with `threads` of `depth`, at random. Over a path each connection is limited to a quarter; without
    one there is no limit."""

    what: str
    block: int
    writes: bool
    files: int = 1
    threads: int = THREADS
    depth: int = DEPTH
    line: EmulatedPath | None = None

    @property
    def name(self) -> str:
        return f"{self.what}: {'write' if self.writes else 'read'} {_size(self.block)}"


@dataclass(frozen=True)
class Fill:
    """The number of clients that fill a line, each with one connection and each with four."""

    protocol: str

    @property
    def name(self) -> str:
        return f"clients, {self.protocol}"


def _size(count: int) -> str:
    return f"{count // MIB} MiB" if count >= MIB else f"{count // KIB} KiB"


def _cases(what: str, blocks: Sequence[int], **more: Any) -> list[Case]:
    return [Case(what, block, writes, **more) for writes in (False, True) for block in blocks]


SLOW_LINKS = [
    *_cases("many threads, many files", (4 * KIB, 8 * KIB, 64 * KIB), files=FILES, line=ORDINARY),
    *_cases("many threads, many files", (MIB,), files=FILES, line=WIDE),
    *_cases("many threads, one file", (64 * KIB, MIB), line=ORDINARY),
]
UNHINDERED = [
    *_cases("many threads, one file", (4 * KIB,)),
    *_cases("one thread, one file", (4 * KIB, 8 * KIB, 64 * KIB, MIB), threads=1, depth=1),
]
FILLS = [Fill("NFS"), Fill("SMB")]


# By channels or `uncapped` a Sample. For a line that clients fill: the line's rate, and the numbers of clients by their
# connections.
Round = dict[Any, Any]


def _rates(command: list[str], **more: Any) -> list[tuple[int, Sample]]:
    """Run a load. Returns a Sample for each of its numbers of channels, in the requested order."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise CannotMeasure(f"ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    if "did not keep up" in done.stderr:
        print(f"bench: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
    rates = []
    for job in json.loads(done.stdout)["jobs"]:
        part = job["write"] if job["write"]["total_ios"] else job["read"]
        cpu = sum(job["trunkline"].get(of) or 0 for of in ("server_cpu_ns", "client_cpu_ns")) / 1000 / part["total_ios"]
        rates.append((int(job["job options"]["channels"]), Sample(part["io_bytes"] / (part["runtime"] / 1000), cpu)))
    return rates


@dataclass(frozen=True)
class LoadTarget:
    """Our server and the credentials for its load. Behind a path {host} stands for the server."""

    server: servers.Server
    secret: str

    def target(self, protocol: str, file: str, host: str) -> str:
        place = f"{host}:{self.server.port}/{SHARE}/{DIRECTORY}/{file}"
        return f"nfs://{place}" if protocol == "NFS" else f"smb://{servers.accounts()[0][0]}@{place}"

    def loading(self, case: Case, channels: Sequence[int], seconds: float) -> list[str]:
        """Return the generator's command line, as diskspd's users call it."""
        flags = ["-W1", "-C0", f"-d{max(1, round(seconds))}", "-r", f"-w{100 if case.writes else 0}", f"-b{case.block}", f"-t{case.threads}",
                 f"-o{case.depth}", "-L"]
        return self._command([self.target("SMB", f"write{number}.dat", "{host}") for number in range(case.files)], channels, *flags)

    def unhindered(self, case: Case, channels: Sequence[int], seconds: float) -> list[str]:
        """Return the same for one file, without a path, and in short turns."""
        return self._command([self.target("SMB", "", "127.0.0.1")], channels, "--rw", "randwrite" if case.writes else "randread", "--bs",
                             str(case.block), "--iodepth", str(case.threads * case.depth), "--filesize", str(FILE_BYTES), "--ramp_time", "300ms",
                             "--runtime", f"{seconds * 250:.0f}ms")

    def clients(self, protocol: str, clients: int, connections: int, seconds: float) -> list[str]:
        """Return the command line for this many clients, each a session with a thread of its own, with 16 reads of 64
        KiB in flight each."""
        flags = ["-W1", "-C0", f"-d{max(1, round(seconds))}", "-r", f"-b{64 * KIB}", f"-t{clients}", "-o16", "-L"]
        return self._command([self.target(protocol, "write0.dat", "{host}")], [connections], *flags, "--connections", str(clients))

    def _command(self, targets: list[str], channels: Sequence[int], *more: str) -> list[str]:
        password = ["--password-file", self.secret] if targets[0].startswith("smb") else []
        return [servers.program(), "load", *targets, *more, "--channels", ",".join(map(str, channels)), *password, "--json", "--server-pid",
                str(self.server.pid)]


def _lay_out(server: servers.Server) -> None:
    """Create the files that the generator would create, but not over a slow path."""
    directory = server.share_directory(SHARE) / DIRECTORY
    directory.mkdir()
    directory.chmod(0o777)
    for number in range(FILES):
        file = directory / f"write{number}.dat"
        file.write_bytes(os.urandom(MIB) * (FILE_BYTES // MIB))
        file.chmod(0o666)


def _measure_capped(case: Case, place: LoadTarget, number: int, seconds: float) -> list[Round]:
    """Measure one connection that only the line limits, then one and four limited to a quarter of that. Returns the
    compared numbers as a list."""
    assert case.line is not None
    [(_, uncapped)] = _rates(case.line.behind(place.loading(case, [1], seconds)))
    order = (1, CHANNELS) if number % 2 == 0 else (CHANNELS, 1)
    quarter = case.line.bits(uncapped.rate / CHANNELS)
    return [{"uncapped": uncapped, **dict(_rates(case.line.behind(place.loading(case, order, seconds), quarter)))}]


def _measure_free(case: Case, place: LoadTarget, number: int, seconds: float) -> list[Round]:
    """Measure one connection and four, forward and back, so that a drift affects both. Returns the rates of each pair."""
    order = (1, CHANNELS, CHANNELS, 1) if number % 2 == 0 else (CHANNELS, 1, 1, CHANNELS)
    rates = _rates(place.unhindered(case, order * (TURNS // 2), seconds))
    return [dict(rates[at:at + 2]) for at in range(0, len(rates), 2)]


def _measure_fill(fill: Fill, place: LoadTarget, _: int, seconds: float) -> list[Round]:
    """Find the smallest number of clients that fill the line, by connections of each. One client measures the rate of
    the line."""
    [(_, full)] = _rates(ORDINARY.behind(place.clients(fill.protocol, 1, 1, seconds)))

    def fills(clients: int, connections: int) -> Any:
        flow = ORDINARY.mbit * 1e6 / CLIENTS
        [(_, rate)] = _rates(ORDINARY.behind(place.clients(fill.protocol, clients, connections, seconds), flow))
        return rate.rate >= FULL * full.rate

    counts = {connections: _least(lambda clients: fills(clients, connections), CLIENTS // connections) for connections in (1, CHANNELS)}
    return [{"line": full.rate, **counts}]


def _least(fills: Callable[[int], bool], guess: int) -> int:
    """Return the smallest number for which `fills` holds, which is near `guess`."""
    if fills(guess):
        while guess > 1 and fills(guess - 1):
            guess -= 1
        return guess
    while guess < 4 * CLIENTS:
        guess += 1
        if fills(guess):
            return guess
    raise CannotMeasure(f"{guess} clients do not fill the line")


def values(case: Case | Fill, rounds: list[Round]) -> Values:
    """Return the numbers of a case. Ratios are taken within a round."""
    if isinstance(case, Fill):
        return {f"{key}": spread.of(it[key] for it in rounds) for key in rounds[0]}
    found = {f"{key} rate": spread.of(it[key].rate for it in rounds) for key in rounds[0]}
    # Earlier versions of these scripts did not measure the processor.
    found |= {f"{key} cost": spread.of(it[key].cpu for it in rounds) for key in (1, CHANNELS) if rounds[0][key].cpu is not None}
    found["gain"] = spread.of(it[CHANNELS].rate / it[1].rate for it in rounds)
    base = "uncapped" if case.line else 1
    return found | {"ratio": spread.of(it[CHANNELS].rate / it[base].rate for it in rounds)}


def _tell(text: str, value: str, met: bool, wanted: str) -> str:
    return f"{value}{text}, wanted {wanted}: {'met' if met else '**not met**'}"


def _row(case: Case | Fill, of: Values) -> list[str]:
    """Return a case's columns behind its name."""
    if isinstance(case, Fill):
        counts = [of[f"{connections}"].median for connections in (1, CHANNELS)]
        return [f"{of['line'].median / MIB:,.0f} MiB/s", *(f"{count:g}" for count in counts),
                _tell(" clients instead of " + f"{counts[0]:g}", f"{counts[1]:g}", counts[1] <= FEW, f"≤ {FEW}")]
    columns = [*(["uncapped"] if case.line else []), 1, CHANNELS]
    rates = [f"{of[f'{key} rate'].median / MIB:,.{0 if case.threads > 1 else 1}f} MiB/s" for key in columns]
    cpu = " → ".join(f"{of[f'{key} cost'].median:,.1f}" for key in (1, CHANNELS)) if "1 cost" in of else "–"
    ratio, bound = of["ratio"], ENOUGH if case.line else NO_LOSS
    gain = [f"{of['gain'].median:.2f}"] if case.line else []
    return [*rates, cpu, *gain, _tell("", ratio.told(), ratio.median >= bound, f"≥ {bound:g}")]


Measure = Callable[[Any, LoadTarget, int, float], list[Round]]
MEASURES: list[tuple[Sequence[Case | Fill], Measure]] = [(SLOW_LINKS, _measure_capped), (UNHINDERED, _measure_free), (FILLS, _measure_fill)]
ALL = [case for cases, _ in MEASURES for case in cases]


def run(options: argparse.Namespace, is_chosen: Chooses, results: Part) -> bool:
    """Measure the chosen cases, print a line for each and add it to `results`. Returns whether no case is missing."""
    chosen = [(case, measure) for cases, measure in MEASURES for case in cases if is_chosen(case, results)]
    if not chosen:
        return True
    with contextlib.ExitStack() as stack:
        secret = stack.enter_context(tempfile.NamedTemporaryFile("w"))
        secret.write(servers.accounts()[0][1])
        secret.flush()
        places = {}
        for case, measure in chosen:
            profile = "nfs" if isinstance(case, Fill) and case.protocol == "NFS" else "bench"
            try:
                if profile not in places:
                    server = stack.enter_context(servers.Server("trunkline", profile, reachable=True))
                    _lay_out(server)
                    places[profile] = LoadTarget(server, secret.name)
                rounds = (measure(case, places[profile], number, options.seconds) for number in range(options.rounds))
                results.add(case.name, values(case, list(itertools.chain.from_iterable(rounds))))
            except (CannotMeasure, servers.CannotStart, OSError, ValueError, KeyError, ZeroDivisionError) as reason:
                print(f"seed, {case.name}: not measured: {reason}", file=sys.stderr)
                continue
            print(f"seed, {case.name}: {'; '.join(_row(case, results[case.name]))}", flush=True)
    return len(results.fresh) == len(chosen)


def _table(head: str, cases: Sequence[Case | Fill], results: Part) -> str:
    columns = head.count("|") - 2
    rows = []
    for case in cases:
        cells = _row(case, results[case.name]) if case.name in results else ["–"] * (columns - 1) + ["not measured"]
        shown = case.protocol if isinstance(case, Fill) else case.name
        rows.append(f"| {shown} | {' | '.join(cells)} |")
    return f"{head}\n{'|---' * (columns + 1)}|\n" + "\n".join(rows) + "\n"


def section(results: Part) -> str:
    """Return this section of the page."""
    return (
        "\n## What several connections are said to bring\n\nThe loads by which a cloud's users are told what Multichannel and nconnect "
        "bring, from one client process to Trunkline.\n"
        f"The path is emulated packet by packet (`trunkline link`): a round trip of {RTT.removesuffix('ms')} ms, {ORDINARY.mbit / 1000:g} "
        f"Gbit/s in packets of {ORDINARY.mtu:,} bytes; where\n"
        f"640 MiB are under way at once, {WIDE.mbit / 1000:g} Gbit/s in packets of {WIDE.mtu:,}. The first column is one connection that "
        f"only this line holds back; then\n"
        "each connection is held to a quarter of that by the path. All in one round; ratios are taken within it.\n"
        "CPU is that of server and generator together; in brackets are the least and the most of what a ratio came to.\n\n"
        f"    trunkline link --rtt {RTT} --rate {ORDINARY.mbit}Mbit --mtu {ORDINARY.mtu} [--flow-rate A-QUARTER] -- trunkline load "
        f"smb://USER@{{host}}:PORT/{SHARE}/{DIRECTORY}/FILE ... \\\n"
        f"        -W1 -C0 -d SECONDS -r -w 0|100 -b SIZE -t{THREADS} -o{DEPTH} -L --channels 1,4 --json\n\n"
        f"Many threads are `-r -t{THREADS} -o{DEPTH}` of diskspd, for each file: on {FILES} files {FILES * THREADS * DEPTH} operations are "
        f"under way, on one {THREADS * DEPTH}. Files have {_size(FILE_BYTES)},\n"
        "and stay in the page cache; writes do not wait for the disk (without `-Sh`), which would be all that is measured.\n\n"
        + _table("| load | one, uncapped | 1 channel | 4 channels | CPU µs/op, 1 → 4 channels | 4 over 1 | 4 over uncapped |", SLOW_LINKS, results)
        + "\nWhere there is nothing to gain, several channels are said to cost a tenth. Without any path and without caps, one channel and\n"
        "four forth and back:\n\n"
        + _table("| load | 1 channel | 4 channels | CPU µs/op, 1 → 4 channels | 4 over 1 |", UNHINDERED, results)
        + f"\nClients that fill a share: the line is what the whole share carries, and the path holds each connection to a {CLIENTS}th of it. A client is a\n"
        f"session with a thread of its own that reads 64 KiB at random, 16 at once. Full is {FULL:.0%} of what one connection carries that only the\n"
        "line holds back. Told of were 20 clients with one connection, and 6 or 7 with four.\n\n"
        + _table("| protocol | the line carries | clients, 1 connection each | clients, 4 each | |", FILLS, results)
    )
