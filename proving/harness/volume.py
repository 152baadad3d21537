"""A separate file system for the shares of a server under proof: XFS, whose files can share storage, on a loop device.

Only this process and its children see the mount, and the image has no name once it is mounted. So neither remains when
the last of them ends, however it ends.
"""

import ctypes
import os
import shutil
import subprocess
from pathlib import Path
from typing import Self

_NEW_MOUNT_NAMESPACE = 0x00020000
_IMAGE_BYTES = 512 << 20


class CannotMount(Exception):
    """This machine does not allow such a file system; the message gives the reason."""


class SharingVolume:
    """Mounts an empty XFS of `size` bytes at `directory`, which it creates; a context manager. Start no thread before
    it is entered."""

    def __init__(self, directory: Path, size: int | None = None) -> None:
        self.directory, self._size = directory, size or _IMAGE_BYTES

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise CannotMount("needs root to mount a file system")
        if shutil.which("mkfs.xfs") is None:
            raise CannotMount("mkfs.xfs is missing: apt-get install xfsprogs")
        _leave_the_machine_s_mounts()
        self.directory.mkdir(parents=True)
        image = self.directory.with_suffix(".image")
        try:
            with image.open("wb") as file:
                file.truncate(self._size)
            _do("mkfs.xfs", "-q", "-m", "reflink=1", image)
            _do("mount", "-t", "xfs", "-o", "loop", image, self.directory)
        finally:
            image.unlink(missing_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        # Lazily: a server that does not end must not prevent the rest of the clean-up.
        subprocess.run(["umount", "--lazy", self.directory], check=False)


def _leave_the_machine_s_mounts() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_MOUNT_NAMESPACE) != 0:
        raise CannotMount(f"no mount namespace of its own: {os.strerror(ctypes.get_errno())}")
    _do("mount", "--make-rprivate", "/")


def _do(*command: object) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise CannotMount(f"{command[0]}: {(done.stderr or done.stdout).strip()}")
