"""The commit of the tree under test."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def commit(*written: Path) -> str:
    """Return the commit, with a mark if files differ from it. Files in `written`, which the run itself writes, do not count."""
    git = ["git", "-C", str(ROOT)]
    name = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True).stdout.strip()
    others = [".", *(f":(exclude){path.relative_to(ROOT)}" for path in written)]
    changed = subprocess.run([*git, "status", "--porcelain", "-uno", "--", *others], capture_output=True, text=True).stdout
    return f"{name or 'unknown'}{'-dirty' if changed else ''}"
