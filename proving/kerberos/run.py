#!/usr/bin/env python3
"""Log-ons with Kerberos tickets over SMB in a realm of MIT's KDC: smbclient, smbtorture and MIT's own GSSAPI as clients.

    run.py [--tokens N] [--seed N]     N forged, replayed, cut and changed tokens (default 50,000)
    run.py --only-tokens               nothing but these

The realm, the server and the clients see a configuration of their own (realm.py); the host's `krb5.conf` is not read.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import clock as clocks
from proving.harness import server as servers
from proving.harness.tally import CaseFailed, Tally, skip_whole_suite
from proving.kerberos import realm as realms
from proving.kerberos.network import end_process
from proving.kerberos.realm import Realm

SUITE, DOMAIN, HOST = "kerberos", "kerberos.test", "files.kerberos.test"
# Another host with a name of the same length.
FORGER = "forge.kerberos.test"
USER, PASSWORD, LOCAL_PASSWORD = "alice", "Open-Sesame-7", "Local-Word-1"
# Debian's own Python has Debian's python3-gssapi.
PYTHON = "/usr/bin/python3"
# The tolerance of smbtorture's own realm: its tests wait until a ticket of 4 s and these are over.
CLOCK_SKEW_S = 5
TYPES = ("aes256-cts-hmac-sha384-192", "aes128-cts-hmac-sha256-128", "aes256-cts-hmac-sha1-96", "aes128-cts-hmac-sha1-96")
CIPHERS = ("AES-128-CCM", "AES-128-GCM", "AES-256-CCM", "AES-256-GCM")
TORTURE = ("reauth1", "reauth2", "reauth3", "reauth4", "expire1n", "expire1s", "expire1e", "expire2s", "expire2e",
           "expire_disconnect", "bind1", "bind2", "encryption-aes-128-gcm", "encryption-aes-256-ccm", "encryption-aes-256-gcm")
TORTURE_LIMIT_S = 90
# smbtorture looks its target up by name, since a ticket is for a name.
NAME_WRAPPER = "libnss_wrapper.so"


class Server:
    """The server in the realm."""

    def __init__(self, directory: Path, realm: Realm, keytab: Path, domain: str = "", anonymous: bool = False,
                 shares: tuple[str, ...] = ("files",), clock: str = "") -> None:
        directory.mkdir()
        password = directory / "password"
        password.write_text(LOCAL_PASSWORD)
        password.chmod(0o600)
        self.port, self._log = servers.free_port(), directory / "log"
        self.config = config = directory / "trunkline.toml"
        self._environment = {**os.environ, "KRB5_CONFIG": str(realm.config)}
        host_id = "uid = 1000\ngid = 1000\n" if os.geteuid() == 0 else ""
        config.write_text(
            f'[server]\nname = "{HOST}"\nlisten = ["127.0.0.1"]\nsmb_port = {self.port}\nstate_dir = "{directory / "state"}"\n'
            f'discovery = false\nanonymous = {str(anonymous).lower()}\n[domain]\nrealm = "{realm.name}"\nkeytab = "{keytab}"\n{domain}'
            f'[[user]]\nname = "{USER}"\npassword_file = "{password}"\n{host_id}'
            f'{"".join(self._share(directory / share) for share in shares)}')
        with self._log.open("wb") as log:
            self._process = subprocess.Popen([servers.program(), "serve", "--config", str(config)], stdout=log, stderr=log,
                                             stdin=subprocess.DEVNULL, env={**self._environment, **clocks.off_by(clock)})
        self._wait()

    @staticmethod
    def _share(directory: Path) -> str:
        directory.mkdir()
        directory.chmod(0o777)
        return f'[share.{directory.name}]\npath = "{directory}"\nusers = {{ "*" = "full" }}\n'

    def _wait(self) -> None:
        end = time.monotonic() + 20
        while time.monotonic() < end and self._process.poll() is None:
            if "serving shares" in self.log():
                return
            time.sleep(0.05)
        raise CaseFailed(f"the server does not start: {self.log()[-500:]}")

    def log(self) -> str:
        """Return its log."""
        return self._log.read_text(errors="replace")

    def told(self, *words: str) -> str:
        """Run a command of our program on this server, and return what it says on standard error."""
        done = subprocess.run([servers.program(), *words, "--config", str(self.config)], env=self._environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60, check=False)
        if done.returncode:
            raise CaseFailed(f"{' '.join(words)} ended with {done.returncode}: {done.stderr[-400:]}")
        return done.stderr

    def await_line(self, line: str, limit_s: float) -> None:
        """Wait for a line of its log."""
        end = time.monotonic() + limit_s
        while line not in self.log():
            if time.monotonic() > end:
                raise CaseFailed(f"the log does not say `{line}`: {self.log()[-500:]}")
            time.sleep(0.05)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        end_process(self._process, 20)


def smbclient(port: int, ticket: dict[str, str], *options: str, host: str = HOST, clock: str = "") -> subprocess.CompletedProcess[str]:
    """Write and read a file with smbclient, whose clock may be off."""
    command = ["smbclient", f"//{host}/files", "-I", "127.0.0.1", "-p", str(port), *options, "-c", "put /etc/passwd copy; get copy -"]
    return subprocess.run(command, env={**os.environ, **ticket, **clocks.off_by(clock)}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30,
                          check=False)


def by_ticket(port: int, ticket: dict[str, str], *options: str, host: str = HOST) -> None:
    """Log on with a ticket, write and read; it must go well."""
    done = smbclient(port, ticket, "--use-kerberos=required", "-N", *options, host=host)
    if done.returncode or Path("/etc/passwd").read_text() not in done.stdout:
        raise CaseFailed(f"smbclient: {done.stdout[-200:]}{done.stderr[-300:]}")


def refused(server: Server, ticket: dict[str, str], status: str, line: str, host: str = HOST, clock: str = "") -> None:
    """Log on with a ticket that must be refused with a status and a line in the log."""
    before = len(server.log())
    done = smbclient(server.port, ticket, "--use-kerberos=required", "-N", host=host, clock=clock)
    if not done.returncode or status not in done.stdout + done.stderr:
        raise CaseFailed(f"not {status}: {done.stdout[-200:]}{done.stderr[-300:]}")
    if line not in server.log()[before:]:
        raise CaseFailed(f"the log does not say `{line}`: {server.log()[before:][-600:]}")


def torture(port: int, realm: Realm, names: Path, test: str) -> str | None:
    """Run one test of smbtorture on a share of its name. It gets its tickets itself. Returns why it failed."""
    command = ["smbtorture", f"//{HOST}/{test}", "-p", str(port), "--use-kerberos=required", "-U", f"{USER}@{realm.name}%{PASSWORD}",
               f"smb2.session.{test}"]
    try:
        named = {"LD_PRELOAD": NAME_WRAPPER, "NSS_WRAPPER_HOSTS": str(names)}
        done = subprocess.run(command, env={**realm.environment, **named}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=TORTURE_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        return f"not over after {TORTURE_LIMIT_S} s"
    if re.search(rf"^success: {re.escape(test)}", done.stdout, re.MULTILINE):
        return None
    if re.search(rf"^skip: {re.escape(test)}", done.stdout, re.MULTILINE):
        return "skipped by itself"
    return (done.stdout + done.stderr)[-600:]


class Suite:
    """The cases with what they share."""

    def __init__(self, directory: Path, tokens: int, seed: int) -> None:
        self.directory, self.tokens, self.seed, self.tally = directory, tokens, seed, Tally(SUITE)
        self.keytab = directory / "keytab"

    def case(self, name: str, work: Callable[[], str | None]) -> None:
        """Run a case and count it."""
        self.tally.case(name, work)

    def run_tokens(self) -> int:
        """Nothing but bad tokens, for the long count."""
        with Realm(self.directory / "realm", clock_skew_s=CLOCK_SKEW_S) as realm:
            realm.add_user(USER, PASSWORD)
            realm.add_service(f"cifs/{HOST}", self.keytab)
            ticket = realm.log_on(USER, PASSWORD, self.directory / "cache")
            with Server(self.directory / "server", realm, self.keytab) as server:
                self.case("forms, replays, lists and bad tokens", lambda: self.foreign_tokens(server, realm, ticket))
        return self.tally.close()

    def run(self) -> int:
        with Realm(self.directory / "realm", clock_skew_s=CLOCK_SKEW_S) as realm:
            realm.add_user(USER, PASSWORD)
            realm.add_user("stranger", PASSWORD)
            realm.add_service(f"cifs/{HOST}", self.keytab)
            for kind in TYPES:
                realm.add_service(f"cifs/{kind}.{DOMAIN}", self.keytab, f"{kind}:normal")
            ticket = realm.log_on(USER, PASSWORD, self.directory / "cache")
            with Server(self.directory / "server", realm, self.keytab) as server:
                self.good(server, ticket)
                self.hostile(server, realm, ticket)
            # Some of smbtorture's tests log on without a name too.
            with Server(self.directory / "server-of-torture", realm, self.keytab, anonymous=True, shares=TORTURE) as server:
                self.by_torture(server, realm)
            self.without_ntlm(realm, ticket)
            self.late_keytab(realm, ticket)
            self.own_clock(realm)
        self.weak()
        return self.tally.close()

    def good(self, server: Server, ticket: dict[str, str]) -> None:
        """Log-ons that must go well."""
        self.case("smbclient", lambda: by_ticket(server.port, ticket))
        self.case("signed", lambda: by_ticket(server.port, ticket, "--client-protection=sign"))
        for cipher in CIPHERS:
            options = ["--client-protection=encrypt", f"--option=client smb3 encryption algorithms={cipher}"]
            self.case(f"sealed with {cipher}", partial(by_ticket, server.port, ticket, *options))
        for kind in TYPES:
            self.case(f"a service key of {kind}", partial(by_ticket, server.port, ticket, host=f"{kind}.{DOMAIN}"))
        for dialect in ("SMB2_02", "SMB2_10", "SMB3_00", "SMB3_02"):
            options = [f"--option=client min protocol={dialect}", f"--option=client max protocol={dialect}"]
            self.case(f"dialect {dialect}", partial(by_ticket, server.port, ticket, *options))

        def password() -> None:
            done = smbclient(server.port, {}, "--use-kerberos=off", "-U", f"{USER}%{LOCAL_PASSWORD}")
            if done.returncode:
                raise CaseFailed(f"{done.stdout}{done.stderr}")

        self.case("the local password still logs on", password)

    def hostile(self, server: Server, realm: Realm, ticket: dict[str, str]) -> None:
        """Log-ons that must fail."""
        stranger = realm.log_on("stranger", PASSWORD, self.directory / "cache-of-stranger")
        self.case("a principal that is no user",
                  lambda: refused(server, stranger, "NT_STATUS_LOGON_FAILURE", "trunkline user add stranger"))
        # The ticket of the service is in the cache, so the client needs no KDC, which would refuse its clock.
        realm.run(["kvno", f"cifs/{HOST}"], **ticket)
        for clock, where in (("+10m", "behind"), ("-10m", "ahead of")):
            self.case(f"a clock that is off by {clock}",
                      partial(refused, server, ticket, "NT_STATUS_TIME_DIFFERENCE_AT_DC", f"s {where} the client's", clock=clock))
        other = self.directory / "other.keytab"
        realm.add_service(f"cifs/missing.{DOMAIN}", other)
        self.case("a service without a key in the keytab",
                  lambda: refused(server, ticket, "NT_STATUS_LOGON_FAILURE", "klist -k", host=f"missing.{DOMAIN}"))
        realm.add_service(f"cifs/old.{DOMAIN}", self.keytab)
        realm.renew_key(f"cifs/old.{DOMAIN}", other)
        self.case("a key that is older than the ticket's",
                  lambda: refused(server, ticket, "NT_STATUS_LOGON_FAILURE", "kinit", host=f"old.{DOMAIN}"))

        def renewed() -> None:
            old = realm.log_on(USER, PASSWORD, self.directory / "cache-of-old-key")
            by_ticket(server.port, old, host=f"aes256-cts-hmac-sha1-96.{DOMAIN}")
            realm.renew_key(f"cifs/aes256-cts-hmac-sha1-96.{DOMAIN}", self.keytab)
            by_ticket(server.port, old, host=f"aes256-cts-hmac-sha1-96.{DOMAIN}")
            new = realm.log_on(USER, PASSWORD, self.directory / "cache-of-new-key")
            by_ticket(server.port, new, host=f"aes256-cts-hmac-sha1-96.{DOMAIN}")

        self.case("a renewed key counts at once, and the old one still", renewed)
        self.case("forms, replays, lists and bad tokens", lambda: self.foreign_tokens(server, realm, ticket))

    def foreign_tokens(self, server: Server, realm: Realm, ticket: dict[str, str]) -> None:
        """Tokens of MIT's library through a small SMB client (tokens.py)."""
        script = Path(__file__).with_name("tokens.py")
        # The server gets no key of it.
        realm.add_service(f"cifs/{FORGER}", self.directory / "forger.keytab")
        command = [PYTHON, str(script), str(server.port), f"cifs@{HOST}", f"cifs@{FORGER}", str(self.tokens), str(self.seed)]
        done = subprocess.run(command, env={**os.environ, **ticket}, capture_output=True, text=True, timeout=1200, check=False)
        if done.returncode:
            raise CaseFailed(done.stderr[-500:])
        found = json.loads(done.stdout)
        print(f"        {json.dumps(found)}")
        problems = []
        if set(found["forms"].values()) != {0}:
            problems.append(f"forms: {found['forms']}")
        if found["replay"][0] != 0 or 0 in found["replay"][1:]:
            problems.append(f"replay: {found['replay']}")
        if found["mic"] != 0 or found["changed list"] == 0:
            problems.append(f"lists: {found['mic']:#x}, {found['changed list']:#x}")
        if sum(found["statuses"].values()) != self.tokens:
            problems.append(f"{self.tokens} tokens were sent, and the answers are {found['statuses']}")
        if found["let in"] or "0xffffffff" in found["statuses"]:
            problems.append(f"{found['let in']} bad tokens were let in: {found['statuses']}")
        if problems:
            raise CaseFailed("; ".join(problems))
        by_ticket(server.port, ticket)

    def by_torture(self, server: Server, realm: Realm) -> None:
        """smbtorture's tests of sessions, beside each other: most of their time goes by in waits for tickets to end."""
        names = self.directory / "hosts"
        names.write_text(f"127.0.0.1 {HOST}\n")
        with ThreadPoolExecutor(len(TORTURE)) as pool:
            for test, why in zip(TORTURE, pool.map(lambda test: torture(server.port, realm, names, test), TORTURE), strict=True):
                self.tally.add("fail" if why else "pass", f"smb2.session.{test}", why or "")

    def late_keytab(self, realm: Realm, ticket: dict[str, str]) -> None:
        """A keytab that is missing at the start and comes later."""
        late = self.directory / "late.keytab"
        with Server(self.directory / "server-without-keytab", realm, late) as server:
            why = f"the keytab {late} cannot be read: no such file"
            self.case("a ticket while the keytab is missing", lambda: refused(server, ticket, "NT_STATUS_LOGON_FAILURE", why))

            def told() -> None:
                for words in (("config", "check"), ("reload",)):
                    said = server.told(*words)
                    if why not in said:
                        raise CaseFailed(f"{' '.join(words)} does not say so: {said}")

            self.case("the check and the reload say that the keytab is missing", told)

            def comes() -> None:
                shutil.copy(self.keytab, self.directory / "coming.keytab")
                (self.directory / "coming.keytab").rename(late)
                server.await_line("the keytab is new", 10)
                by_ticket(server.port, ticket)
                if why in server.told("reload"):
                    raise CaseFailed("the reload says still that the keytab is missing")

            self.case("a keytab that comes counts without a reload", comes)

    def own_clock(self, realm: Realm) -> None:
        """The server's clock is off, and not those of the client and the KDC."""
        for clock, where in (("-10m", "behind"), ("+10m", "ahead of")):
            ticket = realm.log_on(USER, PASSWORD, self.directory / "cache-of-clock")
            with Server(self.directory / f"server-at{clock}", realm, self.keytab, clock=clock) as server:
                self.case(f"a server's clock that is off by {clock}",
                          partial(refused, server, ticket, "NT_STATUS_TIME_DIFFERENCE_AT_DC", f"s {where} the client's"))

    def without_ntlm(self, realm: Realm, ticket: dict[str, str]) -> None:
        """`ntlm = "off"`."""
        with Server(self.directory / "server-without-ntlm", realm, self.keytab, 'ntlm = "off"\n') as server:
            self.case("a ticket without NTLM", lambda: by_ticket(server.port, ticket))

            def password() -> None:
                done = smbclient(server.port, {}, "--use-kerberos=off", "-U", f"{USER}%{LOCAL_PASSWORD}")
                if not done.returncode or "NT_STATUS_NTLM_BLOCKED" not in done.stdout + done.stderr:
                    raise CaseFailed(f"{done.stdout}{done.stderr}")
                if "`ntlm` of `[domain]` is `off`" not in server.log():
                    raise CaseFailed("the log does not say why")

            self.case("a password without NTLM", password)

    def weak(self) -> None:
        """RC4: refused unless it is allowed by name."""
        with Realm(self.directory / "weak-realm", weak=True) as realm:
            realm.add_user(USER, PASSWORD)
            keytab = self.directory / "weak.keytab"
            realm.add_service(f"cifs/{HOST}", keytab, "arcfour-hmac:normal")
            ticket = realm.log_on(USER, PASSWORD, self.directory / "weak-cache")
            with Server(self.directory / "server-of-aes", realm, keytab) as server:
                self.case("RC4 is refused",
                          lambda: refused(server, ticket, "NT_STATUS_LOGON_FAILURE", "`encryption_types` of `[domain]`"))
            allowed = f"encryption_types = {json.dumps([*TYPES, 'rc4-hmac'])}\n"
            with Server(self.directory / "server-of-rc4", realm, keytab, allowed) as server:
                self.case("RC4 is let in where it is allowed by name", lambda: by_ticket(server.port, ticket))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--only-tokens", action="store_true")
    arguments = parser.parse_args()
    lacking = realms.missing() + clocks.missing() + [program for program in ("smbclient", "smbtorture") if not shutil.which(program)]
    if subprocess.run([PYTHON, "-c", "import gssapi"], capture_output=True, check=False).returncode:
        lacking.append("python3-gssapi")
    if lacking:
        skip_whole_suite(SUITE, f"{', '.join(lacking)} missing: run scripts/foreign")
    with tempfile.TemporaryDirectory(prefix="proof-kerberos-") as directory:
        suite = Suite(Path(directory), arguments.tokens, arguments.seed)
        return suite.run_tokens() if arguments.only_tokens else suite.run()


if __name__ == "__main__":
    sys.exit(main())
