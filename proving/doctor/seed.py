#!/usr/bin/env python3
"""One connection compared with four: two servers behind the same path of 23 ms. One of them accepts a single connection
for each session.

    proving/doctor/seed.py [--times N] [--megabytes M] [--course quick|usual|full] [--html FILE] [--text FILE] [--line RATE] [--each RATE]

The doctor compares both and predicts the factor by which a large copy to the first takes longer. Then a file is copied
to each and timed. Needs root. The status is 1 when the doctor does not call the latency equal, or when the prediction
is off by more than 10 %.

The path is that of the user's report: 1 GB took 57 s over one connection and 33 s over four. So each connection has
about 140 Mbit/s, and all together have 250.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.doctor.stage import PASSWORD, Trunkline, program

ENVIRONMENT = dict(os.environ, TRUNKLINE_PASSWORD=PASSWORD)


def run(command: list[str], limit_s: float, fine: int = 0) -> str:
    """Return the output of a command whose status is at most `fine`."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, stdin=subprocess.DEVNULL, env=ENVIRONMENT)
    if not 0 <= done.returncode <= fine:
        raise RuntimeError(f"{' '.join(command[:2])}: status {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


def behind(file: str, targets: list[str], course: str, html: str, text: str) -> None:
    """Run the part behind the path, which prints one line of JSON."""
    options = ([f"--{course}"] if course != "usual" else []) + (["--html", html] if html else [])
    report = json.loads(run([program(), "doctor", *targets, "--json", *options], 150))
    if text:
        Path(text).write_text(run([program(), "doctor", *targets, *options], 150))
    took = []
    for target in targets:
        begun = time.monotonic()
        # The statuses are robocopy's: 1 means that a file was copied.
        run([program(), "copy", file, target, "--channels", "4"], 200, 1)
        took.append(time.monotonic() - begun)
    print(json.dumps({"report": report, "took_s": took}))


def once(options: argparse.Namespace) -> list[str]:
    """Run one comparison and one copy to each server. Returns the failures."""
    megabytes, course = options.megabytes, options.course
    link = ("--rtt", "23ms", "--flow-rate", options.each, *(("--rate", options.line) if options.line != "none" else ()))
    with tempfile.TemporaryDirectory(prefix="doctor-seed-") as place:
        file = Path(place) / "file"
        file.write_bytes(os.urandom(1 << 20) * megabytes)
        with Trunkline(listen="0.0.0.0", server="multichannel = false") as one, Trunkline(listen="0.0.0.0") as four:
            targets = [f"smb://ann@{{host}}:{server.port}/files" for server in (one, four)]
            inner = [sys.executable, __file__, "--behind", str(file), *targets, "--course", course]
            for option, value in (("--html", options.html), ("--text", options.text)):
                inner += [option, value] if value else []
            said = json.loads(run([program(), "link", *link, "--", *inner], 500))
    comparison = said["report"]["comparison"]
    rows = {row["what"]: row for row in comparison["rows"]}
    predicted, (first, second) = comparison["write_time_ratio"], said["took_s"]
    measured = first / second
    off = predicted / measured - 1
    connections = rows["connections a session takes"]
    print(f"connects {rows['connect, ms']['first']} and {rows['connect, ms']['second']} ms, connections {connections['first']} and "
          f"{connections['second']}; predicted {predicted:.2f}, measured {measured:.2f}: {first:.1f} s and {second:.1f} s for {megabytes} MiB; "
          f"{off * 100:+.1f} %; the doctor took {said['report']['took_s']:.0f} s", flush=True)
    print(f"  {comparison['paragraph']}", flush=True)
    failures = [] if abs(off) <= 0.1 else [f"the prediction is off by {off * 100:.1f} %"]
    if rows["connect, ms"]["differs"]:
        failures.append("the latency is not called equal")
    if (connections["first"], connections["second"]) != ("1.00", "4.00"):
        failures.append("one against four connections were not found")
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--each", default="140Mbit", help="rate of each connection")
    parser.add_argument("--line", default="250Mbit", help="rate of all connections together, or none")
    parser.add_argument("--course", default="full", choices=["quick", "usual", "full"])
    parser.add_argument("--html", help="file for the report as a page")
    parser.add_argument("--text", help="file for the report of a further examination, as on a terminal")
    parser.add_argument("--behind", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.behind:
        behind(options.behind[0], options.behind[1:], options.course, options.html, options.text)
        return
    failures = [failure for _ in range(options.times) for failure in once(options)]
    print(f"{len(failures)} of {options.times} times something was wrong: {'; '.join(failures)}" if failures else "all as it must be")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
