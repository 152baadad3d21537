#!/usr/bin/env python3
"""Upgrade and downgrade between two state versions, with two programs: this one, and a build of this tree that has the next version
(the feature next-state-version). Each step is one of docs/upgrade.md or docs/backup.md.

    state_versions.py [--next PROGRAM]      take a program of the next version that is built already
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server
from proving.harness.tally import Tally, missing_packages, skip_whole_suite

SUITE = "state-versions"
BUILD_LIMIT_S = 1800
STEP_S = 30
USER, PASSWORD = "ann", "a long password"
CONFIG = """[server]
listen = ["127.0.0.1"]
smb_port = {port}
discovery = false
state_dir = "state"
"""


def build_next(folder: Path) -> Path:
    """Build the program of the next state version into a folder. The ordinary debug build gets its name back."""
    built = Path(os.environ.get("CARGO_TARGET_DIR") or server.ROOT / "target").resolve() / "debug/trunkline"
    ordinary = folder / "ordinary"
    if built.exists():
        shutil.copy2(built, ordinary)
    words = ["cargo", "build", "-q", "--locked", "-p", "trunkline", "--bin", "trunkline", "--features", "next-state-version"]
    subprocess.run(words, cwd=server.ROOT, check=True, timeout=BUILD_LIMIT_S)
    shutil.copy2(built, folder / "trunkline")
    built.unlink()
    if ordinary.exists():
        shutil.move(ordinary, built)
    return folder / "trunkline"


class Trial:
    """One state directory and the two programs."""

    def __init__(self, tally: Tally, older: Path, newer: Path, folder: Path) -> None:
        self.tally, self.older, self.newer, self.folder = tally, older, newer, folder
        self.port = server.free_port()
        (folder / "docs").mkdir()
        (folder / "docs/hello").write_text("from the share\n")
        (folder / "trunkline.toml").write_text(CONFIG.format(port=self.port))
        password = folder / "password"
        password.touch(0o600)
        password.write_text(f"{PASSWORD}\n")

    def expect(self, name: str, holds: bool, detail: object = "") -> None:
        self.tally.add("pass" if holds else "fail", name, str(detail)[-400:])

    def run(self, program: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command on the state directory; gives its output and its status."""
        return subprocess.run([program, *words, "--config", "trunkline.toml"], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=STEP_S)

    def does(self, name: str, program: Path, *words: str) -> str:
        done = self.run(program, *words)
        self.expect(name, done.returncode == 0, done.stdout)
        return done.stdout

    def refuses(self, name: str, program: Path, *words: str, says: tuple[str, ...]) -> None:
        """A command fails with one line, which has these words, and changes no file of the state."""
        before = self.files()
        done = self.run(program, *words)
        lines = done.stdout.splitlines()
        fine = done.returncode == 2 and len(lines) == 1 and all(part in lines[0] for part in says)
        self.expect(name, fine, f"status {done.returncode}: {done.stdout}")
        self.expect(f"{name}: nothing has changed", self.files() == before, "the files differ")

    def files(self) -> dict[str, bytes]:
        """The files of the state and their content, without the lock."""
        state = self.folder / "state"
        return {str(path.relative_to(state)): path.read_bytes() for path in state.rglob("*") if path.is_file() and path.name != "lock"}

    def version(self) -> str:
        return (self.folder / "state/version").read_text().splitlines()[0]

    @contextlib.contextmanager
    def serving(self, name: str, program: Path) -> Iterator[None]:
        """Serve on the state directory by a program, until the block ends."""
        with (self.folder / "log").open("ab") as log:
            running = subprocess.Popen([program, "serve", "--config", "trunkline.toml"], cwd=self.folder, stdout=log, stderr=log)
        try:
            end = time.monotonic() + STEP_S
            while self.run(program, "health").returncode != 0 and running.poll() is None and time.monotonic() < end:
                time.sleep(0.1)
            self.expect(f"{name} serves", running.poll() is None, (self.folder / "log").read_text())
            yield
            self.run(program, "stop")
            self.expect(f"{name} ends", running.wait(timeout=STEP_S) == 0, running.returncode)
        finally:
            if running.poll() is None:
                running.kill()
                running.wait()

    def reads(self, name: str) -> None:
        """The user logs on and reads from the share."""
        words = ["smbclient", "//127.0.0.1/docs", "-p", str(self.port), "-U", f"{USER}%{PASSWORD}", "-c", "get hello -"]
        said = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=STEP_S).stdout
        self.expect(f"{name}: user and share are there", "from the share" in said, said)

    def users(self, program: Path) -> list[str]:
        return [line.split()[0] for line in self.run(program, "user", "list").stdout.splitlines() if line]


def first_version(trial: Trial) -> None:
    """The older program makes a user, a share and a backup."""
    with trial.serving("the older program", trial.older):
        trial.does("a user", trial.older, "user", "add", USER, "--uid", str(os.geteuid()), "--password-file", "password")
        trial.does("a share", trial.older, "share", "create", "docs", "path=docs", f"users={USER}=full")
        trial.reads("the older program")
        trial.does("its backup", trial.older, "backup", "older.tar")
    trial.expect("the state has the older version", trial.version() == "trunkline state 1", trial.version())


def upgrade(trial: Trial) -> None:
    """The newer program brings the state to its version."""
    with trial.serving("the newer program", trial.newer):
        trial.reads("upgraded")
        trial.does("a user of the newer program", trial.newer, "user", "add", "bob", "--uid", str(os.geteuid()), "--password-file", "password")
        trial.does("its backup", trial.newer, "backup", "newer.tar")
    trial.expect("the state has the newer version", trial.version() == "trunkline state 2", trial.version())
    trial.expect("the old files are kept in a backup", (trial.folder / "state/before-version-2.tar").is_file())


def refusals(trial: Trial) -> None:
    """The older program touches nothing that is newer."""
    says = ("its version is 2, written by trunkline ", "which knows versions up to 1")
    trial.refuses("the older program refuses to serve the newer state", trial.older, "serve", says=says)
    trial.refuses("it refuses to change the newer state", trial.older, "user", "remove", USER, says=says)
    trial.refuses("it refuses to back up the newer state", trial.older, "backup", "refused.tar", says=says)
    for words in (("restore", "--check", "newer.tar"), ("restore", "--replace", "newer.tar")):
        trial.refuses(f"it refuses `{' '.join(words)}`", trial.older, *words, says=("newer.tar", "version 2"))


def downgrade_with_changes(trial: Trial) -> None:
    """`state downgrade` keeps all changes."""
    trial.does("the newer program brings it back", trial.newer, "state", "downgrade")
    trial.expect("the state has the older version again", trial.version() == "trunkline state 1", trial.version())
    with trial.serving("the older program, after the downgrade", trial.older):
        trial.reads("after the downgrade")
        users = trial.users(trial.older)
        trial.expect("the newer program's user is kept", "bob" in users, users)
    trial.refuses("there is no version before the first", trial.older, "state", "downgrade", says=("no step from version 1 to version 0",))


def downgrade_by_backup(trial: Trial) -> None:
    """The older program goes back to the state before the upgrade."""
    with trial.serving("the newer program, once more", trial.newer):
        trial.does("a user of after the upgrade", trial.newer, "user", "add", "carl", "--uid", str(os.geteuid()), "--password-file", "password")
    trial.does("the older program restores what was before", trial.older, "restore", "--replace", "state/before-version-2.tar")
    with trial.serving("the older program, restored", trial.older):
        trial.reads("restored")
        users = trial.users(trial.older)
        trial.expect("users are those of before the upgrade", "bob" in users and "carl" not in users, users)


def backups_over_versions(trial: Trial) -> None:
    """The newer program restores a backup of each version."""
    for name, kept in (("older.tar", False), ("newer.tar", True)):
        trial.does(f"the newer program restores {name}", trial.newer, "restore", "--replace", name)
        with trial.serving(f"the newer program on {name}", trial.newer):
            trial.reads(name)
            users = trial.users(trial.newer)
            trial.expect(f"{name}: its users", ("bob" in users) == kept and USER in users, users)
        trial.expect(f"{name}: the state has the newer version", trial.version() == "trunkline state 2", trial.version())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--next", type=Path, help="a program of the next state version [default: build it]")
    options = parser.parse_args()
    if reason := missing_packages({"smbclient": "smbclient"}):
        skip_whole_suite(SUITE, reason)
    if options.next is None and shutil.which("cargo") is None:
        skip_whole_suite(SUITE, "no cargo to build the program of the next state version: --next PROGRAM")
    tally = Tally(SUITE)
    with tempfile.TemporaryDirectory(prefix="proof-next-") as built, tempfile.TemporaryDirectory(prefix="proof-versions-") as folder:
        newer = (options.next or build_next(Path(built))).resolve()
        trial = Trial(tally, Path(server.program()), newer, Path(folder))
        for step in (first_version, upgrade, refusals, downgrade_with_changes, downgrade_by_backup, backups_over_versions):
            step(trial)
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
