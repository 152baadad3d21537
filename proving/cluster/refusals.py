"""What must not give a virtual server two owners, or a wrong one: cases without clients.

| case | what is wrong | what must be true |
|---|---|---|
| both at once | both nodes are started at the same moment | one serves, the other names it |
| etcd away | the tenure store is gone for longer than a term | nobody serves; one serves once it is back |
| fence fails | `ceph` of the waiting node fails while the owner dies | it names the former owner and serves only once `ceph` works |
| half of the network | the owner reaches Ceph and its clients, and etcd not | it ends by itself, the other serves |
| address taken | somebody else has the address, of IPv4 and of IPv6 in turn | the node says so |
| another's state | the waiting node has the state directory of another virtual server | it does not serve, and says why |
| wrong clock | the waiting node's clock is a day ahead | it waits as any other, and takes over when the owner dies |
"""

import re
import signal
import time
from collections.abc import Callable

from proving.cluster import network, node
from proving.cluster.cluster import Cluster
from proving.cluster.daemon import wait_until
from proving.harness.tally import CaseFailed

SERVES_WITHIN_S = 60
# Long enough that a node which wrongly serves would be seen.
LOOKS_S = node.TERM_S + 3
ROUNDS_OF_BOTH = 5
DAY_S = 86_400


NAMES = ("both at once", "etcd away", "fence fails", "half of the network", "address taken", "another's state", "wrong clock")


class Refusals:
    """The cases in one cluster whose nodes run under their own clocks."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        cases: list[Callable[[], None]] = [
            self._both_at_once, self._etcd_away, self._fence_fails, self._half_of_the_network, self._address_taken, self._anothers_state, self._wrong_clock]
        self.cases = dict(zip(NAMES, cases, strict=True))

    def prepare(self) -> None:
        """Let the first node serve, and the other wait."""
        for found in self._nodes():
            if not found.machine.alive():
                found.machine.boot()
                self._cluster.store.boot(found.machine)
            self._cluster.store.repair(found.machine)
            found.machine.set_clock(0)
        wait_until("a node serves", self._supervised, SERVES_WITHIN_S, every_s=0.5)
        self._one_serves()

    def _supervised(self) -> bool:
        """Start what has ended, as systemd would. Returns whether both run, and one of them serves."""
        ended = [found for found in self._nodes() if not found.alive()]
        for found in ended:
            found.start("node", "serve")
        return not ended and len(self._owners()) == 1

    def _nodes(self) -> list[node.Node]:
        return list(self._cluster.nodes.values())

    def _owners(self) -> list[node.Node]:
        return [found for found in self._nodes() if found.alive() and found.has_address()]

    def _one_serves(self) -> tuple[node.Node, node.Node]:
        """Wait until a node serves. Returns the owner and the other."""
        wait_until("a node serves", lambda: len(self._owners()) == 1, SERVES_WITHIN_S)
        self._cluster.wait_for_answer(time.monotonic())
        owner = self._owners()[0]
        return owner, self._cluster.other(owner)

    def _nobody_else_serves(self, wrong: node.Node) -> None:
        end = time.monotonic() + LOOKS_S
        while time.monotonic() < end:
            if wrong.alive() and wrong.has_address():
                raise CaseFailed(f"{wrong.machine.name} serves")
            time.sleep(0.1)

    def _says(self, speaker: node.Node, pattern: str, since: int) -> None:
        """Wait until a node's log has a line that matches."""
        wait_until(f"{speaker.machine.name} says {pattern!r}",
                   lambda: re.search(pattern, speaker.log.read_text(errors="replace")[since:]) is not None, LOOKS_S + SERVES_WITHIN_S, speaker.log)

    @staticmethod
    def _length(speaker: node.Node) -> int:
        return len(speaker.log.read_text(errors="replace"))

    def _stop(self, found: node.Node) -> None:
        if found.alive():
            assert found.process is not None
            found.signal(signal.SIGKILL)
            found.process.wait(30)

    def _both_at_once(self) -> None:
        for _ in range(ROUNDS_OF_BOTH):
            for found in self._nodes():
                self._stop(found)
            for found in self._nodes():
                self._cluster.store.repair(found.machine)
            since = {found.machine.name: self._length(found) for found in self._nodes()}
            for found in self._nodes():
                found.start("node", "serve")
            owner, other = self._one_serves()
            self._nobody_else_serves(other)
            self._says(other, f"node {owner.machine.name} owns the virtual server", since[other.machine.name])

    def _etcd_away(self) -> None:
        self._cluster.etcd.daemon.kill()
        wait_until("the owner ends", lambda: not self._owners(), SERVES_WITHIN_S)
        began = time.monotonic()
        while time.monotonic() < began + LOOKS_S:
            if self._owners():
                raise CaseFailed("a node serves without etcd")
            time.sleep(0.1)
        self._cluster.etcd.start()
        self.prepare()

    def _fence_fails(self) -> None:
        owner, other = self._one_serves()
        program = other.machine.programs / "ceph"
        good, since = program.read_text(), self._length(other)
        try:
            program.write_text("#!/bin/sh\necho the monitor is away >&2\nexit 1\n")
            self._stop(owner)
            self._says(other, f"{owner.machine.name}.*fence failed", since)
            self._nobody_else_serves(other)
        finally:
            program.write_text(good)
        wait_until(f"{other.machine.name} serves", other.has_address, SERVES_WITHIN_S, other.log)

    def _half_of_the_network(self) -> None:
        owner, other = self._one_serves()
        owner.machine.run("nft", "add table inet half; add chain inet half out { type filter hook output priority 0; }; "
                                 "add rule inet half out tcp dport 2379 drop")
        try:
            wait_until("the owner ends by itself", lambda: not owner.alive(), SERVES_WITHIN_S, owner.log)
            wait_until(f"{other.machine.name} serves", other.has_address, SERVES_WITHIN_S, other.log)
        finally:
            owner.machine.run("nft", "delete table inet half")

    def _address_taken(self) -> None:
        owner, other = self._one_serves()
        squatter = self._cluster.switch.plug("squatter", f"{network.PREFIX}98")
        try:
            owner.machine.die()
            for address in (f"{network.SERVED}/24", f"{network.SERVED_6}/64"):
                since = self._length(other)
                network.ip("-n", squatter.namespace, "addr", "add", address, "dev", "eth0")
                if not other.alive():
                    other.start("node", "serve")
                self._says(other, f"has the address {re.escape(address)}", since)
                wait_until(f"the program on {other.machine.name} ends", lambda: not other.alive(), SERVES_WITHIN_S, other.log)
                network.ip("-n", squatter.namespace, "addr", "del", address, "dev", "eth0")
        finally:
            self._cluster.switch.unplug(squatter)

    def _anothers_state(self) -> None:
        owner, other = self._one_serves()
        self._stop(other)
        self._cluster.store.repair(other.machine)
        state = other.machine.directory / "virtual" / "state"
        strange = other.machine.directory / "strange"
        other.machine.run("mkdir", "-p", strange)
        settings, since = other.settings.read_text(), self._length(other)
        try:
            other.settings.write_text(settings.replace(str(state), str(strange)))
            other.start("node", "serve")
            self._stop(owner)
            self._says(other, "(?i)another virtual server|other state directory|state directory", since)
            self._nobody_else_serves(other)
        finally:
            self._stop(other)
            other.settings.write_text(settings)

    def _wrong_clock(self) -> None:
        owner, other = self._one_serves()
        self._stop(other)
        self._cluster.store.repair(other.machine)
        other.machine.set_clock(DAY_S)
        other.start("node", "serve")
        self._nobody_else_serves(other)
        self._stop(owner)
        wait_until(f"{other.machine.name} serves", other.has_address, SERVES_WITHIN_S, other.log)
