"""A file system in memory for everything that is measured.

What a disk and its file system do beside a server is not the servers' difference, and more than it: dirty data is written back in
the middle of a turn, and ext4 passes over every inode that was freed lately, at each file it makes. Two turns of the same load on
the same server differ by a third there. Start reading at `enter`.
"""

import atexit
import ctypes
import os
import subprocess
import tempfile
from pathlib import Path

_NEW_MOUNT_NAMESPACE = 0x20000
# The copies' files and those of two servers side by side, with as much again for the programs.
_NEEDED_KIB = 8 << 20


def enter() -> str:
    """Lays the directories of all that this process starts from now on in memory; says where they are.

    Only root may, and it takes 8 GiB of free memory; elsewhere they stay where temporary files are. The file system is seen by
    this process and its children alone and goes with them.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 or _available_kib() < _NEEDED_KIB or libc.unshare(_NEW_MOUNT_NAMESPACE) != 0:
        return f"in {tempfile.gettempdir()}"
    subprocess.run(["mount", "--make-rprivate", "/"], check=True, timeout=10)
    directory = tempfile.mkdtemp(prefix="bench-")
    atexit.register(_leave, directory, os.getpid())
    # Large pages, as the page cache of ext4 and XFS has them for such files.
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755,huge=within_size", "tmpfs", directory], check=True, timeout=10)
    tempfile.tempdir = directory
    return "in memory (tmpfs)"


def _leave(directory: str, process: int) -> None:
    # Children of this process that were forked have the same handler.
    if os.getpid() == process:
        subprocess.run(["umount", "--lazy", directory], check=False, timeout=10)
        os.rmdir(directory)


def _available_kib() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable")), 0)
