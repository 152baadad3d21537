"""A machine that is a guest: user-mode-linux with a kernel, a client of Ceph, a network and memory of its own.

Nothing of it is shared with other machines but this host's files, which it reads. Its death is kill -9 of the guest: its
kernel is gone with everything that it had not sent.
"""

import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from proving.cluster import listener_store, network
from proving.cluster.daemon import NotUp, last_lines, wait_until
from proving.cluster.machine import Machine, Process
from proving.kernel_client import console, guest, kernels

HERE = Path(__file__).resolve().parent
# The kernel, by its name in kernels.py.
SERIES = "6.12"
MEMORY_MIB = 512
BOOT_WITHIN_S, ANSWERS_WITHIN_S = 60, 90
# A directory of its own memory.
RUN_DIR = "/run/node"


def missing() -> str:
    """Return the reason why there are no such machines here, as one line; empty if there are."""
    return kernels.KERNELS[SERIES].missing()


class NoStore(listener_store.ListenerStore):
    """No store for listening sockets: the programs of these machines do not start again in place."""

    def __init__(self) -> None:
        """Nothing is to be done."""

    def clear(self) -> None:
        """Nothing is to be done."""

    def environment(self) -> list[str]:
        """Return no variables."""
        return []

    def passing(self, command: list[str]) -> tuple[list[str], list[int]]:
        """Return the command line as it is."""
        return command, []


class GuestMachine(Machine):
    """One machine of the cluster."""

    def __init__(self, switch: network.ClusterNetwork, name: str, directory: Path, work: Path) -> None:
        super().__init__(switch, name, directory, work)
        self.run_dir = Path(RUN_DIR)
        self._tap: network.GuestCable | None = None
        self._guest: guest.Guest | None = None
        self._log: Path | None = None

    @staticmethod
    def _make_listeners(path: Path) -> listener_store.ListenerStore:
        return NoStore()

    def boot(self) -> None:
        """Start the machine: with nothing of its former life but the files in the store."""
        self._tap = self._switch.plug_guest(self.name)
        kernel = kernels.KERNELS[SERIES]
        reading, writing = os.pipe()
        with tempfile.TemporaryDirectory(prefix="cluster-machine-") as laid:
            job = [sys.executable, console.lay([HERE / "machine_agent.py"], Path(laid))]
            self._guest = guest.Guest(self._tap, job, MEMORY_MIB, kernel, writing)
            os.close(writing)
            threading.Thread(target=self._keep, args=(reading,), daemon=True).start()
            self._guest.answer(BOOT_WITHIN_S)
        self.run("hostname", self.name)
        # The work directory of this run, which the guest's own memory hides.
        self.run("mkdir", "-p", self._work, RUN_DIR)
        self.run("mount", "-t", "hostfs", "none", self._work, "-o", kernel.path(self._work))
        for words in ("vec0 down", "vec0 name eth0", "eth0 up"):
            self.run("ip", "link", "set", *words.split())
        self.run("/run/modprobe", "ipv6")
        self.run("ip", "addr", "add", f"{network.ipv6_of(self.address)}/64", "dev", "eth0", "nodad")

    def _keep(self, reading: int) -> None:
        """Write what the programs write into the log of the one that was started last."""
        with os.fdopen(reading, "rb") as lines:
            for line in lines:
                if self._log is not None:
                    with self._log.open("ab") as out:
                        out.write(line.replace(b"\r", b""))

    def ask(self, do: str, **words: Any) -> Any:
        """Ask the agent. Raises OSError if it refuses."""
        if self._guest is None:
            raise OSError(f"{self.name} is dead")
        said = self._guest.ask(ANSWERS_WITHIN_S, do=do, **words)
        if "refused" in said:
            raise OSError(f"{self.name}: {do}: {said['refused']}")
        return said["is"]

    def run(self, *command: object, limit_s: float = 30) -> str:
        """Run a command on this machine. Returns its output."""
        words = [str(word) for word in command]
        done = self.ask("run", command=words, within_s=limit_s)
        if done["status"] != 0:
            raise OSError(f"{self.name}: {' '.join(words)}: {(done['errors'] or done['output']).strip()[-400:]}")
        output: str = done["output"]
        return output

    def inside(self, command: list[str]) -> list[str]:
        raise NotImplementedError("this host cannot enter a guest")

    def read(self, path: Path) -> bytes:
        """Return the content of a file."""
        return self.run("cat", path).encode("latin-1")

    def start(self, command: list[str], log: Path, descriptors: Sequence[int] = ()) -> "GuestProcess":
        """Start a program. What it writes goes to the log."""
        assert not descriptors
        self._log = log
        return GuestProcess(self, self.ask("start", command=command), log)

    def has_address(self, address: str) -> bool:
        """Return whether this machine has an address."""
        return bool(self.ask("has_address", address=address))

    def mounted(self) -> str:
        """Return the kind of file system at its directory of the store, or nothing."""
        return str(self.ask("mounted", directory=str(self.directory)))

    def die(self, meanwhile: Callable[[Self], None] = lambda _: None) -> float:
        """Kill the guest. No packet tells anybody. Returns the moment."""
        at = time.monotonic()
        if self._guest is None or self._tap is None:
            return at
        self._guest.__exit__()
        self._tap.unplug()
        self._guest = None
        return at

    def alive(self) -> bool:
        """Return whether the machine runs."""
        return self._guest is not None

    def pause(self) -> None:
        """Let the machine stand still, as a hypervisor does in a snapshot."""
        assert self._guest is not None
        self._guest.signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Let it go on."""
        assert self._guest is not None
        self._guest.signal(signal.SIGCONT)


class GuestProcess(Process):
    """A program on such a machine."""

    def __init__(self, machine: GuestMachine, pid: int, log: Path) -> None:
        self._on, self._pid, self.log = machine, pid, log

    def status(self) -> int | None:
        """Return its exit status, or nothing while it runs."""
        found: int | None = self._on.ask("status", pid=self._pid)
        return found

    def alive(self) -> bool:
        """Return whether it runs."""
        return self._on.alive() and self.status() is None

    def signal(self, number: int) -> None:
        """Send a signal to it."""
        if not self.alive():
            raise NotUp(f"{self._on.name}: the process has ended: {last_lines(self.log)}")
        self._on.ask("signal", pid=self._pid, number=number)

    def pause(self) -> None:
        """Stop it, until it gets SIGCONT."""
        self.signal(signal.SIGSTOP)

    def wait(self, limit_s: float) -> int:
        """Wait for its end. Returns its status."""
        wait_until(f"{self._on.name}: the end of the process", lambda: self.status() is not None, limit_s, self.log)
        return self.status() or 0
