"""A process in the foreground that is started, killed and started again, with its output in a file."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path


class NotUp(RuntimeError):
    """A part of the cluster does not answer in time. The message has the last lines of its output."""


def wait_until(what: str, check: Callable[[], bool], limit_s: float, log: Path | None = None, every_s: float = 0.05) -> None:
    """Ask `check` until it is true. Raises NotUp after `limit_s` seconds."""
    end = time.monotonic() + limit_s
    while not check():
        if time.monotonic() > end:
            raise NotUp(f"{what}: not within {limit_s} s{': ' + last_lines(log) if log else ''}")
        time.sleep(every_s)


def last_lines(log: Path, count: int = 6) -> str:
    """Return the last lines of a file, as one line."""
    try:
        return " | ".join(log.read_text(errors="replace").splitlines()[-count:])
    except OSError:
        return ""


def offspring(pid: int) -> list[int]:
    """Return the children of a process."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


class Daemon:
    """A command that runs until it is killed. Its words end in the program: whatever stands before it replaces itself."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._command, self.log = command, log
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, in a session of its own."""
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def alive(self) -> bool:
        """Return whether it runs."""
        return self._process is not None and self._process.poll() is None

    def signal(self, number: int) -> None:
        """Send a signal to it."""
        assert self._process is not None
        os.kill(self._process.pid, number)

    def kill(self) -> None:
        """End it at once."""
        if self._process is not None and self._process.poll() is None:
            self.signal(signal.SIGKILL)
            self._process.wait(timeout=30)
