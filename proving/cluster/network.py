"""The network of a cluster: a switch, and one cable from it to each machine, the store, a prober and the clients' guest.

Everything lies in network namespaces of this run. The switch is a bridge in the first of them. A machine's cable can be
cut at the switch, so that nothing of a dying machine leaves it.
"""

import os
import subprocess
from pathlib import Path
from typing import Self

from proving.kernel_client import guest

PREFIX = "10.77.0."
STORE, PROBER, CLIENTS = f"{PREFIX}2", f"{PREFIX}100", f"{PREFIX}101"
# The addresses of the virtual server. They move with the tenure.
SERVED = f"{PREFIX}50"
# Each member has an IPv6 address with the same end. They are unique local ones (RFC 4193).
PREFIX_6 = "fd77::"
SERVED_6 = f"{PREFIX_6}50"
SERVED_BY_FAMILY = {4: SERVED, 6: SERVED_6}
# The addresses of the machines, by their names.
MACHINES = {"a": f"{PREFIX}11", "b": f"{PREFIX}12"}


def ip(*words: str) -> None:
    """Run `ip`. Raises OSError with its message if that fails."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, env=dict(os.environ, PATH=guest.PATH))
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def ipv6_of(address: str) -> str:
    """Return the IPv6 address of the member with an IPv4 address."""
    return PREFIX_6 + address.removeprefix(PREFIX)


class ClusterNetwork(guest.Network):
    """The switch with the tap device of the guest. A context manager; leaving it removes all namespaces of this run."""

    def __init__(self) -> None:
        super().__init__(1)
        self.name = f"cluster-{self.name}"
        self._namespaces: set[str] = set()
        self._plugged = 0

    def __enter__(self) -> Self:
        ip("netns", "add", self.name)
        try:
            ip("-n", self.name, "link", "set", "lo", "up")
            ip("-n", self.name, "link", "add", "bridge", "type", "bridge")
            ip("-n", self.name, "link", "set", "bridge", "up")
            ip("-n", self.name, "tuntap", "add", "dev", "tap0", "mode", "tap")
            ip("-n", self.name, "link", "set", "tap0", "master", "bridge", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *what: object) -> None:
        for namespace in sorted(self._namespaces):
            subprocess.run(["ip", "netns", "del", namespace], check=False, env=dict(os.environ, PATH=guest.PATH))
        super().__exit__(*what)

    def guest_address(self, nic: int) -> str:
        """Return the address of the clients' guest."""
        return CLIENTS

    def plug(self, who: str, address: str) -> "Cable":
        """Create a namespace for `who` with a cable to the switch, this address, and its IPv6 address."""
        self._plugged += 1
        namespace, port = f"{self.name}-{who}", f"port{self._plugged}"
        ip("netns", "add", namespace)
        self._namespaces.add(namespace)
        ip("-n", namespace, "link", "set", "lo", "up")
        ip("link", "add", port, "netns", self.name, "type", "veth", "peer", "name", "eth0", "netns", namespace)
        ip("-n", self.name, "link", "set", port, "master", "bridge", "up")
        ip("-n", namespace, "addr", "add", f"{address}/24", "dev", "eth0")
        ip("-n", namespace, "addr", "add", f"{ipv6_of(address)}/64", "dev", "eth0", "nodad")
        ip("-n", namespace, "link", "set", "eth0", "up")
        return Cable(self, namespace, port)

    def plug_guest(self, who: str) -> "GuestCable":
        """Create a cable to the switch for a machine that is a guest."""
        self._plugged += 1
        port = f"tap{self._plugged}"
        ip("-n", self.name, "tuntap", "add", "dev", port, "mode", "tap")
        ip("-n", self.name, "link", "set", port, "master", "bridge", "up")
        return GuestCable(self, port, MACHINES[who])

    def unplug(self, cable: "Cable") -> None:
        """Remove a cable and its namespace, with every address and connection in it."""
        self._namespaces.discard(cable.namespace)
        ip("-n", self.name, "link", "del", cable.port)
        ip("netns", "del", cable.namespace)


class Cable:
    """A cable from the switch to the namespace of one member."""

    def __init__(self, network: ClusterNetwork, namespace: str, port: str) -> None:
        self._network, self.namespace, self.port = network, namespace, port

    def cut(self) -> None:
        """Cut the cable at the switch."""
        ip("-n", self._network.name, "link", "set", self.port, "down")

    def mend(self) -> None:
        """Mend the cable."""
        ip("-n", self._network.name, "link", "set", self.port, "up")

    def inside(self, command: list[str]) -> list[str]:
        """Return the command line that runs `command` at the cable's end, in this machine's mounts and processes."""
        return ["nsenter", f"--net={Path('/run/netns') / self.namespace}", *command]


class GuestCable(guest.Network):
    """A cable from the switch to a guest, as its kernel takes it (guest.py)."""

    def __init__(self, network: ClusterNetwork, port: str, address: str) -> None:
        super().__init__(1)
        self.name, self._port, self._address = network.name, port, address

    def tap(self, nic: int) -> str:
        return self._port

    def guest_address(self, nic: int) -> str:
        return self._address

    def cut(self) -> None:
        """Cut the cable at the switch."""
        ip("-n", self.name, "link", "set", self._port, "down")

    def mend(self) -> None:
        """Mend the cable."""
        ip("-n", self.name, "link", "set", self._port, "up")

    def unplug(self) -> None:
        """Remove the cable."""
        ip("-n", self.name, "link", "del", self._port)
