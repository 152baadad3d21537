#!/usr/bin/env python3
"""Everything that CI runs: the checks, the release build, then every foreign suite against the server that was built.

The release build runs beside the checks and the test programs. Suites run in lanes beside each other, since most of their time goes by
in waits for clocks and in guests that boot; what one says is shown when it is over. The lints take the processor time that the lanes
leave. Suites that hold the server against a clock run alone.

It ends with one table, what failed, and the line `N passed, N failed, N skipped`; the exit status is 1 when anything failed. The table has the
time that each stage took, and that of the processors. A check counts as one case, `cargo test` with each of its tests; a suite
writes its counts to TALLY_FILE (proving/harness/tally.py). Every stage has a limit of its own and all of them together have
`BUDGET_S`: a stage that is cut off counts as failed.
"""

import concurrent.futures
import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

# Name, command, and the longest it may take in seconds.
CHECKS = [
    ("format", ["cargo", "fmt", "--all", "--check"], 120),
    ("documents", ["scripts/documents.py"], 60),
    ("python", ["scripts/lint.py"], 600),
    ("dependencies", ["scripts/dependencies"], 300),
]
# They run beside the suites, which go first wherever both want the processor.
LINTS = [
    ("lints", ["nice", "-n", "19", "cargo", "clippy", "-q", "--workspace", "--all-targets", "--", "-D", "warnings"], 1500),
    ("documentation", ["nice", "-n", "19", "env", "RUSTDOCFLAGS=-Dwarnings", "cargo", "doc", "-q", "--workspace", "--no-deps", "--all-features",
                       "--document-private-items"], 900),
]
# Builds the test programs; with `LIST` behind it, says in JSON what they are. The features of dependencies follow from the packages
# that are selected: for fewer of them than all, most crates would be compiled once more.
BUILD_TESTS = ("test build", ["cargo", "test", "--workspace", "--no-run"], 2400)
# Builds what the tests and checks run, of the same crates.
BUILD_PROGRAMS = ("programs", ["cargo", "build", "-q", "--workspace", "--bin", "trunkline", "--bin", "xtask", "--example", "manual"], 600)
RULES = ("rules", ["{target}/debug/xtask", "all"], 300)
LIST = ["-q", "--message-format=json"]
DOC_TESTS = ["cargo", "test", "--workspace", "--doc", "--no-fail-fast"]
# The longest that one test program may take, and how many run at a time: each waits for most of its time.
TEST_LIMIT_S = 900
TESTS_AT_ONCE = 4
BUILD = ("release build", ["cargo", "build", "--release", "-p", "trunkline"], 2400)
# Before the lints, since it calls cargo, and one call of cargo waits for another.
PACKAGES = ("packages", ["proving/packages/run.py"], 600)
# Each lane from its first to its last, all of them at the same time. They take about as long as each other.
LANES = [
    [
        ("peers", ["proving/peers/run.py"], 1200),
        ("accounts", ["proving/peers/accounts.py"], 300),
        ("kerberos", ["proving/kerberos/run.py"], 180),
        ("kerberos-client", ["proving/kerberos/client.py"], 240),
        ("nfs-connections", ["proving/nfs_connections/run.py"], 600),
        ("domain", ["proving/kerberos/domain.py"], 300),
        ("crowd", ["proving/kerberos/crowd.py", "--logons", "100"], 180),
        ("trust", ["proving/kerberos/trust.py"], 120),
        ("image", ["proving/image/run.py"], 120),
        ("admin-page", ["proving/admin_page/run.py"], 300),
        ("metrics", ["proving/metrics/run.py"], 180),
        ("pynfs", ["proving/pynfs/run.py"], 1500),
    ],
    [
        ("smbtorture", ["proving/smbtorture/run.py", "--out", "{target}/smbtorture.json"], 1500),
        ("kernel-client-nfs", ["proving/kernel_client/nfs.py", "--mount", "4.1-nconnect1", "--mount", "4.2-nconnect16"], 600),
        ("tenure-store", ["proving/cluster/tenure_store.py"], 240),
        ("cluster", ["proving/cluster/run.py", "--short"], 300),
        ("kernel-rights", ["proving/kernel_client/rights.py"], 600),
    ],
    [
        ("kernel-client", ["proving/kernel_client/run.py"], 1200),
        ("kernel-channels", ["proving/kernel_client/multichannel.py"], 600),
        ("kernel-nconnect", ["proving/kernel_client/nconnect.py"], 600),
        ("kernel-client-nfs-handles", ["proving/kernel_client/nfs_handles.py"], 600),
        ("kernel-client-nfs-exports", ["proving/kernel_client/nfs_exports.py"], 300),
        ("kernel-client 6.12", ["proving/kernel_client/run.py", "--kernel", "6.12", "--mount", "3.1.1-signed-posix"], 300),
        ("kernel-client-nfs 6.12", ["proving/kernel_client/nfs.py", "--kernel", "6.12", "--mount", "4.1-nconnect4"], 300),
    ],
    [
        ("soak", ["proving/soak/run.py", "--twentieth"], 1500),
        ("kernel-recycle", ["proving/kernel_client/recycle.py"], 120),
        ("kernel-kills krb5i", ["proving/kernel_client/kills.py", "--kernel", "6.12", "--sec", "krb5i", "--kills", "1"], 120),
        ("kernel-kerberos", ["proving/kernel_client/kerberos.py"], 300),
    ],
]
ALONE = [
    ("strangers", ["proving/strangers/run.py"], 180),
    ("kernel-doctor", ["proving/kernel_client/doctor.py"], 300),
    ("doctor", ["proving/doctor/faults.py", "--short"], 180),
    ("footprint", ["proving/footprint/run.py"], 120),
]
INSTALL = ("foreign peers", ["scripts/foreign"], 900)
# All stages together. Whoever runs this as a job has a limit too, and a table that says what was cut off beats none.
BUDGET_S = 56 * 60
# A crate registry that does not answer at once is asked again. What would let a later build begin in the middle is not kept: it
# takes a third of the room, and a run from a clean checkout never uses it.
ENVIRONMENT = dict(os.environ, CARGO_NET_RETRY="5", CARGO_TERM_COLOR="never", CARGO_INCREMENTAL="0", TEST_RUN=str(os.getpid()))
# What each process has in its environment that a command of this run has started.
MARK = f"TEST_RUN={os.getpid()}".encode()
# What the checks, cargo and the suites begin a line with that says what failed.
FAILURE = re.compile(r"FAIL |LEFT |test .* FAILED$|error[:\[]|Diff in |=== not |\S+\.(py|rs|md):\d+:")
# Such lines of one stage that are shown again at the end, and how much of each.
MOST_FAILURES = 10
MOST_COLUMNS = 200


class Row:
    """One line of the table."""

    def __init__(self, name: str, passed: int = 0, failed: int = 0, skipped: int = 0, seconds: float = 0.0, processor: float = 0.0, output: str = "") -> None:
        self.name, self.passed, self.failed, self.skipped = name, passed, failed, skipped
        self.seconds, self.processor = seconds, processor
        self.failures = [line for line in output.splitlines() if FAILURE.match(line)]
        # What the suite says beside its counts.
        self.remark = ""


def target() -> Path:
    """Where cargo builds."""
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")


class Done(NamedTuple):
    """A command that is over."""

    status: int
    output: str
    # Seconds of processor time, of its children too.
    processor: float = 0.0


class Runner:
    """Runs commands with time limits, below one budget for all of them."""

    def __init__(self, budget_s: float) -> None:
        self._end = time.monotonic() + budget_s
        self._output = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()

    def run(self, command: list[str], limit_s: float, environment: dict[str, str] | None = None, at_once: bool = True, cwd: Path = ROOT) -> Done:
        """Run a command and show its output, at once or when it is over. Nothing in its process group outlives the limit."""
        line = " ".join(command)
        self._show(f"\n=== {line}\n" if at_once else f"=== begun: {line}\n")
        done = self._run(command, limit_s, environment, self._show if at_once else None, cwd)
        if not at_once:
            self._show(f"\n=== {line}\n{done.output}")
        return done

    def ask(self, command: list[str], limit_s: float) -> Done:
        """Run a command whose output is for this program alone."""
        return self._run(command, limit_s, None, None, ROOT)

    def stop(self) -> None:
        """End what runs, and begin nothing more."""
        self._end = 0
        for process in list(self._running):
            _end(process)

    def _show(self, text: str) -> None:
        with self._output:
            sys.stdout.write(text)
            sys.stdout.flush()

    def _run(self, command: list[str], limit_s: float, environment: dict[str, str] | None, show: Callable[[str], None] | None, cwd: Path) -> Done:
        limit_s = min(limit_s, self._end - time.monotonic())
        lines = []

        def say(line: str) -> None:
            lines.append(line)
            if show:
                show(line)

        def read(stream: Iterable[str]) -> None:
            for line in stream:
                say(line)

        if limit_s <= 0:
            say(f"=== not begun: the {BUDGET_S} s for everything are over\n")
            return Done(124, "".join(lines))
        try:
            process = subprocess.Popen(command, cwd=cwd, env=environment or ENVIRONMENT, stdin=subprocess.DEVNULL,
                                       start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       text=True, errors="replace")
        except OSError as reason:
            say(f"=== cannot be run: {reason}\n")
            return Done(127, "".join(lines))
        reader = threading.Thread(target=read, args=(process.stdout,), daemon=True)
        reader.start()
        self._running.add(process)
        processor = _processor_when_over(process, limit_s)
        if processor is None:
            _end(process)
            say(f"=== not over after {limit_s:.0f} s\n")
        status = 124 if processor is None else process.wait()
        self._running.discard(process)
        reader.join(timeout=10)
        return Done(status, "".join(lines), processor or 0.0)


def _processor_when_over(process: subprocess.Popen[str], limit_s: float) -> float | None:
    """Wait for a process; gives the seconds of processor time that it and its children took, or None when it is not over in time.
    Only one that nobody has waited for yet still tells them (proc(5): utime, stime, cutime and cstime)."""
    end = time.monotonic() + limit_s
    try:
        while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            if time.monotonic() > end:
                return None
            time.sleep(0.05)
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None  # an interrupt has ended it
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _end(process: subprocess.Popen[str]) -> None:
    """First a chance to stop its servers, then the end."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(timeout=30)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


@contextlib.contextmanager
def beside_each_other(runner: Runner, count: int) -> Iterator[concurrent.futures.ThreadPoolExecutor]:
    """A pool of threads that run commands; an interrupt ends the commands, for which the pool would wait."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        try:
            yield pool
        except KeyboardInterrupt:
            runner.stop()
            raise


def check(runner: Runner, name: str, command: list[str], limit_s: float, at_once: bool = True) -> Row:
    began = time.monotonic()
    done = runner.run([word.format(target=target()) for word in command], limit_s, at_once=at_once)
    failed = done.status != 0
    # A check that lacks a program says so and goes on.
    lacking = not failed and re.search(r"^SKIPPED ", done.output, re.MULTILINE) is not None
    return Row(name, int(not failed and not lacking), int(failed), int(lacking), time.monotonic() - began, done.processor, done.output)


class TestProgram(NamedTuple):
    """A test program that is built."""

    # Cargo's target, such as "test simulation".
    name: str
    program: str
    # The folder of its package, which is where cargo, too, runs it.
    folder: Path


def test_programs(runner: Runner) -> list[TestProgram]:
    """The test programs that are built."""
    listed = runner.ask([*BUILD_TESTS[1], *LIST], BUILD_TESTS[2])
    programs = []
    for line in listed.output.splitlines() if listed.status == 0 else []:
        built = json.loads(line) if line.startswith("{") else {}
        if built.get("profile", {}).get("test") and built.get("executable"):
            name = f"{built['target']['kind'][0]} {built['target']['name']}"
            programs.append(TestProgram(name, built["executable"], Path(built["manifest_path"]).parent))
    # The largest have the most to do, and whoever begins last keeps the others waiting.
    return sorted(programs, key=lambda test: os.path.getsize(test.program), reverse=True)


def counts_of(status: int, output: str) -> tuple[int, int, int]:
    """What a test program says of its tests: (passed, failed, skipped)."""
    counts = [tuple(map(int, found)) for found in re.findall(r"(\d+) passed; (\d+) failed; (\d+) ignored", output)]
    passed, failed, ignored = (sum(column) for column in zip(*counts, strict=True)) if counts else (0, 0, 0)
    # A test that lacks root or a program ends early and says so; to cargo it has passed.
    lacking = len(re.findall(r"\bSKIPPED ", output))
    if status != 0 and failed == 0:
        failed = 1  # the program died
    return passed - lacking, failed, ignored + lacking


def unit_tests(runner: Runner, programs: list[TestProgram]) -> Row:
    """Every test program, and the examples in the documentation."""
    began = time.monotonic()
    if not programs:
        return Row("unit tests", failed=1)
    commands = [(DOC_TESTS, ROOT)] + [([test.program], test.folder) for test in programs]

    def run(entry: tuple[list[str], Path]) -> Done:
        # The server that they start is built already.
        environment = dict(ENVIRONMENT, TRUNKLINE=str(target() / "debug/trunkline"))
        return runner.run(entry[0], TEST_LIMIT_S, environment, at_once=False, cwd=entry[1])

    with beside_each_other(runner, TESTS_AT_ONCE) as pool:
        done = list(pool.map(run, commands))
    passed, failed, skipped = (sum(column) for column in zip(*(counts_of(one.status, one.output) for one in done), strict=True))
    output, processor = "".join(one.output for one in done), sum(one.processor for one in done)
    return Row("unit tests", passed, failed, skipped, time.monotonic() - began, processor, output)


def suite(runner: Runner, environment: dict[str, str], name: str, command: list[str], limit_s: float, at_once: bool = True) -> Row:
    began = time.monotonic()
    with tempfile.NamedTemporaryFile("r", suffix=".tally") as tally:
        words = [word.format(target=target()) for word in command]
        done = runner.run([sys.executable, *words], limit_s, dict(environment, TALLY_FILE=tally.name), at_once)
        counts = [json.loads(line) for line in tally.read().splitlines()]
    row = Row(name, seconds=time.monotonic() - began, processor=done.processor, output=done.output)
    for count in counts:
        row.passed += count["passed"]
        row.failed += count["failed"]
        row.skipped += count["skipped"]
        row.remark = count["remark"] or row.remark
    if (done.status != 0 or not counts) and row.failed == 0:
        row.failed = 1  # it broke off before it could count
    return row


def left_running() -> Iterator[tuple[int, str]]:
    """What suites have left running: (process, command line). No command may run now."""
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            if MARK in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name), (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")


def end_left_running() -> Row:
    """End what suites have left running, and count each as a failure: it would work beside the suites that measure."""
    found = []
    for process, command in left_running():
        found.append(f"LEFT {process}: {command}")
        print(found[-1], flush=True)
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    return Row("left running", int(not found), len(found), output="\n".join(found))


def suites(runner: Runner, programs: list[TestProgram]) -> list[Row]:
    """All of them: the lanes beside each other and beside the lints, then what must be alone."""

    def lane(entries: list[tuple[str, list[str], float]]) -> list[Row]:
        return [suite(runner, environment, *entry, at_once=False) for entry in entries]

    def cargos_lane() -> list[Row]:
        packages = lane([PACKAGES])
        return [*packages, *(check(runner, *entry, at_once=False) for entry in LINTS)]

    with tempfile.NamedTemporaryFile("w", suffix=".json") as listed:
        # proving/harness/rust_tests.py
        json.dump({test.name: (test.program, str(test.folder)) for test in programs}, listed)
        listed.flush()
        environment = dict(ENVIRONMENT, TEST_PROGRAMS=listed.name)
        with beside_each_other(runner, len(LANES) + 1) as pool:
            beside = pool.submit(cargos_lane)
            lanes = list(pool.map(lane, LANES))
            rows = [*beside.result(), *itertools.chain(*lanes)]
        return [*rows, end_left_running(), *(suite(runner, environment, *entry) for entry in ALONE)]


def print_table(rows: list[Row]) -> int:
    print(f"\n{'suite':<26}{'passed':>8}{'failed':>8}{'skipped':>9}{'seconds':>9}{'processor':>11}")
    for row in rows:
        print(f"{row.name:<26}{row.passed:>8}{row.failed:>8}{row.skipped:>9}{row.seconds:>9.0f}{row.processor:>11.0f}")
        if row.remark:
            print(f"    {row.remark}")
    # Below the table: whoever keeps the end of a long output alone still reads what failed.
    for row in rows:
        if row.failed:
            print(f"\n{row.name}: what failed, again:", *(line[:MOST_COLUMNS] for line in row.failures[:MOST_FAILURES]), sep="\n    ")
            if len(row.failures) > MOST_FAILURES:
                print(f"    and {len(row.failures) - MOST_FAILURES} more lines above")
    passed, failed, skipped = (sum(getattr(row, column) for row in rows) for column in ("passed", "failed", "skipped"))
    print(f"\n{passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return 1 if failed else 0


def main() -> None:
    runner = Runner(BUDGET_S)
    with beside_each_other(runner, 2) as pool:
        # It waits for the network while the checks compute. The first that use what it installs are the unit tests.
        installed = pool.submit(check, runner, *INSTALL, at_once=False)
        # Each build ends with crates that wait for each other, and leaves a processor to the other build.
        build = pool.submit(check, runner, *BUILD, at_once=False)
        rows = [check(runner, *entry) for entry in (*CHECKS, BUILD_TESTS, BUILD_PROGRAMS, RULES)]
        rows.append(installed.result())
        programs = test_programs(runner)
        rows += [unit_tests(runner, programs), build.result()]
    if rows[-1].failed:
        rows += [check(runner, *entry) for entry in LINTS]
        rows += [Row(name, failed=1) for name, _, _ in itertools.chain([PACKAGES], *LANES, ALONE)]
    else:
        rows += suites(runner, programs)
    sys.exit(print_table(rows))


if __name__ == "__main__":
    main()
