"""The guest's side of recycle.py. It mounts shares, and runs commands of ordinary users on them.

A request is one line of JSON with `do`, the name of a function here, and its arguments; the answer is one line too
(guest.py, `Guest`).
"""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.kernel_client import console

LIMIT_S = 60


def mount(kind: str, source: str, where: str, options: str) -> str:
    """Mount a share. Returns the error."""
    os.makedirs(where, exist_ok=True)
    done = subprocess.run([f"mount.{kind}", source, where, "-o", options], capture_output=True, text=True, timeout=LIMIT_S)
    return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"


def run(uid: int, where: str, command: str) -> tuple[int, str]:
    """Run a command line of the shell as a user. Returns its status, and what it printed."""
    done = subprocess.run(["sh", "-c", command], cwd=where, user=uid, group=uid, extra_groups=[], env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S)
    return done.returncode, done.stdout.strip()


def remove_open(uid: int, where: str) -> tuple[int, str]:
    """Remove a file that a program of the client has open. Prints what it read and the names meanwhile, then closes it."""
    script = "exec 3<busy; rm busy; cat <&3; ls -A; exec 3<&-; ls -A"
    return run(uid, where, script)


def release(where: str) -> str:
    return subprocess.run(["umount", where], capture_output=True, text=True, timeout=LIMIT_S).stderr.strip()


ACTIONS: dict[str, Callable[..., Any]] = {function.__name__: function for function in (mount, run, remove_open, release)}


def answer(do: str, arguments: dict[str, Any]) -> Any:
    try:
        return ACTIONS[do](**arguments)
    except (OSError, subprocess.SubprocessError) as error:
        return f"{do}: {error}"


if __name__ == "__main__":
    console.serve(answer)
