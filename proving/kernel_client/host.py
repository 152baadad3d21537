#!/usr/bin/env python3
"""Change a share from its host while Linux's clients look at it over SMB and NFS. Neither may see the former state.

    host.py [--rounds 1] [--per-mount 5] [--seed N] [--out FILE]

A round is 30 s. The host repeatedly creates, writes, replaces, renames, links and removes names, and changes their
modes and case, in directories that both clients have just seen. Then both look at every present and former name:
whether it exists, its size, mode and content, and its directory's listing. The results are compared with the host's.
Every few times the server is stopped during more changes than the host's event queue holds, so that events are lost. At
the same time, workers of both sides (mixed.py) write, read and rename files of their own.

The suite proves the server's cache, so the clients are mounted without one: no leases, no kept attributes or names.
Linux cannot decline a READ delegation. Under a delegation the client's view over NFS may be a moment late, until the
recall has arrived. That is counted.
"""

import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.kernel_client import mixed, mounted, nfs_mounted, runs, workload

SUITE = "kernel-host-changes"
ROUND_S = 30
STEP_WITHIN_S = 90
# The longest delay that a delegation may cause.
RECALLED_WITHIN_S = 10
# Mounts without client caches.
SMB, NFS = ",cache=none,nolease,nohandlecache", "vers=4.2,nconnect=4,noac,lookupcache=none"
WORKERS = [worker for worker in mixed.WORKERS if worker[0] in ("exchange", "writer", "reader", "renames")]
TOP = "changed-by-the-host"
DIRECTORIES = ["", "one", "one/two", "three"]
SLOTS = 6
MODES = (0o644, 0o664, 0o755, 0o444)
# Changes between two checks, and the interval of lost events.
CHANGES, LOSS_EVERY = (1, 2, 5, 20), 8
# Names that are created and removed to lose events. The queue of the host holds 16,384 by default, and the host joins the
# creation and the removal of one name.
LOST = 20_000
# The server's line about lost events.
LOST_LINE = "changes on the host were lost"


def spellings(slot: int) -> tuple[str, str]:
    return f"name-{slot}", f"Name-{slot}"


class Tree:
    """The host's files in the share, and its changes to them."""

    def __init__(self, top: Path, seed: int) -> None:
        self._top, self._random = top, random.Random(f"host {seed}")
        self.done: Counter[str] = Counter()
        for directory in DIRECTORIES:
            (top / directory).mkdir(exist_ok=True)
        self._content = 0

    def change(self) -> None:
        """Make a random change, where it is possible."""
        kind = self._random.choice([self._write, self._write, self._replace, self._rename, self._link, self._remove, self._set_mode,
                                    self._other_case, self._turn_directory])
        kind()
        self.done[kind.__name__.strip("_")] += 1

    def _directory(self) -> Path:
        return self._top / self._random.choice(DIRECTORIES)

    def _slot(self) -> Path:
        """Return a name of a slot, in its present spelling if it exists."""
        directory, either = self._directory(), spellings(self._random.randrange(SLOTS))
        return next((directory / name for name in either if os.path.lexists(directory / name)), directory / self._random.choice(either))

    def _new_content(self) -> bytes:
        self._content += 1
        return b"%d " % self._content * self._random.randrange(1, 1500)

    def _write(self) -> None:
        path = self._slot()
        path.write_bytes(self._new_content())

    def _replace(self) -> None:
        path, made = self._slot(), self._top / "made"
        made.write_bytes(self._new_content())
        made.rename(path)

    def _rename(self) -> None:
        old, new = self._slot(), self._slot()
        if old.exists():
            old.rename(new)

    def _link(self) -> None:
        old, new = self._slot(), self._slot()
        if old.exists() and not new.exists():
            new.hardlink_to(old)

    def _remove(self) -> None:
        self._slot().unlink(missing_ok=True)

    def _set_mode(self) -> None:
        path = self._slot()
        if path.exists():
            path.chmod(self._random.choice(MODES))

    def _other_case(self) -> None:
        path = self._slot()
        if path.exists():
            path.rename(path.with_name(path.name[0].swapcase() + path.name[1:]))

    def _turn_directory(self) -> None:
        """Rename a directory away, and another one with other files into its place."""
        old, new = self._top / "three", self._top / "turned"
        new.mkdir()
        (new / self._random.choice(spellings(self._random.randrange(SLOTS)))).write_bytes(self._new_content())
        gone = self._top / "gone"
        old.rename(gone)
        new.rename(old)
        for path in gone.iterdir():
            path.unlink()
        gone.rmdir()

    def lose_events(self, server: servers.Server) -> None:
        """Change more names than the event queue holds while the server is stopped, among them the names that are
        checked next."""
        os.kill(server.pid, signal.SIGSTOP)
        try:
            # The host joins the events of one name that follow each other closely.
            names = [self._top / f"lost-{number}" for number in range(LOST)]
            for path in names:
                path.touch()
            for path in names:
                path.unlink()
            for _ in range(20):
                self.change()
        finally:
            os.kill(server.pid, signal.SIGCONT)
        self.done["events lost"] += 1

    def paths(self) -> list[str]:
        """Return every present and former path."""
        return [*DIRECTORIES, *(os.path.join(directory, name) for directory in DIRECTORIES for slot in range(SLOTS)
                                for name in spellings(slot))]

    def wanted(self, path: str, any_case: bool) -> workload.Facts:
        """Return the expected state of a path, as `facts` of agent.py reports it."""
        place = self._top / path
        if any_case and not os.path.lexists(place):
            place = next((other for other in place.parent.iterdir() if other.name.lower() == place.name.lower()), place)
        return workload.facts(place)


class Host(mixed.DualMount):
    """Both mounts, and the host's changes below them."""

    def look(self, side: str, paths: list[str]) -> dict[str, workload.Facts]:
        return self.ask("look", limit_s=90, where=f"/mnt/{side}/{TOP}", paths=paths)


class Run(runs.Run):
    """One mount's rounds: the work and the failures."""

    def __init__(self, kind: str, seed: int) -> None:
        super().__init__(kind, seed)
        self.done, self.looks, self.late = 0, 0, 0
        self.changes: Counter[str] = Counter()

    def mount(self) -> str:
        return "SMB and NFS"

    def _mounted(self) -> Host:
        return Host(self.kind, SMB, NFS)

    def _work(self, host: Host, count: int) -> None:
        host.ask("look_names_up")
        top = host.server.share_directory("files") / TOP
        top.mkdir()
        tree = Tree(top, self._seed)
        self.changes = tree.done
        host.begin(WORKERS, self._seed)
        for number in range(count):
            self.where = f"round {number + 1}"
            self._round(host, tree)

    def _round(self, host: Host, tree: Tree) -> None:
        end = time.monotonic() + ROUND_S
        before = host.progress()["steps"]
        while time.monotonic() < end:
            self.looks += 1
            if self.looks % LOSS_EVERY == 0:
                tree.lose_events(host.server)
            else:
                for _ in range(CHANGES[self.looks % len(CHANGES)]):
                    tree.change()
            self._compare(host, tree)
        host.wait_for_steps(before, STEP_WITHIN_S)
        self.done += 1

    def _compare(self, host: Host, tree: Tree) -> None:
        """Check from both sides. Raises RunFailed when one of them saw a former state."""
        paths = tree.paths()
        for side in ("c", "n"):
            wanted = {path: tree.wanted(path, side == "c") for path in paths}
            wrong = _differing(side, wanted, host.look(side, paths))
            until = time.monotonic() + RECALLED_WITHIN_S
            while side == "n" and wrong and time.monotonic() < until:
                self.late += 1
                time.sleep(0.1)
                wrong = _differing(side, wanted, host.look(side, list(wrong)))
            if wrong:
                what = "; ".join(f"{path}: found {found}, and there is {wanted[path]}" for path, found in list(wrong.items())[:4])
                raise mounted.RunFailed(f"look {self.looks} over {'SMB' if side == 'c' else 'NFS'}: {what}")

    def _finish(self, host: Host) -> list[str]:
        share = host.server.share_directory("files")
        failures = host.finish()
        log = (host.server.directory / "server" / "log").read_text(errors="replace")
        if self.changes["events lost"] and LOST_LINE not in log:
            failures.append(f"no event was lost in {self.changes['events lost']} tries")
        for path in sorted((share / TOP).rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        return failures

    def amount(self) -> str:
        return f"{self.done} rounds"

    def told(self) -> str:
        return f"{self.looks} looks at {len(DIRECTORIES) * (1 + 2 * SLOTS)} paths, {self.late} late over NFS; changes {dict(self.changes)}"

    def line(self) -> dict[str, Any]:
        return {"done": self.done, "looks": self.looks, "late": self.late, "mounts": {self.mount(): self.done}}


def _differing(side: str, wanted: dict[str, workload.Facts], found: dict[str, workload.Facts]) -> dict[str, Any]:
    """Return the wrong parts of `found`. SMB shows no modes."""
    def seen(facts: workload.Facts) -> workload.Facts:
        return {key: value for key, value in facts.items() if key != "mode"} if side == "c" else facts
    return {path: facts for path, facts in found.items() if seen(facts) != seen(wanted[path])}


def main() -> None:
    options = runs.parser("rounds", 1, 5, __doc__).parse_args()
    tally = runs.begin(SUITE, nfs_mounted.missing)
    runs.go_through(tally, options, lambda seed: [Run("trunkline", seed)])
    runs.end(tally)


if __name__ == "__main__":
    main()
