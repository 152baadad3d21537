#!/usr/bin/env python3
"""Make a .deb, an .rpm and a tar of the release build, look at them, and install, use, remove and purge the .deb in a copy of this
machine's root (copy_of_root.py). A machine with systemd, upgrades and the kernel's client are in guest/.

    run.py [--packages DIR]      take packages that are made already
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server
from proving.harness.tally import Tally, missing_packages, skip_whole_suite
from proving.packages import contents
from proving.packages.copy_of_root import CopyOfRoot

SUITE = "packages"
PACKAGE_LIMIT_S = 600
# From a downloaded .deb to the first file of a share.
MOST_SECONDS = 60
CONFIG, STATE, SHARE = "/etc/trunkline/trunkline.toml", "/var/lib/trunkline", "/srv/docs"
ENABLED = "etc/systemd/system/multi-user.target.wants/trunkline.service"


def missing() -> str:
    """Why this cannot run here, or nothing."""
    if os.geteuid() != 0:
        return "needs root for an overlay"
    needed = {"lintian": "lintian", "rpm": "rpm", "apparmor_parser": "apparmor", "man": "man-db", "smbclient": "smbclient", "dpkg-deb": "dpkg"}
    return missing_packages(needed)


def make(out: Path) -> None:
    """Make the packages of the program that is built already."""
    words = ["--only", "deb", "--only", "rpm", "--only", "tar", "--program", server.program(), "--out", str(out)]
    subprocess.run([contents.ROOT / "packaging/package.py", *words], check=True, timeout=PACKAGE_LIMIT_S)


def look(tally: Tally, out: Path) -> None:
    """What can be seen without an installation."""
    (deb,), (rpm,), (tar,) = (list(out.glob(pattern)) for pattern in ("*.deb", "*.rpm", "*.tar.xz"))
    tree = out / "tree"
    subprocess.run(["dpkg-deb", "-x", deb, tree], check=True, timeout=60)
    program = tree / "usr/bin/trunkline"
    print(f"        {deb.name}: {deb.stat().st_size / 1e6:.2f} MB, {rpm.name}: {rpm.stat().st_size / 1e6:.2f} MB", flush=True)
    found = {
        "lintian": contents.lintian(deb), "size": contents.size(deb), "files": contents.files(deb), "node": contents.node_unit(deb),
        "C library": contents.c_library(program),
        "stripped": contents.is_stripped(program), "man pages": contents.manual(tree), "unit": contents.unit(tree),
        "completion, AppArmor, firewalld, configuration": contents.other_programs(tree), "rpm": contents.rpm(rpm), "tar": contents.tar(tar),
    }
    for name, wrong in found.items():
        tally.add("fail" if wrong else "pass", name, wrong)


class Trial:
    """The life of an installation, one step after the other."""

    def __init__(self, tally: Tally, copy: CopyOfRoot, deb: Path) -> None:
        self.tally, self.copy, self.deb = tally, copy, deb

    def expect(self, name: str, holds: bool, detail: object = "") -> None:
        self.tally.add("pass" if holds else "fail", name, str(detail)[-400:])

    def exists(self, path: str) -> bool:
        return os.path.lexists(self.copy.root / path.lstrip("/"))

    def dpkg(self, name: str, *words: str) -> None:
        done = self.copy.run("dpkg", *words)
        self.expect(name, done.returncode == 0, done.stdout)

    def serve(self) -> subprocess.Popen[bytes]:
        """Start the server by the unit's own line, and wait until it is alive."""
        unit = (self.copy.root / "usr/lib/systemd/system/trunkline.service").read_text()
        (command,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
        running = self.copy.start(*command.split())
        end = time.monotonic() + 20
        while self.copy.run("trunkline", "health").returncode != 0 and running.poll() is None and time.monotonic() < end:
            time.sleep(0.1)
        return running

    def stop(self, running: subprocess.Popen[bytes]) -> None:
        self.copy.run("trunkline", "stop")
        try:
            self.expect("the server ends", running.wait(timeout=30) == 0, running.returncode)
        except subprocess.TimeoutExpired:
            running.kill()
            self.expect("the server ends", False)

    def read(self) -> str:
        password = (self.copy.root / f"{STATE}/first-password".lstrip("/")).read_text().splitlines()[0]
        return self.copy.run("smbclient", "//127.0.0.1/docs", "-U", f"trunkline%{password}", "-c", "get hello -").stdout

    def first_minute(self) -> None:
        """Three commands: install, a share, and a client that reads from it."""
        share = self.copy.root / SHARE.lstrip("/")
        share.mkdir()
        (share / "hello").write_text("from the share\n")
        began = time.monotonic()
        installed = self.copy.run("apt-get", "install", "-y", "--no-install-recommends", f"/srv/{self.deb.name}")
        self.expect("apt installs it", installed.returncode == 0, installed.stdout)
        self.expect("it has a user", self.copy.run("getent", "passwd", "trunkline").returncode == 0)
        self.expect("the service is enabled", self.exists(ENABLED))
        running = self.serve()
        try:
            nothing = self.copy.run("smbclient", "-L", "127.0.0.1", "-N").stdout
            self.expect("a new installation shows nothing", "Disk" not in nothing, nothing)
            made = self.copy.run("trunkline", "share", "create", "docs", f"path={SHARE}", "users=*=write")
            self.expect("a share is created", made.returncode == 0 and "first-password" in made.stdout, made.stdout)
            said, seconds = self.read(), time.monotonic() - began
            self.expect("a client reads from it", "from the share" in said, said)
            self.expect(f"within {MOST_SECONDS} s", seconds <= MOST_SECONDS, f"{seconds:.1f} s")
            print(f"        from the .deb to the first file: {seconds:.1f} s", flush=True)
        finally:
            self.stop(running)

    def remove_and_return(self) -> None:
        """What the administrator made outlives a removal."""
        config = self.copy.root / CONFIG.lstrip("/")
        config.write_text(config.read_text() + "# mine\n")
        self.dpkg("dpkg removes it", "-r", "trunkline")
        self.expect("removed: no program, configuration and state stay",
                    not self.exists("usr/bin/trunkline") and self.exists(CONFIG) and self.exists(f"{STATE}/state.redb"))
        self.dpkg("dpkg installs it again", "-i", f"/srv/{self.deb.name}")
        self.dpkg("dpkg installs it over itself", "-i", "--force-confdef", f"/srv/{self.deb.name}")
        self.expect("the changed configuration stays", config.read_text().endswith("# mine\n"))
        running = self.serve()
        try:
            said = self.read()
            self.expect("share and user are there again", "from the share" in said, said)
        finally:
            self.stop(running)

    def purge(self) -> None:
        """Purged, nothing is left but the files of the share."""
        self.dpkg("dpkg purges it", "-P", "trunkline")
        left = [path for path in (STATE, "/etc/trunkline", "/etc/apparmor.d/trunkline", ENABLED, "/usr/share/doc/trunkline") if self.exists(path)]
        self.expect("purged: nothing is left", not left, left)
        self.expect("purged: the share's files stay", (self.copy.root / f"{SHARE}/hello".lstrip("/")).read_text() == "from the share\n")


def install(tally: Tally, out: Path) -> None:
    (deb,) = out.glob("*.deb")
    with CopyOfRoot() as copy:
        shutil.copyfile(deb, copy.root / "srv" / deb.name)
        trial = Trial(tally, copy, deb)
        trial.first_minute()
        trial.remove_and_return()
        trial.purge()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--packages", type=Path, help="folder of packages that are made already")
    options = parser.parse_args()
    if reason := missing():
        skip_whole_suite(SUITE, reason)
    tally = Tally(SUITE)
    with tempfile.TemporaryDirectory(prefix="proof-packages-") as directory:
        out = Path(directory)
        if options.packages:
            for path in options.packages.iterdir():
                shutil.copyfile(path, out / path.name)
        else:
            make(out)
        look(tally, out)
        try:
            install(tally, out)
        except OSError as reason:
            tally.add("skip", "install", f"no copy of the root can be made here: {reason}")
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
