"""Trunkline on a machine of the cluster: the virtual server `files`, which one of the machines owns at a time.

`ByHand` is the take-over without the product's help: the harness moves the address and starts the program. `Nodes` lets
the product decide, as `trunkline node serve` on every machine.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

from proving.cluster import etcd, listener_store, network
from proving.cluster.daemon import wait_until
from proving.cluster.machine import Machine, Process
from proving.cluster.store import Store
from proving.harness import server as servers
from proving.kernel_client import guest

HERE = Path(__file__).resolve().parent
SHARE, USER, PASSWORD = "files", "peer", "Passw0rd!"
NFS_PORT, SMB_PORT = 2049, 445
TERM_S = 3
SERVE_WITHIN_S = 90
SERVING = "serving shares"
_SETTINGS = """\
[server]
smb_port = {smb_port}
nfs_port = {nfs_port}
state_dir = "{directory}/virtual/state"
name = "files"
discovery = false
log_level = "info"
nfs_lease_time_s = 20

[[user]]
name = "{user}"
password_file = "{password}"
uid = 0
gid = 0

[share.{share}]
path = "{directory}/virtual/share"
users = {{ {user} = "full" }}
protocols = ["smb", "nfs"]
root_squash = "none"
nfs_secure_port = false
continuously_available = true
"""
_NODE = """
[node]
server = "files"
name = "{name}"
addresses = ["{served}/24", "{served_6}/64"]
run_dir = "{run_dir}"
"""
# With Ceph the product decides; with a disk somebody else does. The kernel's client of Ceph needs a command (kernel_ceph.py).
TENURES = {
    "ceph": """\
tenure = "etcd"
etcd = ["{etcd}"]
term_s = {term_s}
fence = "cephfs"
ceph_sockets = "{sockets}"
""",
    "kernel": """\
tenure = "etcd"
etcd = ["{etcd}"]
term_s = {term_s}
fence = "command"
fence_command = ["{programs}/fence"]
""",
    "disk": """\
tenure = "external"
""",
}


class Node:
    """The program on one machine, with its settings and its log."""

    def __init__(self, machine: Machine, work: Path, tenure: str = "") -> None:
        self.machine, self.log = machine, work / f"{machine.name}.log"
        self.settings = work / f"{machine.name}.toml"
        password = work / "password"
        password.write_text(PASSWORD)
        password.chmod(0o600)
        text = _SETTINGS.format(smb_port=SMB_PORT, nfs_port=NFS_PORT, directory=machine.directory, user=USER,
                                password=password, share=SHARE)
        if tenure:
            text += (_NODE + tenure).format(name=machine.name, etcd=etcd.URL, term_s=TERM_S, served=network.SERVED,
                                 served_6=network.SERVED_6, sockets=machine.sockets, programs=machine.programs, run_dir=machine.run_dir)
        self.settings.write_text(text)
        self.process: Process | None = None
        # The environment of the program. It finds `ceph` first on its path.
        self.environment = [f"PATH={machine.programs}:{guest.PATH}"]

    def start(self, *words: str, again: bool = False) -> None:
        """Start the program with these words before `--config`. It gets its listening sockets if it starts again, after the
        pause of systemd."""
        listeners = self.machine.listeners
        if again:
            time.sleep(listener_store.RESTART_S)
        else:
            listeners.clear()
        command, descriptors = listeners.passing([servers.program(), *words, "--config", str(self.settings)])
        try:
            self.process = self.machine.start(["env", *self.environment, *listeners.environment(), *command], self.log, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)

    def alive(self) -> bool:
        """Return whether the program runs."""
        return self.machine.alive() and self.process is not None and self.process.alive()

    def signal(self, number: int) -> None:
        """Send a signal to the program."""
        assert self.process is not None
        self.process.signal(number)

    def pause(self) -> None:
        """Stop the program, until it gets SIGCONT."""
        assert self.process is not None
        self.process.pause()

    def has_address(self) -> bool:
        """Return whether this machine has the address of the virtual server."""
        return self.machine.alive() and self.machine.has_address(network.SERVED)

    def phases(self) -> str:
        """Return the time of its last take-over by phase, as its log has it, or nothing."""
        found = re.findall(r"this node serves the virtual server (.*)", self.log.read_text(errors="replace")) if self.log.exists() else []
        return found[-1] if found else ""

    def count_of(self, words: str) -> int:
        """Return how often its log has these words."""
        return self.log.read_text(errors="replace").count(words) if self.log.exists() else 0

    def said(self, lines: int = 12) -> str:
        """Return the last lines of its log, without what it prints for people at its start."""
        try:
            text = self.log.read_text(errors="replace")
        except OSError:
            return ""
        return "\n".join([line for line in text.splitlines() if line[:2] == "20" or line.startswith("trunkline")][-lines:])


def can_be_nodes() -> bool:
    """Return whether the program has `trunkline node serve`."""
    return subprocess.run([servers.program(), "node", "serve", "--help"], capture_output=True, timeout=30).returncode == 0


def make_directories(machine: Machine, store: Store) -> None:
    """Make the virtual server's directories in the store."""
    store.take(machine)
    machine.run("mkdir", "-p", machine.directory / "virtual" / "share", machine.directory / "virtual" / "state")
    machine.run("chmod", "777", machine.directory / "virtual" / "share")
    machine.run("chmod", "700", machine.directory / "virtual" / "state")
    store.release(machine)


def _take_addresses(machine: Machine) -> None:
    """Take the addresses of the virtual server from a machine, as far as it has them."""
    for served in (f"{network.SERVED}/24", f"{network.SERVED_6}/64"):
        subprocess.run(machine.inside(["ip", "addr", "del", served, "dev", "eth0"]), capture_output=True)


class ByHand:
    """Take-overs by the harness, with the plain `trunkline serve`."""

    name = "by hand"

    def __init__(self, nodes: dict[str, Node], store: Store) -> None:
        self.nodes, self._store = nodes, store

    def begin(self, node: Node) -> None:
        """Let this node serve first."""
        self._serve(node)

    def join(self, node: Node) -> None:
        """Let a machine that has booted wait for its turn. By hand it does nothing."""

    def start_again(self, node: Node) -> None:
        """Start the program again on the machine where it was killed."""
        assert node.process is not None
        node.process.wait(30)
        node.start("serve", again=True)

    def leave(self, node: Node, successor: Node) -> None:
        """Move from one node to another as planned."""
        assert node.process is not None
        node.signal(15)
        node.process.wait(30)
        self.take_over(node, successor)

    def take_over(self, former: Node, successor: Node) -> None:
        """Fence the former owner, move the address and start the program."""
        if former.machine.alive():
            _take_addresses(former.machine)
            self._store.release(former.machine)
        else:
            self._store.fence(former.machine)
        self._serve(successor)

    def _serve(self, node: Node) -> None:
        """Start the program before the address is there: a refused connection costs an NFS client 3 s."""
        node.machine.run("sysctl", "-qw", "net.ipv4.ip_nonlocal_bind=1")
        self._store.take(node.machine)
        self._start(node)
        node.machine.run("ip", "addr", "add", f"{network.SERVED}/24", "dev", "eth0")
        Process(node.machine, [sys.executable, str(HERE / "announce.py"), network.SERVED], node.log)

    def _start(self, node: Node) -> None:
        """Start the program, and wait until it listens."""
        served = node.count_of(SERVING)
        node.start("serve")
        wait_until(f"{node.machine.name} serves", lambda: node.count_of(SERVING) > served, SERVE_WITHIN_S, node.log, every_s=0.01)

    def owner(self) -> Node | None:
        """Return the node that serves."""
        return next((node for node in self.nodes.values() if node.alive()), None)


class Decided(ByHand):
    """Take-overs by the product as somebody else decides, as a cluster manager would: it gives the disk to a machine, and
    the tenure to its node."""

    name = "decided"

    def leave(self, node: Node, successor: Node) -> None:
        """Move from one node to another as planned."""
        self._tell(node, "release")
        assert node.process is not None
        node.process.wait(30)
        self._store.release(node.machine)
        self._serve(successor)

    def take_over(self, former: Node, successor: Node) -> None:
        """Take the disk from the former owner, which is dead, and give all to the successor."""
        if former.machine.alive():
            _take_addresses(former.machine)
            self._store.release(former.machine)
        self._serve(successor)

    def start_again(self, node: Node) -> None:
        """Start the program again on the machine where it was killed."""
        assert node.process is not None
        node.process.wait(30)
        self._start_and_take(node, again=True)

    def _serve(self, node: Node) -> None:
        self._store.take(node.machine)
        self._start_and_take(node)

    def _start_and_take(self, node: Node, again: bool = False) -> None:
        node.start("node", "serve", again=again)
        wait_until(f"{node.machine.name} takes the tenure", lambda: self._takes(node), SERVE_WITHIN_S, node.log)

    def _takes(self, node: Node) -> bool:
        try:
            self._tell(node, "take")
        except OSError:
            return False
        return True

    @staticmethod
    def _tell(node: Node, word: str) -> None:
        node.machine.run(servers.program(), "node", word, "--config", node.settings)


class Nodes:
    """Take-overs by the product."""

    name = "nodes"

    def __init__(self, nodes: dict[str, Node]) -> None:
        self.nodes = nodes

    def begin(self, node: Node) -> None:
        """Start this node first, and the others once it serves."""
        node.start("node", "serve")
        wait_until(f"{node.machine.name} serves", lambda: node.has_address() or not node.alive(), SERVE_WITHIN_S, node.log)
        for other in self.nodes.values():
            if other is not node:
                self.join(other)

    def join(self, node: Node) -> None:
        """Let a machine that has booted wait for its turn."""
        node.start("node", "serve")

    def start_again(self, node: Node) -> None:
        """Start the program again on the machine where it was killed."""
        assert node.process is not None
        node.process.wait(30)
        node.start("node", "serve", again=True)

    def leave(self, node: Node, successor: Node) -> None:
        """Move from one node to another as planned."""
        node.machine.run(servers.program(), "node", "move", "--config", node.settings)

    def take_over(self, former: Node, successor: Node) -> None:
        """Wait: the successor sees for itself."""

    def owner(self) -> Node | None:
        """Return the node that has the address."""
        return next((node for node in self.nodes.values() if node.alive() and node.has_address()), None)
