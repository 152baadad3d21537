#!/usr/bin/env python3
"""Kill the server under load and restart it within 10 s, while Linux's NFS client holds files open and locked.

    nfs_kills.py [--kills 3] [--per-mount 5] [--seed N] [--server trunkline|ganesha] [--out FILE]

Four writers and two readers work on a mount, a holder keeps byte-range locks, and a second client requests the same
ranges continuously (workload.py). The second client uses another minor version, so that it has a client ID of its own.
After each kill -9 and restart: both clients go on without a reclaim, every worker continues with its descriptor, the
server has the same files open as before, and the second client was granted no lock. At the end of a mount the server's
own files hold the flushed data.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import CaseFailed
from proving.kernel_client import faults, kills, mounted, nfs_mounted, runs

SUITE = "kernel-nfs-kills"
# Minor version and connections of the client under load, and the minor version of the other.
MOUNTS = [("4.2", 4, "4.1"), ("4.1", 4, "4.2"), ("4.1", 1, "4.2"), ("4.2", 16, "4.1")]
OPTIONS = "proto=tcp,sec=sys,nosharecache,actimeo=1"
HOLDER = ["holder", "holder-0"]
# The server's log of a client that goes on without a reclaim.
RESUMED = "goes on with its client ID"


class Run(kills.Kills):
    """One mount's kills over NFS."""

    who = "server"

    def __init__(self, kind: str, seed: int) -> None:
        super().__init__(kind, seed, "nfs kills")
        self._version, self._connections, self._other = MOUNTS[seed % len(MOUNTS)]

    def mount(self) -> str:
        """Return the kind of mount in words."""
        return f"{self._version}, nconnect={self._connections}"

    def _mounted(self) -> nfs_mounted.NfsMounted:
        return nfs_mounted.NfsMounted(self.kind, f"{OPTIONS},vers={self._version},nconnect={self._connections}")

    def _work(self, mount: mounted.Mounted, count: int) -> None:
        mount.mount("/mnt/b", f"{OPTIONS},vers={self._other}")
        mount.start([*kills.LOAD, HOLDER], self._seed)
        mount.wait_for_steps({}, kills.STEP_WITHIN_S)
        mount.start([["intruder", "intruder-0", "/mnt/b"]], self._seed)
        mount.wait_for_steps(mount.progress()["steps"], kills.STEP_WITHIN_S)
        for _ in range(count):
            self._kill(mount, (0.5, 4))
        if self.kind == "trunkline" and (resumed := mount.server.log_count(RESUMED)) != 2 * count:
            message = f"{resumed} times in {count} kills one of the two clients went on with its client ID; the others had to reclaim"
            raise CaseFailed(message)

    def _held_open(self, mount: mounted.Mounted) -> list[str]:
        """Return the files that workers hold open for their whole life and that the server has open."""
        if self.kind != "trunkline":
            return []
        mine = {HOLDER[1], *(worker[1] for worker in kills.LOAD)}
        return sorted(mine & {Path(path).name for path in mount.server.opens()})


def main() -> None:
    parser = runs.parser("kills", 3, 5, __doc__)
    parser.add_argument("--server", choices=servers.NFS_KINDS, default="trunkline")
    options = parser.parse_args()
    # The log tells of each client that resumes.
    os.environ["LOG_LEVEL"] = "info"
    tally = runs.begin(SUITE, nfs_mounted.missing, faults.cannot_cut)
    runs.go_through(tally, options, lambda seed: [Run(options.server, seed)])
    runs.end(tally)


if __name__ == "__main__":
    main()
