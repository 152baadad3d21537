#!/usr/bin/env python3
"""Cut one to all of four connections of Linux's NFS client repeatedly while it works.

    nfs_cuts.py [--cuts 10] [--per-mount 10] [--seed N] [--server trunkline|ganesha] [--out FILE]

A mount with nconnect=4, of 4.1 or 4.2, carries four writers, four readers and two name changers (workload.py), as in
cuts.py over SMB. Every cut (faults.py) hits one to four connections: reset, silent, half-open, or the cable of all.
Checks after each cut: four connections are back within 90 s and carry requests, and every worker continues. Check at
the end of a mount: the server's own files hold the flushed data and no other names. Check over the whole run: at most
one of twenty recoveries took longer than 30 s.

A session outlives its connections, a request is sent again on another one and is done once (RFC 8881 2.10.6), and a
hard mount waits. Therefore, unlike over SMB, no call of an application may fail at all. Any error that an application
sees fails the run. --out appends the counts to a file of JSON lines (proving/soak).
"""

import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.kernel_client import cuts, faults, mounted, nfs_mounted, runs

SUITE = "kernel-nfs-cuts"
CONNECTIONS = 4
# Linux waits for a TCP retransmission, whose interval doubles while no packet arrives, and then before it connects
# again.
BACK_WITHIN_S, BACK_AT_ALL_S = 30, 90
STEP_WITHIN_S = 60
VERSIONS = ("4.1", "4.2")


class Mount(nfs_mounted.NfsMounted):
    """The share, with connections that may be cut."""

    def carrying(self) -> faults.Carrying:
        """Return the connections that both ends consider established, with the bytes that the server received and sent."""
        ports = {int(near.rpartition(":")[2]) for near, _ in self.ask("ports")}
        return {client: counts for client, counts in self.cutter.connections().items() if client[1] in ports}

    def wait_for_channels(self, since: float, before: faults.Carrying, limit_s: float) -> float:
        """Wait until four connections are established at both ends and each has carried requests since `before`.
        Returns the seconds since `since`."""
        while True:
            now = self.carrying()
            working = [c for c, (received, _) in now.items() if received - before.get(c, (0, 0))[0] > mounted.WORKING_BYTES]
            took = time.monotonic() - since
            if len(working) >= CONNECTIONS:
                return took
            if took > limit_s:
                raise mounted.RunFailed(f"after {took:.0f} s {len(now)} connections stand, and {len(working)} of them carry requests")
            time.sleep(0.2)

    def finish(self, more_mounts: Sequence[str] = ()) -> list[str]:
        """Stop the workers, unmount, and compare the server's own files with their expected state. Returns the failures."""
        failures = super().finish(more_mounts)
        return failures + [f"an application saw {count} times: {error}" for error, count in self.errors.items()]

    def _check_late(self, errors: int) -> list[str]:
        return []  # no error is allowed here, and `finish` reports each


class Run(cuts.Cuts):
    """One mount's cuts over NFS. An error that an application sees is a failure, not a transient error."""

    back_within_s, back_at_all_s, step_within_s = BACK_WITHIN_S, BACK_AT_ALL_S, STEP_WITHIN_S

    def __init__(self, kind: str, seed: int) -> None:
        super().__init__(kind, seed, "nfs cuts")
        # Seeds that are ten apart, as in slices, must cover both versions too.
        self._version = VERSIONS[(seed + seed // 10) % len(VERSIONS)]

    def mount(self) -> str:
        """Return the kind of mount in words."""
        return f"{self._version}, nconnect={CONNECTIONS}"

    def _mounted(self) -> Mount:
        return Mount(self.kind, f"nconnect={CONNECTIONS},hard,vers={self._version}")

    def _choose(self, clients: list[faults.Client]) -> tuple[str, list[faults.Client], int, float]:
        fault = self._random.choice(faults.FAULTS)
        seconds = self._random.choice((0.5, 2, 4, 8))
        hit = self._random.sample(clients, min(self._random.randint(1, CONNECTIONS), len(clients)))
        return fault, clients if fault == "link" else hit, 0, seconds


def main() -> None:
    parser = runs.parser("cuts", 10, 10, __doc__)
    parser.add_argument("--server", choices=servers.NFS_KINDS, default="trunkline")
    options = parser.parse_args()
    tally = runs.begin(SUITE, nfs_mounted.missing, faults.cannot_cut)
    counts: Counter[str] = Counter()

    def count(run: Run) -> None:
        counts["done"] += run.done()
        counts["late"] += run.late()

    runs.go_through(tally, options, lambda seed: [Run(options.server, seed)], count)
    if options.server == "trunkline":
        cuts.judge_late(tally, counts, BACK_WITHIN_S)
    runs.end(tally)


if __name__ == "__main__":
    main()
