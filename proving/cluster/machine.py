"""A machine: a process namespace with mounts, a network, a host's name and a boot ID of its own.

The death of its first process ends every process in it at once, as the kernel does that. Its cable is cut before, so
that no packet tells anybody. What it had mounted goes with it.
"""

import json
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Self

from proving.cluster import listener_store, network
from proving.cluster.daemon import NotUp, last_lines, offspring, wait_until
from proving.harness import clock

# The first process ignores the ends of its children, so that none of them stays as a zombie.
_INIT = """
trap '' CHLD
hostname "$1" && mount --bind "$2" /proc/sys/kernel/random/boot_id && mount --bind "$3" "$3" && mount --make-shared "$3" && echo up || exit
exec sleep infinity
"""
BOOT_WITHIN_S = 60
# The machine's file systems are unmounted by then.
END_WITHIN_S = 180


class Machine:
    """One machine of the cluster. `directory` is where it mounts the store; it is the same path on every machine."""

    def __init__(self, switch: network.ClusterNetwork, name: str, directory: Path, work: Path) -> None:
        self._switch, self.name, self.directory, self._work = switch, name, directory, work
        self.address = network.MACHINES[name]
        # The admin sockets of its clients of Ceph, and its programs.
        self.sockets, self.programs = work / f"{name}.sockets", work / f"{name}.bin"
        self.sockets.mkdir()
        self.programs.mkdir()
        # The directory of the node's lock and socket.
        self.run_dir = work / f"{name}.run"
        self.listeners = self._make_listeners(work / f"{name}.notify")
        self._clock = work / f"{name}.clock"
        self.set_clock(0)
        self._parent: subprocess.Popen[bytes] | None = None
        self._init = 0
        self.processes: list[Process] = []
        self.cable: network.Cable | None = None

    @staticmethod
    def _make_listeners(path: Path) -> listener_store.ListenerStore:
        return listener_store.ListenerStore(path)

    def boot(self) -> None:
        """Start the machine: with nothing of its former life but the files in the store."""
        self.cable = self._switch.plug(self.name, self.address)
        boot_id, log = self._work / f"{self.name}.boot-id", self._work / f"{self.name}.boot"
        boot_id.write_text(f"{uuid.uuid4()}\n")
        command = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "--propagation", "private",
                   "bash", "-c", _INIT, "init", self.name, str(boot_id), str(self.directory)]
        with log.open("wb") as out:
            self._parent = subprocess.Popen(self.cable.inside(command), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
        wait_until(f"machine {self.name}", lambda: "up" in log.read_text(), BOOT_WITHIN_S, log)
        self._init = offspring(self._parent.pid)[0]

    def inside(self, command: list[str]) -> list[str]:
        """Return the command line that runs `command` on this machine."""
        assert self.cable is not None
        return ["nsenter", "--target", str(self._init), "--mount", "--uts", "--net", "--pid", *command]

    def run(self, *command: object, limit_s: float = 30) -> str:
        """Run a command on this machine. Returns its output."""
        done = subprocess.run(self.inside([str(word) for word in command]), capture_output=True, text=True, timeout=limit_s, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise OSError(f"{self.name}: {' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()[-400:]}")
        return done.stdout

    def read(self, path: Path) -> bytes:
        """Return the content of a file."""
        return subprocess.run(self.inside(["cat", str(path)]), capture_output=True, timeout=60).stdout

    def start(self, command: list[str], log: Path, descriptors: Sequence[int] = ()) -> "Process":
        """Start a program. What it writes goes to the log."""
        return Process(self, command, log, descriptors)

    def has_address(self, address: str) -> bool:
        """Return whether this machine has an address."""
        listed = json.loads(self.run("ip", "-j", "addr", "show", "dev", "eth0"))
        return any(found["local"] == address for link in listed for found in link["addr_info"])

    def set_clock(self, ahead_s: int) -> None:
        """Let the wall clock of programs that see this machine's clock (`sees_clock`) be so far ahead."""
        new = self._clock.with_suffix(".new")
        new.write_text(f"{ahead_s:+d}s\n")
        new.rename(self._clock)

    def sees_clock(self) -> list[str]:
        """Return the variables of the environment by which a program sees this machine's clock. Time that is measured
        stays as it is."""
        return [f"{name}={value}" for name, value in clock.read_from(str(self._clock)).items()]

    def mounted(self) -> str:
        """Return the kind of file system at its directory of the store, or nothing."""
        for line in reversed(Path(f"/proc/{self._init}/mounts").read_text().splitlines()):
            _, where, kind, *_ = line.split()
            if where == str(self.directory):
                return kind
        return ""

    def hardware(self) -> str:
        """Return the hardware address of its end of the cable."""
        links = json.loads(self.run("ip", "-j", "link", "show", "dev", "eth0"))
        found: str = links[0]["address"]
        return found

    def die(self, meanwhile: Callable[[Self], None] = lambda _: None) -> float:
        """End everything on the machine at once. No packet tells anybody. Returns the moment of its last packet.
        `meanwhile` is done between its last packet and its end."""
        at = time.monotonic()
        if self._parent is None or self.cable is None:
            return at
        self.cable.cut()
        meanwhile(self)
        os.kill(self._init, signal.SIGKILL)
        self.listeners.clear()
        for process in self.processes:
            process.go_on()
        self._parent.wait(timeout=END_WITHIN_S)
        self._switch.unplug(self.cable)
        self._parent = None
        self.processes.clear()
        return at

    def alive(self) -> bool:
        """Return whether the machine runs."""
        return self._parent is not None


class Process:
    """A program on a machine: the child that `nsenter` has put there."""

    def __init__(self, machine: Machine, command: list[str], log: Path, descriptors: Sequence[int] = ()) -> None:
        self.log, self._machine = log, machine
        with open(log, "ab") as out:
            self._entering = subprocess.Popen(machine.inside(command), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True,
                                              pass_fds=descriptors)
        machine.processes.append(self)
        wait_until(f"{machine.name}: {command[0]}", lambda: bool(offspring(self._entering.pid)) or not self.alive(), 10, log, every_s=0.002)
        self._pid = next(iter(offspring(self._entering.pid)), 0)

    def alive(self) -> bool:
        """Return whether it runs."""
        return self._entering.poll() is None

    def status(self) -> int | None:
        """Return its exit status, or nothing while it runs."""
        return self._entering.poll()

    def signal(self, number: int) -> None:
        """Send a signal to it."""
        if not self.alive() or not self._pid:
            raise NotUp(f"{self._machine.name}: the process has ended: {last_lines(self.log)}")
        os.kill(self._pid, number)
        if number != signal.SIGSTOP:
            self.go_on()

    def go_on(self) -> None:
        """Let `nsenter` go on: it stops itself while its child is stopped, and would not see the child's end."""
        if self.alive():
            self._entering.send_signal(signal.SIGCONT)

    def pause(self) -> None:
        """Stop it, and wait until each of its threads has stopped."""
        self.signal(signal.SIGSTOP)
        tasks = Path(f"/proc/{self._pid}/task")
        wait_until("a stopped process", lambda: all("\nState:\tT" in task.read_text() for task in tasks.glob("*/status")), 30, every_s=0.005)

    def wait(self, limit_s: float) -> int:
        """Wait for its end. Returns its status."""
        try:
            return self._entering.wait(limit_s)
        except subprocess.TimeoutExpired:
            raise NotUp(f"{self._machine.name}: the process has not ended within {limit_s} s: {last_lines(self.log)}") from None
