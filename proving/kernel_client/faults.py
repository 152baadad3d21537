"""Cuts in the network between a guest and its server, made on the server's side of the namespace.

| fault | made by | what the client sees |
|---|---|---|
| reset | `ss -K` on some connections | its connection is reset |
| silence | an nftables rule that drops some connections' packets | nothing, then its old connection or a time-out |
| half-open | the same, with the server's end gone (`ss -K`) when the packets flow again | nothing, then a reset |
| link | `ip link set tapN down` | nothing, then a dead cable, for all connections of that NIC |
"""

import os
import re
import subprocess
import time
from collections.abc import Iterable

from proving.harness.tally import missing_packages
from proving.kernel_client import guest

# A client's end of a connection: address and port. The load of such connections: bytes received and sent by the server.
Client = tuple[str, int]
Carrying = dict[Client, tuple[int, ...]]

FAULTS = ("reset", "silence", "half-open", "link")


def missing() -> str:
    """Return the reason why cuts are not possible here, as one line; empty if they are."""
    return missing_packages({"ss": "iproute2", "nft": "nftables"})


_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_RULES = """
table inet cut {
  set silenced { type ipv4_addr . inet_service; }
  chain arriving { type filter hook input priority 0; ip saddr . tcp sport @silenced drop; }
  chain leaving { type filter hook output priority 0; ip daddr . tcp dport @silenced drop; }
}
"""


class Cutter:
    """Makes and mends faults on the clients' connections to `port` in a network (guest.py)."""

    def __init__(self, network: guest.Network, port: int) -> None:
        self._network, self._port = network, port
        self._run(["nft", "-f", "-"], _RULES)

    def connections(self) -> Carrying:
        """Return the clients' ends of the connections established at the server: (address, port) to (bytes received,
        bytes sent)."""
        text = self._run(["ss", "-Htnoi", "state", "established", "sport", "=", f":{self._port}"])
        found = {}
        for line in re.sub(r"\n\s+", " ", text).splitlines():
            address, _, port = line.split()[3].rpartition(":")
            counts = [int(n[1]) if (n := re.search(rf"{name}:(\d+)", line)) else 0 for name in ("bytes_received", "bytes_acked")]
            found[address.removeprefix("[::ffff:").removesuffix("]"), int(port)] = tuple(counts)
        return found

    def reset(self, clients: Iterable[Client]) -> None:
        """Destroy the server's sockets of these connections; the kernel resets them towards the client."""
        for address, port in clients:
            self._run(["ss", "-K", "-tn", "dst", address, "dport", "=", f":{port}"])

    def silence(self, clients: Iterable[Client]) -> None:
        """Drop all packets of these connections, in either direction."""
        self._run(["nft", "add", "element", "inet", "cut", "silenced", "{ " + ", ".join(f"{a} . {p}" for a, p in clients) + " }"])

    def speak(self) -> None:
        """Let all packets pass again."""
        self._run(["nft", "flush", "set", "inet", "cut", "silenced"])

    def link(self, nic: int, up: bool) -> None:
        """Take the server's end of a cable down or up."""
        self._run(["ip", "link", "set", f"tap{nic}", "up" if up else "down"])

    def can_destroy(self) -> bool:
        """Return whether this kernel lets `ss -K` destroy a connection. The test uses a connection within the namespace."""
        script = ("import socket,subprocess;l=socket.create_server(('127.0.0.1',0));c=socket.create_connection(l.getsockname());"
                  "subprocess.run(['ss','-K','-tn','sport','=',f':{c.getsockname()[1]}'],stdout=subprocess.DEVNULL);"
                  "c.settimeout(2);c.recv(1)")
        done = subprocess.run(self._network.inside(["python3", "-c", script]), capture_output=True, text=True, timeout=30)
        return "ConnectionAbortedError" in done.stderr

    def _run(self, command: list[str], text: str | None = None) -> str:
        done = subprocess.run(self._network.inside(command), input=text, capture_output=True, text=True, timeout=30,
                              env=dict(os.environ, PATH=_PATH))
        if done.returncode != 0:
            raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout


def cut(cutter: Cutter, guest: guest.Guest, fault: str, clients: Iterable[Client], nic: int, seconds: float) -> float:
    """Make one fault, keep it for a while, and mend it. Returns the time of the mending (monotonic seconds)."""
    if fault == "reset":
        cutter.reset(clients)
    elif fault == "link":
        cutter.link(nic, up=False)
        time.sleep(seconds)
        cutter.link(nic, up=True)
        guest.ask(60, do="flap", nic=nic)
    else:
        cutter.silence(clients)
        time.sleep(seconds)
        if fault == "half-open":
            cutter.reset(clients)
        cutter.speak()
    return time.monotonic()


def cannot_cut() -> str:
    """Try each method once in a separate namespace. Returns the failing one, as one line, or an empty string."""
    try:
        with guest.Network() as network:
            cutter = Cutter(network, 445)
            cutter.silence([(guest.guest_address(), 1)])
            cutter.speak()
            return "" if cutter.can_destroy() else "this kernel does not let `ss -K` destroy connections (CONFIG_INET_DIAG_DESTROY)"
    except (OSError, subprocess.SubprocessError) as reason:
        return f"connections cannot be cut here: {reason}"
