#!/usr/bin/env python3
"""Kill owners of a virtual server in many ways, while Linux's own SMB and NFS clients hold files open and locked.

    run.py                                 a few deaths of each kind
    run.py --short                         3 deaths of a process and 1 of a machine: `make test` runs this
    run.py --only machine --deaths 5       one kind; may be repeated
    run.py --family 4 --family 6           clients reach the virtual server over IPv4, and then over IPv6 in a cluster of its own
    run.py --store disk                    on a disk that one machine mounts at a time; the harness decides who
    run.py --server ganesha                NFS-Ganesha on the same Ceph, taken over by hand: what the numbers are held against
    run.py --by-hand                       the harness takes over, with the plain `trunkline serve`

deaths.py says what dies and what must be true afterwards. For each kind the median and the range of the stops are
printed: the longest silence of the server, and those of programs with a held and with a new file over each protocol.
"""

import argparse
import itertools
import json
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.cluster import cluster, deaths, ganesha, guest_machine, network, node, refusals
from proving.harness import server as servers
from proving.harness.tally import TROUBLE, CaseFailed, Tally, skip_whole_suite
from proving.kernel_client import guest, kernels

SUITE = "cluster"
FEW = {"in place": 1, "process": 3, "machine": 2, "move": 2, "pause": 1, "cable": 1, "mds": 1, "osd": 1, "clock": 1, "guest": 2, "guest pause": 1,
       "guest shut out": 1}
SHORT = {"process": 3, "machine": 1}
# What needs a tenure that ends by itself.
OF_TENURE = ("pause", "cable")
# The longest medians, in seconds, by kind and stop (`--judge`).
TAKE_OVER = {"silence": node.TERM_S + 1.0, "nfs-held": node.TERM_S + 2.0, "smb-held": node.TERM_S + 4.5}
LIMITS = {"in place": {"nfs-held": 1.0, "smb-held": 3.6}, "process": TAKE_OVER, "machine": TAKE_OVER, "move": {"silence": 1.0}}
OF_CEPH = ("mds", "osd")
OF_GUESTS = ("guest", "guest pause", "guest shut out")
STOPS = ("silence", "nfs-held", "nfs-new", "smb-held", "smb-new")


def spread(values: list[float]) -> str:
    """Return the median and the range of seconds."""
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})" if values else "none"


def told(measured: list[dict[str, Any]]) -> str:
    """Return what was measured in deaths of one kind, as one line."""
    return ", ".join(f"{stop} {spread([found[stop] for found in measured if stop in found])}" for stop in STOPS if stop in measured[0])


def go(tally: Tally, kind: str, count: int, under_test: cluster.Cluster, options: argparse.Namespace) -> None:
    """Let deaths of one kind happen, and count each."""
    over = " over IPv6" if under_test.family == 6 else ""
    done = deaths.Deaths(under_test, options.seed)
    failures = []
    for number in range(count):
        name = f"{kind} {number + 1} of {count}, {under_test.service.name}{over}"
        try:
            found = done.one(kind)
        except (*TROUBLE, guest.GuestEnded) as wrong:
            failures.append(f"{name}: {wrong}")
            tally.add("fail", name, str(wrong))
            explain(under_test)
            break
        tally.add("pass", name)
        print(f"        {told([found])}; errors {found['errors']}{'; ' + found['phases'] if 'phases' in found else ''}", flush=True)
    if len(done.measured) > 1:
        print(f"        {kind}{over}: {told(done.measured)} s", flush=True)
    if options.judge and done.measured:
        for stop, limit_s in LIMITS.get(kind, {}).items():
            tally.case(f"{kind}{over}: the median of {stop} is at most {limit_s} s", lambda: judge(done.measured, stop, limit_s))
    note(options, kind, done.measured, failures)


def judge(measured: list[dict[str, Any]], stop: str, limit_s: float) -> None:
    """Raise CaseFailed if the median of a stop is beyond its limit."""
    found = statistics.median(one[stop] for one in measured)
    if found > limit_s:
        raise CaseFailed(f"it is {found:.2f} s")


def note(options: argparse.Namespace, kind: str, measured: list[dict[str, Any]], failures: list[str]) -> None:
    """Append one line of JSON to the file of `--out`, as proving/soak/run.py expects it."""
    if options.out is None:
        return
    used = [kernels.GuestKernel.kernel.release()]
    if kind in OF_GUESTS:
        used.append(kernels.KERNELS[guest_machine.SERIES].release())
    line: dict[str, Any] = {"server": options.server, "done": len(measured), "failures": failures, "kernels": used}
    for stop in STOPS:
        if found := [one[stop] for one in measured if stop in one]:
            line[f"slowest_{stop.replace(' ', '_').replace('-', '_')}_s"] = round(max(found), 2)
            line[f"sum_{stop.replace(' ', '_').replace('-', '_')}_s"] = round(sum(found), 2)
    with open(options.out, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def explain(under_test: cluster.Cluster) -> None:
    """Print what helps to find a cause."""
    for name, found in under_test.nodes.items():
        state = "dead" if not found.machine.alive() else "the program runs" if found.alive() else "the program has ended"
        print(f"        {name}, {state}: " + found.said(30).replace("\n", "\n                "), flush=True)
    if not under_test.has_clients:
        return
    try:
        print(f"        programs: {under_test.told()}")
        print("        guest: " + "\n               ".join(under_test.ask("kernel_log")[-12:]), flush=True)
    except (OSError, guest.GuestEnded) as reason:
        print(f"        guest: {reason}", flush=True)


def end_well(tally: Tally, under_test: cluster.Cluster) -> None:
    """End the programs and compare their files in the store with what was synced."""
    def ends() -> None:
        bad = under_test.ask("bad_among_many")
        synced = under_test.ask("stop")
        owner = under_test.service.owner()
        wrong = bad[:5] + (under_test.check_held_files(synced, owner) if owner else ["nobody owns the virtual server"])
        if wrong:
            raise RuntimeError("; ".join(wrong))
    tally.case("what was synced is in the store", ends)


def _own_cluster(kind: str) -> str:
    """Return the name of the cluster in which deaths of this kind happen."""
    return kind if kind == "clock" else "guest" if kind in OF_GUESTS else ""


def run_all(tally: Tally, wanted: dict[str, int], options: argparse.Namespace) -> None:
    """Set up a cluster for most kinds, and one of its own where the clock jumps, and where the machines are guests; for each family
    of addresses."""
    for family, own in itertools.product(options.family or [4], ("", "clock", "guest")):
        kinds = {kind: count for kind, count in wanted.items() if _own_cluster(kind) == own and count}
        if not kinds:
            continue
        if own == "guest" and (reason := guest_machine.missing()):
            for kind in kinds:
                tally.add("skip", kind, reason)
                note(options, kind, [], [])
            continue
        under_test = cluster.Cluster(options.store, options.server, options.by_hand, own_clock=own == "clock", has_guests=own == "guest",
                                     family=family)
        try:
            with under_test:
                print(f"        up after so many seconds: {under_test.up_s}", flush=True)
                under_test.open_many(options.opens)
                for kind, count in kinds.items():
                    go(tally, kind, count, under_test, options)
                end_well(tally, under_test)
        except (*TROUBLE, guest.GuestEnded) as reason:
            tally.add("fail", f"the cluster, {', '.join(kinds)}", f"{reason}; up: {under_test.up_s}")
            for kind in kinds:
                note(options, kind, [], [str(reason)])


def run_refusals(tally: Tally, only: list[str]) -> None:
    """Set up a cluster without clients, and run the cases of refusals.py."""
    under_test = cluster.Cluster(own_clock=True, has_clients=False)
    try:
        with under_test:
            cases = refusals.Refusals(under_test)
            for name, case in cases.cases.items():
                if not only or name in only:
                    tally.case(f"{name}: before", cases.prepare)
                    before = tally.failed
                    tally.case(name, case)
                    if tally.failed > before:
                        explain(under_test)
    except TROUBLE as reason:
        tally.add("fail", "the cluster without clients", str(reason))


def main() -> None:
    parser = kernels.parser(__doc__)
    parser.add_argument("--only", action="append", choices=[*FEW, *refusals.NAMES])
    parser.add_argument("--deaths", type=int, help="so many of each kind")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--by-hand", action="store_true")
    parser.add_argument("--server", choices=servers.NFS_KINDS, default="trunkline")
    parser.add_argument("--store", choices=("ceph", "disk"), default="ceph")
    parser.add_argument("--family", type=int, choices=network.SERVED_BY_FAMILY, action="append", help="6: clients use IPv6; may be repeated")
    parser.add_argument("--opens", type=int, default=0, help="so many more files are open over each protocol")
    parser.add_argument("--judge", action="store_true", help="fail where a median is beyond its limit")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    servers.clean_up_when_told_to_end()
    if options.server == "ganesha":
        options.by_hand, options.store = True, "ceph"
    if reason := cluster.missing(options.store) or (ganesha.missing() if options.server == "ganesha" else ""):
        skip_whole_suite(kernels.suite(SUITE), reason)
    if not options.by_hand and not node.can_be_nodes():
        print("        this program has no `node serve`: the harness takes over by hand", flush=True)
        options.by_hand = True
    if options.by_hand and options.family and 6 in options.family:
        parser.error("the harness moves no IPv6 address by hand")
    wanted = dict(SHORT if options.short else FEW)
    if options.only:
        wanted = {kind: FEW[kind] for kind in options.only if kind in FEW}
    if options.deaths:
        wanted = dict.fromkeys(wanted, options.deaths)
    tally = Tally(kernels.suite(SUITE))
    # They have no mount of the disk, and no way to be entered by hand.
    beyond = (OF_TENURE if options.by_hand or options.store == "disk" else ()) + (OF_CEPH if options.store == "disk" else ())
    beyond += OF_GUESTS if options.by_hand or options.store == "disk" else ()
    wanted = {kind: count for kind, count in wanted.items() if kind not in beyond}
    run_all(tally, wanted, options)
    refused = [name for name in options.only or () if name in refusals.NAMES]
    if not (options.by_hand or options.short or options.store == "disk") and (refused or not options.only):
        run_refusals(tally, refused)
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
