#!/usr/bin/env python3
"""`trunkline copy`, `load` and `doctor` with Kerberos tickets, against our server and against Samba's smbd.

    client.py [--server trunkline|samba]

Both servers are members of one MIT realm by keytab (realm.py). A tree goes to the share and back, by a credential cache
and by a keytab, over one connection and over four, signed and sealed with each cipher. Then the reasons why there is no
log-on with a ticket are staged, and the doctor has to name each.
"""

import argparse
import filecmp
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import clock
from proving.harness import server as servers
from proving.harness.tally import CaseFailed, Tally, skip_whole_suite
from proving.kerberos import realm as realms
from proving.kerberos.realm import Realm

SUITE, DOMAIN, HOST, STRANGER = "kerberos-client", "kerberos.test", "files.kerberos.test", "unknown.kerberos.test"
# The programs look their target up by name, since a ticket is for a name.
NAME_WRAPPER = "libnss_wrapper.so"
LIMIT_S = 120
# The life of the tickets of a copy that outlives them, and the least time that it takes.
SHORT_LIFE_S, LONG_COPY_S = 6, 10
# The tolerance of the realm's hosts, within which an ended ticket still counts.
CLOCK_SKEW_S = 2


class Suite:
    """The cases against one server."""

    def __init__(self, tally: Tally, realm: Realm, server: servers.Server, directory: Path, ticket: dict[str, str], keytab: Path) -> None:
        self.tally, self.realm, self.server, self.directory, self.ticket, self.keytab = tally, realm, server, directory, ticket, keytab
        self.user, self.password = servers.accounts()[0]
        names = directory / "hosts"
        names.write_text(f"127.0.0.1 {HOST} {STRANGER}\n")
        self.named = {"LD_PRELOAD": NAME_WRAPPER, "NSS_WRAPPER_HOSTS": str(names)}
        self.tree = directory / "tree"
        (self.tree / "below").mkdir(parents=True)
        for number in range(40):
            (self.tree / "below" / f"file-{number}").write_bytes(bytes([number]) * (1000 * number + 1))
        (self.tree / "large").write_bytes(os.urandom(24 << 20))

    def url(self, path: str = "", host: str = HOST) -> str:
        return f"smb://{self.user}@{host}:{self.server.port}/files{path}"

    def trunkline(self, *words: object, ticket: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run our program with a ticket."""
        environment = {**os.environ, **self.named, **(self.ticket if ticket is None else ticket)}
        return subprocess.run([servers.program(), *map(str, words)], env=environment, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=LIMIT_S, check=False)

    def case(self, name: str, work: Callable[[], str | None]) -> None:
        """Run a case and count it."""
        self.tally.case(f"{self.server.kind}: {name}", work)

    def there_and_back(self, *options: object, ticket: dict[str, str] | None = None) -> None:
        """Copy the tree to the share and back, and compare."""
        back = self.directory / "back"
        for source, target in ((self.tree, self.url("/copied")), (self.url("/copied"), back)):
            done = self.trunkline("copy", source, target, "--kerberos", *options, ticket=ticket)
            # robocopy's status: files were copied.
            if done.returncode != 1:
                raise CaseFailed(f"copy ended with {done.returncode}: {(done.stderr or done.stdout)[-400:]}")
        compared = filecmp.cmpfiles(self.tree, back, ["large", *(f"below/file-{n}" for n in range(40))], shallow=False)
        shutil.rmtree(back)
        shutil.rmtree(self.server.share_directory("files") / "copied")
        if compared[1] or compared[2]:
            raise CaseFailed(f"differing: {compared[1:]}")

    def copies(self) -> None:
        """Copies that must go well."""
        cache = self.ticket["KRB5CCNAME"].removeprefix("FILE:")
        without = {"KRB5_CONFIG": self.ticket["KRB5_CONFIG"], "KRB5CCNAME": f"FILE:{self.directory}/none"}
        self.case("copy by the ticket of the environment", self.there_and_back)
        self.case("copy by --ccache", lambda: self.there_and_back("--ccache", cache, ticket=without))
        self.case("copy by --keytab", lambda: self.there_and_back("--keytab", self.keytab, "--principal", f"{self.user}@{self.realm.name}",
                                                                  ticket=without))
        self.case("copy over four channels", lambda: self.there_and_back("--channels", 4))
        self.case("copy, sealed", lambda: self.there_and_back("--encrypt", "--channels", 2))
        self.case("copy beyond the life of a ticket", self.beyond_a_ticket)

    def beyond_a_ticket(self) -> None:
        """A copy outlives its ticket and goes on with a new one of the same cache, or of the keytab."""
        done = self.realm.log_on(self.user, self.password, self.directory / "short", "-l", f"{SHORT_LIFE_S}s")
        ends = self.server.ticket_ends() if self.server.kind == "trunkline" else (0, 0)
        rate = (24 << 20) // LONG_COPY_S
        command = [servers.program(), "copy", str(self.tree / "large"), self.url("/long"), "--kerberos", "--rate", str(rate)]
        begun = time.monotonic()
        process = subprocess.Popen(command, env={**os.environ, **self.named, **done}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        try:
            time.sleep(SHORT_LIFE_S / 2)
            self.realm.log_on(self.user, self.password, self.directory / "short")
            said, _ = process.communicate(timeout=LIMIT_S)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        took = time.monotonic() - begun
        if process.returncode != 1:
            raise CaseFailed(f"copy ended with {process.returncode} after {took:.1f} s: {said[-400:]}")
        if took < SHORT_LIFE_S + CLOCK_SKEW_S + 1:
            raise CaseFailed(f"the copy took only {took:.1f} s")
        copied = self.server.share_directory("files") / "long"
        if not filecmp.cmp(self.tree / "large", copied, shallow=False):
            raise CaseFailed("the copy differs")
        copied.unlink()
        if self.server.kind == "trunkline":
            expired, renewed = (now - before for now, before in zip(self.server.ticket_ends(), ends, strict=True))
            if not 1 <= expired <= renewed:
                raise CaseFailed(f"{expired} sessions were told that their ticket has ended, and {renewed} were authenticated again")

    def loads(self) -> None:
        """`load` in each kind of protection."""
        for name, options in (("signed", ["--signing", "gmac"]), ("plain", []), ("two channels", ["--channels", "2"]),
                              *((f"sealed with {c}", ["--encryption", c]) for c in ("aes128gcm", "aes256gcm", "aes128ccm", "aes256ccm"))):
            self.case(f"load, {name}", partial(self.load, options))

    def load(self, options: list[str]) -> None:
        done = self.trunkline("load", self.url(), "--kerberos", "--rw", "write", "--bs", "64k", "--filesize", "4m", "--runtime", "300ms",
                              "--ramp-time", "0s", "--json", *options)
        if done.returncode:
            raise CaseFailed(f"load ended with {done.returncode}: {done.stderr[-400:]}")
        if not json.loads(done.stdout):
            raise CaseFailed("no report")

    def doctor(self, *words: object, host: str = HOST, ticket: dict[str, str] | None = None) -> dict[str, Any]:
        done = self.trunkline("doctor", self.url(host=host), "--kerberos", "--quick", "--json", *words, ticket=ticket)
        if not done.stdout:
            raise CaseFailed(f"the doctor ended with {done.returncode}: {done.stderr[-400:]}")
        return json.loads(done.stdout)

    def examined(self) -> None:
        """The doctor examines the share to its end."""
        stopped = self.doctor()["targets"][0]["facts"]["stopped"]
        if stopped:
            raise CaseFailed(f"the examination ended: {stopped}")

    def named_reason(self, wanted: str, host: str = HOST, ticket: dict[str, str] | None = None) -> None:
        """The doctor names a staged fault."""
        stopped = self.doctor(host=host, ticket=ticket)["targets"][0]["facts"]["stopped"] or {}
        if stopped.get("cause") != "ticket" or wanted not in stopped.get("why", ""):
            raise CaseFailed(f"not ended by the ticket with `{wanted}`: {stopped}")

    def reasons(self) -> None:
        """The reasons why there is no log-on with a ticket."""
        without = {**self.ticket, "KRB5CCNAME": f"FILE:{self.directory}/none"}
        self.case("doctor", self.examined)
        self.case("doctor: an address for a name", lambda: self.named_reason("call the server by its name", host="127.0.0.1"))
        self.case("doctor: no service in the KDC", lambda: self.named_reason(f"does not know the service `cifs/{STRANGER}`", host=STRANGER))
        self.case("doctor: no ticket", lambda: self.named_reason("get one with `kinit USER@REALM`", ticket=without))
        self.case("doctor: an expired ticket", self.expired)
        self.case("copy: no ticket", lambda: self.copy_refused("get one with `kinit -c FILE:", "--ccache", self.directory / "none"))
        self.case("copy: an address for a name", lambda: self.copy_refused("call the server by its name", host="127.0.0.1"))
        stranger = ["--keytab", self.keytab, "--principal", f"stranger@{self.realm.name}"]
        self.case("copy: a principal that is not in the keytab", lambda: self.copy_refused("klist -k", *stranger))
        self.case("copy: a KDC that is not there", self.without_kdc)
        self.realm.run(["kvno", f"cifs/{HOST}"], **self.ticket)
        for offset in ("+600", "-600"):
            late = {**self.ticket, **clock.off_by(offset, NAME_WRAPPER)}
            self.case(f"doctor: a clock that is off by {offset} s", partial(self.named_reason, "timedatectl", ticket=late))
        # The loader takes the first file with the library's name, and this one is no library.
        (self.directory / "no-library").mkdir()
        (self.directory / "no-library" / "libgssapi_krb5.so.2").touch()
        hidden = {**self.ticket, "LD_LIBRARY_PATH": str(self.directory / "no-library")}
        self.case("doctor: no library", lambda: self.named_reason("libgssapi-krb5-2", ticket=hidden))

    def copy_refused(self, wanted: str, *options: object, host: str = HOST, ticket: dict[str, str] | None = None) -> None:
        """A copy that must end with one line that says what to do."""
        done = self.trunkline("copy", self.tree, self.url("/copied", host), "--kerberos", *options, ticket=ticket)
        lines = done.stderr.strip().splitlines()
        if done.returncode in (0, 1) or len(lines) != 1 or wanted not in lines[0]:
            raise CaseFailed(f"copy ended with {done.returncode}, not in one line with `{wanted}`: {done.stderr[-600:]}")

    def without_kdc(self) -> None:
        """The realm's KDC is at a port where nobody listens."""
        config = self.directory / "no-kdc.conf"
        config.write_text(self.realm.config.read_text().replace(f":{self.realm.port}", f":{servers.free_port()}"))
        fresh = self.realm.log_on(self.user, self.password, self.directory / "without-service")
        self.copy_refused("no KDC of the realm answers", ticket={**fresh, "KRB5_CONFIG": str(config)})

    def expired(self) -> None:
        """A ticket that has ended."""
        ended = self.realm.log_on(self.user, self.password, self.directory / "ended", "-l", "1s")
        time.sleep(1.5 + CLOCK_SKEW_S)
        self.named_reason("kinit", ticket=ended)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", choices=servers.KINDS, action="append")
    arguments = parser.parse_args()
    servers.clean_up_when_told_to_end()
    lacking = realms.missing() + clock.missing()
    if lacking:
        skip_whole_suite(SUITE, f"{', '.join(lacking)} missing: run scripts/foreign")
    tally = Tally(SUITE)
    with tempfile.TemporaryDirectory(prefix="proof-kerberos-client-") as name:
        directory = Path(name)
        with Realm(directory / "realm", clock_skew_s=CLOCK_SKEW_S, without_pac=True) as realm:
            keytab, user_keytab = directory / "keytab", directory / "user.keytab"
            user, password = servers.accounts()[0]
            realm.add_user(user, password)
            realm.export_key(user, user_keytab)
            realm.add_service(f"cifs/{HOST}", keytab)
            ticket = realm.log_on(user, password, directory / "cache")
            for kind in arguments.server or servers.KINDS:
                server = servers.Server(kind, "default")
                server.variables = {"REALM": realm.name, "KEYTAB": str(keytab), "DOMAIN_HOST": HOST, "KRB5_CONFIG": str(realm.config)}
                (directory / kind).mkdir()
                try:
                    with server:
                        suite = Suite(tally, realm, server, directory / kind, ticket, user_keytab)
                        suite.copies()
                        suite.loads()
                        suite.reasons()
                        if tally.failed:
                            print(server.log(30))
                except servers.CannotStart as reason:
                    tally.add(reason.result, kind, str(reason))
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
