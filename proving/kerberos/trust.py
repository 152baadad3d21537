#!/usr/bin/env python3
"""Users of a trusted domain: two forests of Active Directory that trust each other, and a member of the first one.

    trust.py

Both controllers are Samba's, in one network namespace. eve of TRUSTED.EXAMPLE logs on to a server of CORP.EXAMPLE.
"""

import sys
import time
from pathlib import Path
from typing import Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server
from proving.harness.tally import Tally, skip_whole_suite
from proving.kerberos.active_directory import ADMINISTRATOR, MEMBER, PASSWORD, ActiveDirectory
from proving.kerberos.domain import MAPPING, PORT, Member, Served, Suite, expect, scratch
from proving.kerberos.network import RealmNetwork

TRUSTED, WORKGROUP = "TRUSTED.EXAMPLE", "TRUSTED"
FIRST_TRUSTED_ID = 200_000
DOMAIN_USERS = 513
FIRST, SECOND = "10.88.0.11", "10.88.0.21"


class SharedNetwork(RealmNetwork):
    """The network of another domain, to which a second one is added."""

    def __init__(self, other: RealmNetwork, realm: str) -> None:
        super().__init__(other.name)
        self._other, self._realm = other, realm
        self.is_own, self.member, self._files = True, other.member, other._files

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def address(self, number: int) -> str:
        return f"{self.prefix}{20 + number}"

    def write(self, name: str, text: str) -> None:
        """Add to the files of the other domain. Its name server asks the one of this domain."""
        file = self._files / name
        if name == "hosts":
            file.write_text(file.read_text() + text)
        elif name == "krb5.conf":
            file.write_text(file.read_text() + f"  .{self._realm.lower()} = {self._realm}\n  {self._realm.lower()} = {self._realm}\n"
                            f"[realms]\n  {self._realm} = {{\n    kdc = {SECOND}\n  }}\n")
        elif name == "resolv.conf":
            # The name server of the first domain asks that of the second one, which takes longer.
            file.write_text(file.read_text().replace("timeout:1", "timeout:5"))


class Case:
    """The clients and the server."""

    def __init__(self, first: ActiveDirectory, second: ActiveDirectory, member: Member) -> None:
        self.first, self.second, self.member = first, second, member
        self.host = f"{MEMBER}.{first.realm.lower()}"
        sid = second.tool("user", "show", "eve", "--attributes=objectSid").split("objectSid: ")[1].split()[0]
        self.eve, self.sid = sid, sid.rsplit("-", 1)[0]
        self.mapping = f'{MAPPING}trusted = ["{TRUSTED} {WORKGROUP} {self.sid} {FIRST_TRUSTED_ID}-299999"]\n'

    def run(self, principal: str, *command: object) -> str:
        cache = {"KRB5CCNAME": f"FILE:{self.member.state.parent}/ticket-{principal}"}
        self.first.network.run("kinit", principal, stdin=PASSWORD + "\n", variables=cache)
        done = self.first.network.run(*command, "-p", PORT, "--use-kerberos=required", "-N", variables=cache, check=False)
        return done.stdout + done.stderr

    def smbclient(self, principal: str, commands: str) -> str:
        return self.run(principal, "smbclient", f"//{self.host}/docs", "-c", commands)

    def logged_on(self) -> None:
        with Served(self.member, self.mapping) as served:
            said = self.smbclient(f"eve@{TRUSTED}", "put /etc/passwd of-eve")
            expect("NT_STATUS" not in said, f"{said}{served.log()[-800:]}")
            at = (served.share / "of-eve").stat()
            wanted = (FIRST_TRUSTED_ID + int(self.eve.rsplit("-", 1)[1]), FIRST_TRUSTED_ID + DOMAIN_USERS)
            expect((at.st_uid, at.st_gid) == wanted, f"it is of {at.st_uid}:{at.st_gid}, not {wanted}")
            expect('user="TRUSTED\\\\eve"' in served.log(), served.log()[-500:])
            shown = self.run(f"eve@{TRUSTED}", "rpcclient", self.host, "-c", f"lookupsids {self.eve}")
            expect(f"{self.eve} {WORKGROUP}\\eve (1)" in shown, shown)

    def by_group(self) -> None:
        with Served(self.member, self.mapping, users='{ "@TRUSTED\\\\crew" = "full" }') as served:
            said = self.smbclient(f"eve@{TRUSTED}", "ls")
            expect("NT_STATUS" not in said, f"{said}{served.log()[-800:]}")
            for other in (f"mallory@{TRUSTED}", "ann"):
                said = self.smbclient(other, "ls")
                expect("NT_STATUS_ACCESS_DENIED" in said, f"{other}: {said}")

    def by_password(self) -> None:
        """winbindd is asked about the own domain alone."""
        with Served(self.member, self.mapping) as served:
            for name in (f"{WORKGROUP}/eve", f"eve@{TRUSTED.lower()}"):
                done = self.first.network.run("smbclient", f"//{self.host}/docs", "-p", PORT, "--use-kerberos=off", "-U", f"{name}%{PASSWORD}",
                                              "-c", "ls", check=False)
                expect("NT_STATUS_NO_LOGON_SERVERS" in done.stdout + done.stderr, f"{name}: {done.stdout}{done.stderr}")
            lines = [line for line in served.log().splitlines() if f"{TRUSTED} log on with Kerberos alone" in line]
            expect(len(lines) == 2, served.log()[-800:])

    def not_trusted(self) -> None:
        with Served(self.member, MAPPING) as served:
            said = self.smbclient(f"eve@{TRUSTED}", "ls")
            lines = [line for line in served.log().splitlines() if "is of another realm" in line and "`trusted`" in line]
            expect("NT_STATUS_LOGON_FAILURE" in said and len(lines) == 1, f"{said}{lines}")


def main() -> int:
    """Run all cases."""
    server.clean_up_when_told_to_end()
    suite = "trust newer" if server.is_newer() else "trust"
    if reason := ActiveDirectory().missing():
        skip_whole_suite(suite, reason)
    tally, begun = Tally(suite), time.monotonic()
    users, crew = {name: {"password": PASSWORD} for name in ("eve", "mallory")}, {"crew": {"members": ["eve"]}}
    with scratch() as directory, \
            ActiveDirectory(users={"ann": {"password": PASSWORD}}, groups={}, options={"dns forwarder": SECOND}, has_smb=True) as first, \
            ActiveDirectory(users=users, groups=crew, options={"dns forwarder": FIRST}, has_smb=True, realm=TRUSTED, workgroup=WORKGROUP,
                            network=SharedNetwork(first.network, TRUSTED)) as second:
        first.tool("domain", "trust", "create", TRUSTED, "--type=forest", "--direction=both", "--create-location=both", "--skip-validation",
                   f"-U{ADMINISTRATOR}@{TRUSTED}%{PASSWORD}")
        print(f"        two domains that trust each other run after {time.monotonic() - begun:.1f} s", flush=True)
        member = Member(first.network.inside, directory)
        host = f"{MEMBER}.{first.realm.lower()}"
        member.must("join", first.realm, "--password-file", "-", "--host", host, "--computer-name", "FILES", stdin=PASSWORD)
        cases, case = Suite(tally, "trusted domain"), Case(first, second, member)
        cases.case("a user of it, by ticket", case.logged_on)
        cases.case("a share for a group of it", case.by_group)
        cases.case("NTLM of a user of it", case.by_password)
        cases.case("a domain that is not configured", case.not_trusted)
    return tally.close()


if __name__ == "__main__":
    sys.exit(main())
