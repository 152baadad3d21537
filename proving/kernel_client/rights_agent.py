"""The guest's side of rights.py. It mounts shares and finds out a user's rights on a mount. On the host, rights.py lets
it find out the same (`as_user`)."""

import errno
import functools
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.kernel_client import console

FURTHER_GROUP = 61003


def _open(path: str, flags: int) -> None:
    file = os.open(path, flags)
    try:
        if flags & os.O_ACCMODE == os.O_RDONLY:
            os.read(file, 1)
        else:
            os.write(file, b"t")
            os.fsync(file)
    finally:
        os.close(file)


def _make_file(path: str, mode: int) -> None:
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))


def _access(path: str, bits: int) -> None:
    if not os.access(path, bits):
        raise PermissionError(errno.EACCES, "access")


# The tests for a file, and those for a directory. None changes anything that a later one needs.
OF_FILE: dict[str, Callable[[str], Any]] = {
    "read": lambda path: _open(path, os.O_RDONLY),
    "write": lambda path: _open(path, os.O_WRONLY),
    "read and write": lambda path: os.close(os.open(path, os.O_RDWR)),
    "append": lambda path: _open(path, os.O_WRONLY | os.O_APPEND),
    "cut": lambda path: os.truncate(path, 4),
    "run": lambda path: _access(path, os.X_OK),
    "touch": os.utime,
    "set times": lambda path: os.utime(path, (1_700_000_000, 1_700_000_000)),
    "set mode": lambda path: os.chmod(path, os.stat(path).st_mode & 0o7777),
}
OF_DIRECTORY: dict[str, Callable[[str], Any]] = {
    # The first test, because a process that has listed the directory may remember its names.
    "enter": lambda path: os.stat(f"{path}/inside"),
    "list": os.listdir,
    "make a file": lambda path: os.close(os.open(f"{path}/made", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)),
    "make a directory": lambda path: os.mkdir(f"{path}/made-d"),
    "rename": lambda path: os.rename(f"{path}/to-rename", f"{path}/renamed"),
    "remove": lambda path: os.unlink(f"{path}/to-remove"),
    "touch": os.utime,
    "set mode": lambda path: os.chmod(path, os.stat(path).st_mode & 0o7777),
}


def _try(act: Callable[[str], Any], path: str) -> str:
    try:
        act(path)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return "ok"


def probe(base: str) -> dict[str, dict[str, str]]:
    """Return this process' rights on each combination (rights_tree.py) below a directory: by name and action, `ok` or
    the error."""
    found = {}
    for name in sorted(os.listdir(base)):
        path = f"{base}/{name}"
        acts = OF_FILE if name[0] == "f" else OF_DIRECTORY
        found[name] = {what: _try(act, path) for what, act in acts.items()}
    return found


def make(base: str, umask: int, cut: int) -> dict[str, str]:
    """Create files and directories in each directory below another one. The umask is the creator's, and `cut` is
    removed from each mode."""
    os.umask(umask)
    left = ~cut
    found = {}
    for name in sorted(os.listdir(base)):
        for mode in (0o666, 0o640, 0o600):
            made = f"{base}/{name}/f{mode:o}"
            found[made] = _try(functools.partial(_make_file, mode=mode & left), made)
        for mode in (0o777, 0o700):
            made = f"{base}/{name}/d{mode:o}"
            found[made] = _try(functools.partial(os.mkdir, mode=mode & left), made)
    return found


def ask(path: str, *acts: str) -> dict[str, str]:
    """Return the rights on a file."""
    return {act: _try(OF_FILE[act], path) for act in acts}


def mode(path: str, bits: int) -> str:
    """Set a file's mode."""
    return _try(lambda path: os.chmod(path, bits), path)


def mark(path: str, text: str) -> str:
    """Create a file with this text."""
    return _try(lambda path: Path(path).write_text(text), path)


def as_user(uid: int, act: str, words: Sequence[Any]) -> Any:
    """Let a process of a user run a function of `AS_USER`. The user's group has the same number, and the user is in a
    further group. Returns the result."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            os.setgroups([FURTHER_GROUP])
            os.setresgid(uid, uid, uid)
            os.setresuid(uid, uid, uid)
            with open(write, "w", encoding="utf-8") as out:
                json.dump(AS_USER[act](*words), out)
        finally:
            os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as told:
        said = told.read()
    os.waitpid(child, 0)
    return json.loads(said) if said else {"refused": "the process ended"}


def mount(where: str, source: str, options: str, kind: str) -> str:
    os.makedirs(where, exist_ok=True)
    done = subprocess.run([f"mount.{kind}", source, where, "-o", options], capture_output=True, text=True)
    return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"


def get(path: str, attribute: str) -> str:
    return os.getxattr(path, attribute).hex()


def set_attribute(path: str, attribute: str, value: str) -> str:
    os.setxattr(path, attribute, bytes.fromhex(value))
    return ""


# The functions that a user's process may run.
AS_USER: dict[str, Callable[..., Any]] = {"probe": probe, "make": make, "ask": ask, "mode": mode, "mark": mark}
ACTIONS: dict[str, Callable[..., Any]] = {"mount": mount, "as_user": as_user, "get": get, "set": set_attribute}


def answer(do: str, arguments: dict[str, Any]) -> Any:
    try:
        return ACTIONS[do](**arguments)
    except OSError as error:
        return {"refused": errno.errorcode[error.errno or 0]}


if __name__ == "__main__":
    console.serve(answer)
