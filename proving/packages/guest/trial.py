"""What the subjects of the machine share: the packages at hand, the documented commands, both mounts, and counting."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from proving.harness.tally import Tally
from proving.packages.guest.machine import Failed, Machine

USER, PASSWORD = "ann", "Proof-of-1-package"
SERVED = "/srv/docs"
# As docs/install.md has them.
ADD_USER = f"trunkline user add {USER} --password-file -"
CREATE_SHARE = f"trunkline share create docs path={SERVED} users={USER}=full protocols=smb,nfs continuously_available=on"
SMB, NFS = "/mnt/smb", "/mnt/nfs"
MOUNTS = {
    SMB: f"mount -t cifs //127.0.0.1/docs {SMB} -o vers=3.1.1,user={USER},password={PASSWORD},uid={USER},gid={USER},persistenthandles,hard",
    NFS: f"mount -t nfs4 127.0.0.1:/docs {NFS} -o vers=4.2",
}
INSTALL_S, RESTART_S = 300, 120
# As docs/install.md has it: without the option dpkg asks about a configuration that both sides have changed.
UNATTENDED = "DEBIAN_FRONTEND=noninteractive apt-get install -y -o Dpkg::Options::=--force-confold"
SCRIPTS = "/host/proving/packages/guest"


class Debs(NamedTuple):
    """The packages, as the machine finds them: the one under proof, and a newer build of it with another configuration."""

    proven: str
    newer: str


class Trial:
    """One subject on one machine."""

    def __init__(self, tally: Tally, machine: Machine, debs: Debs, subject: str) -> None:
        self._tally, self.machine, self.debs, self._subject = tally, machine, debs, subject

    def case(self, label: str, wrong: str) -> None:
        """Count a case, which passes if `wrong` is empty."""
        self._tally.add("fail" if wrong else "pass", f"{self._subject}: {label}", " ".join(wrong.split())[:600])

    def does(self, label: str, script: str, limit_s: float = 60, says: str = "") -> str:
        """Count a script that may not fail, and whose output the expression `says` must find. Returns its output."""
        done = self.machine.run(script, limit_s)
        sound = done.status == 0 and re.search(says, done.output)
        self.case(label, "" if sound else f"`{script}` gave {done.status}: {done.output[-400:]}")
        return done.output

    def refuses(self, label: str, script: str, says: str) -> None:
        """Count a script that must fail and say something."""
        done = self.machine.run(script)
        sound = done.status != 0 and re.search(says, done.output)
        self.case(label, "" if sound else f"`{script}` gave {done.status}: {done.output[-400:]}")

    def show(self, text: str) -> None:
        """Print a number or a finding that is no case."""
        print(f"        {self._subject}: {text}", flush=True)

    def install(self, deb: str = "", label: str = "") -> str:
        """Install a package with apt, where nobody is there to be asked. Returns what apt said."""
        script = f"{UNATTENDED} --allow-downgrades {deb or self.debs.proven}"
        return self.does(label, script, INSTALL_S) if label else self.machine.must(script, INSTALL_S)

    def set_up(self) -> None:
        """Install, add the user and the share, and mount it over both protocols."""
        self.prepare()
        self.install()
        self.serve()
        self.mount()

    def prepare(self) -> None:
        """Make the user of the host and the directory to serve."""
        self.machine.must(f"useradd --create-home --shell /bin/bash {USER}; install -d -o {USER} -g {USER} {SERVED}; mkdir -p {SMB} {NFS}")

    def serve(self) -> None:
        """Add the user and the share, and restart, so that NFS is served too."""
        self.machine.must(f"printf %s '{PASSWORD}' | {ADD_USER} && {CREATE_SHARE} && systemctl restart trunkline", RESTART_S)

    def mount(self) -> None:
        """Mount the share over both protocols."""
        for command in MOUNTS.values():
            self.machine.must(command)

    def unmount(self) -> None:
        """Unmount both."""
        self.machine.run(f"umount -l {SMB} {NFS}")

    def start_loads(self) -> None:
        """Start a program on each mount that holds files open and writes (held_open.py)."""
        for name, where in (("smb", SMB), ("nfs", NFS)):
            self.machine.must(f"rm -rf /var/tmp/{name} && install -d -o {USER} /var/tmp/{name} {SERVED}/{name} && systemd-run --quiet --collect "
                              f"--unit=load-{name} --uid={USER} python3 {SCRIPTS}/held_open.py {where}/{name} /var/tmp/{name}/said")
            self.written(name, 5)

    def written(self, name: str, more: int, limit_s: float = RESTART_S) -> None:
        """Wait until a load has written so many blocks more than now."""
        before = self._said(name).get("blocks", 0)
        self.machine.until(f"python3 -c 'import json; said = json.load(open(\"/var/tmp/{name}/said\")); "
                           f"assert said[\"errors\"] or said[\"blocks\"] >= {before + more}'", limit_s)

    def end_loads(self, label: str) -> None:
        """End the loads, and count whether each went on without an error."""
        for name in ("smb", "nfs"):
            self.machine.run(f"systemctl kill --signal=TERM load-{name}")
            try:
                self.machine.until(f"grep -q '\"over\": true' /var/tmp/{name}/said", RESTART_S)
                said = self._said(name)
                self.show(f"{label}, {name}: {said['blocks']} blocks, the longest took {said['longest_s']} s, {said['passing']} passing errors")
                self.case(f"{label}: {name} goes on", "; ".join(said["errors"]) or ("" if said["blocks"] > 5 else "nothing was written"))
            except Failed as reason:
                self.case(f"{label}: {name} goes on", f"{reason}; {self._said(name)}")

    def _said(self, name: str) -> dict[str, Any]:
        done = self.machine.run(f"cat /var/tmp/{name}/said")
        return json.loads(done.output) if done.status == 0 and done.output else {}

    def property(self, name: str) -> str:
        """Return a property of the service, as systemd shows it."""
        return self.machine.must(f"systemctl show --value --property={name} trunkline")

    def log(self, since: str = "-b") -> str:
        """Return what the service and systemd say of it."""
        return self.machine.must(f"journalctl --no-pager {since} --unit=trunkline --output=short-unix")

    def complaints(self, but: str = "$^") -> str:
        """Return the warnings and errors of this boot about the service, without those that fit `but`."""
        wrong = re.compile(r"\b(WARN|ERROR)\b|trunkline\.service: Failed|panicked")
        return "; ".join(line for line in self.log().splitlines() if wrong.search(line) and not re.search(but, line))


def copied(deb: Path, machine: Machine, name: str) -> str:
    """Copy a package to where the machine finds it. Returns its path there."""
    target = machine.host / name
    if not target.exists():
        target.write_bytes(deb.read_bytes())
    return f"/host/{name}"
