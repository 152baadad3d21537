"""The guest's side of nfs_exports.py. It mounts one share at a time, and works on it as the requested user.

A request is one line of JSON with `do`, the name of a function here, and its arguments. The answer is one line too
(guest.py, `Guest`): the result, or the name of the error.
"""

import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.kernel_client import console

MOUNT = "/mnt/a"


@contextlib.contextmanager
def being(uid: int, gid: int, groups: Sequence[int] = ()) -> Iterator[None]:
    """Work as a user with one group, or with more."""
    os.setgroups([gid, *groups])
    os.setegid(gid)
    os.seteuid(uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups([0])


def mount(source: str, options: str) -> str:
    os.makedirs(MOUNT, exist_ok=True)
    done = subprocess.run(["mount.nfs", source, MOUNT, "-o", options], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"


def make(uid: int, gid: int, name: str) -> str:
    """Create a file that everybody may read and that holds its name."""
    with being(uid, gid):
        file = os.open(f"{MOUNT}/{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        try:
            os.write(file, name.encode())
            os.fsync(file)
        finally:
            os.close(file)
    return ""


def read(uid: int, gid: int, name: str, groups: Sequence[int] = ()) -> str:
    with being(uid, gid, groups), open(f"{MOUNT}/{name}", encoding="utf-8") as file:
        return file.read()


def give(uid: int, gid: int, name: str, to: int) -> str:
    """Give a file to another user and group."""
    with being(uid, gid):
        os.chown(f"{MOUNT}/{name}", to, to)
    return ""


def names(uid: int, gid: int) -> list[str]:
    with being(uid, gid):
        return sorted(os.listdir(MOUNT))


def enter(name: str) -> str:
    """List a directory."""
    os.listdir(f"{MOUNT}/{name}")
    return ""


def release() -> str:
    """Unmount. Returns the error."""
    return subprocess.run(["umount", "-R", MOUNT], capture_output=True, text=True).stderr.strip()


ACTIONS: dict[str, Callable[..., Any]] = {function.__name__: function for function in (mount, make, read, give, names, enter, release)}


def answer(do: str, arguments: dict[str, Any]) -> Any:
    try:
        return ACTIONS[do](**arguments)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


if __name__ == "__main__":
    console.serve(answer)
