#!/usr/bin/env python3
"""Mount a share with Kerberos tickets by Linux's SMB client, as users of an Active Directory.

    kerberos.py [--kernel 6.12] [--plain]

The domain controller and the server run in the guest's network; the server joins by `trunkline domain join`. The guest
gets its tickets itself (kinit, cifs.upcall). Mounts are `sec=krb5` and `sec=krb5i`, then `multiuser` with ten users,
each with a ticket of their own. Last, access lists over NFS (AUTH_SYS) name users and groups of the domain.

With --plain the realm is MIT's instead, for the time from nothing joined to a mount.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite
from proving.kerberos import realm as realms
from proving.kerberos.active_directory import GROUPS, MEMBER, PASSWORD, REALM, ActiveDirectory
from proving.kerberos.network import Missing, RealmNetwork, environment
from proving.kernel_client import guest, kernels, tickets

SUITE = "kernel-kerberos"
FIRST_UID = 20_001
USERS = 10
LIMIT_S = 240
PATIENCE_S = 30
HOST = f"{MEMBER}.{REALM.lower()}"
PREFIX, DEVICE = guest.SERVER_ADDRESS.rpartition(".")[0] + ".", "tap0"
# A user and a group of the domain who are named over NFS, and the first id of the domain.
NAMED, TEAM, FIRST_ID = "bob", "painters", 100_000
MAPPING = f'[domain]\nid_mapping = "rid"\nid_range = "{FIRST_ID}-199999"\n'
SCRIPT = Path(__file__).resolve().parent / "kerberos-guest"


class JoinedServer:
    """Our server in a domain or a realm, with a share `files` for its users. `join` are the words of `domain join`."""

    def __init__(self, network: RealmNetwork, directory: Path, names: list[str], join: Sequence[object], settings: str = "") -> None:
        self.network, self.directory, self.join = network, directory, join
        self.port, self.nfs_port = servers.free_port(), servers.free_port()
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
                               f'nfs_port = {self.nfs_port}\n{settings}'
                               f'{users}[share.files]\npath = "{files}"\nusers = {{ "*" = "full" }}\nprotocols = ["smb", "nfs"]\n'
                               'root_squash = "none"\nnfs_secure_port = false\n')

    def __enter__(self) -> "JoinedServer":
        begun = time.monotonic()
        self.network.run(servers.program(), "domain", "join", *self.join, "--config", self.config, stdin=PASSWORD)
        with (self.directory / "log").open("wb") as log:
            command = self.network.inside([servers.program(), "serve", "--config", self.config])
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment())
        until = time.monotonic() + PATIENCE_S
        while "serving shares" not in (said := (self.directory / "log").read_text(errors="replace")):
            if time.monotonic() > until or self._process.poll() is not None:
                self.__exit__()
                raise RuntimeError(f"the server did not start: {said[-500:]}")
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


def missing(is_plain: bool) -> str:
    """Return the reason why the suite cannot run here; empty if it can."""
    if reason := guest.missing() or guest.missing(("mount.nfs", "nfs-common")) or ("" if is_plain else ActiveDirectory().missing()):
        return reason
    absent = realms.missing() if is_plain else []
    absent += [name for name in ("kinit", "adcli", "cifs.upcall", "request-key") if shutil.which(name, path=guest.PATH) is None]
    return f"needs {', '.join(absent)} (Debian packages krb5-user, adcli, cifs-utils and keyutils)" if absent else ""


def cases(tally: Tally, network: guest.Network, host: str, server: JoinedServer, names: list[str], more: Sequence[str] = ()) -> None:
    """Boot a guest that does everything, and count what it says: a line `pass NAME` or `fail NAME: WHY` for each case. `more`
    are further variables of its script."""
    settings = Path("/etc/netns") / network.name
    words = [SCRIPT, host, server.port, settings, FIRST_UID, *names]
    status, lines = guest.run(network, ["env", f"PASSWORD={PASSWORD}", *more, "sh", *words], LIMIT_S)
    for line in lines:
        result, _, rest = line.partition(" ")
        if result in ("pass", "fail", "skip"):
            name, _, why = rest.partition(": ")
            tally.add(result, name, why)
        else:
            print(f"        {line}", flush=True)
    tally.add("pass" if status == 0 else "fail", "the guest did everything", f"status {status}: {' | '.join(lines[-5:])}")
    if tally.failed:
        print((server.directory / "log").read_text()[-3000:])


def in_directory(tally: Tally, network: guest.Network, directory: Path) -> None:
    """The cases of Active Directory."""
    names = [f"user{number}" for number in range(USERS)]
    users = {name: {"password": PASSWORD, "attributes": {"uidNumber": FIRST_UID + at}} for at, name in enumerate(names)} | {NAMED: {}}
    groups = {"unixusers": {**GROUPS["unixusers"], "members": names}, TEAM: {"members": [NAMED]}}
    inner = RealmNetwork(network.name, PREFIX, DEVICE)
    ticket = "  default_ccache_name = FILE:/run/tickets/%{uid}\n"
    with ActiveDirectory(users=users, groups=groups, network=inner, cache=ticket) as domain:
        join = [REALM, "--password-file", "-", "--host", HOST, "--computer-name", "FILES"]
        with JoinedServer(inner, directory, names, join, MAPPING) as server:
            print(f"        joined and served after {server.took:.1f} s", flush=True)
            sid = domain.tool("user", "show", NAMED, "--attributes=objectSid").split("objectSid: ")[1].split()[0]
            uid = FIRST_ID + int(sid.rsplit("-", 1)[1])
            over_nfs = {"NFS_PORT": server.nfs_port, "NAMED": NAMED, "NAMED_UID": uid, "TEAM": TEAM, "DOMAIN": REALM.lower()}
            cases(tally, network, HOST, server, names, [f"{name}={value}" for name, value in over_nfs.items()])


def in_plain_realm(tally: Tally, network: guest.Network, directory: Path) -> None:
    """The mount of a user of a plain realm."""
    name, keytab = "user0", directory / "keytab"
    with RealmNetwork(network.name, PREFIX, DEVICE) as inner, \
            realms.Realm(directory / "realm", network=network, address=guest.SERVER_ADDRESS, settings=tickets.SETTINGS) as realm:
        inner.write("krb5.conf", realm.config.read_text())
        inner.write("hosts", f"127.0.0.1 localhost\n{guest.SERVER_ADDRESS} {tickets.HOST}\n")
        realm.add_user(name, PASSWORD)
        realm.add_service(f"cifs/{tickets.HOST}", keytab)
        with JoinedServer(inner, directory, [name], [realm.name, "--keytab", keytab]) as server:
            print(f"        joined and served after {server.took:.1f} s", flush=True)
            cases(tally, network, tickets.HOST, server, [name])


def main() -> None:
    """Boot, mount and report."""
    parser: argparse.ArgumentParser = kernels.parser(__doc__ or "")
    parser.add_argument("--plain", action="store_true")
    is_plain = parser.parse_args().plain
    servers.clean_up_when_told_to_end()
    suite = kernels.suite(SUITE) + " plain" * is_plain
    if reason := missing(is_plain) or guest.cannot_boot():
        skip_whole_suite(suite, reason)
    tally = Tally(suite)
    try:
        with guest.Network() as network, tempfile.TemporaryDirectory(prefix="kernel-kerberos-") as directory:
            os.chmod(directory, 0o755)
            (in_plain_realm if is_plain else in_directory)(tally, network, Path(directory))
    except (Missing, RuntimeError, OSError, subprocess.SubprocessError) as reason:
        tally.add("fail", "domain", str(reason))
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
