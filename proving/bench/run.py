#!/usr/bin/env python3
"""Measure the servers against each other in interleaved rounds: CPU of the server for each operation, and the rate.

    run.py [--rounds N] [--seconds S] [--servers trunkline,samba] [--generator trunkline|smb2-crate]
           [--case TEXT ...] [--go-on] [--page]

Both servers run at the same time and are loaded in turn, so that a drift of the machine affects both. Medians are taken
over the rounds. These parts follow:
- this year's peers, with clients that others wrote (newest.py; `--case 'newest, '` measures them alone, `--case 'newest, torture'`
  and `'newest, Linux'` only smbtorture and Linux' own client)
- NFS with Ganesha in place of Samba (nfs.py; `--case 'nfs, '`)
- the gain of caching names (cache.py; `--case 'cache, '`)
- the cost of the audit (audit.py; `--case 'audit, '`)
- the machine's own limit (null.py; `--case 'null, '`)
- the tables on which users of several connections rely (seeds.py; `--case 'seed, '`; needs root)
- copies over a long path (copies.py; `--case 'copy, '`; needs root)
The network is a separate loopback (network.py), and files lie in memory (memory.py).

With both servers and our own generator each case is stored as soon as it is measured (result_store.py).
docs/benchmarks.md is written from the stored results once no case is missing. So an interrupted run can continue, and
one case can be measured again. `--page` writes the page again and measures nothing. Start reading at `main`; cases.py
has the cases and their goals.
"""

import argparse
import contextlib
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.bench import audit, cache, channels, copies, loads, memory, network, newest, nfs, null, report, result_store, seeds
from proving.bench.cases import CASES, GENERATORS, Case
from proving.harness import server as servers
from proving.harness import tree

HERE = Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "docs" / "benchmarks.md"


def measure_channels(chosen: list[channels.Case], running: list[servers.Server], options: argparse.Namespace, results: Any) -> None:
    """Measure the gain of several channels on our own server, loaded by our own generator."""
    ours = [server for server in running if server.kind == "trunkline"]
    if not ours or options.generator != "trunkline":
        return
    user, password = servers.accounts()[0]
    with tempfile.NamedTemporaryFile("w") as secret:
        secret.write(password)
        secret.flush()
        for case in chosen:
            try:
                of = results.add(case.name, channels.values(case, channels.measure(case, ours[0], secret.name, user, options)))
            except (subprocess.CalledProcessError, OSError, ValueError, KeyError, ZeroDivisionError) as reason:
                print(f"channels, {case.name}: not measured: {reason}", file=sys.stderr)
                continue
            print(channels.line(case, of), flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--servers", default="trunkline,samba")
    parser.add_argument("--generator", choices=list(GENERATORS), default="trunkline")
    parser.add_argument("--case", action="append", default=[], metavar="TEXT", help="only cases whose name has TEXT in it")
    parser.add_argument("--go-on", action="store_true", help="leave out the cases that an identical run has measured")
    parser.add_argument("--page", action="store_true", help="measure nothing, and write the page from the stored results")
    return parser.parse_args()


def _how(options: argparse.Namespace, congestion_control: str, place: str) -> str:
    """Describe this run's method. Two runs that differ in it are not the same measurement."""
    return (f"{options.rounds} rounds of {options.seconds:g} s, Linux {platform.release()}, {os.cpu_count()} CPUs ({report.processor()}), "
            f"TCP's congestion control {congestion_control}, files {place}")


def _version(kind: str) -> str:
    try:
        return servers.version(kind)
    except servers.CannotStart:
        return "not installed"


def measure_smb(kinds: list[str], chosen: list[Case], of_channels: list[channels.Case], options: argparse.Namespace,
                results: result_store.Part, over_channels: result_store.Part) -> None:
    """Measure the SMB servers in turn and print the medians of each case; then measure channels on our own, all rounds
    of each."""
    with contextlib.ExitStack() as stack:
        try:
            running = [stack.enter_context(servers.Server(kind, "bench")) for kind in kinds]
        except servers.CannotStart as reason:
            print(f"bench: {reason}", file=sys.stderr)
            sys.exit(2)
        for server in running:
            loads.prepare(server, options.generator)
        for case in chosen:
            try:
                samples = loads.measure(case, running, GENERATORS[options.generator], options)
            except (loads.CannotMeasure, OSError, ValueError, KeyError) as reason:
                print(f"{case.name}: not measured: {reason}", file=sys.stderr)
                continue
            if samples is None:
                print(f"{case.name}: the generator does not support it")
                continue
            results.add(case.name, report.values(samples))
            print(report.line(case, results), flush=True)
        measure_channels(of_channels, running, options, over_channels)


def write_page(everything: result_store.ResultStore, sections: Any, versions: list[str], congestion_control: str, place: str) -> None:
    """Write the page from all stored results, once none is missing."""
    names = [results.prefix + case.name for cases, results in sections for case in cases]
    missing = [name for name in names if name not in everything.lines]
    if missing:
        print(f"{PAGE.name} is not written, since {len(missing)} of {len(names)} cases were never measured: {'; '.join(missing[:3])} ...")
        return
    smb, over_channels, this_year, over_nfs, remembered, audited, limit, told, copied = (results for _, results in sections)
    machine = (f"{platform.system()} {platform.release()}, {os.cpu_count()} CPUs ({report.processor()}); TCP's congestion control: "
               f"{congestion_control}; files lie {place}")
    text = report.page(newest.section(this_year), CASES, smb, versions, machine) + channels.section(over_channels, os.cpu_count() or 1)
    text += nfs.section(over_nfs) + cache.section(remembered) + audit.section(audited)
    text += null.section(limit) + seeds.section(told) + copies.section(copied) + everything.told(names)
    PAGE.write_text(text)
    print(f"written: {PAGE}")


def main() -> None:
    options = arguments()
    servers.clean_up_when_told_to_end()
    kinds = options.servers.split(",")
    congestion_control, place = network.enter(), memory.enter()
    of_page = set(kinds) == {"trunkline", "samba"} and options.generator == "trunkline"
    commit = tree.commit(PAGE, result_store.PATH)
    everything = result_store.ResultStore(commit, _how(options, congestion_control, place), result_store.PATH if of_page else None)
    smb = everything.part("smb, ")
    over_channels, this_year, over_nfs, limit, told, copied, remembered, audited = (
        everything.part(name) for name in ("channels, ", "newest, ", "nfs, ", "null, ", "seed, ", "copy, ", "cache, ", "audit, "))

    def is_chosen(case: Any, results: result_store.Part) -> bool:
        name = results.prefix + case.name
        return not options.page and (not options.case or any(text in name for text in options.case)) and not (options.go_on and everything.has(name))

    chosen = [case for case in CASES if is_chosen(case, smb)]
    of_channels = [case for case in channels.CASES if is_chosen(case, over_channels)]
    if chosen or of_channels:
        measure_smb(kinds, chosen, of_channels, options, smb, over_channels)
    complete = True
    if options.generator == "trunkline":
        complete = len(smb.fresh) == len(chosen) and len(over_channels.fresh) == len(of_channels)
        for section, results in ((newest, this_year), (nfs, over_nfs), (cache, remembered), (audit, audited), (null, limit), (seeds, told), (copies, copied)):
            complete = section.run(options, is_chosen, results) and complete
    sections = [(CASES, smb), (channels.CASES, over_channels), (newest.ALL, this_year), (nfs.ALL, over_nfs), (cache.CASES, remembered), (audit.CASES, audited),
                (null.CASES, limit), (seeds.ALL, told), (copies.CASES, copied)]
    if of_page:
        write_page(everything, sections, [f"{kind}: {_version(kind)}" for kind in (*kinds, "ganesha")], congestion_control, place)
    sys.exit(0 if complete or options.generator != "trunkline" else 1)


if __name__ == "__main__":
    main()
