"""The guest's side of linux.py: mounts, reads and writes large, and works on a tree of files as people do, each step timed.

A request is one line of JSON with `do` and that action's arguments (console.py). The actions are the methods of `Agent` whose names
they are. Start reading at `Agent.tree`.
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
# Of the guest's memory: reading it is no call of the host.
ARCHIVE = "/run/tree.tar"


class StepFailed(Exception):
    """A step did not do what it must."""


def _timed(words: list[str], within: str) -> tuple[float, str]:
    """Runs a command in a directory; gives its seconds and what it said."""
    began = time.monotonic()
    done = subprocess.run(words, cwd=within, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
    seconds = time.monotonic() - began
    if done.returncode != 0:
        raise StepFailed(f"{' '.join(words)} ended with {done.returncode}: {done.stderr.strip()[-300:]}")
    return seconds, done.stdout.strip()


def _forget(programs: list[str]) -> None:
    """Drops what the kernel keeps of files; the programs that are to run are read again at once."""
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
        """Unmount it."""
        subprocess.run(["umount", where], check=True, timeout=LIMIT_S)

    def large(self, path: str, mib: int, passes: int, write: bool) -> float:
        """Read a file so many times, or write over it, past the caches; answers with the seconds."""
        ends = ["if=/dev/zero", f"of={path}", "oflag=direct", "conv=notrunc"] if write else [f"if={path}", "of=/dev/null", "iflag=direct"]
        words = ["dd", f"bs={BLOCK_MIB}M", f"count={mib // BLOCK_MIB}", "status=none", *ends]
        return sum(_timed(words, "/")[0] for _ in range(passes))

    def take(self, archive: str) -> None:
        """Copy the archive of the tree to where it is unpacked from."""
        shutil.copy(archive, ARCHIVE)

    def tree(self, where: str, repository: str, names: int, size: int) -> dict[str, float]:
        """What people do to a tree, one step after the other; answers with the seconds of each by its name. Each begins without
        anything in the kernel's caches. `names` and `size` are how many it has and the bytes of its files."""
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
        # What a step that failed has left.
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
        except Exception as error:  # the host says what could not be measured
            return {"refused": f"{type(error).__name__} {error}"}

    console.serve(answer)


if __name__ == "__main__":
    main()
