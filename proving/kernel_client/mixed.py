#!/usr/bin/env python3
"""Mount one share over SMB and NFS at once with Linux's own clients, and let both work on the same files.

    mixed.py [--rounds 1] [--per-mount 5] [--seed N] [--server trunkline|samba|both] [--only WORKER ...] [--out FILE]

A round is 30 s of work in a guest that has both mounts (dual_workload.py, workload.py). One side writes files that the
other reads. Pairs of processes take the same locks over both. Both sides create, rename and remove names. In addition,
writers, readers and name changers have a mount for themselves. Checks after each round: every worker continued, and
none saw old bytes after a caching right was taken away, two holders of one lock, or a name in a wrong state. Checks at
the end of a mount: the counter of every lock is complete, and the server's own files hold the written data.

Linux's SMB client sometimes drops cached data late, with any server, and sometimes never. So Samba gets the same work
in turns, over two mounts of SMB, and our server may cause no more such reads.
"""

import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.kernel_client import cuts, guest, mounted, nfs_mounted, runs, workload

SUITE = "kernel-mixed"
# The keys of dual_workload.py.
STALE = "stale read over SMB"
ROUND_S = 30
STEP_WITHIN_S = 90
# Each look-up of either side goes to the server. Reads may come from memory: that is the subject of the proof.
SMB, NFS = "vers=3.1.1,sec=ntlmsspi,noperm,nosharesock,actimeo=0", "actimeo=0,lookupcache=positive"
# Further options of the two mounts, in turns.
MOUNTS = [("", "vers=4.2,nconnect=4"), (",seal", "vers=4.1,nconnect=1"), (",multichannel,max_channels=4", "vers=4.2,nconnect=16")]
WORKERS = [
    *(["exchange", f"exchange-{n}", "/mnt"] for n in range(4)),
    *([kind, f"lock{n}-{kind}", "/mnt"] for n in range(2) for kind in ("smb_locker", "nfs_locker")),
    *(["renames", f"renames-{n}", "/mnt"] for n in range(2)),
    ["lists", "lists-0", "/mnt"],
    *([kind, f"{kind}-{side}", f"/mnt/{side}"] for side in ("c", "n") for kind in ("writer", "reader")),
]


# The workers for another server, which show its number of stale reads: those that SMB alone supports.
FOR_OTHERS = ("exchange", "writer", "reader")


class DualMount(mounted.Mounted):
    """A server, a guest, and the share `files` mounted over SMB at /mnt/c and over NFS at /mnt/n. A server without NFS
    has SMB at both."""

    def __init__(self, kind: str, smb: str, nfs: str) -> None:
        super().__init__(kind, "nfs" if kind == "trunkline" else "four-channels", 1, smb)
        self._nfs = nfs

    def mount(self, where: str, options: str) -> None:
        """Mount both; the base class calls this for its own mount."""
        user, password = servers.accounts()[0]
        words = f"user={user},password={password},{SMB}{options}"
        share = f"//{guest.SERVER_ADDRESS}/files"
        if self.kind != "trunkline":
            for where in ("/mnt/c", "/mnt/n"):
                self._mount(where, share, f"port={self.server.port},{words}", "cifs")
            return
        config = (self.server.directory / "server" / "trunkline.toml").read_text()
        smb_port = re.findall(r"^smb_port = (\d+)$", config, re.MULTILINE)[0]
        self._mount("/mnt/c", share, f"port={smb_port},{words}", "cifs")
        self._mount("/mnt/n", f"{guest.SERVER_ADDRESS}:/files", f"port={self.server.port},{NFS},{self._nfs}", "nfs")

    def _mount(self, where: str, source: str, options: str, kind: str) -> None:
        if refused := self.ask("mount", where=where, source=source, options=options, kind=kind):
            raise mounted.RunFailed(f"mount over {kind}: {refused}")

    def begin(self, workers: list[list[str]], seed: int) -> None:
        self._workers += workers
        self.ask("start", base="/mnt", workers=workers, seed=seed)

    def finish(self, more_mounts: Sequence[str] = ()) -> list[str]:
        """Stop the workers, unmount both, and compare the files that are left. Returns the failures."""
        seen = self._note(self.ask("stop", limit_s=200, within_s=150))
        failures = list(seen["failures"])
        failures += [f"umount {where}: {refused}" for where in ("/mnt/c", "/mnt/n") if (refused := self.ask("umount", where=where))]
        share = self.server.share_directory("files")
        counted: Counter[str] = Counter()
        for label, final in seen["finals"].items():
            if "counted" in final:
                counted[label.rpartition("-")[0]] += final["counted"]
            elif label.startswith("exchange"):
                failures += check_exchange(share, label, final["blocks"])
            else:
                failures += mounted.check_left_behind(share, label, final)
        for name, wanted in counted.items():
            if (found := int((share / name).read_text() or 0)) != wanted:
                failures.append(f"{name} was counted up {wanted} times under its lock, and says {found}")
        if not self.server.alive():
            failures.append("the server ended")
        return failures


def check_exchange(share: Path, label: str, generations: list[int]) -> list[str]:
    """Compare a file that both sides wrote with its expected content. Returns the failures."""
    found = (share / label).read_bytes()
    if found == workload.expected_blocks(label, generations):
        return []
    return [f"{label}: the server's file does not hold what was written"]


class Run(runs.Run):
    """One mount's rounds: the work and the failures."""

    def __init__(self, kind: str, seed: int, only: list[str]) -> None:
        super().__init__(kind, seed)
        able = [worker for worker in WORKERS if kind == "trunkline" or worker[0] in FOR_OTHERS]
        self._workers = [worker for worker in able if not only or worker[0] in only]
        self._smb, self._nfs = MOUNTS[seed % len(MOUNTS)]
        self.done = 0
        self.steps_of: Counter[str] = Counter()

    def mount(self) -> str:
        """Return the kinds of mount in words."""
        other = f"NFS {self._nfs}" if self.kind == "trunkline" else "SMB"
        return f"SMB {self._smb.strip(',') or 'signed'}, {other}"

    def _mounted(self) -> DualMount:
        return DualMount(self.kind, self._smb, self._nfs)

    def _work(self, both: DualMount, count: int) -> None:
        both.begin(self._workers, self._seed)
        for number in range(count):
            self.where = f"round {number + 1}"
            self._round(both)

    def _round(self, both: DualMount) -> None:
        end = time.monotonic() + ROUND_S
        before = both.progress()["steps"]
        while time.monotonic() < end:
            time.sleep(1)
            both.progress()
        both.wait_for_steps(before, STEP_WITHIN_S)
        self.done += 1

    def _note(self, both: mounted.Mounted) -> None:
        super()._note(both)
        for label, steps in both.steps.items():
            self.steps_of[label.partition("-")[0]] += steps

    def amount(self) -> str:
        return f"{self.done} rounds"

    def told(self) -> str:
        return f"steps {dict(self.steps_of)}; {self.errors or 'nothing late'}"

    def line(self) -> dict[str, Any]:
        return {"done": self.done, "passing_errors": self.errors, "mounts": {self.mount(): self.done}}


def main() -> None:
    parser = runs.parser("rounds", 1, 5, __doc__)
    parser.add_argument("--only", action="append", choices=sorted({worker[0] for worker in WORKERS}), help="run only these workers")
    parser.add_argument("--server", choices=(*servers.KINDS, "both"), default="both")
    options = parser.parse_args()
    tally = runs.begin(SUITE, nfs_mounted.missing)
    kinds = servers.KINDS if options.server == "both" else (options.server,)
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in servers.KINDS}

    def count(run: Run) -> None:
        counts[run.kind]["done"] += run.done
        counts[run.kind]["errors"] += run.errors.get(STALE, 0)

    runs.go_through(tally, options, lambda seed: [Run(kind, seed, options.only) for kind in kinds], count)
    if options.server == "both":
        cuts.judge(tally, counts, "stale reads over SMB", "rounds")
    runs.end(tally)


if __name__ == "__main__":
    main()
