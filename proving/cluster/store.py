"""What the harness asks of a store: Ceph (ceph.py), or a shared disk (disk.py)."""

from typing import Protocol

from proving.cluster.machine import Machine


class Store(Protocol):
    """The storage below the nodes."""

    def boot(self, machine: Machine) -> None:
        """Give a machine that has booted what it has of the store, whoever owns the virtual server."""

    def take(self, machine: Machine) -> None:
        """Give the store to a machine that is to serve."""

    def release(self, machine: Machine) -> None:
        """Take it from a machine that lives and serves no longer."""

    def fence(self, machine: Machine) -> None:
        """Shut a dead machine out."""

    def fail(self, machine: Machine) -> None:
        """Let a dying machine lose what it has not synced."""

    def repair(self, machine: Machine) -> None:
        """Give a machine that lives the store anew, if it was shut out."""
