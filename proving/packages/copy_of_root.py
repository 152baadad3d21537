"""A copy of this machine's root file system in which packages are installed and removed for real, while the machine itself is not
touched: an overlay in memory, in mount and network namespaces of its own. Nothing of it outlives the `CopyOfRoot`."""

import subprocess
import tempfile
from pathlib import Path
from typing import Self

LIMIT_S = 120
ENVIRONMENT = ("PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive")
# /run is empty, so maintainer scripts see that systemd does not run.
SET_UP = """
set -e
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount -t proc proc "$1/root/proc"
mount --rbind /dev "$1/root/dev"
for directory in run srv tmp var/tmp; do mount -t tmpfs -o mode=1777 tmpfs "$1/root/$directory"; done
ip link set lo up
echo ready
exec sleep infinity
"""


class CopyOfRoot:
    """A context manager. Needs root and the kernel's overlay file system."""

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="proof-root-")
        words = ["unshare", "--mount", "--net", "--uts", "sh", "-c", SET_UP, "sh", self._directory.name]
        self._holder = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert self._holder.stdout is not None
        first = self._holder.stdout.readline().strip()
        if first != "ready":
            self.__exit__()
            raise OSError(first)
        # Seen from outside the namespace.
        self.root = Path(f"/proc/{self._holder.pid}/root{self._directory.name}/root")
        return self

    def __exit__(self, *_: object) -> None:
        self._holder.kill()
        self._holder.wait()
        self._directory.cleanup()

    def words(self, command: list[str]) -> list[str]:
        """The command line that runs `command` in there."""
        enter = ["nsenter", "-t", str(self._holder.pid), "--mount", "--net", "--uts", "chroot", f"{self._directory.name}/root"]
        return [*enter, "env", "-i", *ENVIRONMENT, *command]

    def run(self, *command: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command to its end; its output has its errors too."""
        return subprocess.run(self.words(list(command)), input=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=LIMIT_S)

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a command whose output nobody reads."""
        return subprocess.Popen(self.words(list(command)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
