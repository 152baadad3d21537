"""A shared disk: XFS on a loop device that one machine mounts at a time.

The kernel refuses a second mount while another lives, by the file system's UUID. Reservations of a real disk are not
there. So nothing here shows what a machine that is alive could still write after it lost the disk.
"""

import subprocess
from pathlib import Path

from proving.cluster.daemon import wait_until
from proving.cluster.machine import Machine
from proving.harness.tally import missing_packages

IMAGE_BYTES = 1 << 30
FREE_WITHIN_S = 30


def missing() -> str:
    """Return the reason why there is no such disk here, as one line; empty if there can be."""
    return missing_packages({"mkfs.xfs": "xfsprogs", "xfs_io": "xfsprogs"})


class Disk:
    """The disk."""

    def __init__(self, work: Path) -> None:
        self._image = work / "disk"
        with self._image.open("wb") as file:
            file.truncate(IMAGE_BYTES)
        done = subprocess.run(["mkfs.xfs", "-q", self._image], capture_output=True, text=True)
        if done.returncode != 0:
            raise OSError(f"mkfs.xfs: {done.stderr.strip()}")

    def boot(self, machine: Machine) -> None:
        """Nothing is to be done: the owner alone has the disk."""

    def take(self, machine: Machine) -> None:
        """Mount it on a machine, once no other has it."""
        def mounts() -> bool:
            words = ["mount", "-t", "xfs", "-o", "loop", str(self._image), str(machine.directory)]
            return subprocess.run(machine.inside(words), capture_output=True).returncode == 0
        wait_until(f"{machine.name}: the disk", mounts, FREE_WITHIN_S)

    def release(self, machine: Machine) -> None:
        """Unmount it, once a killed program has let go of it."""
        def unmounts() -> bool:
            return subprocess.run(machine.inside(["umount", str(machine.directory)]), capture_output=True).returncode == 0
        wait_until(f"{machine.name}: the disk is released", unmounts, FREE_WITHIN_S)

    def fence(self, machine: Machine) -> None:
        """Nothing is to be done: the machine is dead."""

    def fail(self, machine: Machine) -> None:
        """Cut the disk's power: what the machine had not synced is lost."""
        subprocess.run(machine.inside(["xfs_io", "-x", "-c", "shutdown", str(machine.directory)]), capture_output=True)

    def repair(self, machine: Machine) -> None:
        """Nothing is to be done."""
