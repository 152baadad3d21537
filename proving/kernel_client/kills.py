#!/usr/bin/env python3
"""Kill the server under load and restart it within 10 s, while Linux's client holds files open and locked.

    kills.py [--kills 3] [--per-mount 5] [--seed N] [--server trunkline|samba] [--handles persistent|durable] [--folders] [--out FILE]
             [--sec krb5|krb5i [--ticket-life SECONDS]]

Four writers and two readers work on a mount, a holder keeps byte-range locks, and a second client requests the same
ranges continuously (workload.py). After each kill -9 and restart: every worker continues with its descriptor, the
second client was granted no lock, and with persistent handles the client's open files have the same ids as before. At
the end of a mount the server's own files hold the flushed data.

Linux keeps locks to itself under a write lease, sends them when the lease is broken, and forgets those that a dying
server does not accept. So on every other mount the kills begin when the second client has been refused once, because
then the server has the locks. On the others the first kill falls anywhere around that moment. There the owner of a lock
is uncertain, and the second client's locks are only counted (`lock granted`).

`--handles durable` is for servers that lose their opens with their process: the ids change and a lock may be lost, so
neither is checked. The remaining checks show that the client recovers and no flushed byte is missing.

With `--folders` four workers create a directory and a file and remove both. No open that the client gave up may hold
the file's name, since the directory would then stay.
"""

import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.kernel_client import faults, mounted, runs, tickets

SUITE = "kernel-kills"
# This includes the longest deliberate pause of 4 s.
RESTART_WITHIN_S = 10
STEP_WITHIN_S = 90
# The mounts have one channel, or four. The client reconnects twice in addition to the load.
MOUNTS = [(1, mounted.BASIC), (1, mounted.MULTICHANNEL), (2, mounted.MULTICHANNEL + ",seal")]
LOAD = [[kind, f"{kind}-{n}"] for kind, count in (("writer", 4), ("reader", 2)) for n in range(count)]
# The label of the worker that holds locks and of the one that requests them, where the owner of the locks is certain
# and where not.
HOLDER, INTRUDER = {True: "holder", False: "keeper"}, {True: "intruder", False: "prober"}


class Kills(runs.Run):
    """One mount's kills, over any protocol: the kills and the failures."""

    restarts_server = True
    # The client whose open files are compared.
    who = "client"
    # The time for which the server is down, in seconds.
    away_s: Sequence[float] = (0, 0.5, 2, 4)

    def __init__(self, kind: str, seed: int, name: str) -> None:
        super().__init__(kind, seed)
        self._random = random.Random(f"{name} {seed}")
        self.done = 0
        self.on_s: list[float] = []

    def _held_open(self, mount: mounted.Mounted) -> Any:
        """Return the open files that must be the same after a kill."""
        raise NotImplementedError

    def _finish(self, mount: mounted.Mounted) -> list[str]:
        return mount.finish(more_mounts=["/mnt/b"])

    def _kill(self, mount: mounted.Mounted, after_s: tuple[float, float]) -> None:
        """Kill, restart, and check that every worker continues with its open files."""
        self.where = f"kill {self.done + 1}"
        time.sleep(self._random.uniform(*after_s))
        before = self._held_open(mount)
        mount.answers_were_lost = True
        mount.server.kill()
        killed = time.monotonic()
        time.sleep(self._random.choice(self.away_s))
        mount.server.start()
        restarted = time.monotonic()
        self.done += 1
        if restarted - killed > RESTART_WITHIN_S:
            raise mounted.RunFailed(f"the server was back after {restarted - killed:.1f} s only")
        mount.wait_for_steps(mount.progress()["steps"], STEP_WITHIN_S)
        self.on_s.append(time.monotonic() - restarted)
        after = self._held_open(mount)
        if after != before:
            raise mounted.RunFailed(f"the {self.who} had {before} open before the kill, and has {after} now")

    def amount(self) -> str:
        return f"{self.done} kills"

    def _slowest(self) -> float:
        return max(self.on_s, default=0.0)

    def told(self) -> str:
        return f"every worker gets on {self._slowest():.1f} s after the restart at most; {self.steps} steps; passing errors {self.errors}"

    def line(self) -> dict[str, Any]:
        return {"done": self.done, "passing_errors": self.errors, "slowest_on_s": round(self._slowest(), 1), "mounts": {self.mount(): self.done}}


class Run(Kills):
    """One mount's kills over SMB."""

    def __init__(self, kind: str, handles: str, seed: int) -> None:
        super().__init__(kind, seed, "kills")
        self._persistent = handles == "persistent"
        mounts = MOUNTS[:1] if tickets.lacks_channels() else MOUNTS
        self._nics, self._options = mounts[seed % len(mounts)]
        # Seeds are five apart in slices, and both kinds must cover every kind of mount.
        self._decided = seed // 5 % 2 == 0

    def mount(self) -> str:
        """Return the kind of mount in words."""
        channels = mounted.CHANNELS if "multichannel" in self._options else 1
        return f"{mounted.describe(self._nics, self._options)}, {channels} channel{'s' if channels > 1 else ''}"

    def name(self) -> str:
        return f"{super().name()}{'' if self._decided else ', from the start'}"

    def _mounted(self) -> mounted.Mounted:
        options = self._options + (",persistenthandles" if self._persistent else "")
        return mounted.Mounted(self.kind, "persistent" if self._persistent else "four-channels", self._nics, options)

    def _work(self, mount: mounted.Mounted, count: int) -> None:
        mount.mount("/mnt/b", mounted.BASIC)
        mount.start([*LOAD, [HOLDER[self._decided], "holder-0"]], self._seed)
        mount.wait_for_steps({}, STEP_WITHIN_S)
        if self._persistent:
            mount.start([[INTRUDER[self._decided], "intruder-0", "/mnt/b"]], self._seed)
            if self._decided:
                mount.wait_for_steps(mount.progress()["steps"], STEP_WITHIN_S)
        for number in range(count):
            self._kill(mount, (0.5, 4) if number or self._decided else (0, 1.5))

    def _held_open(self, mount: mounted.Mounted) -> Any:
        """Return the ids of the files that workers hold open for their whole life, where they must survive a kill. The
        second client's is not among them: Linux sometimes sends a lock with the id from before the restart, and a
        program that gets EBADF opens the file again."""
        if not self._persistent:
            return {}
        mine = ["holder-0", *(label for _, label in LOAD)]
        return {name: ids for name, ids in mount.ask("open_files", workers=mine).items() if name in mine}


class Folders(Run):
    """One mount's kills beside workers that create and remove directories, without workers that wait for locks."""

    away_s: Sequence[float] = (0, 0.3, 1)

    def __init__(self, kind: str, seed: int) -> None:
        super().__init__(kind, "persistent", seed)
        self._decided = True

    def _finish(self, mount: mounted.Mounted) -> list[str]:
        return mount.finish()

    def _work(self, mount: mounted.Mounted, count: int) -> None:
        mount.start([["writer", "writer-0"], *(["folders", f"folders-{n}"] for n in range(4))], self._seed)
        mount.wait_for_steps({}, STEP_WITHIN_S)
        for _ in range(count):
            self._kill(mount, (0.2, 1.5))

    def _held_open(self, mount: mounted.Mounted) -> Any:
        return mount.ask("open_files", workers=["writer-0"])


def main() -> None:
    parser = tickets.add_arguments(runs.parser("kills", 3, 5, __doc__))
    parser.add_argument("--server", choices=servers.KINDS, default="trunkline")
    parser.add_argument("--handles", choices=("persistent", "durable"), default="persistent")
    parser.add_argument("--folders", action="store_true", help="create and remove directories instead")
    options = parser.parse_args()
    tally = runs.begin(tickets.suite(SUITE), faults.cannot_cut, tickets.missing)
    runs.go_through(tally, options, lambda seed: [Folders(options.server, seed) if options.folders else Run(options.server, options.handles, seed)])
    runs.end(tally)


if __name__ == "__main__":
    main()
