"""A neighbour that learns from announcements alone where the virtual server is.

It believes what it was told about each address, for an hour, and asks nobody. So nothing but an announcement of the new
owner leads it elsewhere: gratuitous ARP, or an unsolicited neighbour advertisement. It keeps those that it hears.
"""

import json
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.cluster import network, node
from proving.cluster.daemon import wait_until
from proving.cluster.machine import Machine
from proving.cluster.prober import answers

ADDRESS = f"{network.PREFIX}97"
BELIEVES_MS = 3_600_000
# The last announcement of a take-over comes after 2 s.
TOLD_WITHIN_S, ANSWERED_WITHIN_S = 5, 10
_ARP, _IPV6, _ICMPV6, _ADVERTISEMENT = b"\x08\x06", b"\x86\xdd", 58, 136
_SOLICITED, _OVERRIDE = 0x40, 0x20
_ALL_NODES = socket.inet_pton(socket.AF_INET6, "ff02::1")
# An option with the hardware address of the target, in words of eight bytes.
_TARGET_HARDWARE = b"\x02\x01"


class Neighbour:
    """A host on the switch. A context manager."""

    def __init__(self, switch: network.ClusterNetwork, addresses: list[str]) -> None:
        self._switch, self._addresses = switch, addresses

    def __enter__(self) -> Self:
        self._cable = self._switch.plug("neighbour", ADDRESS)
        for family in ("ipv4", "ipv6"):
            setting = f"net.{family}.neigh.eth0.base_reachable_time_ms={BELIEVES_MS}"
            subprocess.run(self._cable.inside(["sysctl", "-qw", setting]), check=True, timeout=30)
        self._process = subprocess.Popen(self._cable.inside([sys.executable, __file__]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def believe(self, machine: Machine) -> None:
        """Take this machine for the one that has all addresses, and forget what was heard."""
        hardware = machine.hardware()
        for address in self._addresses:
            network.ip("-n", self._cable.namespace, "neigh", "replace", address, "lladdr", hardware, "dev", "eth0", "nud", "reachable")
        self._said("forget")

    def strays_from(self, owner: Machine) -> list[str]:
        """Wait until it has been told of this owner. Returns what is wrong with that."""
        hardware = owner.hardware()
        try:
            wait_until("an announcement", lambda: all(self._leads_to(address) == hardware for address in self._addresses), TOLD_WITHIN_S)
        except RuntimeError:
            found = {address: self._leads_to(address) for address in self._addresses}
            return [f"a neighbour goes to {told} for {address}, which {owner.name} has with {hardware}"
                    for address, told in found.items() if told != hardware]
        heard = [one for one in self._said("heard") if one["hardware"] == hardware]
        wrong = [f"the announcement of {one['address']}: {fault}" for one in heard for fault in one["faults"]]
        wrong += [f"no announcement of {address} was heard" for address in self._addresses if all(one["address"] != address for one in heard)]
        unanswered = set(self._addresses)

        def all_answer() -> bool:
            unanswered.difference_update([address for address in unanswered if self._said(f"ask {address}")])
            return not unanswered

        wait_until("an answer to the neighbour from each address", all_answer, ANSWERED_WITHIN_S)
        return wrong

    def _leads_to(self, address: str) -> str:
        """Return the hardware address that its kernel has for an address."""
        shown = subprocess.run(self._cable.inside(["ip", "-j", "neigh", "show", "to", address, "dev", "eth0"]), capture_output=True, check=True, timeout=30)
        return next((entry.get("lladdr", "") for entry in json.loads(shown.stdout or "[]")), "")

    def _said(self, word: str) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def heard(frame: bytes) -> dict[str, Any] | None:
    """Return the address and the hardware address that a frame announces to all, and its faults. None for any other frame."""
    sender, kind = frame[6:12], frame[12:14]
    if not frame[0] & 1:
        return None
    if kind == _ARP and len(frame) >= 42 and frame[28:32] == frame[38:42]:
        announced = socket.inet_ntop(socket.AF_INET, frame[28:32])
        faults = [] if frame[22:28] == sender else ["it has another host's hardware address (RFC 5227 2.3)"]
    elif kind == _IPV6 and len(frame) >= 78 and frame[20] == _ICMPV6 and frame[54] == _ADVERTISEMENT:
        target, flags = frame[62:78], frame[58]
        announced = socket.inet_ntop(socket.AF_INET6, target)
        rules = {
            "its hop limit is not 255 (RFC 4861 7.1.2)": frame[21] == 255,
            "it does not go to all nodes (RFC 4861 7.2.6)": frame[38:54] == _ALL_NODES and frame[:6] == b"\x33\x33" + _ALL_NODES[-4:],
            "it has the flag of a solicited one (RFC 4861 7.2.6)": not flags & _SOLICITED,
            "it has no override flag (RFC 4861 7.2.6)": bool(flags & _OVERRIDE),
            "it comes from another address": frame[22:38] == target,
            "it has no hardware address (RFC 4861 7.2.6)": frame[78:86] == _TARGET_HARDWARE + sender,
        }
        faults = [fault for fault, is_kept in rules.items() if not is_kept]
    else:
        return None
    return {"address": announced, "hardware": sender.hex(":"), "faults": faults}


def main() -> None:
    kept: list[dict[str, Any]] = []
    link = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))

    def listen() -> None:
        while True:
            if announcement := heard(link.recv(2048)):
                kept.append(announcement)

    threading.Thread(target=listen, daemon=True).start()
    for line in sys.stdin:
        said: Any = None
        match line.split():
            case ["forget"]:
                kept.clear()
            case ["heard"]:
                said = list(kept)
            case ["ask", address]:
                said = answers(address, node.NFS_PORT)
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
