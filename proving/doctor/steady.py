#!/usr/bin/env python3
"""Whether `trunkline doctor` says the same of the same target each time, and is right.

    proving/doctor/steady.py [--runs N] [--course quick|usual] [--only beside|link] [--out FILE]

`beside`: N runs on one share of this host, while another program uses a processor in alternate seconds. The ranges of
any two runs must overlap in 95 of 100 pairs, and no two runs may give opposite advice. `link`: N runs over a path on
which four connections are three times as fast as one (100 Mbit/s for each connection, 300 together, 10 ms). 19 of 20
must advise more connections, and the ends of each range must lie within a factor of 1.5. Needs root for the path. A
slice of proving/soak: with --out it appends a line for each part.
"""

import argparse
import contextlib
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.doctor.faults import examine, link, smb
from proving.doctor.stage import Trunkline
from proving.harness.tally import Tally

# The range of a gain: its lower and upper end.
Range = list[float]

KINDS = {"worth": "more", "little_gain": "one", "no_gain": "one", "gain_unsure": None}
LINK = ("--rtt", "10ms", "--flow-rate", "100Mbit", "--rate", "300Mbit")
# Uses one processor for a second and rests for the next, until it is ended.
BY_TURNS = "import time\nwhile True:\n    end = time.monotonic() + 1\n    while time.monotonic() < end: pass\n    time.sleep(1)\n"
MEETING_PAIRS = 0.95
ADVISED_RUNS = 0.95
WIDEST_RANGE = 1.5


@contextlib.contextmanager
def busy_host() -> Iterator[None]:
    """Run another program that uses a processor in alternate seconds."""
    other = subprocess.Popen([sys.executable, "-c", BY_TURNS], stdin=subprocess.DEVNULL)
    try:
        yield
    finally:
        other.kill()
        other.wait()


def said(before: list[str], target: str, course: str) -> tuple[str | None, Range | None, str]:
    """Return the result of one run for further connections: (advice, range, sentence). A run without a range claims nothing."""
    report, _ = examine(before, target, {}, course)
    findings = report["targets"][0]["findings"]
    found = next((it for it in findings if it["kind"] in KINDS), None)
    if found is None:
        raise RuntimeError(f"nothing was said of connections: {report['targets'][0]['verdict']['paragraph']}")
    return KINDS[found["kind"]], found["range"], found["says"]


def meet(one: Range | None, other: Range | None) -> bool:
    """Return whether two ranges overlap."""
    return one is None or other is None or one[0] <= other[1] and other[0] <= one[1]


def runs(before: list[str], target: str, arguments: argparse.Namespace) -> Iterator[tuple[str | None, Range | None]]:
    """Return the results of all runs, and print each."""
    for number in range(1, arguments.runs + 1):
        advice, its_range, sentence = said(before, target, arguments.course)
        shown = "none" if its_range is None else "{:.2f} to {:.2f}".format(*its_range)
        print(f"  {number:2}: {advice or 'no'} advice, range {shown}: {sentence}", flush=True)
        yield advice, its_range


def beside(arguments: argparse.Namespace) -> Iterator[str]:
    """Run the doctor beside another program. Returns the failures."""
    with Trunkline() as server, busy_host():
        all_runs = list(runs([], smb(server), arguments))
    pairs = list(itertools.combinations([its_range for _, its_range in all_runs], 2))
    meeting = sum(meet(*pair) for pair in pairs)
    advice = {advice for advice, _ in all_runs if advice}
    print(f"beside: {meeting} of {len(pairs)} pairs of ranges meet; advice was {sorted(advice) or 'none'}")
    if meeting < MEETING_PAIRS * len(pairs):
        yield f"{meeting} of {len(pairs)} pairs of ranges meet"
    if len(advice) > 1:
        yield f"opposite advice: {sorted(advice)}"


def far(arguments: argparse.Namespace) -> Iterator[str]:
    """Run the doctor over a path that gives each connection a third. Returns the failures."""
    with Trunkline(listen="0.0.0.0") as server:
        all_runs = list(runs(link(*LINK), smb(server, "{host}"), arguments))
    good = sum(advice == "more" and its_range is not None and its_range[1] / its_range[0] <= WIDEST_RANGE for advice, its_range in all_runs)
    print(f"link: {good} of {len(all_runs)} runs advise more, with ends of their ranges within a factor of {WIDEST_RANGE}")
    if good < int(ADVISED_RUNS * len(all_runs)):
        yield f"{good} of {len(all_runs)} runs advise more"


def main() -> None:
    """Run both parts, or one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--course", default="quick", choices=["quick", "usual", "full"])
    parser.add_argument("--only", choices=["beside", "link"])
    parser.add_argument("--out", type=Path, help="append the result, for proving/soak")
    arguments = parser.parse_args()
    tally = Tally("doctor-steady")
    for name, part in (("beside", beside), ("link", far)):
        if arguments.only in (None, name):
            print(f"--- {name}", flush=True)
            wrong = list(part(arguments))
            tally.add("fail" if wrong else "pass", name, "; ".join(wrong))
    if arguments.out:
        line = {"server": "trunkline", "done": arguments.runs, "failures": tally.notes}
        with open(arguments.out, "a", encoding="utf-8") as out:
            out.write(json.dumps(line) + "\n")
    tally.close()
    sys.exit(1 if tally.failed else 0)


if __name__ == "__main__":
    main()
