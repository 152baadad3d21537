#!/usr/bin/env python3
"""Linux' own NFS server with Linux' own client: runs in the guest, serves a file system in its memory there, and runs a job.

    knfsd.py DIRECTORY PORT PROGRAM ...    serves DIRECTORY as the root of NFSv4.1 and 4.2 on PORT, to every client, root as root

The server asks a daemon (rpc.mountd) for the identity of a client, for the exports and for the target of a handle, each
once. Here the three answers are written in advance, so that only the mount program of nfs-utils is needed. The program
adds two facts that only it knows to the words of the job (nfs_tree.py): the size of the file system, and a network
namespace from which a second client can mount.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

CACHES, CONTROL = Path("/proc/net/rpc"), Path("/proc/fs/nfsd")
# Later than the lifetime of any guest, in seconds of the clock.
FOR_EVER = 0x7FFFFFFF
CLIENT, ROOT_FSID = "everybody", "\\x00000000"
# The network namespace for a second client, and its own and the server's address there.
ANOTHER, ANOTHER_ADDRESS, THERE = "another", "10.79.0.2", "10.79.0.1"
# include/uapi/linux/nfsd/export.h: any port, no check of the parent, the number that follows is the file system's, here the root.
INSECURE_PORT, NO_SUBTREE_CHECK, HAS_FSID = 0x0002, 0x0400, 0x2000
BY_NUMBER = 1
NOBODY = 65534
THREADS = 8
# Memory is used only as needed. XFS refuses smaller volumes.
VOLUME_KIB = 400 << 10
SHARES = ("files", "t1", "t2", "t3", "t4", "sealed")


def run(*words: object) -> None:
    """Run a program that must succeed."""
    subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL)


def make_volume(where: Path) -> None:
    """Mount a fresh XFS, which supports every attribute that a client may ask for."""
    run("/run/modprobe", "brd", "rd_nr=1", f"rd_size={VOLUME_KIB}")
    run("mkfs.xfs", "-q", "/dev/ram0")
    where.mkdir(parents=True)
    run("mount", "-t", "xfs", "/dev/ram0", where)
    for name in SHARES:
        (where / name).mkdir()
        (where / name).chmod(0o777)


def answer(cache: str, *words: object) -> None:
    """Write one answer into a cache of the server."""
    (CACHES / cache / "channel").write_text(" ".join(str(word) for word in words) + "\n")


def serve(where: Path, port: int) -> None:
    """Start the server on this port."""
    run("/run/modprobe", "nfsd")
    run("mount", "-t", "nfsd", "nfsd", CONTROL)
    for address in ("127.0.0.1", ANOTHER_ADDRESS):
        answer("auth.unix.ip", "nfsd", address, FOR_EVER, CLIENT)
    flags = INSECURE_PORT | NO_SUBTREE_CHECK | HAS_FSID
    answer("nfsd.export", CLIENT, where, FOR_EVER, flags, NOBODY, NOBODY, 0)
    answer("nfsd.fh", CLIENT, BY_NUMBER, ROOT_FSID, FOR_EVER, where)
    (CONTROL / "versions").write_text("-3 +4.1 +4.2\n")
    (CONTROL / "portlist").write_text(f"tcp {port}\n")
    (CONTROL / "threads").write_text(f"{THREADS}\n")


def make_another() -> None:
    """Create a network namespace with a cable to this one."""
    run("ip", "netns", "add", ANOTHER)
    run("ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", ANOTHER)
    for where, address in (((), THERE), (("-n", ANOTHER), ANOTHER_ADDRESS)):
        run("ip", *where, "addr", "add", f"{address}/24", "dev", "cable")
        run("ip", *where, "link", "set", "cable", "up")


def main() -> None:
    place, port, *job = sys.argv[1:]
    where = Path(place)
    began = time.monotonic()
    make_volume(where)
    make_another()
    serve(where, int(port))
    print(f"knfsd of Linux {os.uname().release} serves after {time.monotonic() - began:.1f} s", flush=True)
    room = os.statvfs(where)
    known = ["--size-bytes", room.f_blocks * room.f_frsize, "--size-files", room.f_files, "--another", ANOTHER, THERE]
    sys.exit(subprocess.run([*job, *map(str, known)]).returncode)


if __name__ == "__main__":
    main()
