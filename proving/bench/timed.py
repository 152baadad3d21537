#!/usr/bin/env python3
"""Run a command and print one JSON object: its elapsed and processor seconds, its status and its output.

    timed.py COMMAND [ARGUMENT ...]

It serves commands that run behind a program with a set-up time of its own, such as `trunkline link`.
"""

import json
import resource
import subprocess
import sys
import time

LONGEST_S = 600


def main() -> None:
    began = time.monotonic()
    done = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=LONGEST_S)
    seconds = time.monotonic() - began
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(json.dumps({"seconds": seconds, "cpu": used.ru_utime + used.ru_stime, "status": done.returncode, "output": done.stdout, "errors": done.stderr}))


if __name__ == "__main__":
    main()
