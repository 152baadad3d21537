"""The kernels for guests: Debian's user-mode-linux, of the machine's own release and of newer ones.

    kernels.py ROOT WORD ...    runs the program WORD of ROOT, in a mount namespace that its caller has created for it

A newer kernel is unpacked with the C library that it needs (scripts/foreign, harness/newer.py), and has that directory
as its root, since its library would not suit the machine's own programs. The machine's files lie there below /machine
and are the guest's root, as with the machine's own kernel.
"""

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import newer

PROGRAM = "linux.uml"
MODULES = "usr/lib/uml/modules"
# The directories of this machine that a newer kernel sees, and their places there.
SEEN = {"/": "machine", "/dev": "dev", "/proc": "proc"}
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Kernel:
    """The machine's own user-mode-linux."""

    def missing(self) -> str:
        """Return the reason why it is not available here, as one line; empty if it is."""
        return "" if shutil.which(PROGRAM, path=PATH) else "needs the Debian package user-mode-linux"

    def modules(self) -> str:
        """Return the directory of its modules, as the guest sees it."""
        return f"/{MODULES}"

    def release(self) -> str:
        """Return its own name for its release, from its modules."""
        return " or ".join(sorted(path.name for path in self._directory().iterdir()))

    def _directory(self) -> Path:
        return Path(f"/{MODULES}")

    def path(self, path: str | Path) -> str:
        """Return the kernel's path for a path of this machine."""
        return str(path)

    def command(self, words: list[str]) -> list[str]:
        """Return the command line that boots it with these words."""
        return [PROGRAM, *words]


class NewerKernel(Kernel):
    """A user-mode-linux of a newer release, unpacked into the folder of this name."""

    def __init__(self, folder: str) -> None:
        self._root = newer.root(folder)

    def missing(self) -> str:
        return "" if (self._root / "usr/bin" / PROGRAM).exists() else f"{self._root} is missing: scripts/foreign all"

    def modules(self) -> str:
        return str(self._root / MODULES)

    def _directory(self) -> Path:
        return self._root / MODULES

    @staticmethod
    def path(path: str | Path) -> str:
        return f"/{SEEN['/']}/{str(path).lstrip('/')}"

    def command(self, words: list[str]) -> list[str]:
        return ["unshare", "--mount", sys.executable, __file__, str(self._root), f"/usr/bin/{PROGRAM}", *words]


OWN = "6.1"
KERNELS = {OWN: Kernel(), "6.12": NewerKernel("linux-6.12"), "newest": NewerKernel("linux-newest")}


_ZEROS = ("a file of size 0 that has grown before its open reads as zeros, without any READ to the server (6.12.113 and 7.2.7; with "
          "Samba too)")
_BEHIND = ("data written without a write lease stays in the client's memory until a flush or close; before 6.10, and with cache=none, "
           "it was written at once (6.12.113 and 7.2.7; with Samba too)")
_WHOLE_PAGES = ("such data is later written in whole pages, which overwrite another client's data; not with byte-range locks around each "
                "write, nor with cache=none (6.12.113 and 7.2.7; with Samba too)")
_UNSTABLE = ("if several processes write to one file, pages change between signing and sending; Samba too refuses such a WRITE for its "
             "signature (7.2.7; not with encryption)")
_IDS = "chown asks cifs.idmap before the server, and no cifs.idmap answers here (7.2.7): EINVAL"
LACKS = {
    "6.12": {"two_clients_agree": _ZEROS, "write_without_a_lease": _BEHIND, "two_write_to_one_page": _WHOLE_PAGES},
    "newest": {"two_clients_agree": _ZEROS, "write_without_a_lease": _BEHIND,
               "two_write_to_one_page": _WHOLE_PAGES, "parallel_writers": _UNSTABLE,
               **{f"3.1.1-{mount}-posix: rsync_finds_nothing_left_to_do": _IDS for mount in ("signed", "sealed")}},
}


class GuestKernel:
    """The kernel that guests of this process boot: the machine's own, or the one that --kernel selects."""

    series, kernel = OWN, KERNELS[OWN]

    @classmethod
    def lacks(cls) -> dict[str, str]:
        """Return the cases that fail with this kernel on any server, by case or `mount: case`, and the reasons."""
        return LACKS.get(cls.series, {})


class _Choose(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, option_string: str | None = None) -> None:
        GuestKernel.series, GuestKernel.kernel = value, KERNELS[value]


def parser(description: str) -> argparse.ArgumentParser:
    """Return the arguments of a suite with guests. The first line of its documentation describes it."""
    arguments = argparse.ArgumentParser(description=description.splitlines()[0])
    arguments.add_argument("--kernel", choices=list(KERNELS), action=_Choose, help="the guests' kernel; 6.1 is the machine's own")
    return arguments


def suite(name: str) -> str:
    """Return a suite's name with the kernel, unless it is the machine's own."""
    return name if GuestKernel.series == OWN else f"{name} {GuestKernel.series}"


def main() -> None:
    root, *command = sys.argv[1:]
    for path, below in SEEN.items():
        place = Path(root) / below
        place.mkdir(exist_ok=True)
        subprocess.run(["mount", "--rbind", path, place], check=True)
    # The library loaded before the kernel (guest.py) is a file of this machine.
    if library := os.environ.get("LD_PRELOAD"):
        os.environ["LD_PRELOAD"] = NewerKernel.path(library)
    os.chroot(root)
    os.chdir("/")
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
