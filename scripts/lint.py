#!/usr/bin/env python3
"""Check the Python of this tree: its form with ruff, its types with mypy, as pyproject.toml says.

The tools come from PyPI in the versions that pyproject.toml names, into an environment outside the checkout that is made once. A tool
that cannot be had is skipped, with the reason.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trunkline-proving" / "lint"
INSTALL_LIMIT_S, CHECK_LIMIT_S = 240, 120
CHECKS = {"ruff": ["ruff", "check", "--quiet", "--output-format=concise"], "mypy": ["mypy", "--no-error-summary"]}


def install(wanted: list[str]) -> str:
    """Make the environment, unless it has these versions; gives why that is not possible, or nothing."""
    installed = CACHE / "installed"
    if installed.exists() and installed.read_text() == "\n".join(wanted):
        return ""
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    for command in ([sys.executable, "-m", "venv", "--clear", str(CACHE)], [str(CACHE / "bin" / "python"), "-m", "pip", "install", "-q", *wanted]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=INSTALL_LIMIT_S)
        except (OSError, subprocess.TimeoutExpired) as reason:
            return str(reason)
        if done.returncode != 0:
            return " ".join((done.stderr or done.stdout).split())[-300:]
    installed.write_text("\n".join(wanted))
    return ""


def main() -> int:
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]["lint"]
    reason = install(wanted)
    # What they remember from one run to the next lies outside the checkout too.
    environment = dict(os.environ, RUFF_CACHE_DIR=str(CACHE / "ruff"), MYPY_CACHE_DIR=str(CACHE / "mypy"))
    failed = 0
    for name, (program, *words) in CHECKS.items():
        if reason:
            print(f"SKIPPED {name}: {reason}", flush=True)
        elif subprocess.run([CACHE / "bin" / program, *words], cwd=ROOT, env=environment, timeout=CHECK_LIMIT_S).returncode != 0:
            print(f"FAIL {name}", flush=True)
            failed += 1
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
