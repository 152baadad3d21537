#!/usr/bin/env python3
"""Make the OCI image of the release build twice, look at it, and run it by crun: without privileges, with a read-only root, configured
by variables alone. A client of SMB (smbclient) and one of NFS (`trunkline copy`) write and read a file there.

    run.py [--archive FILE]      take an image that is made already

Engines are not here; what each of them reads of the archive is looked at with skopeo. docs/containers.md is for people.
"""

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server
from proving.harness.tally import Tally, missing_packages, skip_whole_suite
from proving.image import mounts
from proving.image.container import Container, unpack

SUITE = "image"
MAKE_LIMIT_S = 300
LIMIT_S = 30
# Compressed, in bytes.
MOST_BYTES = 14_000_000
# The time in which Docker expects a container to end.
END_LIMIT_S = 10
USER, PASSWORD = "ann", "plum-tart-37"
PROGRAMS = {"umoci": "umoci", "skopeo": "skopeo", "crun": "crun", "smbclient": "smbclient", "unshare": "util-linux", "objdump": "binutils"}


def missing() -> str:
    """Why this cannot run here, or nothing."""
    if os.geteuid() != 0:
        return "needs root for a container"
    return missing_packages(PROGRAMS)


def make(out: Path) -> Path:
    """Make the image of the program that is built already."""
    words = ["--only", "image", "--program", server.program(), "--out", str(out)]
    subprocess.run([server.ROOT / "packaging/package.py", *words], check=True, timeout=MAKE_LIMIT_S, stdout=subprocess.DEVNULL)
    (archive,) = out.glob("trunkline-*-oci-*.tar")
    return archive


def inspect(archive: Path, kind: str = "oci-archive", *words: str) -> dict[str, Any]:
    told = subprocess.run(["skopeo", "inspect", *words, f"{kind}:{archive}"], check=True, capture_output=True, timeout=LIMIT_S)
    found: dict[str, Any] = json.loads(told.stdout)
    return found


class Trial:
    """The cases on one archive."""

    def __init__(self, tally: Tally, work: Path, archive: Path) -> None:
        self.tally, self.work, self.archive = tally, work, archive

    def expect(self, name: str, holds: bool, detail: object = "") -> None:
        self.tally.add("pass" if holds else "fail", name, str(detail)[-400:])

    def look(self) -> None:
        """What can be seen without starting it."""
        size = self.archive.stat().st_size
        print(f"        {self.archive.name}: {size / 1e6:.2f} MB", flush=True)
        self.expect(f"at most {MOST_BYTES / 1e6:.0f} MB", size <= MOST_BYTES, size)
        raw = inspect(self.archive, "oci-archive", "--config")
        config = raw["config"]
        wanted = {"User": "65532:65532", "Entrypoint": ["/usr/bin/trunkline"], "Cmd": ["serve"], "StopSignal": "SIGTERM",
                  "Volumes": {"/var/lib/trunkline": {}}, "ExposedPorts": {"4450/tcp": {}, "24490/tcp": {}}}
        found = {key: config.get(key) for key in wanted}
        self.expect("configuration", found == wanted, found)
        labels = {key.removeprefix("org.opencontainers.image."): value for key, value in config["Labels"].items()}
        self.expect("labels", re.fullmatch(r"\d+\.\d+\.\d+", labels["version"]) is not None and len(labels["revision"]) == 40, labels)
        layers = inspect(self.archive)["Layers"]
        docker = inspect(self.archive, "docker-archive")
        self.expect("as an archive of Docker", len(layers) == 1 and docker["Labels"] == config["Labels"], docker)

    def reproducible(self) -> None:
        again = make(self.work / "again")
        sums = [hashlib.sha256(path.read_bytes()).hexdigest() for path in (self.archive, again)]
        self.expect("made twice, the same bytes", sums[0] == sums[1], sums)

    def volumes(self, owner: tuple[int, int], mode: int = 0o755) -> dict[str, Path]:
        """Two new folders for the state and the files."""
        folder = Path(tempfile.mkdtemp(prefix="volumes-", dir=self.work))
        places = {"/var/lib/trunkline": folder / "state", "/data": folder / "data"}
        for place in places.values():
            place.mkdir()
            os.chown(place, *owner)
            place.chmod(mode)
        return places

    def variables(self, **more: str) -> dict[str, str]:
        """The variables of a server with one share."""
        keys = {
            "SERVER_LISTEN": "127.0.0.1", "SERVER_SMB_PORT": str(self.smb), "SERVER_NFS_PORT": str(self.nfs),
            "SHARE_DATA_PATH": "/data", "SHARE_DATA_PROTOCOLS": "smb,nfs", "SHARE_DATA_USERS": f"{USER}=full",
            # NFS clients name a user by number alone. All of them act as the server's user, who owns the files.
            "SHARE_DATA_ROOT_SQUASH": "all", "SHARE_DATA_ANONYMOUS_UID": "65532", "SHARE_DATA_ANONYMOUS_GID": "65532",
            f"USER_{USER.upper()}_PASSWORD": PASSWORD,
        } | more
        return {f"TRUNKLINE_{key}": value for key, value in keys.items()}

    def run(self) -> None:
        """Start it in several ways."""
        bundle = unpack(self.archive, self.work)
        self.smb, self.nfs = server.free_port(), server.free_port()
        self.serves(bundle)
        self.any_user(bundle)
        self.refuses(bundle)
        self.mounts(bundle)

    def serves(self, bundle: Path) -> None:
        volumes = self.volumes((65532, 65532))
        with Container(bundle, volumes, self.variables()) as container:
            told = container.health()
            self.expect("health", (told.returncode, told.stdout) == (0, "ready: 1 share\n"), told)
            status = Path(f"/proc/{container.first_process()}/status").read_text()
            fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
            rights = [fields["Uid"].split()[0], fields["CapEff"].strip("0"), fields["CapBnd"].strip("0"), fields["NoNewPrivs"]]
            self.expect("neither root nor capabilities", rights == ["65532", "", "", "1"], rights)
            self.clients(volumes["/data"])
            shown = container.execute("config", "show").stdout
            self.expect("variables are shown as origins", f"smb_port = {self.smb} " in shown and "# $TRUNKLINE_SERVER_SMB_PORT" in shown, shown)
            seen = [name for name, text in (("log", container.log.read_text()), ("config show", shown)) if PASSWORD in text]
            self.expect("the password is shown nowhere", not seen, seen)
            begun = time.monotonic()
            status_of_end = container.end("TERM")
            took = time.monotonic() - begun
            self.expect(f"SIGTERM ends it within {END_LIMIT_S} s", status_of_end == 0 and took < END_LIMIT_S, f"{status_of_end} after {took:.1f} s")
            self.expect("the end is clean", "clean=true" in container.log.read_text(), container.log.read_text())
            # A new container with the same volumes.
            container.start()
            self.expect("health after a restart", container.health().returncode == 0)

    def clients(self, data: Path) -> None:
        """A file by each protocol, read by the other one."""
        source, copied = self.work / "made/source", self.work / "copied"
        source.parent.mkdir()
        source.write_bytes(os.urandom(300_000))
        script = f"put {source} by-smb; get by-nfs/source {self.work}/from-nfs"
        nfs = f"nfs://127.0.0.1:{self.nfs}/data"
        put = subprocess.run([server.program(), "copy", source.parent, f"{nfs}/by-nfs"], check=False, capture_output=True, text=True, timeout=LIMIT_S)
        smb = subprocess.run(["smbclient", "//127.0.0.1/data", "-p", str(self.smb), "-U", f"{USER}%{PASSWORD}", "-c", script],
                             check=False, capture_output=True, text=True, timeout=LIMIT_S)
        got = subprocess.run([server.program(), "copy", nfs, copied], check=False, capture_output=True, text=True, timeout=LIMIT_S)
        wanted = source.read_bytes()
        for name, path, told in (("SMB reads what NFS wrote", self.work / "from-nfs", smb), ("NFS reads what SMB wrote", copied / "by-smb", got)):
            self.expect(name, path.exists() and path.read_bytes() == wanted, f"{put.stdout[-150:]} {put.stderr} {told.stderr}")
        owners = {path.stat().st_uid for path in data.rglob("*")}
        self.expect("files belong to the server's user", owners == {65532}, owners)

    def any_user(self, bundle: Path) -> None:
        """OpenShift gives each project a user of its own, in the group 0, which volumes are made writable for."""
        with Container(bundle, self.volumes((0, 0), 0o2770), self.variables(), user=(1_000_680_000, 0)) as container:
            told = container.health()
            self.expect("any user in the group 0", told.returncode == 0, (told, container.log.read_text()))

    def refuses(self, bundle: Path) -> None:
        """Mistakes of whoever starts it: one line with the remedy."""
        owner = (65532, 65532)
        mine, roots = self.volumes(owner), self.volumes((0, 0))
        hint = "`chown -R 65532:65532` gives access"
        for name, volumes, variables, wanted in (
            ("a state of another user", roots | {"/data": mine["/data"]}, self.variables(), hint),
            ("a mistyped variable", mine, self.variables(SHARE_DATA_READONLY="on"), "did you mean TRUNKLINE_SHARE_DATA_READ_ONLY?"),
            ("a folder that is not there", mine, self.variables(SHARE_DATA_PATH="/none"), "$TRUNKLINE_SHARE_DATA_PATH: "),
        ):
            with Container(bundle, volumes, variables) as container:
                status = container.wait()
                lines = container.log.read_text().splitlines()
                self.expect(name, status == 2 and len(lines) == 1 and wanted in lines[0], (status, lines))
        with Container(bundle, mine | {"/data": roots["/data"]}, self.variables()) as container:
            container.health()
            self.expect("files of another user: a warning", "no client can create files here" in container.log.read_text(), container.log.read_text())

    def mounts(self, bundle: Path) -> None:
        """The kernel's mounts outlive the container."""
        name = "mounts of Linux's client go on after kills and an end"
        if reason := mounts.missing():
            self.tally.add("skip", name, reason)
            return
        failures = mounts.survive(bundle, self.volumes((65532, 65532)), self.variables(**mounts.listening()), USER, PASSWORD)
        self.expect(name, not failures, "; ".join(failures))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--archive", type=Path, help="an image that is made already [default: make it of the release build]")
    options = parser.parse_args()
    if reason := missing():
        skip_whole_suite(SUITE, reason)
    tally = Tally(SUITE)
    with tempfile.TemporaryDirectory(prefix="proof-image-") as folder:
        work = Path(folder)
        work.chmod(0o755)
        trial = Trial(tally, work, options.archive or make(work / "once"))
        trial.look()
        if not options.archive:
            trial.reproducible()
        trial.run()
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
