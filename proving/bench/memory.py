"""A file system in memory for all measured files.

The work of a disk and its file system is not part of the difference between two servers, and is larger than it. Dirty
data is written back in the middle of a turn. ext4 skips every recently freed inode at each file that it creates. Two
turns of the same load on the same server differ by a third there. Start reading at `enter`.
"""

import atexit
import ctypes
import os
import subprocess
import tempfile
from pathlib import Path

_NEW_MOUNT_NAMESPACE = 0x20000
# The files of the copies and those of two servers side by side, and the same amount again for the programs.
_NEEDED_KIB = 8 << 20


def enter() -> str:
    """Put the directories of every program that this process starts from now on into memory. Returns a description of
    the place.

    This needs root and 8 GiB of free memory. Otherwise the directories stay with the other temporary files. Only this
    process and its children see the file system, and it disappears with them.
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
    # Forked children of this process have the same handler.
    if os.getpid() == process:
        subprocess.run(["umount", "--lazy", directory], check=False, timeout=10)
        os.rmdir(directory)


def _available_kib() -> int:
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next((int(line.split()[1]) for line in lines if line.startswith("MemAvailable")), 0)
