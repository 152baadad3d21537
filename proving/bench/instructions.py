#!/usr/bin/env python3
"""How many instructions the server runs for one cached READ of 4 KiB, over SMB and over NFS (callgrind).

    instructions.py [--reads N]

Time on a shared machine is noisy and instructions are not, so a change of the way of a request shows here to a part in a
hundred. One request is under way at a time. Each protocol is loaded twice on a server of its own, once with N reads and once with
three times as many; the difference is what the reads cost, without start and end.

The program is built for this below cargo's target directory, or TRUNKLINE names one that was. Callgrind hides the host's vDSO, which
rustix reads by itself unless it goes through the C library (`--cfg rustix_use_libc`). Start reading at `for_one`.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from harness import server as servers  # noqa: E402

# Protocol, profile of the server, and where the load goes.
WAYS = (("SMB", "bench", "smb://{user}@127.0.0.1:{port}/files"), ("NFS", "nfs", "nfs://127.0.0.1:{port}/files"))
LOAD_LIMIT_S = 600


def build():
    """Our own program in a form that callgrind can run."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or HERE.parent.parent / "target") / "callgrind"
    command = ["cargo", "build", "--release", "-p", "trunkline", "--target-dir", target,
               "--config", 'build.rustflags=["--cfg", "rustix_use_libc"]']
    subprocess.run(command, check=True, cwd=HERE.parent.parent)
    return str(target / "release" / "trunkline")


def counted(directory, program):
    """A program to start in the place of `program`: the same one below callgrind, which counts into `directory`."""
    wrapper = Path(directory) / "trunkline"
    wrapper.write_text(
        "#!/bin/sh\n"
        'case "$1" in serve) ;; *) exec ' + f'"{program}" "$@";; esac\n'
        f'exec valgrind -q --tool=callgrind --callgrind-out-file="{directory}/%p.out" "{program}" "$@"\n'
    )
    wrapper.chmod(0o755)
    return str(wrapper)


def total(directory):
    """Instructions of the one server that ended."""
    found = [re.search(r"^(?:totals|summary): (\d+)", path.read_text(), re.M) for path in Path(directory).glob("*.out")]
    counts = [int(match.group(1)) for match in found if match]
    if len(counts) != 1:
        raise SystemExit(f"callgrind left {len(counts)} counts in {directory}, not one")
    return counts[0]


def run(program, profile, url, reads):
    """Instructions of a server that serves so many reads."""
    user, password = servers.accounts()[0]
    with tempfile.TemporaryDirectory(prefix="instructions-") as directory:
        os.environ["TRUNKLINE"] = counted(directory, program)
        os.environ["TRUNKLINE_PASSWORD"] = password
        with servers.Server("trunkline", profile) as server:
            work = server.share_directory("files")
            work.chmod(0o777)
            command = [program, "load", url.format(user=user, port=server.port), "--rw", "randread", "--bs", "4k", "--iodepth", "1",
                       "--filesize", "16m", "--number-ios", str(reads), "--json"]
            try:
                subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=LOAD_LIMIT_S)
            except subprocess.CalledProcessError as failed:
                raise SystemExit(f"{failed}; the server said:\n{server.log()}") from None
        if server.complaint:
            raise SystemExit(server.complaint)
        return total(directory)


def for_one(program, profile, url, reads):
    """Instructions for one read."""
    few, many = (run(program, profile, url, count) for count in (reads, 3 * reads))
    return (many - few) / (2 * reads)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reads", type=int, default=20_000)
    options = parser.parse_args()
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed here: apt install valgrind")
    program = servers.program() if os.environ.get("TRUNKLINE") else build()
    servers.clean_up_when_told_to_end()
    for name, profile, url in WAYS:
        print(f"{name}: {for_one(program, profile, url, options.reads):,.0f} instructions for a READ of 4 KiB", flush=True)


if __name__ == "__main__":
    main()
