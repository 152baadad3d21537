#!/usr/bin/env python3
"""Mount a share with Linux's own NFS client, in every relevant way, and run the exercise on it.

    nfs.py [--server trunkline|ganesha|knfsd] [--mount NAME ...]

Each mount is one boot of a guest (guest.py) that runs nfs_tree.py against its own server in the same network namespace,
or against Linux' own server in the same guest (knfsd.py). One mount is of an XFS, whose files can share storage, and
one of a server without any privilege. `GANESHA_LACKS` lists the cases that Ganesha 4.3 itself fails, with the reasons,
and `KNFSD_LACKS` those of Linux' server.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite
from proving.kernel_client import console, guest, kernels
from proving.kernel_client.counting import LIMIT_S, count, count_lines

HERE = Path(__file__).resolve().parent
# Name, minor version and connections.
MOUNTS = {f"{version}-nconnect{count}": (version, count) for version, count in
          (("4.1", 1), ("4.1", 4), ("4.2", 1), ("4.2", 4), ("4.2", 16))}
# One mount of a separate file system whose files can share storage, and one of a server that runs as nobody.
MOUNTS |= {"4.2-xfs": ("4.2", 2), "4.2-nobody": ("4.2", 4)}
# Rounds of each of the four workers of `locks_beside_readers`: 2,000 in one of the mounts.
LOCK_ROUNDS = {"4.2-nconnect4": 500}
NOBODY = 65534
# A file system that is mounted below the share of a server with root rights, and its size.
BELOW, BELOW_BYTES = "below", 8 << 20
NOBODY_LACKS = {
    "special_files": "the server may create no devices",
    "modes_and_owners": "the server may change no owner",
    "permissions_of_users": "all files belong to the user that runs the server",
}
GANESHA_LACKS = {"extended_attributes": "Ganesha 4.3 stores no extended attributes on VFS"}
# By kernel: the cases that this year's Ganesha fails with its client.
NEWER_GANESHA_LACKS = {"newest": {"fcntl_locks": "a process that waits for a lock gets EIO (Linux 7.2.7 with Ganesha 15.2)"}}


# The scripts of the exercise. The first one runs.
TREE = [HERE / "nfs_tree.py", HERE / "build_tree.py"]
# Linux' own server serves this directory of its guest's memory.
KNFSD_ROOT, KNFSD_PORT, KNFSD_MEMORY_MIB = "/run/served", 2049, 1200
_TIMES = ("a set time (utimensat, tar) is lost if the client holds a delegation: 7.2.7 keeps it as a delegated timestamp (RFC 9754), "
          "and its own server ignores that; not with /proc/sys/fs/leases-enable at 0")
_LATE = "a waiting process learns up to 30 s late that the lock is free, when the client asks again (6.12.113; not 7.2.7)"
# By kernel: the cases that its own server and client fail together.
KNFSD_LACKS = {"6.12": {"fcntl_locks": _LATE}, "newest": {"times": _TIMES, "untar_a_tree": _TIMES}}


def exercise_knfsd(tally: Tally, name: str) -> None:
    """Run the exercise with the server and the client of one kernel, in one guest."""
    with tempfile.TemporaryDirectory(prefix="proof-knfsd-") as directory, guest.Network() as network:
        os.chmod(directory, 0o755)
        knfsd = console.lay([HERE / "knfsd.py"], Path(directory))
        job = [sys.executable, knfsd, KNFSD_ROOT, KNFSD_PORT]
        job += [sys.executable, console.lay(TREE, Path(directory)), "--address", "127.0.0.1", "--port", KNFSD_PORT, *words(name), "--clones"]
        job += ["--host-directory", f"{KNFSD_ROOT}/files"]
        count_lines(tally, name, guest.run(network, job, LIMIT_S, KNFSD_MEMORY_MIB),
                    KNFSD_LACKS.get(kernels.GuestKernel.series, {}))


def words(name: str) -> list[object]:
    """Return the words of a mount for nfs_tree.py."""
    version, connections = MOUNTS[name]
    return ["--share", "files", "--options", f"vers={version},nconnect={connections}", "--connections", connections,
            "--lock-rounds", LOCK_ROUNDS.get(name, 20)]


def exercise(tally: Tally, kind: str, name: str) -> None:
    user = NOBODY if name == "4.2-nobody" else None
    with guest.Network() as network, servers.Server(kind, "nfs", network, user=user, shares_storage=name == "4.2-xfs") as server:
        # Beside the server's own files, since the guest does not see everything of this machine (guest.py).
        script = console.lay(TREE, server.directory)
        room = os.statvfs(server.share_directory("files"))
        job = [sys.executable, script, "--address", guest.SERVER_ADDRESS, "--port", server.port, *words(name),
               "--size-bytes", room.f_blocks * room.f_frsize, "--size-files", room.f_files, "--host-directory", server.share_directory("files")]
        job += ["--clones"] if name == "4.2-xfs" else []
        if kind == "trunkline" and user is None:
            job += ["--below", BELOW, mount_below(server)]
        ran = guest.run(network, job, LIMIT_S), server.alive(), server.log()
        if name == "4.2-xfs":
            check_sharing(tally, name, server.share_directory("files") / "cloned-to")
    count(tally, name, ran, server, lacks(kind, user))


def mount_below(server: servers.Server) -> int:
    """Mount a small file system below the share, in the server's namespace and until the server ends. Returns its bytes."""
    path = server.share_directory("files") / BELOW
    path.mkdir()
    # The server has a mount namespace of its own, because it was started in a network namespace.
    command = ["nsenter", "--target", str(server.pid), "--mount", "mount", "-t", "tmpfs", "-o", f"size={BELOW_BYTES},mode=0777", "proof", str(path)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode != 0:
        raise servers.CannotSetUp(f"the mount failed: {mounted.stderr.strip()}")
    return BELOW_BYTES


def lacks(kind: str, user: int | None) -> dict[str, str]:
    """Return the cases that the server may fail, and the reasons."""
    if kind == "ganesha":
        return NEWER_GANESHA_LACKS.get(kernels.GuestKernel.series, {}) if servers.is_newer() else GANESHA_LACKS
    return {} if user is None else NOBODY_LACKS


def check_sharing(tally: Tally, name: str, path: Path) -> None:
    """Return whether the host reports a clone's storage as shared."""
    said = subprocess.run(["filefrag", "-v", path], capture_output=True, text=True)
    shared = "shared" in said.stdout
    tally.add("pass" if shared else "fail", f"{name}: the clone's storage is shared on the host", "" if shared else said.stdout + said.stderr)


def main() -> None:
    parser = kernels.parser(__doc__)
    parser.add_argument("--server", choices=(*servers.NFS_KINDS, "knfsd"), default="trunkline")
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
            if options.server == "knfsd":
                exercise_knfsd(tally, name)
            else:
                exercise(tally, options.server, name)
        except servers.CannotStart as refusal:
            tally.add(refusal.result, name, str(refusal))
        except servers.CannotSetUp as reason:
            tally.add("skip", name, str(reason))
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
