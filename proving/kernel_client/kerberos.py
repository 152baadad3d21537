#!/usr/bin/env python3
"""Mount a share with Kerberos tickets by Linux's SMB client, as users of an Active Directory.

    kerberos.py [--kernel 6.12]

The domain controller and the server run in the guest's network; the server joins by `trunkline domain join`. The guest
gets its tickets itself (kinit, cifs.upcall). Mounts are `sec=krb5` and `sec=krb5i`, then `multiuser` with ten users,
each with a ticket of their own.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite
from proving.kerberos.active_directory import GROUPS, MEMBER, PASSWORD, REALM, ActiveDirectory
from proving.kerberos.network import Missing, RealmNetwork, environment
from proving.kernel_client import guest, kernels

SUITE = "kernel-kerberos"
FIRST_UID = 20_001
USERS = 10
LIMIT_S = 240
PATIENCE_S = 30
HOST = f"{MEMBER}.{REALM.lower()}"
SCRIPT = Path(__file__).resolve().parent / "kerberos-guest"


class JoinedServer:
    """Our server in the domain, with a share `files` for its users."""

    def __init__(self, domain: ActiveDirectory, directory: Path, names: list[str]) -> None:
        self.domain, self.directory, self.port = domain, directory, servers.free_port()
        files = directory / "files"
        files.mkdir()
        files.chmod(0o777)
        (directory / "password").write_text(PASSWORD + "\n")
        (directory / "password").chmod(0o600)
        # Users of the domain act as the users of the host that have their names here.
        users = "".join(f'[[user]]\nname = "{name}"\npassword_file = "password"\nuid = {FIRST_UID + at}\ngid = 20000\n'
                        for at, name in enumerate(names))
        self.config = directory / "trunkline.toml"
        self.config.write_text(f'[server]\nlisten = "{guest.SERVER_ADDRESS}"\nsmb_port = {self.port}\ndiscovery = false\nstate_dir = "state"\n'
                               f'{users}[share.files]\npath = "{files}"\nusers = {{ "*" = "full" }}\n')

    def __enter__(self) -> "JoinedServer":
        begun = time.monotonic()
        self.domain.network.run(servers.program(), "domain", "join", REALM, "--password-file", "-", "--host", HOST, "--computer-name", "FILES",
                                "--config", self.config, stdin=PASSWORD)
        log = (self.directory / "log").open("wb")
        command = self.domain.network.inside([servers.program(), "serve", "--config", self.config])
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment())
        until = time.monotonic() + PATIENCE_S
        while not self.domain.listens(guest.SERVER_ADDRESS, self.port):
            if time.monotonic() > until or self._process.poll() is not None:
                self.__exit__()
                raise RuntimeError(f"the server did not start: {(self.directory / 'log').read_text()[-500:]}")
            time.sleep(0.05)
        self.took = time.monotonic() - begun
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def missing() -> str:
    """Return the reason why the suite cannot run here; empty if it can."""
    if reason := guest.missing() or ActiveDirectory().missing():
        return reason
    absent = [name for name in ("kinit", "adcli", "cifs.upcall", "request-key") if shutil.which(name, path=guest.PATH) is None]
    return f"needs {', '.join(absent)} (Debian packages krb5-user, adcli, cifs-utils and keyutils)" if absent else ""


def cases(tally: Tally, network: guest.Network, domain: ActiveDirectory, server: JoinedServer, names: list[str]) -> None:
    """Boot a guest that does everything, and count what it says: a line `pass NAME` or `fail NAME: WHY` for each case."""
    settings = Path("/etc/netns") / network.name
    words = [SCRIPT, HOST, server.port, settings, FIRST_UID, *names]
    status, lines = guest.run(network, ["env", f"PASSWORD={PASSWORD}", "sh", *words], LIMIT_S)
    for line in lines:
        result, _, rest = line.partition(" ")
        if result in ("pass", "fail"):
            name, _, why = rest.partition(": ")
            tally.add(result, name, why)
        else:
            print(f"        {line}", flush=True)
    tally.add("pass" if status == 0 else "fail", "the guest did everything", f"status {status}: {' | '.join(lines[-5:])}")
    if tally.failed:
        print((server.directory / "log").read_text()[-3000:])


def main() -> None:
    """Boot, mount and report."""
    kernels.parser(__doc__ or "").parse_args()
    servers.clean_up_when_told_to_end()
    if reason := missing() or guest.cannot_boot():
        skip_whole_suite(kernels.suite(SUITE), reason)
    tally = Tally(kernels.suite(SUITE))
    names = [f"user{number}" for number in range(USERS)]
    users = {name: {"password": PASSWORD, "attributes": {"uidNumber": FIRST_UID + at}} for at, name in enumerate(names)}
    groups = {"unixusers": {**GROUPS["unixusers"], "members": names}}
    try:
        with guest.Network() as network, tempfile.TemporaryDirectory(prefix="kernel-kerberos-") as directory:
            os.chmod(directory, 0o755)
            inner = RealmNetwork(network.name, "10.77.0.", "tap0")
            ticket = "  default_ccache_name = FILE:/run/tickets/%{uid}\n"
            with ActiveDirectory(users=users, groups=groups, network=inner, cache=ticket) as domain:
                with JoinedServer(domain, Path(directory), names) as server:
                    print(f"        joined and served after {server.took:.1f} s", flush=True)
                    cases(tally, network, domain, server, names)
    except (Missing, RuntimeError, OSError, subprocess.SubprocessError) as reason:
        tally.add("fail", "domain", str(reason))
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
