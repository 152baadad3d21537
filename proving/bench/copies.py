"""Copies over a long path: `trunkline copy` compared with a single connection, smbclient and rclone.

The path is emulated packet by packet (`trunkline link`): a round trip of 23 ms, a rate for each connection, and a line
that carries four of them. Both servers stand behind it. Every method of copying takes its turn in every round, into a
directory of its own. Small files stay until the end: where files cannot lie in memory (memory.py), ext4 without a
journal creates them slowly after others have been deleted. Start reading at `run`.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proving.bench import network, spread
from proving.bench.cases import SHARE
from proving.bench.result_store import Chooses, Part
from proving.bench.spread import Values
from proving.harness import server as servers

KINDS = servers.KINDS
RTT, FLOW_MBIT, FLOWS = "23ms", 140, 4
LINE_MBIT = FLOW_MBIT * FLOWS
# The part of a packet of 1,500 bytes that remains behind the headers of IP and TCP with its time stamps.
PAYLOAD = 1448 / 1500
LARGE_BYTES = 1_000_000_000
FILES, FILE_BYTES = 1_000, 4096
# smbclient takes minutes for all files. It copies this many, and their time beyond the log-on is scaled to all of them.
FILES_OF_SMBCLIENT = 100
TRANSFERS = 32
# A large copy over one connection takes a minute.
ROUNDS_OF_LARGE = 3
# The goals: the gain over one connection, the used part of the line's rate, and the speed relative to the other
# programs.
GAIN, REACHED, OVER_SMBCLIENT, OVER_RCLONE = 3.5, 0.9, 100, 10


@dataclass(frozen=True)
class Case:
    """`is_large` means one large file, otherwise many small ones. `kind` is the server. The copy goes to it, or comes
    from it if `is_back`."""

    name: str
    is_large: bool
    kind: str
    is_back: bool = False


CASES = [
    *(Case(f"1 GB to {kind}", True, kind) for kind in KINDS),
    *(Case(f"1 GB from {kind}", True, kind, is_back=True) for kind in KINDS),
    *(Case(f"1,000 files of 4 KiB to {kind}", False, kind) for kind in KINDS),
]


# The elapsed and the processor seconds of a copy, and those of a round by method.
Seconds = tuple[float, float]
Took = dict[str, Seconds]


class CannotCopy(Exception):
    """A command failed, or not all files arrived."""


@dataclass(frozen=True)
class CopyTarget:
    """The target of one copy: a directory of a share behind the link, with a new name for each copy, and the user."""

    server: servers.Server
    name: str
    user: str
    password: str
    secret: str

    @property
    def directory(self) -> Path:
        return self.server.share_directory(SHARE) / self.name

    def url(self) -> str:
        return f"smb://{self.user}@{{host}}:{self.server.port}/{SHARE}/{self.name}"


def _behind(command: list[str]) -> Any:
    """Run a command behind the link. Returns the report of timed.py."""
    link = [servers.program(), "link", "--rtt", RTT, "--flow-rate", f"{FLOW_MBIT}Mbit", "--rate", f"{LINE_MBIT}Mbit",
            "--congestion-control", network.CONGESTION_CONTROL, "--"]
    timed = [sys.executable, str(Path(__file__).with_name("timed.py"))]
    done = subprocess.run([*link, *timed, *command], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise CannotCopy(f"the link ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def _timed(command: list[str], statuses: Sequence[int] = (0,)) -> Seconds:
    """Return the elapsed and processor seconds of a command behind the link. It must end with one of `statuses`."""
    said = _behind(command)
    if said["status"] not in statuses:
        raise CannotCopy(f"{Path(command[0]).name} ended with {said['status']}: {(said['errors'] or said['output']).strip()[-400:]}")
    return said["seconds"], said["cpu"]


def _copy(destination: CopyTarget, source: Path, *more: str, back: bool = False) -> Seconds:
    """Copy from a directory of this host to a target, or back from there."""
    ends = (str(source), destination.url())
    # robocopy's status for a run that only copied files.
    return _timed([servers.program(), "copy", *(reversed(ends) if back else ends), "--password-file", destination.secret, "--json", *more], statuses=(1,))


def _copy_back(destination: CopyTarget, source: Path, *more: str) -> Seconds:
    """Copy the files that are already there back. The files are in both directories in the end, and those of the target
    are counted."""
    shutil.copytree(source, destination.directory)
    with tempfile.TemporaryDirectory(prefix="copies-back-") as target:
        took = _copy(destination, Path(target), *more, back=True)
        sizes = [path.stat().st_size for path in Path(target).rglob("*") if path.is_file()]
    if sizes != [LARGE_BYTES]:
        raise CannotCopy(f"the files that came back have {sizes} bytes")
    return took


def _rclone(destination: CopyTarget, source: Path) -> Seconds:
    hidden = subprocess.run(["rclone", "obscure", destination.password], check=True, capture_output=True, text=True).stdout.strip()
    remote = f":smb,host={{host}},port={destination.server.port},user={destination.user},pass={hidden}:{SHARE}/{destination.name}"
    return _timed(["rclone", "--config", os.devnull, "copy", str(source), remote, "--transfers", str(TRANSFERS)])


def _smbclient(destination: CopyTarget, script: str) -> Seconds:
    share, who = f"//{{host}}/{SHARE}", f"{destination.user}%{destination.password}"
    return _timed(["smbclient", share, "-p", str(destination.server.port), "-U", who, "-m", "SMB3", "-c", script])


def _mput(destination: CopyTarget, source: Path) -> Seconds:
    """Time the log-on alone, and a copy of some of the files, scaled to all of them."""
    fixed = _smbclient(destination, f"mkdir {destination.name}")
    several = _smbclient(destination, f"prompt off; lcd {source}; cd {destination.name}; mput *")
    time, cpu = (one + (all_of - one) * FILES / FILES_OF_SMBCLIENT for one, all_of in zip(fixed, several, strict=True))
    return time, cpu


def _arrived(destination: CopyTarget, files: int, size: int) -> None:
    """Count the files that arrived. A large file is removed."""
    there = [path for path in destination.directory.rglob("*") if path.is_file()]
    wrong = [path.name for path in there if path.stat().st_size != size]
    if files == 1:
        shutil.rmtree(destination.directory, ignore_errors=True)
    if len(there) != files or wrong:
        raise CannotCopy(f"{len(there)} of {files} files arrived, {len(wrong)} of them with another size")


class Sources:
    """The source files: a directory for each case, created once."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def large(self) -> Path:
        def fill(directory: Path) -> None:
            with (directory / "large").open("wb") as file:
                for _ in range(LARGE_BYTES // 10_000_000):
                    file.write(os.urandom(10_000_000))
        return self._made("large", fill)

    def small(self, count: int) -> Path:
        def fill(directory: Path) -> None:
            for number in range(count):
                (directory / f"file-{number:04}").write_bytes(os.urandom(FILE_BYTES))
        return self._made(f"small-{count}", fill)

    def _made(self, name: str, fill: Callable[[Path], None]) -> Path:
        directory = self._root / name
        if not directory.exists():
            directory.mkdir()
            fill(directory)
        return directory


def _ways(case: Case, sources: Sources) -> dict[str, tuple[Callable[[CopyTarget], Seconds], int, int]]:
    """Return name -> (a function that copies to a target and returns the elapsed and processor seconds, the number of
    files that arrive, the size of each)."""
    if case.is_large:
        source, copy = sources.large(), _copy_back if case.is_back else _copy
        return {
            "automatic": (lambda destination: copy(destination, source), 1, LARGE_BYTES),
            "one": (lambda destination: copy(destination, source, "--channels", "1"), 1, LARGE_BYTES),
        }
    source, some = sources.small(FILES), sources.small(FILES_OF_SMBCLIENT)
    ways = {
        "copy": (lambda destination: _copy(destination, source), FILES, FILE_BYTES),
        "smbclient": (lambda destination: _mput(destination, some), FILES_OF_SMBCLIENT, FILE_BYTES),
    }
    if shutil.which("rclone"):
        ways["rclone"] = (lambda destination: _rclone(destination, source), FILES, FILE_BYTES)
    return ways


def measure(case: Case, server: servers.Server, secret: str, sources: Sources, options: argparse.Namespace) -> list[Took]:
    """Measure one case. Returns for each round method -> elapsed and processor seconds."""
    user, password = servers.accounts()[0]
    ways = list(_ways(case, sources).items())
    rounds = []
    for number in range(min(options.rounds, ROUNDS_OF_LARGE) if case.is_large else options.rounds):
        took = {}
        first = number % len(ways)
        for name, (copy, files, size) in ways[first:] + ways[:first]:
            destination = CopyTarget(server, f"copy-{case.is_large}-{case.is_back}-{number}-{name}", user, password, secret)
            took[name] = copy(destination)
            _arrived(destination, files, size)
        rounds.append(took)
    return rounds


# The goals of large copies and of small ones: text, the ratio of a round, and the wanted value.
LINE_BYTES = LINE_MBIT * 1e6 / 8 * PAYLOAD
WANTED: dict[bool, list[tuple[str, Callable[[Took], float], float]]] = {
    True: [
        ("times one connection", lambda it: it["one"][0] / it["automatic"][0], GAIN),
        ("of what the line carries", lambda it: LARGE_BYTES / it["automatic"][0] / LINE_BYTES, REACHED),
    ],
    False: [
        ("times smbclient", lambda it: it["smbclient"][0] / it["copy"][0], OVER_SMBCLIENT),
        ("times rclone", lambda it: it["rclone"][0] / it["copy"][0], OVER_RCLONE),
    ],
}


def values(case: Case, rounds: list[Took]) -> Values:
    """Return the numbers of a case: elapsed and processor seconds of each method, and those of its goals."""
    found: Values = {}
    for name in rounds[0]:
        times, of_processor = ([took[name][part] for took in rounds] for part in (0, 1))
        found[f"{name} seconds"] = spread.of(times)
        # Earlier versions of these scripts did not measure the processor.
        if all(of_processor):
            found[f"{name} cpu"] = spread.of(of_processor)
    return found | {text: spread.of(map(of, rounds)) for text, of, _ in WANTED[case.is_large] if "rclone" not in text or "rclone" in rounds[0]}


def _tell(case: Case, of: Values) -> str:
    texts = []
    for text, _, bound in WANTED[case.is_large]:
        if text not in of:
            continue
        value = of[text].median
        shown = f"{value:.0f}" if value >= 20 else f"{value:.2f}"
        texts.append(f"{shown} {text}, wanted ≥ {bound:g}: {'met' if value >= bound else '**not met**'}")
    return "; ".join(texts)


def _columns(of: Values, names: Sequence[str]) -> list[str]:
    """Return medians, each with the quickest and the slowest round, and the processor seconds."""
    shown = []
    for name in names:
        took = of.get(f"{name} seconds")
        cpu = f", {of[f'{name} cpu'].median:.1f} s CPU" if f"{name} cpu" in of else ""
        shown.append(f"{took.told(2 if took.least < 10 else 1)} s{cpu}" if took else "–")
    return shown


WAYS = {True: ("automatic", "one"), False: ("copy", "rclone", "smbclient")}


def run(options: argparse.Namespace, is_chosen: Chooses, results: Part) -> bool:
    """Measure the chosen cases, print a line for each and add it to `results`. Returns whether no case is missing."""
    cases = [case for case in CASES if is_chosen(case, results)]
    if not cases:
        return True
    with contextlib.ExitStack() as stack:
        running = {}
        try:
            for kind in KINDS:
                running[kind] = stack.enter_context(servers.Server(kind, "bench", reachable=True))
        except servers.CannotStart as reason:
            print(f"bench: copy: {reason}", file=sys.stderr)
            return False
        secret = stack.enter_context(tempfile.NamedTemporaryFile("w"))
        secret.write(servers.accounts()[0][1])
        secret.flush()
        sources = Sources(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="copies-"))))
        for case in cases:
            try:
                of = results.add(case.name, values(case, measure(case, running[case.kind], secret.name, sources, options)))
            except (CannotCopy, subprocess.CalledProcessError, OSError, ValueError, KeyError) as reason:
                print(f"copy, {case.name}: not measured: {reason}", file=sys.stderr)
                continue
            named = zip(WAYS[case.is_large], _columns(of, WAYS[case.is_large]), strict=True)
            print(f"copy, {case.name}: {'; '.join(f'{name} {text}' for name, text in named)}; {_tell(case, of)}", flush=True)
    return len(results.fresh) == len(cases)


def _rows(results: Part, is_large: bool) -> str:
    rows = []
    for case in CASES:
        if case.is_large == is_large:
            of = results.get(case.name)
            cells = [*_columns(of, WAYS[is_large]), _tell(case, of)] if of else ["–"] * len(WAYS[is_large]) + ["not measured"]
            rows.append(f"| {case.name} | {' | '.join(cells)} |")
    return "\n".join(rows)


def section(results: Part) -> str:
    """Return this section of the page."""
    rclone = "is not installed"
    if shutil.which("rclone"):
        rclone = subprocess.run(["rclone", "version"], capture_output=True, text=True).stdout.partition("\n")[0].removeprefix("rclone ")
    return (
        f"\n## Copies over a long path\n\nThe path is emulated packet by packet: a round trip of {RTT.removesuffix('ms')} ms, {FLOW_MBIT} "
        f"Mbit/s for each connection, and a line of\n"
        f"{LINE_MBIT} Mbit/s, which {FLOWS} connections fill; of each packet of 1,500 bytes 1,448 are payload. Seconds are those of the whole command,\n"
        "with connecting and logging on; medians, with the quickest and the slowest round; CPU is the copying command's. Everything that\n"
        "copies takes its turn in each round, and ratios are taken within it.\n\n"
        f"    trunkline link --rtt {RTT} --flow-rate {FLOW_MBIT}Mbit --rate {LINE_MBIT}Mbit --congestion-control {network.CONGESTION_CONTROL} -- COMMAND\n\n"
        f"One file of 1 GB (10⁹ bytes), {ROUNDS_OF_LARGE} rounds at most: `trunkline copy SRC smb://...`, or back with both the other way round, with as many\n"
        "connections as it chooses by itself, and with `--channels 1`.\n\n"
        "| case | automatic | one connection | |\n" + "|---" * 4 + "|\n" + _rows(results, True) + "\n\n"
        f"{FILES:,} files of {FILE_BYTES >> 10} KiB: `trunkline copy SRC smb://...`; `rclone copy SRC :smb,...: --transfers {TRANSFERS}` "
        f"({rclone}); smbclient with\n"
        f"`prompt off; mput *`, which takes minutes: {FILES_OF_SMBCLIENT} files are measured, and what they take beyond logging on is scaled to {FILES:,}.\n\n"
        "| case | trunkline copy | rclone | smbclient | |\n" + "|---" * 5 + "|\n" + _rows(results, False) + "\n"
    )
