#!/usr/bin/env python3
"""Run pynfs, the public NFSv4.1 suite, against a server and compare the results with the expected ones.

    run.py --pynfs DIR [--server trunkline|ganesha] [--minor N ...] [--only CODE ...] [--out FILE] [--record]

DIR is a checkout of pynfs, which is not changed: a copy of it is built. The suite's group `all` runs once for each
minor version. Its group `reboot` runs once, with a server that is really ended and restarted. A test is named by its
version and code: `4.1 SEQ6`. Results are compared with `proving/expected/pynfs.toml` (ours) and with
`proving/expected/ganesha-4.3.json` (Ganesha's own), which `--server ganesha --record` writes. `tally.toml` stores the
results of whole groups against Trunkline (record.py). Without DIR the suite counts as skipped, and prints that file's
content and age.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import expected
from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite
from proving.pynfs import record as last

HERE = Path(__file__).resolve().parent
OURS = HERE.parent / "expected" / "pynfs.toml"
GANESHAS = HERE.parent / "expected" / "ganesha-4.3.json"
# The suite waits for leases to expire, and the servers' profile `pynfs` keeps them short. The group of restarts needs a
# longer lease (`pynfs-reboot`), since up to 1,000 clients reclaim their state one after the other.
LIMIT_S = {"pynfs": 900, "pynfs-reboot": 3000}
SHARE = "t1"
# Debian's own interpreter, for which the packages of the suite exist.
PYTHON = "/usr/bin/python3"


class CannotBuild(Exception):
    """The suite cannot be built; the message names the missing part."""


def build(source: Path, work: Path) -> Path:
    """Build a copy of the suite below `work`. Returns the directory of its NFSv4.1 tests."""
    if not (source / "nfs4.1" / "testserver.py").exists():
        raise CannotBuild(f"{source} holds no pynfs")
    copy = work / "pynfs"
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns(".git"))
    # Programs with `env` in their first line build its parts.
    environment = dict(os.environ, PATH=f"{Path(PYTHON).parent}:/usr/sbin:/bin:/sbin")
    for part in ("xdr", "rpc", "nfs4.1"):
        command = [PYTHON, "setup.py", "build"]
        done = subprocess.run(command, cwd=copy / part, env=environment, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise CannotBuild(f"{part}: {done.stderr.strip().splitlines()[-1:]}: apt-get install python3-ply")
    return copy / "nfs4.1"


def run_group(suite: Path, server: servers.Server, minor: int, tests: list[str], work: Path) -> dict[str, tuple[str, str]]:
    """Run tests or groups of one minor version. Returns code -> (result, detail)."""
    asked = _asked_for(suite, tests)
    report = work / "report.json"
    report.unlink(missing_ok=True)
    target = f"{server.address}:{server.port}/{SHARE}"
    command = [PYTHON, "testserver.py", target, "--maketree", f"--minorversion={minor}", f"--json={report}", "-v",
               f"--serverhelper={_helper(server, work)}", *tests]
    with open(work / "output", "w+", encoding="utf-8", errors="replace") as output:
        try:
            done = subprocess.run(command, cwd=suite, stdout=output, stderr=subprocess.STDOUT, timeout=LIMIT_S[server.profile],
                                  stdin=subprocess.DEVNULL)
            how = f"ended with {done.returncode}"
        except subprocess.TimeoutExpired:
            how = f"did not end within {LIMIT_S[server.profile]} s"
        output.seek(0)
        last = output.read()[-2000:]
    if not report.exists():
        return {" ".join(tests): ("fail", f"the suite {how}: {last}")}
    found = {}
    for case in json.loads(report.read_text())["testcase"]:
        if case["code"] not in asked:
            continue
        failure = case.get("failure")
        result = "fail" if failure else "skip" if "skipped" in case else "pass"
        found[case["code"]] = (result, " ".join(failure["message"].split())[:300] if failure else "")
    return found


def _asked_for(suite: Path, tests: list[str]) -> set[str]:
    """Return the codes of the tests selected by `tests`, some of which are groups. The report also has all other tests."""
    done = subprocess.run([PYTHON, "testserver.py", "--showcodesflags"], cwd=suite, capture_output=True, text=True, timeout=60)
    asked = set()
    for line in done.stdout.splitlines():
        code, _, groups = line.partition(" FLAGS: ")
        if {code, *groups.split(", ")} & set(tests):
            asked.add(code)
    return asked


def _helper(server: servers.Server, work: Path) -> Path:
    """Return a program that ends and restarts the server, for the tests that need it. They want clients to reclaim, also where
    Trunkline would let them go on with their client IDs: without the mark of its client records it does not (docs/state.md)."""
    script = work / "helper"
    program = servers.SERVERS / f"{server.kind}.sh"
    arguments = f"'{server.profile}' '{server.directory}' {server.port} {server.address}"
    lines = [f"'{program}' stop '{server.directory}'", f"find '{server.directory}' -name 'nfs-clients.*.complete' -delete",
             f"'{program}' start {arguments}"]
    script.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    script.chmod(0o755)
    return script


def run_all(suite: Path, options: argparse.Namespace, tally: Tally) -> dict[str, tuple[str, str]]:
    """Run all groups. Returns `4.minor CODE` -> (result, detail). Results of Trunkline's whole groups are stored."""
    results: dict[str, tuple[str, str]] = {}
    plan = [(minor, "pynfs", options.only or ["all"]) for minor in options.minor]
    if not options.only:
        plan.append((1, "pynfs-reboot", ["reboot"]))
    elif options.only == ["reboot"] or all(test.startswith("REBT") for test in options.only):
        plan = [(minor, "pynfs-reboot", tests) for minor, _, tests in plan]
    for minor, profile, tests in plan:
        with tempfile.TemporaryDirectory(prefix="proof-pynfs-") as work, servers.Server(options.server, profile) as server:
            found = run_group(suite, server, minor, tests, Path(work))
            # The suite may have restarted it.
            server.pid = int((server.directory / "server" / "pid").read_text())
            if not server.alive():
                tally.add("fail", f"4.{minor} {' '.join(tests)}: server", f"it ended: {server.log()[-400:]}")
        if server.complaint:
            tally.add("fail", f"4.{minor} {' '.join(tests)}: the server's end", server.complaint)
        results |= {f"4.{minor} {code}": outcome for code, outcome in found.items()}
        count = [sum(result == wanted for result, _ in found.values()) for wanted in ("pass", "fail", "skip")]
        print(f"4.{minor} {' '.join(tests)}: {count[0]} passed, {count[1]} failed, {count[2]} skipped", flush=True)
        if options.server == "trunkline" and tests in (["all"], ["reboot"]) and sum(count) > 1:
            last.note(f"4.{minor} {tests[0]}", count, last.suite_commit(options.pynfs))
    return results


def recorded() -> dict[str, str]:
    """Return Ganesha's own results: name -> result."""
    return json.loads(GANESHAS.read_text())["tests"] if GANESHAS.exists() else {}


def record(results: dict[str, tuple[str, str]]) -> None:
    """Write Ganesha's results, one line for each test, so that a later run shows as a small difference."""
    tests = recorded() | {name: result for name, (result, _) in results.items()}
    head = {"suite": "pynfs nfs4.1", "server": servers.version("ganesha")}
    lines = [f"  {json.dumps(name)}: {json.dumps(tests[name])}" for name in sorted(tests)]
    GANESHAS.write_text(json.dumps(head, indent=1)[:-2] + ',\n "tests": {\n' + ",\n".join(lines) + "\n }\n}\n")


def judge(tally: Tally, results: dict[str, tuple[str, str]], kind: str) -> None:
    """Count the results. Ganesha is compared with its own record, Trunkline with our list."""
    reference = recorded()
    listed = expected.listed(OURS) if kind == "trunkline" else {}
    for name, (result, detail) in sorted(results.items()):
        if name in listed:
            expected.judge(tally, name, result, detail, listed[name], OURS.name)
        elif kind == "ganesha" and result == "fail" and reference.get(name) == "fail":
            tally.add("skip", name, "Ganesha fails it, as recorded")
        else:
            tally.add(result, name, detail)
    if kind == "trunkline":
        behind = [n for n, (result, _) in sorted(results.items()) if result != "pass" and reference.get(n) == "pass"]
        print(f"\nbehind Ganesha: {', '.join(behind) or 'nothing'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pynfs", type=Path, default=os.environ.get("PYNFS") or None, help="a checkout of pynfs")
    parser.add_argument("--server", choices=servers.NFS_KINDS, default="trunkline")
    parser.add_argument("--minor", type=int, nargs="+", choices=(1, 2), default=(1, 2))
    parser.add_argument("--only", nargs="+", default=[], metavar="CODE", help="tests or groups, by the suite's own names")
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    parser.add_argument("--record", action="store_true", help="write Ganesha's results to proving/expected")
    options = parser.parse_args()
    servers.clean_up_when_told_to_end()
    if not options.pynfs:
        skip_whole_suite("pynfs", "no checkout of pynfs is named: make pynfs PYNFS=DIR", last.told())
    if os.geteuid() != 0:
        skip_whole_suite("pynfs", "needs root: the tests tell several users apart by what each may do")
    tally = Tally("pynfs")
    with tempfile.TemporaryDirectory(prefix="proof-pynfs-") as work:
        try:
            suite = build(Path(options.pynfs).resolve(), Path(work))
            began = time.monotonic()
            results = run_all(suite, options, tally)
        except CannotBuild as reason:
            skip_whole_suite("pynfs", str(reason))
        except servers.CannotStart as reason:
            tally.add(reason.result, "whole suite", str(reason))
            sys.exit(tally.close())
    if options.out:
        options.out.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
    if options.record and options.server == "ganesha":
        record(results)
    print(f"\n{len(results)} tests in {time.monotonic() - began:.0f} s")
    judge(tally, results, options.server)
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
