"""The cost of the audit (docs/audit.md): the same opens and closes on two shares of one server, of which one reports all
its events to a file on disk. The shares take turns within each round.

An open and its close make two events. `at_rate` cases start 25,000 pairs a second, so 50,000 events, and lose none; the
others run as fast as the generator can. The loads are our own generator over SMB and NFS, and smbtorture's bench of opens
(torture_load.py), which others wrote. Start reading at `run`.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass

from proving.bench import loads, spread
from proving.bench.cases import DIRECTORY
from proving.bench.result_store import Chooses, Part
from proving.bench.spread import Values
from proving.harness import server as servers

# The share without an audit, and the audited one.
SHARES = ("t1", "t2")
PROFILES = {"smb": "audit", "nfs": "audit-nfs"}
NAMES, DEPTH = 1000, 32
# The number: this rate of events costs at most this much more for an operation. Fewer rounds prove nothing.
EVENTS_A_SECOND, MOST = 50_000, 1.15
EVENTS_OF_A_PAIR = 2
LEAST_ROUNDS = 9
# The time within which the last events of a load must be written.
WRITTEN_WITHIN_S = 10


@dataclass(frozen=True)
class Case:
    """`at_rate`: at EVENTS_A_SECOND, else as fast as it goes. `foreign`: smbtorture in place of our own generator."""

    name: str
    protocol: str
    at_rate: bool = False
    foreign: bool = False


CASES = [
    Case("SMB: open, close, 50,000 events a second", "smb", at_rate=True),
    Case("SMB: open, close", "smb"),
    Case("SMB, smbtorture: open, close", "smb", foreign=True),
    Case("NFS: open, close, 50,000 events a second", "nfs", at_rate=True),
    Case("NFS: open, close", "nfs"),
]


@dataclass(frozen=True)
class Sample:
    """One load: ns of the server's processor for an open and its close, pairs a second, events written and lost."""

    cost: float
    rate: float
    written: int
    lost: int


def _command(case: Case, server: servers.Server, share: str, secret: str, seconds: float) -> list[str]:
    user, password = servers.accounts()[0]
    if case.foreign:
        load = os.path.join(os.path.dirname(__file__), "torture_load.py")
        return [sys.executable, load, str(server.port), share, user, password, "open", str(seconds), str(DEPTH), "0"]
    where = f"127.0.0.1:{server.port}/{share}/{DIRECTORY}"
    target = [f"smb://{user}@{where}", "--password-file", secret, "--compound"] if case.protocol == "smb" else [f"nfs://{where}"]
    pace = ["--rate_iops", str(EVENTS_A_SECOND // EVENTS_OF_A_PAIR)] if case.at_rate else []
    return [servers.program(), "load", *target, "--json", "--server-pid", str(server.pid), "--metadata", "open", "--files", str(NAMES),
            "--iodepth", str(DEPTH), "--runtime", f"{seconds:g}", *pace]


def _events(server: servers.Server) -> tuple[int, int]:
    """Return the events that were written and lost so far."""
    state = server.directory / "server" / "state"
    said = subprocess.run([servers.program(), "status", "--json", "--state-dir", str(state)], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=True, timeout=20)
    audit = json.loads(said.stdout)["audit"]
    return int(audit["written"]), int(audit["lost"])


def _once(case: Case, server: servers.Server, share: str, secret: str, seconds: float) -> Sample:
    before = _events(server)
    ops, _, took, spent = loads.load(_command(case, server, share, secret, seconds), server)
    wanted = EVENTS_OF_A_PAIR * ops if share == SHARES[1] else 0
    until = time.monotonic() + WRITTEN_WITHIN_S
    while True:
        written, lost = (now - then for now, then in zip(_events(server), before, strict=True))
        if written + lost >= wanted:
            break
        if time.monotonic() > until:
            raise loads.CannotMeasure(f"{ops} opens and closes made only {written + lost} events")
        time.sleep(0.05)
    return Sample(spent * 1e9 / ops, ops / took, written, lost)


def measure(case: Case, server: servers.Server, secret: str, options: argparse.Namespace) -> list[tuple[Sample, Sample]]:
    """Measure one case `rounds` times, at least LEAST_ROUNDS. Returns (without, with) of each round."""
    for share in SHARES:  # The first load creates the names.
        _once(case, server, share, secret, 1)
    rounds = []
    for number in range(max(options.rounds, LEAST_ROUNDS)):
        # The first share of one round is the last of the next.
        order = SHARES if number % 2 == 0 else SHARES[::-1]
        seen = {share: _once(case, server, share, secret, options.seconds) for share in order}
        rounds.append((seen[SHARES[0]], seen[SHARES[1]]))
    return rounds


def values(rounds: list[tuple[Sample, Sample]]) -> Values:
    """Return the numbers of a case. Each ratio is taken within a round."""
    return {
        "off": spread.of(off.cost for off, _ in rounds),
        "on": spread.of(on.cost for _, on in rounds),
        "ratio": spread.of(on.cost / off.cost for off, on in rounds),
        "events": spread.of(on.rate * EVENTS_OF_A_PAIR for _, on in rounds),
        "lost": spread.of([sum(on.lost for _, on in rounds)]),
    }


def _row(case: Case, of: Values) -> list[str]:
    ratio, lost = of["ratio"], int(of["lost"].median)
    met = ratio.median <= MOST and lost == 0
    goal = f"≤ {MOST:g}: {'met' if met else '**not met**'}" if case.at_rate else "no goal"
    return [f"{of['off'].told(0)} ns", f"{of['on'].told(0)} ns", ratio.told(), f"{of['events'].median:,.0f}", str(lost), goal]


@contextlib.contextmanager
def _stream_on_disk() -> Iterator[None]:
    """Let the audit's stream go to a directory on disk. All else may lie in memory (memory.py)."""
    with tempfile.TemporaryDirectory(prefix="bench-audit-", dir="/var/tmp") as directory:
        os.environ["AUDIT_DIRECTORY"] = directory
        try:
            yield
        finally:
            del os.environ["AUDIT_DIRECTORY"]


def _measure(cases: list[Case], profile: str, options: argparse.Namespace, results: Part, secret: str) -> None:
    with _stream_on_disk(), servers.Server("trunkline", profile) as server:
        for share in SHARES:
            directory = server.share_directory(share) / DIRECTORY
            directory.mkdir()
            directory.chmod(0o777)
        for case in cases:
            try:
                of = results.add(case.name, values(measure(case, server, secret, options)))
            except (loads.CannotMeasure, subprocess.SubprocessError, OSError, ValueError, KeyError, IndexError, ZeroDivisionError) as reason:
                print(f"audit, {case.name}: not measured: {reason}", file=sys.stderr)
                continue
            print(f"audit, {case.name}: {'; '.join(_row(case, of))}", flush=True)


def run(options: argparse.Namespace, is_chosen: Chooses, results: Part) -> bool:
    """Measure the chosen cases, print a line for each and add it to `results`. Returns whether no case is missing."""
    chosen = [case for case in CASES if is_chosen(case, results)]
    with tempfile.NamedTemporaryFile("w") as secret:
        secret.write(servers.accounts()[0][1])
        secret.flush()
        for protocol, profile in PROFILES.items():
            cases = [case for case in chosen if case.protocol == protocol]
            try:
                if cases:
                    _measure(cases, profile, options, results, secret.name)
            except servers.CannotStart as reason:
                print(f"bench: audit: {reason}", file=sys.stderr)
                return False
    return len(results.fresh) == len(chosen)


def section(results: Part) -> str:
    """Return this section of the page."""
    rows = [f"| {case.name} | {' | '.join(_row(case, results[case.name]) if case.name in results else ['–'] * 5 + ['not measured'])} |" for case in CASES]
    return (
        "\n## The audit\n\nThe server's processor time for an open and its close on two shares of one server, one with `audit = \"all\"` "
        "([how it works](audit.md)), in turns\nwithin each round. Each pair makes two events, which go to a file on disk.\n\n"
        "| case | off | on | ratio | events for a second | lost | |\n" + "|---" * 7 + "|\n" + "\n".join(rows) + "\n"
    )
