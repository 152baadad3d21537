"""The agent of a machine that is a guest (guest_machine.py): it runs commands, and starts programs and signals them."""

import datetime
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.kernel_client import console

# What the programs write goes to the host by this console.
LOG = "/dev/tty1"
LOOKS_EVERY_S, STOOD_STILL_S = 0.25, 0.5


class Agent:
    """The programs of the machine."""

    def __init__(self) -> None:
        self._started: dict[int, subprocess.Popen[bytes]] = {}
        threading.Thread(target=self._watch, daemon=True).start()

    @staticmethod
    def _watch() -> None:
        """Log each time for which the machine stood still: a busy host may not run a guest for seconds."""
        log = os.open(LOG, os.O_WRONLY | os.O_NOCTTY)
        last = time.monotonic()
        while True:
            time.sleep(LOOKS_EVERY_S)
            now = time.monotonic()
            if now - last > LOOKS_EVERY_S + STOOD_STILL_S:
                os.write(log, f"{datetime.datetime.now().isoformat()} the machine stood still for {now - last:.1f} s\n".encode())
            last = now

    def run(self, command: list[str], within_s: float) -> dict[str, Any]:
        """Run a command. Returns its status and what it wrote."""
        done = subprocess.run(command, capture_output=True, timeout=within_s, stdin=subprocess.DEVNULL)
        return {"status": done.returncode, "output": done.stdout.decode("latin-1"), "errors": done.stderr.decode("utf-8", "replace")}

    def start(self, command: list[str]) -> int:
        """Start a program. Returns its ID."""
        # A program that writes to a terminal by itself would write in colours.
        started = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        threading.Thread(target=self._copy, args=(started,), daemon=True).start()
        self._started[started.pid] = started
        return started.pid

    @staticmethod
    def _copy(started: subprocess.Popen[bytes]) -> None:
        log = os.open(LOG, os.O_WRONLY | os.O_NOCTTY)
        assert started.stdout is not None
        for line in started.stdout:
            os.write(log, line)
        os.close(log)

    def status(self, pid: int) -> int | None:
        """Return a program's exit status, or nothing while it runs."""
        return self._started[pid].poll()

    def signal(self, pid: int, number: int) -> str:
        """Send a signal to a program that runs."""
        self._started[pid].send_signal(number)
        return ""

    def has_address(self, address: str) -> bool:
        """Return whether the machine has an address: nobody else can bind to it."""
        with socket.socket() as tried:
            try:
                tried.bind((address, 0))
            except OSError:
                return False
        return True

    def mounted(self, directory: str) -> str:
        """Return the kind of file system at a directory, or nothing."""
        for line in reversed(Path("/proc/mounts").read_text().splitlines()):
            _, where, kind, *_ = line.split()
            if where == directory:
                return kind
        return ""


def main() -> None:
    agent = Agent()

    def answer(do: str, arguments: dict[str, Any]) -> Any:
        try:
            return {"is": getattr(agent, do)(**arguments)}
        except Exception as error:  # the host decides whether a failed action is a failure
            return {"refused": f"{type(error).__name__} {error}"}

    console.serve(answer)


if __name__ == "__main__":
    main()
