"""What dies, and what must be true afterwards.

| death | what happens |
|---|---|
| in place | kill -9 of the owner's program, which starts again on the same machine as systemd starts it: after 0.1 s, with its listening sockets |
| process | kill -9 of the owner's program, which does not come back; its machine and its mount live |
| machine | the cable is cut and every process of the machine ends at once, its mount too; it boots again later |
| guest | the same with machines that are guests of user-mode-linux, with the kernel's client of Ceph: kill -9 of the guest |
| guest pause | the owner's guest stands still for longer than the tenure and goes on: it serves nothing stale, and its program ends |
| guest shut out | Ceph shuts the owner's guest out: its program ends by itself |
| move | the owner hands over as planned |
| pause | the owner's program stops for longer than the tenure and goes on: it serves nothing stale, and ends |
| cable | the owner's cable is cut for longer than the tenure and mended: the owner ends by itself |
| mds, osd | a daemon of Ceph is killed and started again |
| clock | the owner's clock jumps forwards and back by an hour: nothing happens |

After each: an announcement alone has led a neighbour to the new owner, over IPv4 and IPv6 (neighbour.py), every program
goes on with its files, everything that was synced is there, the intruder was granted nothing, and programs saw no kind of
error that the same client does not show when a server starts again in place.
"""

import random
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from proving.cluster import node, witness
from proving.cluster.ceph import Ceph
from proving.cluster.cluster import PROTOCOLS, Cluster
from proving.cluster.daemon import wait_until
from proving.cluster.guest_machine import GuestMachine
from proving.cluster.kernel_ceph import KernelCeph
from proving.harness.tally import CaseFailed

GOES_ON_WITHIN_S = 100
# Steps that each program does after a death before the next.
STEPS = 5
# The kinds of errors that Linux's SMB client shows to programs when a server starts again in place (`in place`, and
# soak/tallies.toml). NFS shows one: a REMOVE whose answer died with the server is asked again, and the name is gone.
ALLOWED = re.compile(r"smb-\w+ (\w+ (EAGAIN|ECONNABORTED|EHOSTDOWN)|unlink EIO)|nfs-new unlink ENOENT")
# A server that Ceph shuts out learns it from its storage, and ends when it looks at it the next time, within a second. Until then it
# refuses its clients, which may cost one of SMB its handle.
ALSO_ALLOWED = {"guest shut out": re.compile(r"(smb|nfs)-\w+ \w+ (EACCES|ESTALE|EIO|ESHUTDOWN)|smb-held write EBADF|intruder-of-\w+ lock (EACCES|ESTALE|EIO)")}
NOTHING = re.compile("(?!)")
PAUSE_S = node.TERM_S + 4
ENDS_WITHIN_S = 30
# What a node logs when its tenure has ended.
ENDED = "no longer owns the virtual server"
JUMP_S = 3600


class Deaths:
    """Deaths in one cluster: what was measured and what was wrong."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self._cluster, self._random = cluster, random.Random(f"cluster {seed}")
        self.measured: list[dict[str, Any]] = []
        self.kinds: dict[str, Callable[[node.Node], tuple[float, node.Node]]] = {
            "in place": self._in_place, "process": self._process, "machine": self._machine, "move": self._move, "pause": self._pause, "cable": self._cable,
            "mds": lambda owner: self._daemon(owner, "mds.m", 1), "osd": lambda owner: self._daemon(owner, "osd.0", 2), "clock": self._clock,
            "guest": self._machine, "guest pause": self._guest_pause, "guest shut out": self._guest_shut_out,
        }

    def one(self, kind: str) -> dict[str, Any]:
        """Let one death happen, and check what is true afterwards. Returns the measured seconds. Raises CaseFailed."""
        time.sleep(self._random.uniform(0.5, 2))
        owner = self._owner()
        self._cluster.ask("mark")
        self._cluster.neighbour.believe(owner.machine)
        at, successor = self.kinds[kind](owner)
        service = self._cluster.service
        wait_until(f"{successor.machine.name} is the owner", lambda: service.owner() is successor, node.SERVE_WITHIN_S, successor.log)
        self._cluster.wait_for_answer(time.monotonic())
        found: dict[str, Any] = {"kind": kind, "silence": self._cluster.silence(at)}
        strayed = [] if successor is owner else self._cluster.neighbour.strays_from(successor.machine)
        if phases := successor.phases():
            found["phases"] = phases
        now = {label: told["steps"] for label, told in self._cluster.told().items()}
        self._cluster.wait_for_steps(now, STEPS, GOES_ON_WITHIN_S)
        wrong = self._collect(found) + strayed
        if service.owner() is not successor:
            wrong.append(f"{successor.machine.name} is the owner no longer")
        self._bring_back()
        if wrong:
            raise CaseFailed("; ".join(wrong))
        self.measured.append(found)
        return found

    def _collect(self, found: dict[str, Any]) -> list[str]:
        """Note the stops and errors of all programs. Returns what is wrong."""
        wrong: list[str] = self._cluster.ask("check")
        errors: Counter[str] = Counter()
        for label, told in self._cluster.told().items():
            protocol = label.partition("-")[0]
            if protocol in PROTOCOLS:
                found[label] = told["longest_s"]
            if told["granted"]:
                wrong.append(f"{label} was granted a lock that another holds {told['granted']} times")
            for error, count in told["errors"].items():
                errors[f"{protocol} {error}"] += count
                if not ALLOWED.fullmatch(f"{label} {error}") and not ALSO_ALLOWED.get(found["kind"], NOTHING).fullmatch(f"{label} {error}"):
                    wrong.append(f"{label}: {error} {count} times")
        found["errors"] = dict(errors)
        return wrong

    def _owner(self) -> node.Node:
        owner = self._cluster.service.owner()
        if owner is None:
            raise CaseFailed(f"nobody owns the virtual server; {self._said()}")
        return owner

    def _said(self) -> str:
        return "; ".join(f"{name}: {found.said(4)}" for name, found in self._cluster.nodes.items())

    def _bring_back(self) -> None:
        """Let every machine be ready again: booted, with its mount, waiting for its turn."""
        for found in self._cluster.nodes.values():
            if not found.machine.alive():
                self._cluster.reboot(found)
            elif not found.alive():
                self._cluster.store.repair(found.machine)
                self._cluster.service.join(found)

    def _in_place(self, owner: node.Node) -> tuple[float, node.Node]:
        at = time.monotonic()
        owner.signal(signal.SIGKILL)
        self._cluster.service.start_again(owner)
        return at, owner

    def _process(self, owner: node.Node) -> tuple[float, node.Node]:
        successor = self._cluster.other(owner)
        at = time.monotonic()
        owner.signal(signal.SIGKILL)
        owner.machine.listeners.clear()
        self._cluster.service.take_over(owner, successor)
        return at, successor

    def _machine(self, owner: node.Node) -> tuple[float, node.Node]:
        successor = self._cluster.other(owner)
        at = owner.machine.die(self._cluster.store.fail)
        self._cluster.service.take_over(owner, successor)
        return at, successor

    def _move(self, owner: node.Node) -> tuple[float, node.Node]:
        successor = self._cluster.other(owner)
        at = time.monotonic()
        self._cluster.service.leave(owner, successor)
        return at, successor

    def _pause(self, owner: node.Node) -> tuple[float, node.Node]:
        successor = self._cluster.other(owner)
        with witness.Witness(self._cluster.switch, owner.machine, self._cluster.served) as stale:
            stale.ask()
            at = time.monotonic()
            owner.pause()
            stale.ask_without_answer()
            time.sleep(PAUSE_S)
            owner.signal(signal.SIGCONT)
            self._ends(owner)
            if stale.has_answered():
                raise CaseFailed("the paused node has answered after its tenure was over")
        return at, successor

    def _guest_pause(self, owner: node.Node) -> tuple[float, node.Node]:
        assert isinstance(owner.machine, GuestMachine)
        successor = self._cluster.other(owner)
        with witness.Witness(self._cluster.switch, owner.machine, self._cluster.served) as stale:
            stale.ask()
            at = time.monotonic()
            owner.machine.pause()
            stale.ask_without_answer()
            time.sleep(PAUSE_S)
            owner.machine.go_on()
            self._ends(owner)
            if stale.has_answered():
                raise CaseFailed("the guest that stood still has answered after its tenure was over")
        return at, successor

    def _guest_shut_out(self, owner: node.Node) -> tuple[float, node.Node]:
        assert isinstance(self._cluster.store, KernelCeph)
        successor = self._cluster.other(owner)
        at = time.monotonic()
        self._cluster.store.shut_out(owner.machine)
        self._ends(owner)
        return at, successor

    def _cable(self, owner: node.Node) -> tuple[float, node.Node]:
        """The process itself ends only when its mount answers again: the kernel lets no thread leave a call of FUSE."""
        successor = self._cluster.other(owner)
        assert owner.machine.cable is not None
        with witness.Witness(self._cluster.switch, owner.machine, self._cluster.served) as stale:
            stale.ask()
            said = owner.count_of(ENDED)
            at = time.monotonic()
            owner.machine.cable.cut()
            try:
                time.sleep(PAUSE_S)
                wait_until(f"the program on {owner.machine.name} gives up", lambda: not owner.alive() or owner.count_of(ENDED) > said,
                           ENDS_WITHIN_S, owner.log)
            finally:
                owner.machine.cable.mend()
            if stale.has_answered():
                raise CaseFailed("the node that was cut off has answered after its tenure was over")
            self._ends(owner)
        return at, successor

    def _ends(self, owner: node.Node) -> None:
        wait_until(f"the program on {owner.machine.name} ends by itself", lambda: not owner.alive(), ENDS_WITHIN_S, owner.log)

    def _daemon(self, owner: node.Node, name: str, away_s: float) -> tuple[float, node.Node]:
        assert isinstance(self._cluster.store, Ceph)
        daemon = self._cluster.store.daemons[name]
        at = time.monotonic()
        daemon.kill()
        time.sleep(away_s)
        daemon.start()
        return at, owner

    def _clock(self, owner: node.Node) -> tuple[float, node.Node]:
        at = time.monotonic()
        for jump in (JUMP_S, -JUMP_S, 0):
            owner.machine.set_clock(jump)
            time.sleep(node.TERM_S + 1)
        return at, owner
