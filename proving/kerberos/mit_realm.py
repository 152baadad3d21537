"""A plain Kerberos realm to prove with: MIT's krb5kdc in a network namespace of its own."""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from proving.kerberos.network import Missing, RealmNetwork, environment

REALM = "PLAIN.EXAMPLE"
PASSWORD = "Trunk-ann-7"
MEMBER = f"files.{REALM.lower()}"
# The time limit for a start and for one command, in seconds.
PATIENCE = 30
USERS = {name: PASSWORD for name in ("ann", "bob")}


class MitRealm:
    """A realm; a context manager. `users` are the names and passwords. `types` are the encryption types of new keys."""

    def __init__(self, users: Mapping[str, str] = USERS, network: RealmNetwork | None = None, realm: str = REALM,
                 types: str = "aes256-cts-hmac-sha1-96:normal aes128-cts-hmac-sha1-96:normal", ticket: str = "") -> None:
        self.users, self.realm, self.types, self.ticket = dict(users), realm, types, ticket
        self.network = network or RealmNetwork()
        self.member = f"files.{realm.lower()}"
        self._process: subprocess.Popen[bytes] | None = None
        self._stack = contextlib.ExitStack()

    def missing(self) -> str:
        """Return the reason why it cannot run here; empty if it can."""
        if os.geteuid() != 0:
            return "needs root for a network namespace"
        absent = [name for name in ("krb5kdc", "kadmin.local", "kdb5_util", "kinit") if shutil.which(name, path=environment()["PATH"]) is None]
        return f"needs the Debian packages krb5-kdc, krb5-admin-server and krb5-user ({', '.join(absent)})" if absent else ""

    def __enter__(self) -> Self:
        if reason := self.missing():
            raise Missing(reason)
        with contextlib.ExitStack() as stack:
            base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
            self.directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="realm-", dir=base)))
            self.directory.chmod(0o755)
            stack.enter_context(self.network)
            self.network.add(self.network.address(1))
            self._configure()
            self.network.run("kdb5_util", "create", "-s", "-r", self.realm, "-P", "master-key", variables=self.variables)
            self.admin(*(f"addprinc -pw {password} {name}" for name, password in self.users.items()))
            stack.callback(self.end)
            self.begin()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _configure(self) -> None:
        address = self.network.address(1)
        self.network.write("krb5.conf", f"[libdefaults]\n  default_realm = {self.realm}\n  dns_lookup_kdc = false\n  rdns = false\n"
                           f"  dns_canonicalize_hostname = false\n  default_ccache_name = FILE:{self.directory}/ccache_%{{uid}}\n{self.ticket}"
                           f"[realms]\n  {self.realm} = {{\n    kdc = {address}\n  }}\n"
                           f"[domain_realm]\n  .{self.realm.lower()} = {self.realm}\n  {self.realm.lower()} = {self.realm}\n")
        self.network.write("hosts", f"127.0.0.1 localhost\n{self.network.member} {self.member} files\n")
        self.network.write("resolv.conf", f"nameserver {address}\noptions timeout:1 attempts:1\n")
        self.network.write("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n")
        (self.directory / "kdc.conf").write_text(
            f"[kdcdefaults]\n  kdc_listen = {address}:88\n  kdc_tcp_listen = {address}:88\n[realms]\n  {self.realm} = {{\n"
            f"    database_name = {self.directory}/principal\n    key_stash_file = {self.directory}/stash\n"
            f"    acl_file = {self.directory}/acl\n    supported_enctypes = {self.types}\n    max_renewable_life = 7d\n  }}\n")

    @property
    def variables(self) -> dict[str, str]:
        """The variables with which the programs of the KDC find its configuration."""
        return {"KRB5_KDC_PROFILE": str(self.directory / "kdc.conf")}

    def admin(self, *queries: str) -> str:
        """Run queries of kadmin.local and return what they print."""
        return self.network.run("kadmin.local", "-r", self.realm, stdin="\n".join(queries) + "\n", variables=self.variables, limit_s=PATIENCE).stdout

    def keytab(self, path: Path, *principals: str, types: str = "") -> Path:
        """Write a keytab with new keys of these principals, which are made if they are missing."""
        chosen = f"-e {types} " if types else ""
        self.admin(*(f"addprinc -randkey {it}" for it in principals), *(f"ktadd -k {path} {chosen}{it}" for it in principals))
        return path

    def begin(self) -> None:
        """Start the KDC and wait until it listens."""
        log = (self.directory / "output").open("ab")
        self._process = subprocess.Popen(self.network.inside(["krb5kdc", "-n", "-r", self.realm]), stdin=subprocess.DEVNULL, stdout=log,
                                         stderr=log, start_new_session=True, env={**environment(), **self.variables})
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self._process.poll() is None:
            # In the table of the namespace, 0058 is port 88 and 0A a listening socket.
            if any(line.split()[1].endswith(":0058") and line.split()[3] == "0A"
                   for line in Path(f"/proc/{self._process.pid}/net/tcp").read_text().splitlines()[1:]):
                return
            time.sleep(0.02)
        raise RuntimeError(f"krb5kdc did not start: {(self.directory / 'output').read_text()[-400:]}")

    def end(self) -> None:
        """End the KDC, if it runs."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._process = None
