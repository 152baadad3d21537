#!/usr/bin/env python3
"""The tenure store against Debian's etcd: one member, and three of which one at a time stands still or is killed.

    tenure_store.py [--seconds N]

It runs the tests in crates/trunkline/src/node/store/etcd/live_tests.rs, which start etcd themselves, and shows the times that they
measure. The suite is skipped if scripts/foreign has not unpacked etcd.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import newer, rust_tests
from proving.harness.server import ROOT
from proving.harness.tally import Tally, skip_whole_suite

TESTS = "node::store::etcd::live_tests"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=int, default=18, help="for how long members stand still or are killed")
    seconds = options.parse_args().seconds
    if not (newer.root("etcd") / "usr/bin/etcd").exists():
        skip_whole_suite("tenure-store", "etcd is not unpacked: scripts/foreign")
    tally = Tally("tenure-store")
    command = rust_tests.words("bin", "trunkline", "--ignored", "--nocapture", "--test-threads=1", TESTS, profile="dev")
    environment = dict(os.environ, TRUNKLINE_ETCD_SECONDS=str(seconds))
    done = subprocess.run(command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    print(done.stdout, flush=True)
    counted = re.search(r"(\d+) passed; (\d+) failed", done.stdout)
    passed, failed = (int(count) for count in counted.groups()) if counted else (0, 1)
    for number in range(passed):
        tally.add("pass", f"live test {number + 1}")
    for number in range(failed or (passed == 0)):
        tally.add("fail", f"live test {passed + number + 1}", "see the output above")
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
