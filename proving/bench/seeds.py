"""The tables that users of a cloud's file shares go by, on an emulated path that slows each connection down for itself.

They say what Multichannel and nconnect bring: many threads on many files, many threads on one file, one thread, and how
many clients fill a share. The path is emulated packet by packet (`trunkline link`, which needs root) where a connection's
rate matters; what must not become slower is measured without any path, where it would show most. Only our own server and
generator are measured here. Start reading at `run`.
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
from proving.bench.kept import Chooses, Part
from proving.bench.spread import Values
from proving.harness import server as servers

KIB, MIB = 1 << 10, 1 << 20
CHANNELS = 4
# Files as large as the page cache of a small machine takes them; the tables' own are 2 GiB, and 128 GiB where there is one.
FILES, FILE_BYTES = 10, 32 * MIB
THREADS, DEPTH = 8, 8
RTT = "1ms"
# What four connections reach of one that nothing holds back, and several channels of one where they bring nothing. What
# differs by less than the latter leaves differs between two runs of the same.
ENOUGH, NO_LOSS = 0.9, 0.98
# Pairs of turns in each round where nothing is capped: the machine drifts by more than what is decided on.
TURNS = 8
# Clients whose connections fill the line together when each has one, and how many of them with four each are few.
CLIENTS, FEW = 20, 7
# From this part of the line's rate on it is full.
FULL = 0.95


class CannotMeasure(Exception):
    """The load or the link failed; the message is theirs."""


@dataclass(frozen=True)
class EmulatedPath:
    """An emulated path: its rate, and the bytes of a packet. What the forwarder does not keep up with is no path."""

    mbit: int
    mtu: int

    def behind(self, command: list[str], flow_bits: float | None = None) -> list[str]:
        """The command line that runs `command` behind the path, where each connection carries so many bits in a second."""
        flow = ["--flow-rate", f"{flow_bits:.0f}bit"] if flow_bits else []
        return [servers.program(), "link", "--rtt", RTT, "--rate", f"{self.mbit}Mbit", "--mtu", str(self.mtu), *flow, "--",
                *network.setting(command)]

    def bits(self, rate: float) -> float:
        """What `rate`, bytes of payload in a second, takes of the path: IP and TCP with time stamps have 52 bytes in each packet."""
        return rate * 8 * self.mtu / (self.mtu - 52)


ORDINARY = EmulatedPath(1000, 9000)
# 640 MiB are under way at once: on the ordinary line that is more than the time that is measured.
WIDE = EmulatedPath(4000, 65520)


@dataclass(frozen=True)
class Sample:
    """Bytes for a second, and µs of the server's and the generator's processor for an operation."""

    rate: float
    cpu: float


@dataclass(frozen=True)
class Case:
    """`files`, each with `threads` of `depth`; at random. Over a path each connection is held to a quarter; without one nothing is."""

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
    """How many clients fill a line, each with one connection and each with four."""

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


# By channels or `uncapped` a Sample; of a line that clients fill the line's rate, and their numbers by the connections of each.
Round = dict[Any, Any]


def _rates(command: list[str], **more: Any) -> list[tuple[int, Sample]]:
    """Runs a load; gives for each of its numbers of channels, in the order in which they were asked for, a Sample."""
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
    """A server of ours, and who loads it. Behind a path {host} stands for it."""

    server: servers.Server
    secret: str

    def target(self, protocol: str, file: str, host: str) -> str:
        place = f"{host}:{self.server.port}/{SHARE}/{DIRECTORY}/{file}"
        return f"nfs://{place}" if protocol == "NFS" else f"smb://{servers.accounts()[0][0]}@{place}"

    def loading(self, case: Case, channels: Sequence[int], seconds: float) -> list[str]:
        """The generator as diskspd's users call it."""
        flags = ["-W1", "-C0", f"-d{max(1, round(seconds))}", "-r", f"-w{100 if case.writes else 0}", f"-b{case.block}", f"-t{case.threads}",
                 f"-o{case.depth}", "-L"]
        return self._command([self.target("SMB", f"write{number}.dat", "{host}") for number in range(case.files)], channels, *flags)

    def unhindered(self, case: Case, channels: Sequence[int], seconds: float) -> list[str]:
        """The same on one file, without a path, and in short turns."""
        return self._command([self.target("SMB", "", "127.0.0.1")], channels, "--rw", "randwrite" if case.writes else "randread", "--bs",
                             str(case.block), "--iodepth", str(case.threads * case.depth), "--filesize", str(FILE_BYTES), "--ramp_time", "300ms",
                             "--runtime", f"{seconds * 250:.0f}ms")

    def clients(self, protocol: str, clients: int, connections: int, seconds: float) -> list[str]:
        """So many clients, each a session with a thread of its own; 16 reads of 64 KiB under way for each."""
        flags = ["-W1", "-C0", f"-d{max(1, round(seconds))}", "-r", f"-b{64 * KIB}", f"-t{clients}", "-o16", "-L"]
        return self._command([self.target(protocol, "write0.dat", "{host}")], [connections], *flags, "--connections", str(clients))

    def _command(self, targets: list[str], channels: Sequence[int], *more: str) -> list[str]:
        password = ["--password-file", self.secret] if targets[0].startswith("smb") else []
        return [servers.program(), "load", *targets, *more, "--channels", ",".join(map(str, channels)), *password, "--json", "--server-pid",
                str(self.server.pid)]


def _lay_out(server: servers.Server) -> None:
    """The files, as the generator would make them, but not over a slow path."""
    directory = server.share_directory(SHARE) / DIRECTORY
    directory.mkdir()
    directory.chmod(0o777)
    for number in range(FILES):
        file = directory / f"write{number}.dat"
        file.write_bytes(os.urandom(MIB) * (FILE_BYTES // MIB))
        file.chmod(0o666)


def _measure_capped(case: Case, place: LoadTarget, number: int, seconds: float) -> list[Round]:
    """One connection that nothing but the line holds back, then one and four held to a quarter of that; gives what is compared, as a list."""
    assert case.line is not None
    [(_, uncapped)] = _rates(case.line.behind(place.loading(case, [1], seconds)))
    order = (1, CHANNELS) if number % 2 == 0 else (CHANNELS, 1)
    quarter = case.line.bits(uncapped.rate / CHANNELS)
    return [{"uncapped": uncapped, **dict(_rates(case.line.behind(place.loading(case, order, seconds), quarter)))}]


def _measure_free(case: Case, place: LoadTarget, number: int, seconds: float) -> list[Round]:
    """One connection and four, forth and back, so that what drifts meets both; gives the rates of each pair."""
    order = (1, CHANNELS, CHANNELS, 1) if number % 2 == 0 else (CHANNELS, 1, 1, CHANNELS)
    rates = _rates(place.unhindered(case, order * (TURNS // 2), seconds))
    return [dict(rates[at:at + 2]) for at in range(0, len(rates), 2)]


def _measure_fill(fill: Fill, place: LoadTarget, _: int, seconds: float) -> list[Round]:
    """The least number of clients that fill the line, by connections of each; what the line carries is measured with one client."""
    [(_, full)] = _rates(ORDINARY.behind(place.clients(fill.protocol, 1, 1, seconds)))

    def fills(clients: int, connections: int) -> Any:
        flow = ORDINARY.mbit * 1e6 / CLIENTS
        [(_, rate)] = _rates(ORDINARY.behind(place.clients(fill.protocol, clients, connections, seconds), flow))
        return rate.rate >= FULL * full.rate

    counts = {connections: _least(lambda clients: fills(clients, connections), CLIENTS // connections) for connections in (1, CHANNELS)}
    return [{"line": full.rate, **counts}]


def _least(fills: Callable[[int], bool], guess: int) -> int:
    """The least number for which `fills` holds, which is near `guess`."""
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
    """The numbers of a case; ratios are taken within a round."""
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
    """A case's columns behind its name."""
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
    """Measures what is chosen, says it line by line and adds it to `results`; gives whether nothing is missing."""
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
    """The part of the page."""
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
