#!/usr/bin/env python3
"""The same commit gives the same bytes: build all packages twice from nothing, in clones in two folders with names of different
length, and compare them.

    reproducible.py [--target TRIPLE]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness.tally import Tally

ROOT = Path(__file__).resolve().parents[2]
BUILD_LIMIT_S = 3600
FOLDERS = ("a", "another/and-longer/name")


def build(commit: str, folder: Path, words: list[str]) -> Path:
    """Clone the commit into a folder and make its packages there; gives their folder."""
    folder.mkdir(parents=True)
    subprocess.run(["git", "clone", "-q", "--no-checkout", ROOT, folder / "checkout"], check=True, timeout=300)
    subprocess.run(["git", "-C", folder / "checkout", "checkout", "-q", commit], check=True, timeout=300)
    environment = {name: value for name, value in os.environ.items() if name not in ("CARGO_TARGET_DIR", "SOURCE_DATE_EPOCH")}
    subprocess.run([folder / "checkout/packaging/package.py", *words], check=True, timeout=BUILD_LIMIT_S, env=environment)
    return folder / "checkout/target/packages"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--target", help="the processor [default: this machine's]")
    options = parser.parse_args()
    tally = Tally("packages-reproducible")
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    with tempfile.TemporaryDirectory(prefix="proof-reproducible-", dir="/var/tmp") as directory:
        words = ["--target", options.target] if options.target else []
        first, second = (build(commit, Path(directory) / folder, words) for folder in FOLDERS)
        names = sorted({path.name for made in (first, second) for path in made.iterdir()})
        for name in names:
            one, other = first / name, second / name
            same = one.exists() and other.exists() and one.read_bytes() == other.read_bytes()
            tally.add("pass" if same else "fail", name, "the two builds differ")
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
