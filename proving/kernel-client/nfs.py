#!/usr/bin/env python3
"""Mount a share with Linux's own NFS client, in every way that matters, and put it through the exercise.

    nfs.py [--server trunkline|ganesha] [--mount NAME ...]

Each mount is one boot of a guest (guest.py) that runs nfs_tree.py against a server of its own in the same network
namespace. One mount is of an XFS, whose files can share storage, and one of a server without any privilege. What Ganesha 4.3 itself does not pass is listed in `GANESHA_LACKS`, with the reason.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import guest  # noqa: E402
import kernels  # noqa: E402
from counting import LIMIT_S, count  # noqa: E402
from harness import server as servers  # noqa: E402
from harness.tally import Tally, skip_whole_suite  # noqa: E402

# Name, minor version and connections.
MOUNTS = {f"{version}-nconnect{count}": (version, count) for version, count in
          (("4.1", 1), ("4.1", 4), ("4.2", 1), ("4.2", 4), ("4.2", 16))}
# On a file system of its own, whose files can share storage, and of a server that runs as nobody.
MOUNTS |= {"4.2-xfs": ("4.2", 2), "4.2-nobody": ("4.2", 4)}
# Rounds of each of the four workers of `locks_beside_readers`: 2,000 in one of the mounts.
LOCK_ROUNDS = {"4.2-nconnect4": 500}
NOBODY = 65534
NOBODY_LACKS = {
    "special_files": "the server may make no devices",
    "modes_and_owners": "the server may give no file away",
    "permissions_of_users": "all files belong to whoever runs the server",
}
GANESHA_LACKS = {"extended_attributes": "Ganesha 4.3 keeps no extended attributes on VFS"}


def exercise(tally, kind, name):
    version, connections = MOUNTS[name]
    user = NOBODY if name == "4.2-nobody" else None
    with guest.Network() as network, servers.Server(kind, "nfs", network, user=user, shares_storage=name == "4.2-xfs") as server:
        # Beside the server's own files, since the guest does not see everything of this machine (guest.py).
        shutil.copy(HERE / "build_tree.py", server.directory)
        script = shutil.copy(HERE / "nfs_tree.py", server.directory)
        room = os.statvfs(server.share_directory("files"))
        job = [sys.executable, script, "--address", guest.SERVER_ADDRESS, "--port", server.port, "--share", "files",
               "--options", f"vers={version},nconnect={connections}", "--connections", connections,
               "--size-bytes", room.f_blocks * room.f_frsize, "--size-files", room.f_files, "--host-directory", server.share_directory("files")]
        job += ["--lock-rounds", LOCK_ROUNDS.get(name, 20)]
        job += ["--clones"] if name == "4.2-xfs" else []
        ran = guest.run(network, job, LIMIT_S), server.alive(), server.log()
        if name == "4.2-xfs":
            check_sharing(tally, name, server.share_directory("files") / "cloned-to")
    count(tally, name, ran, server, GANESHA_LACKS if kind == "ganesha" else NOBODY_LACKS if user else {})


def check_sharing(tally, name, path):
    """Whether the host says that a clone's storage is another file's too."""
    said = subprocess.run(["filefrag", "-v", path], capture_output=True, text=True)
    shared = "shared" in said.stdout
    tally.add("pass" if shared else "fail", f"{name}: the clone's storage is shared on the host", "" if shared else said.stdout + said.stderr)


def main():
    parser = kernels.parser(__doc__)
    parser.add_argument("--server", choices=servers.NFS_KINDS, default="trunkline")
    parser.add_argument("--mount", action="append", choices=list(MOUNTS))
    options = parser.parse_args()
    if reason := guest.missing(("mount.nfs", "nfs-common")) or guest.cannot_boot():
        skip_whole_suite(kernels.suite("kernel-client-nfs"), reason)
    tally = Tally(kernels.suite("kernel-client-nfs"))
    for name in options.mount or MOUNTS:
        if name == "4.2-nobody" and options.server != "trunkline":
            tally.add("skip", name, f"{options.server} needs root")
            continue
        try:
            exercise(tally, options.server, name)
        except servers.CannotStart as reason:
            tally.add(reason.result, name, str(reason))
        except servers.CannotSetUp as reason:
            tally.add("skip", name, str(reason))
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
