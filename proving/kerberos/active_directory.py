#!/usr/bin/env python3
"""An Active Directory to prove with: Samba's domain controllers in a network namespace of their own.

    active_directory.py up|down DIR [--controllers N] [--newer]

`up` starts one for people to try by hand and says how to get inside; `down` ends it. Suites use `ActiveDirectory`.

The controllers are those of the installed Samba, or with `newer` (or GENERATION=newer) of the one that
`scripts/foreign` unpacked. Each has an address of its own; nothing of the machine's own configuration is read or
changed. A controller is the first process of a process namespace, so that nothing outlives it.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import newer, server
from proving.kerberos.certificates import make_certificate
from proving.kerberos.network import Missing, RealmNetwork, environment
from proving.kerberos.provisioned import provision

POPULATE = Path(__file__).resolve().parent / "populate.py"
REALM = "CORP.EXAMPLE"
WORKGROUP = "CORP"
ADMINISTRATOR = "Administrator"
PASSWORD = "Trunk-ann-7"
# The name of the machine that joins.
MEMBER = "files"
# The time limits for a provision or a join, and for a controller's start and end, in seconds.
PROVISION_S = 120
# The most for each user that is made, on a machine with other work.
USER_S = 0.2
START_S = 60
# The most users of a domain that is kept for the next run.
MOST_KEPT = 1_000
# A file of every Samba that can make a domain.
PROVISION = Path("usr/share/samba/setup/provision.ldif")

# Users and nested groups with RFC 2307 attributes. `dora` has none, and a principal name with a suffix of the forest.
USERS: dict[str, dict[str, Any]] = {
    name: {"password": PASSWORD, "attributes": {"uidNumber": uid, "gidNumber": 20_000, "unixHomeDirectory": f"/home/{name}",
                                                "loginShell": "/bin/sh", "uid": name}}
    for name, uid in (("ann", 20_001), ("bob", 20_002), ("carl", 20_003))
} | {"dora": {"password": PASSWORD, "attributes": {"userPrincipalName": "dora@other.example"}}}
GROUPS: dict[str, dict[str, Any]] = {
    "unixusers": {"attributes": {"gidNumber": 20_000}, "members": ["ann", "bob", "carl"]},
    "painters": {"attributes": {"gidNumber": 20_100}, "members": ["ann"]},
    "staff": {"attributes": {"gidNumber": 20_101}, "members": ["painters", "bob"]},
}


def realm_configuration(realm: str, directory: Path, more: str = "") -> str:
    """Return a krb5.conf whose realm is found by DNS. `more` names another place for tickets."""
    more = more or f"  default_ccache_name = FILE:{directory}/ccache_%{{uid}}\n"
    return (f"[libdefaults]\n  default_realm = {realm}\n  dns_lookup_kdc = true\n  dns_lookup_realm = false\n  rdns = false\n"
            f"  dns_canonicalize_hostname = false\n{more}"
            f"[domain_realm]\n  .{realm.lower()} = {realm}\n  {realm.lower()} = {realm}\n")


def with_winbindd(directory: Path, command: Sequence[object]) -> list[str]:
    """Return a command that finds a winbindd by its directory. Samba's library has the place of the socket built in, so
    it lies there for this command alone. The command must have mounts of its own, as in a network namespace."""
    at = "/run/samba"
    return ["sh", "-c", f'mkdir -p {at} && mount --bind "$0" {at} && exec "$@"', str(directory), *map(str, command)]


class Controller:
    """One domain controller."""

    def __init__(self, domain: "ActiveDirectory", number: int) -> None:
        self.domain, self.number = domain, number
        self.name, self.address = f"dc{number}", domain.network.address(number)
        self.host = f"{self.name}.{domain.realm.lower()}"
        self.directory = domain.directory / self.name
        self.settings = self.directory / "etc" / "smb.conf"
        # Its certificate, and `ca.pem` of the authority.
        self.tls = self.directory / "certificates"
        # The directory that Samba takes for /run/samba.
        self.run = self.directory / "run"
        self._process: subprocess.Popen[bytes] | None = None

    def make(self) -> None:
        """Make the first controller's directory, or join another one."""
        # gethostname() is the name of the controller everywhere in Samba.
        common = [f"--realm={self.domain.realm}", f"--option=netbios name={self.name.upper()}", "--option=log file=/dev/null",
                  f"--targetdir={self.directory}", "--dns-backend=SAMBA_INTERNAL"]
        if self.number == 1:
            # Scripts with system volumes are of no use here, and need a file system with attributes.
            words = ["domain", "provision", "--server-role=dc", "--use-rfc2307", f"--domain={self.domain.workgroup}",
                     f"--adminpass={PASSWORD}", f"--host-name={self.name}", f"--host-ip={self.address}", *common]
            self._make_first(words)
        else:
            words = ["domain", "join", self.domain.realm, "DC", f"-U{ADMINISTRATOR}", f"--password={PASSWORD}",
                     f"--server={self.domain.controllers[0].host}", *common,
                     f"--option=interfaces={self.address}/24", "--option=bind interfaces only=yes"]
            self._samba_tool(words)
        text = self.settings.read_text()
        mine = {"interfaces": f"{self.address}/24", "bind interfaces only": "yes", "server services": self.domain.services,
                "pid directory": self.directory, "ncalrpc dir": self.directory / "ncalrpc", "ntp signd socket directory": self.directory / "ntp",
                "winbindd socket directory": self.run / "winbindd", "dns forwarder": "0.0.0.0", "log file": self.directory / "log",
                "dns update command": "/bin/true", "spn update command": "/bin/true", "nsupdate command": "/bin/true",
                "gpo update command": "/bin/true", "panic action": "", "samba kcc command": "/bin/true",
                "kdc:user ticket lifetime": 10, "ldap server require strong auth": self.domain.strong_auth,
                **make_certificate(self.tls, self.host), **self._smb_options(), **self.domain.options}
        lines = [line for line in text.splitlines() if line.split("=")[0].strip() not in mine]
        at = lines.index("[global]") + 1
        lines[at:at] = [f"\t{key} = {value}" for key, value in mine.items()]
        self.settings.write_text("\n".join(lines) + "\n")
        for path, mode in ((self.directory / "ncalrpc", 0o750), (self.directory / "ntp", 0o750), (self.run / "winbindd", 0o755)):
            path.mkdir(mode=mode, parents=True, exist_ok=True)

    def _make_first(self, words: Sequence[str]) -> None:
        """Make the domain with its users."""
        samba, domain = self.domain.samba(), self.domain
        how = [word for word in words if not word.startswith("--targetdir=")]
        wanted = json.dumps({"realm": domain.realm.lower(), "users": domain.users, "groups": domain.groups, "upn_suffixes": domain.upn_suffixes})

        def populated() -> None:
            provision(how, samba, self.directory, lambda: self._samba_tool(words))
            domain.network.run(*domain.program("python3" if domain.is_newer else "/usr/bin/python3"), POPULATE, self.settings,
                               limit_s=PROVISION_S + USER_S * len(domain.users), stdin=wanted)

        if len(domain.users) > MOST_KEPT:
            populated()
        else:
            provision([*how, POPULATE.read_text(), wanted], samba, self.directory, populated)

    def _samba_tool(self, words: Sequence[str]) -> None:
        self.domain.network.run(*self._as_host(), *self.domain.program("samba-tool"), *words, limit_s=PROVISION_S)

    def _smb_options(self) -> dict[str, Any]:
        """Return the settings of a controller that serves SMB: directories of its own, and access lists in a file."""
        if not self.domain.has_smb:
            return {}
        kinds = ("state", "lock", "cache")
        for kind in kinds:
            (self.directory / kind).mkdir(exist_ok=True)
        return {**{f"{kind} directory": self.directory / kind for kind in kinds}, "vfs objects": "dfs_samba4 acl_xattr xattr_tdb",
                "xattr_tdb:file": self.directory / "xattr.tdb"}

    def _as_host(self) -> list[str]:
        return ["unshare", "--uts", "sh", "-c", f'hostname {self.name} && exec "$@"', "sh"]

    def begin(self) -> None:
        """Start it without waiting."""
        log = (self.directory / "output").open("ab")
        command = with_winbindd(self.run, [
            "unshare", "--pid", "--fork", "--kill-child", *self._as_host(), *self.domain.program("samba"), "--foreground",
            "--no-process-group", f"--configfile={self.settings}"])
        self._process = subprocess.Popen(self.domain.network.inside(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                         start_new_session=True, env=environment())

    def wait(self) -> None:
        """Wait until it answers."""
        until = time.monotonic() + START_S
        while time.monotonic() < until and self._process is not None and self._process.poll() is None:
            if all(self.domain.listens(self.address, port) for port in (389, 88, 53, 464)):
                return
            time.sleep(0.05)
        said = (self.directory / "output").read_text(errors="replace").strip()[-600:]
        raise RuntimeError(f"{self.host} did not answer within {START_S} s: {said}")

    @property
    def pid(self) -> int:
        """The process whose end is that of the controller."""
        assert self._process is not None
        return self._process.pid

    def end(self) -> None:
        """End it with all its processes, if it runs."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def kill_silently(self) -> None:
        """End it such that its address no longer answers at all, as that of a machine without power."""
        self.end()
        self.domain.network.run("ip", "addr", "del", f"{self.address}/24", "dev", self.domain.network.device)
        # Without a route packets would be refused at once; a black hole answers nothing.
        self.domain.network.run("ip", "route", "add", "blackhole" if self.domain.network.is_own else "unreachable", self.address)


class ActiveDirectory:
    """A domain; a context manager. Its network is one of its own, or the given one.

    `users` and `groups` are what populate.py makes. `services` are those of Samba's "server services". With `has_smb`
    the controllers serve SMB too, over which other members than ours ask them.
    """

    def __init__(self, controllers: int = 1, users: Mapping[str, Any] = USERS, groups: Mapping[str, Any] = GROUPS,
                 network: RealmNetwork | None = None, is_newer: bool | None = None, realm: str = REALM, workgroup: str = WORKGROUP,
                 services: str = "ldap cldap kdc dns rpc nbt drepl", options: Mapping[str, Any] = {}, directory: Path | None = None,
                 upn_suffixes: Sequence[str] = ("other.example",), cache: str = "", has_smb: bool = False) -> None:
        self.realm, self.workgroup, self.options = realm, workgroup, dict(options)
        self.services, self.has_smb = services + " winbindd s3fs" * has_smb, has_smb
        self.users, self.groups, self.upn_suffixes = dict(users), dict(groups), list(upn_suffixes)
        self.cache = cache
        self.is_newer = server.is_newer() if is_newer is None else is_newer
        self.network = network or RealmNetwork()
        self._given = directory
        self.count = controllers
        self.controllers: list[Controller] = []
        self._stack = contextlib.ExitStack()

    def program(self, name: str) -> tuple[str, ...]:
        """Return the words that run a program of the domain's Samba."""
        return newer.command("samba-newer", name) if self.is_newer else (name,)

    def samba(self) -> Path:
        """Return the file by which its Samba is told from others: the schema of new domains comes with each package of it."""
        return (newer.root("samba-newer") if self.is_newer else Path("/")) / PROVISION

    @property
    def strong_auth(self) -> str:
        """The rule for binds: signed or within TLS. Samba below 4.21 knows no bindings to TLS, and has another word for that."""
        return "yes" if self.is_newer else "allow_sasl_over_tls"

    def missing(self) -> str:
        """Return the reason why it cannot run here; empty if it can."""
        if os.geteuid() != 0:
            return "needs root for a network namespace"
        if self.is_newer:
            return "" if self.samba().exists() else "needs the newer Samba with samba-ad-dc (scripts/foreign)"
        if shutil.which("openssl") is None:
            return "needs the Debian package openssl"
        return "" if self.samba().exists() and shutil.which("samba-tool") else "needs the Debian package samba-ad-dc"

    def __enter__(self) -> Self:
        if reason := self.missing():
            raise Missing(reason)
        with contextlib.ExitStack() as stack:
            self.directory = self._given or Path(stack.enter_context(_scratch()))
            self.directory.mkdir(exist_ok=True)
            stack.enter_context(self.network)
            stack.callback(self._end)
            self._configure()
            for number in range(1, self.count + 1):
                self.network.add(self.network.address(number))
                self._add(number)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *what: object) -> None:
        self._stack.close()

    def _end(self) -> None:
        for controller in self.controllers:
            controller.end()

    def _configure(self) -> None:
        addresses = [self.network.address(number + 1) for number in range(self.count)]
        # A resolver asks the next server after a second.
        self.network.write("resolv.conf", f"search {self.realm.lower()}\n" + "".join(f"nameserver {it}\n" for it in addresses)
                           + "options timeout:1 attempts:2\n")
        self.network.write("krb5.conf", realm_configuration(self.realm, self.directory, self.cache))
        names = [(f"dc{number + 1}", address) for number, address in enumerate(addresses)] + [(MEMBER, self.network.member)]
        self.network.write("hosts", "127.0.0.1 localhost\n" + "".join(f"{at} {name}.{self.realm.lower()} {name}\n" for name, at in names))
        self.network.write("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n")

    def _add(self, number: int) -> None:
        controller = Controller(self, number)
        controller.make()
        self.controllers.append(controller)
        controller.begin()
        controller.wait()
        if number > 1:
            self.register(controller.host)

    def register(self, host: str, priority: int = 0, weight: int = 100) -> None:
        """Add SRV records for a controller to the DNS of the first one. Clients try the smallest priority first."""
        for name, port in (("_kerberos._udp", 88), ("_kerberos._tcp", 88), ("_ldap._tcp", 389), ("_ldap._tcp.dc._msdcs", 389)):
            self.tool("dns", "add", self.controllers[0].host, self.realm.lower(), name, "SRV", f"{host} {port} {priority} {weight}",
                      f"-U{ADMINISTRATOR}%{PASSWORD}")

    def listens(self, address: str, port: int) -> bool:
        """Return whether something listens there, inside."""
        wanted = f"{socket.inet_aton(address)[::-1].hex().upper()}:{port:04X}"
        # The table of the namespace is that of any process inside.
        pid = next((it._process.pid for it in self.controllers if it._process), None)
        if pid is None:
            return False
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
                words = line.split()
                if words[1] == wanted and words[3] == "0A":
                    return True
        return False

    def tool(self, *words: object, limit_s: float = 60) -> str:
        """Run samba-tool on the first controller's database and return its output."""
        first = self.controllers[0]
        return self.network.run(*self.program("samba-tool"), *words, f"--configfile={first.settings}", limit_s=limit_s).stdout


@contextlib.contextmanager
def _scratch() -> Iterator[str]:
    # In memory: Samba's databases wait for the disk with each step.
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="directory-", dir=base, ignore_cleanup_errors=True) as directory:
        os.chmod(directory, 0o755)
        yield directory


def _up(directory: Path, controllers: int, is_newer: bool) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    if (directory / "running.json").exists():
        sys.exit(f"active_directory.py: one runs in {directory} already")
    domain = ActiveDirectory(controllers, directory=directory.resolve(), is_newer=is_newer or None)
    try:
        domain.__enter__()
    except Missing as reason:
        sys.exit(f"active_directory.py: {reason}")
    running = {"network": domain.network.name, "pids": [controller.pid for controller in domain.controllers]}
    (directory / "running.json").write_text(json.dumps(running))
    # The controllers go on when this process ends.
    print(f"{REALM} runs. Its users are {', '.join(domain.users)} and {ADMINISTRATOR}, all with the password {PASSWORD}.\n"
          f"Get inside with: ip netns exec {domain.network.name} bash\nEnd it with: {sys.argv[0]} down {directory}", flush=True)
    os._exit(0)


def _down(directory: Path) -> None:
    try:
        running = json.loads((directory / "running.json").read_text())
    except OSError:
        sys.exit(f"active_directory.py: none runs in {directory}")
    for pid in running["pids"]:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    until = time.monotonic() + START_S
    while time.monotonic() < until and any(server.runs(Path(f"/proc/{pid}/status")) for pid in running["pids"]):
        time.sleep(0.05)
    network = RealmNetwork()
    network.name = running["network"]
    network._files = Path("/etc/netns") / network.name
    network.__exit__()
    shutil.rmtree(directory)


def main() -> None:
    """Start or end a domain for trying by hand."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("action", choices=("up", "down"))
    arguments.add_argument("directory", type=Path)
    arguments.add_argument("--controllers", type=int, default=1)
    arguments.add_argument("--newer", action="store_true")
    options = arguments.parse_args()
    if options.action == "up":
        _up(options.directory, options.controllers, options.newer)
    else:
        _down(options.directory)


if __name__ == "__main__":
    main()
