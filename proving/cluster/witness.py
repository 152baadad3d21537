"""A witness of stale answers: it keeps a connection to one machine, also after the virtual server's address is elsewhere.

Its table of neighbours leads the address to this machine for good, as that of a client would that has not heard of the
move.
"""

import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.cluster import network, node
from proving.cluster.machine import Machine
from proving.cluster.prober import QUESTION

ADDRESS = f"{network.PREFIX}99"
LISTENS_S, CONNECTS_WITHIN_S = 3, 20


class Witness:
    """A connection to the virtual server as this machine has it. A context manager."""

    def __init__(self, switch: network.ClusterNetwork, machine: Machine, served: str) -> None:
        self._switch, self._machine, self._served = switch, machine, served

    def __enter__(self) -> Self:
        self._cable = self._switch.plug("witness", ADDRESS)
        # An earlier witness had this address with another card.
        for earlier in (ADDRESS, network.ipv6_of(ADDRESS)):
            self._machine.run("ip", "neigh", "flush", "to", earlier, "dev", "eth0")
        network.ip("-n", self._cable.namespace, "neigh", "replace", self._served, "lladdr", self._machine.hardware(), "dev", "eth0", "nud", "permanent")
        self._process = subprocess.Popen(self._cable.inside([sys.executable, __file__, self._served]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._switch.unplug(self._cable)

    def ask(self) -> None:
        """Ask, and wait for the answer. Raises OSError if none comes."""
        if self._said("ask") != "answer":
            raise OSError("the owner does not answer the witness")

    def ask_without_answer(self) -> None:
        """Ask, and go on."""
        self._said("send")

    def has_answered(self) -> bool:
        """Ask once more, and return whether any answer comes within a while."""
        self._said("send")
        time.sleep(LISTENS_S)
        return self._said("listen") == "answer"

    def _said(self, word: str) -> str:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


def main() -> None:
    connection = socket.create_connection((sys.argv[1], node.NFS_PORT), CONNECTS_WITHIN_S)
    for line in sys.stdin:
        word, said = line.strip(), "silence"
        try:
            if word in ("ask", "send"):
                connection.sendall(QUESTION)
            if word in ("ask", "listen"):
                connection.settimeout(CONNECTS_WITHIN_S if word == "ask" else 0.1)
                said = "answer" if connection.recv(4096) else "end"
        except OSError:
            pass
        print(said, flush=True)


if __name__ == "__main__":
    main()
