"""A Kerberos realm of MIT's KDC on ports of its own, with a configuration that only its own processes see."""

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from typing import Protocol, Self

from proving.kerberos.network import end_process

PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
AES = "aes256-cts-hmac-sha1-96:normal"
# Debian keeps the KDC's programs where only root's path leads.
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


class RealmError(RuntimeError):
    """A program of the realm has failed."""


class Network(Protocol):
    """A separate network for the KDC (kernel_client/guest.py)."""

    def inside(self, command: list[str]) -> list[str]:
        """Return the command line that runs `command` there."""


def missing() -> list[str]:
    """Return the programs that this host lacks."""
    return [program for program in PROGRAMS if not shutil.which(program, path=PATH)]


def free_port() -> int:
    """Return a port that is free for TCP and UDP."""
    for _ in range(50):
        with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
            stream.bind(("127.0.0.1", 0))
            port = stream.getsockname()[1]
            try:
                datagrams.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RealmError("no port is free for TCP and UDP")


class Realm:
    """A realm with a running KDC. `clock_skew_s` is the tolerance of all its hosts.

    The KDC listens on `address`, in the separate network `network` if there is one. `settings` are further lines of
    krb5.conf's [libdefaults]. `without_pac` leaves the PAC out of
    tickets, in which Samba expects an account of a domain.
    """

    def __init__(self, directory: Path, name: str = "KERBEROS.TEST", clock_skew_s: int = 300, weak: bool = False,
                 network: Network | None = None, address: str = "127.0.0.1", settings: str = "",
                 without_pac: bool = False) -> None:
        self.name, self._directory = name, directory
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        types = "aes256-cts-hmac-sha384-192 aes128-cts-hmac-sha256-128 aes256-cts-hmac-sha1-96 aes128-cts-hmac-sha1-96"
        types += " arcfour-hmac" if weak else ""
        self.config = directory / "krb5.conf"
        self.config.write_text(
            f"[libdefaults]\n default_realm = {name}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
            f" dns_canonicalize_hostname = false\n rdns = false\n clockskew = {clock_skew_s}\n"
            f" allow_weak_crypto = {'true' if weak else 'false'}\n permitted_enctypes = {types}\n{settings}"
            f"[realms]\n {name} = {{\n  kdc = {address}:{self.port}\n }}\n"
            f"[domain_realm]\n .{name.lower()} = {name}\n {name.lower()} = {name}\n")
        kdc_config = directory / "kdc.conf"
        kdc_config.write_text(
            f"[kdcdefaults]\n kdc_listen = {address}:{self.port}\n kdc_tcp_listen = {address}:{self.port}\n"
            f"[realms]\n {name} = {{\n  database_name = {directory}/principal\n  key_stash_file = {directory}/stash\n"
            f"  acl_file = {directory}/acl\n  max_life = 10h\n  disable_pac = {'true' if without_pac else 'false'}\n  supported_enctypes = {AES}\n }}\n"
            f"[logging]\n kdc = FILE:{directory}/kdc.log\n")
        self.environment = dict(os.environ, PATH=PATH, KRB5_CONFIG=str(self.config), KRB5_KDC_PROFILE=str(kdc_config))
        self.run(["kdb5_util", "create", "-s", "-r", name, "-P", "master-of-the-proof"])
        command = ["krb5kdc", "-n", "-r", name]
        self._kdc = subprocess.Popen(network.inside(command) if network else command, env=self.environment, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._wait()

    def _wait(self) -> None:
        log, end = self._directory / "kdc.log", time.monotonic() + 10
        while time.monotonic() < end and self._kdc.poll() is None:
            if log.exists() and "commencing operation" in log.read_text(errors="replace"):
                return
            time.sleep(0.02)
        raise RealmError(f"krb5kdc does not answer on port {self.port}; see {self._directory}/kdc.log")

    def run(self, command: list[str], text: str = "", **variables: str) -> str:
        """Run a program in the realm's environment; returns what it prints."""
        done = subprocess.run(command, env={**self.environment, **variables}, input=text, capture_output=True, text=True,
                              timeout=30, check=False)
        if done.returncode:
            raise RealmError(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def add_user(self, name: str, password: str) -> None:
        """Add a principal with a password."""
        self._administer(f'addprinc -pw "{password}" {name}')

    def add_service(self, name: str, keytab: Path, types: str = AES) -> None:
        """Add a service principal and put its keys into a keytab."""
        self._administer(f"addprinc -randkey -e {types} {name}")
        self._administer(f"ktadd -k {keytab} -norandkey {name}")

    def export_key(self, name: str, keytab: Path) -> None:
        """Put the keys of a user into a keytab; the password stays."""
        self._administer(f"ktadd -k {keytab} -norandkey {name}")

    def renew_key(self, name: str, keytab: Path) -> None:
        """Give a service a key of the next version, which only `keytab` gets."""
        self._administer(f"cpw -randkey -keepold {name}")
        self._administer(f"ktadd -k {keytab} -norandkey {name}")

    def log_on(self, user: str, password: str, cache: Path, *options: str) -> dict[str, str]:
        """Get a ticket into a cache; returns the variables that a client needs to use it."""
        self.run(["kinit", "-c", f"FILE:{cache}", *options, user], password + "\n")
        return {"KRB5_CONFIG": str(self.config), "KRB5CCNAME": f"FILE:{cache}"}

    def _administer(self, query: str) -> None:
        self.run(["kadmin.local", "-r", self.name, "-q", query])

    def close(self) -> None:
        """End the KDC."""
        end_process(self._kdc, 10)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()
