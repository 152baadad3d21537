#!/usr/bin/env python3
"""Run the single tests of smbtorture's smb2 suites against a server and compare the results with the expected ones.

    run.py [--server trunkline|samba] [--installed] [--only PATTERN ...] [--out FILE] [--count FILE] [--lanes N] [--record]

The suite is this year's, which scripts/foreign fetches, or with `--installed` the installed one. Each test runs in its
own process with a time limit, on as many shares in parallel as there are lanes. The share is emptied between tests. A
test that does not end as expected is tried again when the machine is quiet. Results are compared with
`proving/expected/smbtorture.toml` (ours, by the names of tests, so that any version may run) and with Samba's own on
the same suite, which `--server samba --record` writes to `proving/expected/samba-VERSION.json`. GENERATION=newer in the
environment selects this year's Samba. Start reading at `main`; names and verdicts are in torture.py, the comparison in
compare.py.
"""

import argparse
import fnmatch
import json
import os
import queue
import shutil
import sys
import threading
import time
import tomllib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite
from proving.smbtorture import compare, torture

HERE = Path(__file__).resolve().parent
# The number of solitary tries for a test that did not end as expected among others. Some tests wait a tenth of a second
# for a break, and other suites may keep the machine busy all the time.
TRIES_ALONE = 2
class Plan:
    """The profile, options, files and time limit of each test against the server `kind` (profiles.toml)."""

    def __init__(self, kind: str) -> None:
        table = tomllib.loads((HERE / "profiles.toml").read_text())
        self._limit = table["time_limit_s"]
        # This year's Samba has entries of its own in addition to those for any Samba.
        names = {kind, f"{kind}-newer"} if os.environ.get("GENERATION") == "newer" else {kind}
        entries = [entry for entry in table["profile"] if names & set(entry.get("servers", servers.KINDS))]
        self._entries = [(pattern, entry) for entry in entries for pattern in entry["tests"]]

    def _of(self, test: str, key: str, default: Any) -> Any:
        return next((e[key] for pattern, e in self._entries if key in e and fnmatch.fnmatchcase(test, pattern)), default)

    def profile(self, test: str) -> Any:
        return self._of(test, "name", "default")

    def options(self, test: str) -> Any:
        return self._of(test, "options", [])

    def files(self, test: str) -> Any:
        """Return the files that the test expects in the share, with their sizes."""
        return self._of(test, "files", {})

    def time_limit_s(self, test: str) -> float:
        return self._of(test, "time_limit_s", self._limit)

    def takes_s(self, test: str, recorded_s: float) -> float:
        """Estimate the test's duration, to start the longest first: Samba's time, or a limit above the default."""
        limit_s = self.time_limit_s(test)
        return limit_s if limit_s > self._limit else recorded_s


class Runner:
    """Runs tests against one server, on `lanes` shares in parallel."""

    def __init__(self, release: torture.Release, plan: Plan, server: servers.Server, lanes: int) -> None:
        self.release, self.plan, self.server, self.lanes = release, plan, server, lanes
        self.results: dict[str, torture.Outcome] = {}
        self._restart = threading.Lock()
        self._is_over = False

    def run(self, tests: list[str]) -> None:
        waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        for test in tests:
            waiting.put(test)
        # Daemon threads do not outlive a run that is told to end.
        lanes = [(f"t{i + 1}", waiting) for i in range(self.lanes)]
        threads = [threading.Thread(target=self._lane, args=lane, daemon=True) for lane in lanes]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            with self._restart:
                self._is_over = True
            raise

    def _lane(self, share: str, waiting: queue.SimpleQueue[str]) -> None:
        while not self._is_over:
            try:
                test = waiting.get_nowait()
            except queue.Empty:
                return
            self.results[test] = self._one(test, share)

    def _one(self, test: str, share: str) -> torture.Outcome:
        directory = self.server.share_directory(share)
        _empty(directory)
        for name, size in self.plan.files(test).items():
            _leave_file(directory / name, size)
        first, second = servers.accounts()[:2]
        target = torture.Target(self.server.address, self.server.port, share, str(directory), first, second)
        outcome = torture.run(self.release, test, target, self.plan.time_limit_s(test), self.plan.options(test))
        with self._restart:
            if not self._is_over and not self.server.alive():
                log = self.server.log()
                self.server.start()
                outcome = torture.Outcome("fail", outcome.seconds, f"the server ended: {log[-400:]}")
        print(f"{outcome.result:8}{outcome.seconds:7.1f} s  {test}", flush=True)
        return outcome


def _empty(directory: Path) -> None:
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)


def _leave_file(path: Path, size: int) -> None:
    """Create a file without zero bytes. It belongs to the first account, which has all rights on it."""
    path.write_bytes(b"\xa5" * size)
    uid = servers.first_uid()
    os.chown(path, uid, uid)
    path.chmod(0o777)


def run_all(release: torture.Release, book: compare.Book, kind: str, tests: list[str], lanes: int) -> tuple[dict[str, torture.Outcome], list[str], list[str]]:
    """Run the tests under their profiles.

    Returns name -> Outcome, the names of tests that ended as expected only on a later try, and complaints about the
    server itself.
    """
    plan, results, second_try, complaints = Plan(kind), {}, [], []
    expected = book.wanted(kind)
    cost = book.recorded_seconds()
    for profile in sorted({plan.profile(test) for test in tests}):
        group = [test for test in tests if plan.profile(test) == profile]
        group.sort(key=lambda test: -plan.takes_s(test, cost.get(test, 1.0)))
        server = servers.Server(kind, profile)
        try:
            with server:
                runner = Runner(release, plan, server, lanes)
                runner.run(group)
                results.update(runner.results)
                runner.lanes = 1
                for _ in range(TRIES_ALONE):
                    again = [test for test in group if not expected(test, results[test].result)]
                    if kind == "samba":
                        # Tests that never end would keep the others waiting for hours.
                        again = [test for test in again if results[test].result != "timeout"]
                    runner.run(again)
                    for test in again:
                        if expected(test, runner.results[test].result):
                            second_try.append(test)
                            results[test] = runner.results[test]
        except servers.CannotSetUp as reason:
            results |= {test: torture.Outcome("skip", 0.0, f"profile {profile}: {reason}") for test in group}
        if server.complaint:
            complaints.append(f"{profile}: {server.complaint}")
    return results, second_try, complaints


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", choices=servers.KINDS, default="trunkline")
    parser.add_argument("--installed", action="store_true", help="the smbtorture that is installed, not this year's")
    parser.add_argument("--only", action="append", default=[], metavar="PATTERN", help="shell pattern; may be repeated")
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    parser.add_argument("--count", type=Path, help="append the result for proving/soak, as a line of JSON")
    parser.add_argument("--lanes", type=int, default=4, choices=range(1, 5))
    parser.add_argument("--record", action="store_true", help="write Samba's results to proving/expected")
    return parser.parse_args()


def chosen(tally: Tally, wants_installed: bool) -> torture.Release:
    """Return the release to run, or end the process if there is none. If this year's is missing the installed one
    replaces it, and its name is printed."""
    installed, newest = torture.installed(), torture.newest()
    if newest is None and not wants_installed:
        tally.add("skip", "this year's smbtorture", "scripts/foreign could not fetch it here; the installed one runs instead")
    release = installed if wants_installed or newest is None else newest
    if release is None:
        skip_whole_suite("smbtorture", "smbtorture is missing: apt-get install samba-testsuite")
    return release


def main() -> None:
    options = arguments()
    servers.clean_up_when_told_to_end()
    if os.geteuid() != 0:
        skip_whole_suite("smbtorture", "needs root: the tests tell several users apart by what each may do")
    tally = Tally("smbtorture")
    release = chosen(tally, options.installed)
    book = compare.Book(release.version())
    known = release.all_tests()
    tests = [t for t in known if not options.only or any(fnmatch.fnmatch(t, p) for p in options.only)]
    began = time.monotonic()
    try:
        results, second_try, complaints = run_all(release, book, options.server, tests, options.lanes)
    except servers.CannotStart as reason:
        tally.add(reason.result, "whole suite", str(reason))
        sys.exit(tally.close())
    seconds = round(time.monotonic() - began)
    report = {
        "suite": f"smbtorture {book.version}",
        "server": servers.version(options.server),
        "seconds": seconds,
        "second_try": sorted(second_try),
        "tests": {t: vars(results[t]) for t in sorted(results)},
    }
    if options.out:
        options.out.write_text(json.dumps(report, indent=1) + "\n")
    if options.record and options.server == "samba":
        compare.record(report)
    print(f"\n{report['suite']} against {report['server']}: {len(tests)} tests in {seconds} s")
    print(f"as expected on a later try only: {', '.join(sorted(second_try)) or 'none'}")
    compare.judge(tally, results, book, options.server)
    for complaint in complaints:
        tally.add("fail", "the server's end", complaint)
    if options.count:
        failures = [note for note in tally.notes if note.startswith("fail")]
        line = {"server": options.server, "done": 1, "failures": failures, "passed": tally.passed}
        with open(options.count, "a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
