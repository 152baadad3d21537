"""The guest's side of linux.py. It mounts, reads and writes large files, and does ordinary work on a tree of files,
with the time of each step.

A request is one line of JSON with `do` and that action's arguments (console.py). The value of `do` is the name of a
method of `Agent`. Start reading at `Agent.tree`.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.kernel_client import console

LIMIT_S = 180
BLOCK_MIB = 4
# A place in the guest's memory: reading it makes no call to the host.
ARCHIVE = "/run/tree.tar"


class StepFailed(Exception):
    """A step failed or had the wrong result."""


def _timed(words: list[str], within: str) -> tuple[float, str]:
    """Run a command in a directory. Returns its seconds and its output."""
    began = time.monotonic()
    done = subprocess.run(words, cwd=within, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
    seconds = time.monotonic() - began
    if done.returncode != 0:
        raise StepFailed(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return seconds, done.stdout.strip()


def _forget(programs: list[str]) -> None:
    """Drop the kernel's caches, then read the programs of the next step again."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")
    for program in programs:
        subprocess.run([program, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True, timeout=LIMIT_S)


class Agent:
    """The actions."""

    def mount(self, kind: str, where: str, source: str, options: str) -> None:
        """Mount a share or an export."""
        os.makedirs(where, exist_ok=True)
        done = subprocess.run(["mount", "-t", kind, "-o", options, source, where], capture_output=True, text=True, timeout=LIMIT_S)
        if done.returncode != 0:
            raise StepFailed(f"mount {source}: {done.stderr.strip()}")

    def umount(self, where: str) -> None:
        """Unmount a path."""
        subprocess.run(["umount", where], check=True, timeout=LIMIT_S)

    def large(self, path: str, mib: int, passes: int, write: bool) -> float:
        """Read a file `passes` times, or write over it, past the caches. Returns the seconds."""
        ends = ["if=/dev/zero", f"of={path}", "oflag=direct", "conv=notrunc"] if write else [f"if={path}", "of=/dev/null", "iflag=direct"]
        words = ["dd", f"bs={BLOCK_MIB}M", f"count={mib // BLOCK_MIB}", "status=none", *ends]
        return sum(_timed(words, "/")[0] for _ in range(passes))

    def take(self, archive: str) -> None:
        """Copy the archive of the tree to the place from which it is unpacked."""
        shutil.copy(archive, ARCHIVE)

    def tree(self, where: str, repository: str, names: int, size: int) -> dict[str, float]:
        """Do ordinary work on a tree, one step after the other. Returns the seconds of each step by name. Each step
        begins with empty kernel caches. `names` and `size` are the tree's number of names and bytes."""
        steps = {
            "untar": (["tar", "-xf", ARCHIVE], ["tar"], ""),
            "find with stat": (["sh", "-c", 'find tree -printf "%s %m %T@\\n" | wc -l'], ["find", "wc"], str(names)),
            "read all": (["sh", "-c", "find tree -type f -exec cat {} + | wc -c"], ["find", "cat", "wc"], str(size)),
            "cp -r": (["cp", "-r", "tree", "copy"], ["cp"], ""),
            "git clone": (["git", "clone", "--quiet", f"file://{repository}", "clone"], ["git"], ""),
            "git status": (["git", "-C", "clone", "status", "--porcelain"], ["git"], ""),
            "rm -rf": (["rm", "-rf", "tree", "copy", "clone"], ["rm"], ""),
        }
        seconds = {}
        # Leftovers of a step that failed.
        subprocess.run(steps["rm -rf"][0], cwd=where, check=True, timeout=LIMIT_S)
        for name, (words, programs, wanted) in steps.items():
            _forget(programs)
            seconds[name], said = _timed(words, where)
            if said != wanted:
                raise StepFailed(f"{name} said {said[:200]!r} instead of {wanted!r}")
        if left := os.listdir(where):
            raise StepFailed(f"rm -rf left {left[:5]}")
        return seconds


def main() -> None:
    agent = Agent()

    def answer(do: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"done": getattr(agent, do)(**arguments)}
        except Exception as error:  # the host reports it as a case without a measurement
            return {"refused": f"{type(error).__name__} {error}"}

    console.serve(answer)


if __name__ == "__main__":
    main()
