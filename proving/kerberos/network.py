"""A network of its own for a realm: a namespace with addresses, name servers and a Kerberos configuration of its own.

`ip netns exec` lays the files of /etc/netns/NAME over those of /etc, so programs inside need no options.
"""

import itertools
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Self

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_serial = itertools.count()
# The addresses of the controllers, and that of the machine that joins.
PREFIX = "10.88.0."
MEMBER = f"{PREFIX}10"


class Missing(Exception):
    """This machine lacks something that a realm needs; the message names it."""


def environment() -> dict[str, str]:
    return dict(os.environ, PATH=_PATH, LC_ALL="C.UTF-8")


def end_process(process: subprocess.Popen[bytes], limit_s: float) -> None:
    """Ask a process to end, and kill it after the time limit."""
    process.terminate()
    try:
        process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)


class RealmNetwork:
    """The namespace; a context manager.

    `inside` runs commands there. With `name` it is a namespace that is there already, such as that of a guest
    (kernel_client/guest.py), and `prefix` and `device` say where its addresses lie. The address of the member is added
    only to a namespace of its own.
    """

    def __init__(self, name: str = "", prefix: str = PREFIX, device: str = "lo") -> None:
        self.is_own = not name
        self.name = name or f"realm-{os.getpid()}-{next(_serial)}"
        self.prefix, self.device = prefix, device
        self.member = f"{prefix}10" if self.is_own else f"{prefix}1"
        self._files = Path("/etc/netns") / self.name

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise Missing("needs root for a network namespace")
        if shutil.which("ip", path=_PATH) is None:
            raise Missing("needs the Debian package iproute2")
        self._files.mkdir(parents=True)
        try:
            if self.is_own:
                self._ip("netns", "add", self.name)
                self._ip("-n", self.name, "link", "set", "lo", "up")
                self.add(self.member)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self.is_own:
            subprocess.run(["ip", "netns", "del", self.name], check=False, env=environment(), stderr=subprocess.DEVNULL)
        shutil.rmtree(self._files, ignore_errors=True)
        # Only the last realm leaves this directory empty.
        try:
            self._files.parent.rmdir()
        except OSError:
            pass

    def address(self, number: int) -> str:
        """Return the address of the controller with this number, which counts from 1."""
        return f"{self.prefix}{10 + number}"

    def add(self, address: str) -> None:
        """Give the namespace another address."""
        self._ip("-n", self.name, "addr", "add", f"{address}/24", "dev", self.device)

    def write(self, name: str, text: str) -> None:
        """Write a file that lies over /etc/`name` inside."""
        # `ip netns exec` can only lay a file over another one.
        if not (Path("/etc") / name).exists():
            (Path("/etc") / name).touch()
        (self._files / name).write_text(text)

    def inside(self, command: Sequence[object]) -> list[str]:
        """Return the command line that runs `command` inside."""
        return ["ip", "netns", "exec", self.name, *map(str, command)]

    def run(self, *command: object, limit_s: float = 60, check: bool = True, stdin: str = "",
            variables: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command inside and return its end. With `check` a failure raises RuntimeError with its words."""
        done = subprocess.run(self.inside(command), capture_output=True, text=True, timeout=limit_s, input=stdin,
                              env={**environment(), **(variables or {})})
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(map(str, command[:3]))} ended with {done.returncode}: {(done.stderr or done.stdout).strip()[-600:]}")
        return done

    @staticmethod
    def _ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, timeout=30, env=environment())
