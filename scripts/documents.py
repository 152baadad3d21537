#!/usr/bin/env python3
"""Check the documents: every relative link leads to a file and a heading of it, and every file that is named as code exists.

A file is named by the end of its path, in which `src` may be left out: `nfs/op/read.rs` is crates/nfs/src/op/read.rs. README.md has
a size that fits the first screen.
"""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README_BYTES = 6144
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.*?)\s*$", re.MULTILINE)
# A block between fences, and code within a line, hold no links.
FENCED = re.compile(r"^```.*?^```[^\n]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]+`")
# A file of this tree within code: a source file, or a folder and an ending that only such files have.
FILE = re.compile(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|sh|md|service)|(?:[\w.-]+/)*[\w.-]+\.rs)\b")
# The changes of a release name files of their time.
HISTORY = {"CHANGELOG.md"}


def anchor(heading: str) -> str:
    """The anchor that a forge makes of a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


@cache
def anchors(page: Path) -> set[str]:
    """All anchors of a page; a heading that stands there again has a number."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCED.sub("", page.read_text())):
        name, number = anchor(heading), 0
        while (unique := f"{name}-{number}" if number else name) in found:
            number += 1
        found.add(unique)
    return found


def faults(page: Path, files: list[str]) -> list[str]:
    """What is wrong with the links and the file names of a page."""
    text = FENCED.sub(lambda block: "\n" * block[0].count("\n"), page.read_text())
    found = []

    def fault(position: int, reason: str) -> None:
        found.append(f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, position) + 1}: {reason}")

    # Code is as long afterwards, so that positions stay.
    for link in LINK.finditer(CODE.sub(lambda code: "`" * len(code[0]), text)):
        path, _, name = link[1].partition("#")
        if re.match(r"[a-z]+:", path):
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            fault(link.start(), f"{link[1]}: there is no such file")
        elif name and (target.suffix != ".md" or name not in anchors(target)):
            fault(link.start(), f"{link[1]}: there is no such heading")
    for named in FILE.finditer(text) if page.name not in HISTORY else ():
        ends = (f"/{named[1]}", "/" + named[1].replace("/", "/src/", 1) if "/" in named[1] else f"/{named[1]}")
        if not any(f"/{file}".endswith(ends) for file in files):
            fault(named.start(), f"{named[1]}: there is no such file")
    return found


def main() -> int:
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [file for file in listed.stdout.splitlines() if (ROOT / file).exists()]
    found = [fault for file in files if file.endswith(".md") for fault in faults(ROOT / file, files)]
    size = (ROOT / "README.md").stat().st_size
    if size > README_BYTES:
        found.append(f"README.md:1: {size} bytes, {README_BYTES} are allowed")
    print(*found, sep="\n", end="\n" if found else "")
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main())
