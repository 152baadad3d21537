"""The results of the last pynfs runs, committed with the commit of their runs. No package archive has the suite, so
most runs of `make test` are without it and print these results instead.

`tally.toml` has one section for each group: `4.1 all`, `4.2 all`, `4.1 reboot`.
"""

import subprocess
import tomllib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from proving.harness import tree

FILE = Path(__file__).resolve().parent / "tally.toml"
HEAD = "# Written by proving/pynfs/run.py (make pynfs): what each group has come to last. Not to be edited.\n"


def load() -> dict[str, Any]:
    """Return group -> its stored result."""
    return tomllib.loads(FILE.read_text()) if FILE.exists() else {}


def note(group: str, counts: Sequence[int], suite: str) -> None:
    """Store a group's new result: passed, failed, skipped. `suite` is the commit of pynfs."""
    kept = load()
    kept[group] = {"passed": counts[0], "failed": counts[1], "skipped": counts[2], "commit": tree.commit(FILE), "suite": suite,
                   "date": datetime.now(UTC).replace(microsecond=0, tzinfo=None)}
    sections = [HEAD]
    for name in sorted(kept):
        entry = kept[name]
        sections.append(f'\n["{name}"]\npassed = {entry["passed"]}\nfailed = {entry["failed"]}\nskipped = {entry["skipped"]}\n'
                        f'commit = "{entry["commit"]}"\nsuite = "{entry["suite"]}"\ndate = {entry["date"].isoformat()}\n')
    FILE.write_text("".join(sections))


def suite_commit(directory: Path) -> str:
    """Return the commit of a pynfs checkout."""
    done = subprocess.run(["git", "-C", str(directory), "rev-parse", "--short=7", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def _commits_since(name: str) -> int | None:
    """Return the number of commits since then; None if this copy of the repository does not know the commit."""
    git = ["git", "-C", str(tree.ROOT), "rev-list", "--count", f"{name.removesuffix('-dirty')}..HEAD"]
    done = subprocess.run(git, capture_output=True, text=True)
    return int(done.stdout) if done.returncode == 0 else None


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def told() -> str:
    """Describe the stored results and their age in one line; empty if there are none."""
    parts = []
    for group, entry in sorted(load().items()):
        of = entry["passed"] + entry["failed"]
        days = (datetime.now(UTC).replace(tzinfo=None) - entry["date"]).days
        since = _commits_since(entry["commit"])
        behind = "" if since is None else f", {_counted(since, 'commit')}"
        parts.append(f"{group}: {entry['passed']} of {of} passed at {entry['commit']}, {_counted(days, 'day')}{behind} ago")
    return "; ".join(parts)
