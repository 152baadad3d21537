"""The guest's side of nfs_handles.py. It mounts a share, holds directories and files of it, and checks them on request.

A request is one line of JSON with `do`, the name of a function here, and its arguments; the answer is one line too
(guest.py, `Guest`). Held files are reached only by their filehandle: no name above them is looked up again.
"""

import errno
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.kernel_client import console

MOUNT = "/mnt/a"
held: dict[str, int] = {}


def content(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest() * 40


def mount(source: str, options: str) -> str:
    os.makedirs(MOUNT, exist_ok=True)
    done = subprocess.run(["mount.nfs", source, MOUNT, "-o", options], capture_output=True, text=True)
    return done.stderr.strip()


def make(directory: str, count: int) -> str:
    """Create a directory with files, and hold it."""
    path = f"{MOUNT}/{directory}"
    os.makedirs(path)
    held[directory] = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    for number in range(count):
        write(directory, f"f{number}")
    return ""


def write(directory: str, name: str) -> str:
    """Create or replace a file in a held directory."""
    file = os.open(name, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644, dir_fd=held[directory])
    try:
        os.write(file, content(name))
        os.fsync(file)
    finally:
        os.close(file)
    return ""


def hold(directory: str, name: str) -> int:
    """Hold a file without opening it."""
    held[f"{directory}/{name}"] = os.open(name, os.O_PATH, dir_fd=held[directory])
    return os.fstat(held[f"{directory}/{name}"]).st_ino


def look(what: str) -> int | str:
    """Return the inode number of a held file or directory, or the name of the error."""
    try:
        return os.fstat(held[what]).st_ino
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def check(directory: str, count: int) -> list[str]:
    """Read every file of a held directory. Returns the differences."""
    try:
        wrong = sorted(set(os.listdir(held[directory])) ^ {f"f{number}" for number in range(count)})[:3]
        for number in range(count):
            file = os.open(f"f{number}", os.O_RDONLY, dir_fd=held[directory])
            try:
                if os.read(file, 1 << 20) != content(f"f{number}"):
                    wrong.append(f"f{number} differs")
            finally:
                os.close(file)
        return wrong[:5]
    except OSError as error:
        return [f"{directory}: {error}"]


def release() -> str:
    """Close all held files and unmount. Returns the errors."""
    for descriptor in held.values():
        os.close(descriptor)
    held.clear()
    return subprocess.run(["umount", MOUNT], capture_output=True, text=True).stderr.strip()


ACTIONS: dict[str, Callable[..., Any]] = {function.__name__: function for function in (mount, make, write, hold, look, check, release)}


def answer(do: str, arguments: dict[str, Any]) -> Any:
    try:
        return ACTIONS[do](**arguments)
    except OSError as error:
        return f"{do}: {error}"


if __name__ == "__main__":
    console.serve(answer)
