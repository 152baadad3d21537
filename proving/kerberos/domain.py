#!/usr/bin/env python3
"""Join Active Directory and a plain Kerberos realm with `trunkline domain`, stage each fault and leave again.

    domain.py

The domain controller is Debian's Samba (GENERATION=newer: this year's) in a network namespace of its own, the plain
realm MIT's krb5kdc.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.doctor import stage
from proving.harness import server
from proving.harness.tally import Tally, skip_whole_suite
from proving.kerberos import realm as plain
from proving.kerberos import winbind
from proving.kerberos.active_directory import MEMBER, PASSWORD, WORKGROUP, ActiveDirectory
from proving.kerberos.members import member_cases
from proving.kerberos.network import Missing, end_process, environment

SUITE = "domain"
# The most that a join may take (number 1 of the issue), and a command with a dead controller beside one that answers.
JOIN_S = 10.0
DEAD_S = 5.0
# The most that a lookup may take that nobody answers: 5 s, and the program's start.
SILENT_S = 6.0
# Ten minutes, which Kerberos does not allow.
AHEAD_S = 600
COMMAND_S = 60
# The port of the server in the network of the domain, which has no other one at work.
PORT = 4450
# The first id of the domain, and the relative identifier of Domain Users.
FIRST_ID, DOMAIN_USERS = 100_000, 513
MAPPING = f'id_mapping = "rid"\nid_range = "{FIRST_ID}-199999"\n'
# Ids by the attributes of the directory (active_directory.USERS).
ATTRIBUTES = 'id_mapping = "rfc2307"\nid_range = "20000-29999"\n'


class Member:
    """The server's commands, in the network of a realm, with a state directory of its own. `inside` turns a command
    line into one that runs there."""

    def __init__(self, inside: Callable[[list[str]], list[str]], directory: Path) -> None:
        self.inside, self.state = inside, directory / "state"
        self.keytab = self.state / "krb5.keytab"

    def run(self, *words: object, stdin: str = "", preload: Path | None = None, more: dict[str, str] | None = None,
            ) -> subprocess.CompletedProcess[str]:
        """Run `trunkline domain WORDS`, with `more` variables."""
        command = [server.program(), "domain", *map(str, words), "--state-dir", str(self.state)]
        variables = {"LD_PRELOAD": str(preload)} if preload else {}
        variables |= more or {}
        # The preloaded clock is for our program and its children, not for `ip`.
        before = ["env", *(f"{name}={value}" for name, value in variables.items())]
        return subprocess.run(self.inside([*before, *command]), capture_output=True, text=True, timeout=COMMAND_S, input=stdin,
                              env=environment())

    def must(self, *words: object, stdin: str = "") -> str:
        """Run a command that must succeed and return its output."""
        done = self.run(*words, stdin=stdin)
        if done.returncode:
            raise RuntimeError(f"domain {words[0]} ended with {done.returncode}: {done.stderr.strip() or done.stdout.strip()}")
        return done.stdout

    def steps(self, preload: Path | None = None) -> dict[str, dict[str, Any]]:
        """Run `domain test` and return its steps by name."""
        done = self.run("test", "--json", preload=preload)
        if not done.stdout:
            raise RuntimeError(f"domain test ended with {done.returncode}: {done.stderr.strip()}")
        steps = {step["step"]: step for step in json.loads(done.stdout)}
        whole = all(step["result"] in ("works", "remark") for step in steps.values())
        if whole != (done.returncode == 0):
            raise RuntimeError(f"domain test ended with {done.returncode} although its steps are {steps}")
        return steps

    def lookup(self, account: object, domain: str, *more: str) -> tuple[subprocess.CompletedProcess[str], float]:
        """Run `trunkline domain lookup` with these lines of [domain], and return its end and its time."""
        config = self.state.parent / "lookup.toml"
        config.write_text(f'[server]\nstate_dir = "{self.state}"\n[domain]\n{domain}')
        begun = time.monotonic()
        command = self.inside([server.program(), "domain", "lookup", str(account), "--json", "--config", str(config), *more])
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, env=environment())
        return done, time.monotonic() - begun

    def found(self, account: object, domain: str, *more: str) -> dict[str, Any]:
        """Return the account that `trunkline domain lookup` must find."""
        done, _ = self.lookup(account, domain, *more)
        expect(done.returncode == 0, f"{account}: {done.stderr}")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def status(self) -> dict[str, Any]:
        """Return the report of `domain status`."""
        found: dict[str, Any] = json.loads(self.must("status", "--json"))
        return found


def expect(is_so: bool, what: object) -> None:
    """Fail a case."""
    if not is_so:
        raise AssertionError(str(what))


def expect_fault(steps: dict[str, dict[str, Any]], name: str, *words: str) -> None:
    """Fail a case unless the step `name` is a fault whose texts have all `words`."""
    step = steps.get(name, {})
    text = f"{step.get('seen')} / {step.get('mend')}"
    expect(step.get("result") == "fault" and all(word in text for word in words), f"{name} is not a fault with {words}: {steps}")


def expect_whole(steps: dict[str, dict[str, Any]]) -> None:
    """Fail a case unless each step works."""
    expect(all(step["result"] in ("works", "remark") for step in steps.values()), steps)


class Suite:
    """The cases of one realm, in order. One that fails does not keep the others from running."""

    def __init__(self, tally: Tally, title: str) -> None:
        self.tally, self.title = tally, title

    def case(self, name: str, work: Callable[[], str | None]) -> None:
        """Run a case and count it."""
        self.tally.case(f"{self.title}: {name}", work)


class Served:
    """The joined server, with the share `docs`; a context manager. `domain` are lines of [domain], `users` the share's.
    `server_lines` are more of [server], `share_lines` of the share, and `more` further tables."""

    def __init__(self, member: Member, domain: str = "", users: str = '{ "*" = "full" }', spn: str = "required",
                 name: str = "files", port: int = PORT, server_lines: str = "", share_lines: str = "", more: str = "") -> None:
        directory = member.state.parent
        self.share, self._log = directory / "docs", directory / "serve.log"
        self.share.mkdir(exist_ok=True)
        self.share.chmod(0o777)
        directory.chmod(0o755)
        config = directory / "trunkline.toml"
        config.write_text(f'[server]\nname = "{name}"\nsmb_port = {port}\nstate_dir = "{member.state}"\ndiscovery = false\n'
                          f'spn = "{spn}"\nspn_names = []\n{server_lines}[domain]\n{domain}[share.docs]\npath = "{self.share}"\nusers = {users}\n'
                          f"{share_lines}{more}")
        with self._log.open("wb") as log:
            command = member.inside(["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(directory / "pid"), server.program(), "serve",
                                     "--config", str(config)])
            self._process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment())
        until = time.monotonic() + COMMAND_S
        while "serving shares" not in self.log():
            if time.monotonic() > until or self._process.poll() is not None:
                self.__exit__()
                raise RuntimeError(f"the server does not start: {self.log()[-500:]}")
            time.sleep(0.05)
        self.pid = int((directory / "pid").read_text())

    def log(self) -> str:
        """Return its log."""
        return self._log.read_text(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        end_process(self._process, 20)


def user_cases(suite: Suite, domain: ActiveDirectory, member: Member) -> None:
    """The log-ons of users who are no local ones, by the PAC of their tickets."""
    host = f"{MEMBER}.{domain.realm.lower()}"

    def relative_id(kind: str, name: str) -> int:
        shown = domain.tool(kind, "show", name, "--attributes=objectSid")
        return int(shown.split("objectSid: ")[1].split()[0].rsplit("-", 1)[1])

    def smbclient(user: str, commands: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        cache = {"KRB5CCNAME": f"FILE:{member.state.parent}/ticket-{user}"}
        domain.network.run("kinit", user, stdin=PASSWORD + "\n", variables=cache)
        return domain.network.run("smbclient", f"//{host}/docs", "-p", PORT, "--use-kerberos=required", "-N",
                                  *(["-c", commands] if commands else []), variables=cache, check=False, stdin=stdin)

    def well(user: str, commands: str) -> str:
        done = smbclient(user, commands)
        expect(done.returncode == 0 and "NT_STATUS" not in done.stdout + done.stderr, f"{user}: {done.stdout}{done.stderr}")
        return done.stdout

    def refused(user: str, served: Served, status: str, *words: str) -> None:
        done = smbclient(user, "ls")
        expect(done.returncode != 0 and status in done.stdout + done.stderr, f"{user}: {done.stdout}{done.stderr}")
        expect(any(all(word in line for word in words) for line in served.log().splitlines()), served.log()[-800:])

    def unmapped() -> None:
        with Served(member) as served:
            refused("carl", served, "NT_STATUS_LOGON_FAILURE", "trunkline user add carl", "`id_mapping =", "`id_range =")

    def mapped() -> None:
        with Served(member, MAPPING) as served:
            text = well("carl", "put /etc/passwd copy; get copy -; mkdir carls")
            expect(Path("/etc/passwd").read_text() in text, "another text came back")
            wanted = (FIRST_ID + relative_id("user", "carl"), FIRST_ID + DOMAIN_USERS)
            for name in ("copy", "carls"):
                at = (served.share / name).stat()
                expect((at.st_uid, at.st_gid) == wanted, f"{name} is of {at.st_uid}:{at.st_gid}, not {wanted}")
            expect('user="CORP\\\\carl"' in served.log(), served.log()[-500:])
            expect("unknown server" not in served.log(), served.log()[-800:])

    def groups() -> None:
        with Served(member, MAPPING) as served:
            below = served.share / "painted"
            below.mkdir()
            os.chown(below, 0, FIRST_ID + relative_id("group", "painters"))
            below.chmod(0o770)
            well("ann", "cd painted; put /etc/passwd copy")
            nested = served.share / "staff"
            nested.mkdir()
            os.chown(nested, 0, FIRST_ID + relative_id("group", "staff"))
            nested.chmod(0o770)
            # painters are members of staff.
            well("ann", "cd staff; put /etc/passwd copy")
            done = smbclient("carl", "cd painted; put /etc/passwd other")
            expect("NT_STATUS_ACCESS_DENIED" in done.stdout + done.stderr, f"{done.stdout}{done.stderr}")
            expect(not (below / "other").exists() and not (served.share / "other").exists(), "carl has written")

    def small_range() -> None:
        with Served(member, f'id_mapping = "rid"\nid_range = "{FIRST_ID}-{FIRST_ID + 600}"\n') as served:
            refused("carl", served, "NT_STATUS_LOGON_FAILURE", "carl@CORP.EXAMPLE", "`id_range`", "too small")

    def by_name() -> None:
        with Served(member, MAPPING, users='{ "CORP\\\\ann" = "full" }') as served:
            well("ann", "ls")
            refused("carl", served, "NT_STATUS_ACCESS_DENIED")

    def by_group() -> None:
        # Nested: painters, whose member ann is, are members of staff.
        for form in ("@CORP\\\\staff", "@staff@corp.example"):
            with Served(member, MAPPING, users=f'{{ "{form}" = "full" }}') as served:
                well("ann", "ls")
                refused("carl", served, "NT_STATUS_ACCESS_DENIED")
                expect("does not know" not in served.log(), served.log()[-800:])
        # A name without `@` is none of a group.
        for form in ("CORP\\\\staff", "staff@corp.example"):
            with Served(member, MAPPING, users=f'{{ "{form}" = "full" }}') as served:
                refused("ann", served, "NT_STATUS_ACCESS_DENIED")
                expect("staff is a group: write @CORP" in served.log(), served.log()[-800:])

    def names() -> None:
        with Served(member, MAPPING):
            well("carl", "ls")
            cache = {"KRB5CCNAME": f"FILE:{member.state.parent}/ticket-carl"}
            sid = member.status()["domain_sid"]
            dora, painters = (f"{sid}-{relative_id(*of)}" for of in (("user", "dora"), ("group", "painters")))
            # Nobody has asked for these accounts before, and the first answer has them.
            for question, wanted in ((f"lookupsids {dora} {painters}", (f"{dora} CORP\\dora (1)", f"{painters} CORP\\painters (2)")),
                                     ("lookupnames bob painters", (f"{sid}-{relative_id('user', 'bob')} (User: 1)",
                                                                          f"{painters} (Domain Group: 2)"))):
                shown = domain.network.run("rpcclient", host, "-p", PORT, "--use-kerberos=required", "-N", "-c", question, variables=cache,
                                           check=False)
                expect(all(text in shown.stdout for text in wanted), f"{question}: {shown.stdout}{shown.stderr}")

    def reloaded() -> None:
        with Served(member, MAPPING) as served:
            # Commands of the shell work only in those that smbclient reads line by line.
            done = smbclient("carl", "", f"put /etc/passwd before\n!kill -HUP {served.pid}; sleep 2\nput /etc/passwd after\n")
            expect((served.share / "after").exists() and done.returncode == 0, f"{done.stdout}{done.stderr}")
            expect("configuration read again" in served.log() and served.log().count("logged on") == 1, served.log()[-800:])

    def lookups() -> str:
        begun, sid = time.monotonic(), member.status()["domain_sid"]
        ann = f"{sid}-{relative_id('user', 'ann')}"
        for mapping, uid, gid in ((ATTRIBUTES, 20_001, 20_000), (MAPPING, FIRST_ID + int(ann.rsplit("-", 1)[1]), FIRST_ID + DOMAIN_USERS)):
            records = [member.found(account, mapping) for account in ("CORP\\ann", "ANN@corp.example", ann, uid)]
            expect(all(it == records[0] for it in records), records)
            found = records[0]
            expect((found["name"], found["sid"], found["uid"], found["gid"]) == ("CORP\\ann", ann, uid, gid), found)
            # painters and, since those are members of it, staff.
            groups = {group["sid"] for group in found["groups"]}
            wanted = {f"{sid}-{relative_id('group', name)}" for name in ("painters", "staff", "unixusers")} | {f"{sid}-{DOMAIN_USERS}"}
            expect(groups == wanted, f"{groups} are not {wanted}")
        staff = f"{sid}-{relative_id('group', 'staff')}"
        for account in ("CORP\\staff", staff, 20_101):
            found = member.found(account, ATTRIBUTES, "--group")
            expect((found["sid"], found["gid"]) == (staff, 20_101), found)
        done, _ = member.lookup("CORP\\dora", ATTRIBUTES)
        expect(done.returncode == 1 and "has no id: the directory has no `uidNumber`" in done.stderr, done)
        done, _ = member.lookup("CORP\\nobody-there", ATTRIBUTES)
        expect(done.returncode == 1 and "neither the directory nor the host" in done.stderr, done)
        done, _ = member.lookup("CORP\\staff", ATTRIBUTES)
        expect(done.returncode == 1 and "it is a group" in done.stderr, done)
        return f"13 lookups took {time.monotonic() - begun:.1f} s"

    def attributes() -> None:
        with Served(member, ATTRIBUTES) as served:
            well("carl", "put /etc/passwd attributed")
            at = (served.share / "attributed").stat()
            expect((at.st_uid, at.st_gid) == (20_003, 20_000), f"it is of {at.st_uid}:{at.st_gid}")
            below = served.share / "shared"
            below.mkdir()
            os.chown(below, 0, 20_101)
            below.chmod(0o770)
            well("ann", "cd shared; put /etc/passwd copy")
            refused("dora", served, "NT_STATUS_LOGON_FAILURE", "dora@CORP.EXAMPLE", "`uidNumber`")

    def table() -> None:
        file = member.state.parent / "ids"
        sid = member.status()["domain_sid"]
        file.write_text(f"user {sid}-{relative_id('user', 'ann')} 31001\ngroup {sid}-{DOMAIN_USERS} 31002\n")
        with Served(member, f'id_mapping = "table"\nid_file = "{file}"\n') as served:
            well("ann", "put /etc/passwd tabled")
            at = (served.share / "tabled").stat()
            expect((at.st_uid, at.st_gid) == (31_001, 31_002), f"it is of {at.st_uid}:{at.st_gid}")
            refused("carl", served, "NT_STATUS_LOGON_FAILURE", "carl@CORP.EXAMPLE", "`id_file`", "no line")

    suite.case("an account by name, UPN, SID and id", lookups)
    suite.case("a user of the domain without an id mapping", unmapped)
    suite.case("a user of the domain by the PAC alone", mapped)
    suite.case("ids from attributes of the directory", attributes)
    suite.case("ids from a table", table)
    suite.case("groups of the PAC, nested ones too", groups)
    suite.case("a user outside of the range", small_range)
    suite.case("a share for one user of the domain", by_name)
    suite.case("a share for a group of the domain, with groups in it", by_group)
    suite.case("names of the domain for SIDs", names)
    suite.case("a session of a user of the domain over a reload", reloaded)


def winbind_cases(suite: Suite, domain: ActiveDirectory, directory: Path) -> None:
    """The log-ons with NTLM, through a winbindd that is a member of its own."""
    if not winbind.is_there():
        suite.tally.add("skip", f"{suite.title}: NTLM through winbindd", "needs the Debian packages winbind and samba-common-bin")
        return
    shown = domain.tool("user", "show", "bob", "--attributes=objectSid")
    sid = shown.split("objectSid: ")[1].split()[0].rsplit("-", 1)[0]

    def serve(by: winbind.Winbind, more: str) -> Served:
        settings = (f'realm = "{domain.realm}"\nnetbios_name = "{domain.workgroup}"\ndomain_sid = "{sid}"\nkeytab = "{by.keytab}"\n'
                    f"{'' if 'id_mapping' in more else MAPPING}{more}")
        member = Member(by.inside, directory)
        return Served(member, settings, name=winbind.NAME)

    directory.mkdir()
    with winbind.Winbind(domain, directory / "winbind") as daemon:
        winbind.ntlm_cases(suite, daemon, serve, PORT)


def directory_cases(suite: Suite, domain: ActiveDirectory, member: Member) -> None:
    """The cases of Active Directory."""
    host, alias = f"{MEMBER}.{domain.realm.lower()}", f"nas.{domain.realm.lower()}"
    network, spare = domain.network, member.state.parent / "spare.keytab"

    def join(*more: object) -> float:
        begun = time.monotonic()
        member.must("join", domain.realm, "--password-file", "-", "--host", host, "--computer-name", "FILES", *more, stdin=PASSWORD)
        return time.monotonic() - begun

    def joined() -> str:
        took = join("--name", alias)
        found = member.status()
        expect(found["account"] == "FILES$" and found["netbios_name"] == WORKGROUP, found)
        expect({host, "files", alias} <= set(found["names"]), found["names"])
        expect(member.keytab.stat().st_mode & 0o777 == 0o600, "others may read the keytab")
        expect_whole(member.steps())
        expect(took <= JOIN_S, f"the join took {took:.1f} s")
        return f"joined after {took:.1f} s"

    def refused() -> None:
        other = Member(network.inside, member.state.parent / "other")
        done = other.run("join", domain.realm, "--password-file", "-", "--host", host, stdin="wrong")
        expect(done.returncode == 2 and "the password is wrong" in done.stderr, done)
        expect(len(done.stderr.strip().splitlines()) == 2 or len(done.stderr.strip().splitlines()) == 1, done.stderr)
        expect(not other.keytab.exists() and other.status()["realm"] is None, "something was left")

    def clock() -> None:
        with stage.other_clock(AHEAD_S) as library:
            expect_fault(member.steps(library), "clock", "ahead of", "set the clock")
            done = member.run("join", domain.realm, "--password-file", "-", stdin=PASSWORD, preload=library)
            expect(done.returncode == 2 and "set the clock" in done.stderr, done)

    def missing_name() -> None:
        domain.tool("spn", "delete", f"cifs/{alias}", "FILES$")
        expect_fault(member.steps(), f"cifs/{alias}", f"no service principal cifs/{alias}", "trunkline domain join")
        join("--name", alias)
        expect_whole(member.steps())

    def renewal() -> None:
        before = {key["kvno"] for key in member.status()["keys"]}
        # A client's ticket of the key before the renewal.
        cache = {"KRB5CCNAME": f"FILE:{member.state.parent}/old"}
        network.run("kinit", "ann", stdin=PASSWORD + "\n", variables=cache)
        network.run("kvno", f"cifs/{host}", variables=cache)
        member.must("renew")
        after = {key["kvno"] for key in member.status()["keys"]}
        # All were replaced in the last 8 days.
        expect(after == before | {max(before) + 1}, f"versions {before} became {after}")
        opened = network.run("kvno", "--cached-only", "-k", member.keytab, f"cifs/{host}", variables=cache).stdout
        expect("keytab entry valid" in opened, opened)
        expect_whole(member.steps())
        expect("stays" in member.must("renew", "--older-than-days", 30), "a new password was replaced")

    def old_keys() -> None:
        domain.tool("user", "setpassword", "FILES$", "--newpassword=Another-pass-9")
        expect_fault(member.steps(), "ticket", "not those of the realm any more", "trunkline domain join", "--take-over")
        # Only the key proves that the account is the server's still.
        done = member.run("join", domain.realm, "--password-file", "-", "--host", host, stdin=PASSWORD)
        expect(done.returncode == 2 and "Preauthentication failed" in done.stderr and "--take-over" in done.stderr, done)
        done = member.run("leave", "--password-file", "-", stdin=PASSWORD)
        expect(done.returncode == 2 and "Preauthentication failed" in done.stderr and "--keep-account" in done.stderr, done)
        expect("FILES$" in domain.tool("computer", "list") and member.keytab.exists(), "the account of another host is gone")
        join("--take-over", "--name", alias)
        expect_whole(member.steps())

    def lost_keytab() -> None:
        member.keytab.rename(spare)
        try:
            expect_fault(member.steps(), "keytab", "no such file", "trunkline domain join")
        finally:
            spare.rename(member.keytab)

    def dead_controller() -> str:
        network.add(domain.network.address(2))
        dead = f"dead.{domain.realm.lower()}"
        dns, zone = ("dns", "add", domain.controllers[0].host), domain.realm.lower()
        logon = (f"-UAdministrator%{PASSWORD}",)
        domain.tool(*dns, zone, "dead", "A", domain.network.address(2), *logon)
        # The others still give tickets for it.
        domain.tool("spn", "add", f"ldap/{dead}", "dc1$")
        for of, name in ((zone, "_kerberos._udp"), (zone, "_kerberos._tcp"), (zone, "_ldap._tcp"), (f"_msdcs.{zone}", "_ldap._tcp.dc")):
            # The smaller priority is tried first.
            domain.tool(*dns, of, name, "SRV", f"{dead} {389 if 'ldap' in name else 88} 0 200", *logon)
        # Neither an answer nor a refusal comes from an address that drops packets.
        network.run("nft", "-f", "-", stdin=f"table inet dead {{ chain in {{ type filter hook input priority 0; "
                    f"ip daddr {domain.network.address(2)} drop\n}}\n}}\n")
        try:
            begun = time.monotonic()
            steps = member.steps()
            took = time.monotonic() - begun
            expect_whole(steps)
            expect(steps["kdc"]["result"] == "remark" and dead in steps["kdc"]["seen"], steps["kdc"])
            looked, looked_s = member.lookup("CORP\\ann", ATTRIBUTES)
            expect(looked.returncode == 0 and 1 < looked_s <= DEAD_S, f"a lookup took {looked_s:.1f} s: {looked.stderr}")
            again = join("--name", alias)
            expect(took <= DEAD_S and again <= JOIN_S, f"the test took {took:.1f} s, a join {again:.1f} s")
            return f"with a dead controller first the test took {took:.1f} s, a lookup {looked_s:.1f} s, a join {again:.1f} s"
        finally:
            network.run("nft", "delete", "table", "inet", "dead")

    def left() -> None:
        member.must("leave", "--password-file", "-", stdin=PASSWORD)
        expect(not member.keytab.exists() and member.status()["realm"] is None, "settings or keytab are left")
        expect("FILES$" not in domain.tool("computer", "list"), "the account is left")
        beside = [path.name for path in member.keytab.parent.glob(".krb5.keytab*")]
        expect(not beside, f"{beside} are left")

    def silent() -> None:
        join()
        domain.controllers[0].end()
        looked, looked_s = member.lookup("CORP\\ann", ATTRIBUTES)
        expect(looked.returncode == 2 and "does not answer" in looked.stderr and looked_s <= SILENT_S, f"{looked_s:.1f} s: {looked.stderr}")
        expect_fault(member.steps(), "dns", "no name server", "/etc/resolv.conf")
        done = member.run("leave", "--password-file", "-", stdin=PASSWORD)
        expect(done.returncode == 2 and "--keep-account" in done.stderr and member.keytab.exists(), done)
        member.must("leave", "--keep-account")
        expect(member.status()["realm"] is None, "settings are left")

    suite.case("join from nothing", joined)
    suite.case("a wrong password", refused)
    suite.case("a clock that is ten minutes ahead", clock)
    owner_cases(suite, domain, member)
    user_cases(suite, domain, member)
    member_cases(suite, domain, member, MAPPING, Served)
    winbind_cases(suite, domain, member.state.parent / "ntlm")
    suite.case("a missing service principal", missing_name)
    suite.case("keys renewed beside the old ones", renewal)
    suite.case("keys that the domain has replaced", old_keys)
    suite.case("a lost keytab", lost_keytab)
    suite.case("a dead controller before one that answers", dead_controller)
    suite.case("leave", left)
    suite.case("no controller at all", silent)


def other_adcli(directory: Path, script: str) -> str:
    """Return a PATH on which `adcli` runs `script` first, with its words in "$*"."""
    own = directory / "programs"
    own.mkdir(exist_ok=True)
    (own / "adcli").write_text(f'#!/bin/sh\n{script}\nexec {shutil.which("adcli")} "$@"\n')
    (own / "adcli").chmod(0o755)
    return f"{own}:{os.environ['PATH']}"


def owner_cases(suite: Suite, domain: ActiveDirectory, member: Member) -> None:
    """The accounts and names of others, which no join takes. `member` has joined as FILES$."""
    zone, base = domain.realm.lower(), member.state.parent
    # A relative state directory, as people write it.
    other = Member(domain.network.inside, Path(os.path.relpath(base / "printer")))

    def join(by: Member, *more: object) -> subprocess.CompletedProcess[str]:
        return by.run("join", domain.realm, "--password-file", "-", *more, stdin=PASSWORD)

    def password_time(computer: str) -> str:
        return domain.tool("computer", "show", computer, "--attributes=pwdLastSet")

    def refused(by: Member, computer: str, words: tuple[str, ...], *more: object) -> None:
        before = password_time(computer)
        done = join(by, "--computer-name", computer, "--host", f"printer.{zone}", *more)
        expect(done.returncode == 2 and all(word in done.stderr for word in words), done)
        expect(password_time(computer) == before, f"the password of {computer} was replaced")
        expect(by.status()["realm"] is None and not by.keytab.exists(), "something was left")

    def controller() -> None:
        refused(other, "DC1", ("DC1$ is the account of a domain controller", "--computer-name"), "--take-over")

    def other_host() -> None:
        refused(other, "FILES", ("FILES$ already for the host", "--take-over"))
        domain.tool("computer", "create", "PRINTER")
        refused(other, "PRINTER", ("PRINTER$ already", "--take-over"))
        done = join(other, "--computer-name", "PRINTER", "--host", f"printer.{zone}.", "--take-over", "--user", f"{WORKGROUP}\\Administrator")
        expect(done.returncode == 0, done)
        expect(other.status()["keytab"].startswith("/"), other.status())
        # A rejoin is the server's own, also by the name alone and after the keytab is lost.
        done = join(other, "--host", f"printer.{zone}", "--user", f"Administrator@{zone}")
        expect(done.returncode == 0 and other.status()["account"] == "PRINTER$", done)
        other.keytab.unlink()
        done = join(other, "--computer-name", "PRINTER", "--host", f"printer.{zone}")
        expect(done.returncode == 0, done)
        expect_whole(other.steps())

    def ended_by_signal() -> None:
        temporary, killed = base / "temporary", Member(domain.network.inside, base / "killed")
        temporary.mkdir()
        for signal in ("TERM", "KILL"):
            script = f'kill -{signal} "$PPID"\nwhile kill -0 "$PPID"; do sleep 0.05; done 2>&-\nexit 1'
            path = other_adcli(base, f'ls "$TMPDIR"/trunkline-domain-*/cache >"$TMPDIR/seen"\n{script}')
            done = killed.run("join", domain.realm, "--password-file", "-", "--computer-name", "KILLED", stdin=PASSWORD,
                              more={"PATH": path, "TMPDIR": str(temporary)})
            expect(done.returncode != 0 and (temporary / "seen").read_text() != "", f"{signal}: {done}")
            left = list(temporary.glob("trunkline-domain-*"))
            # Nobody hears SIGKILL. The next run removes what it leaves.
            expect(len(left) == (signal == "KILL"), f"{signal}: {left}")
            expect("KILLED$" not in domain.tool("computer", "list"), "the account was made")
        killed.run("join", domain.realm, "--password-file", "-", stdin="wrong", more={"TMPDIR": str(temporary)})
        expect(not list(temporary.glob("trunkline-domain-*")), "what SIGKILL left is still there")

    def other_name() -> None:
        before = member.status()
        domain.tool("computer", "create", "OLDNAS")
        domain.tool("spn", "add", f"host/oldnas.{zone}", "OLDNAS$")
        done = join(member, "--name", f"oldnas.{zone}")
        expect(done.returncode == 2 and "OLDNAS$" in done.stderr and "setspn -D" in done.stderr, done)
        expect(member.status()["keys"] == before["keys"], "the keys were replaced")
        domain.tool("computer", "delete", "OLDNAS")
        done = join(member, "--host", f"{MEMBER}.{zone}", "--name", f"oldnas.{zone}.")
        expect(done.returncode == 0 and f"oldnas.{zone}" in member.status()["names"], done)

    def lost_name() -> None:
        # The name stays if it cannot be taken away, but the new keys count.
        path = other_adcli(base, 'case "$*" in *--remove-service-principal*) echo "adcli: it broke" >&2; exit 1;; esac')
        before = member.status()
        done = member.run("join", domain.realm, "--password-file", "-", "--host", f"{MEMBER}.{zone}", "--remove-name", f"oldnas.{zone}",
                          stdin=PASSWORD, more={"PATH": path})
        expect(done.returncode == 0 and "it broke; all else is done; run the command again" in done.stderr, done)
        after = member.status()
        expect(sorted(after["names"]) == sorted(before["names"]) and after["keys"] != before["keys"], after)
        expect_whole(member.steps())
        done = join(member, "--host", f"{MEMBER}.{zone}", "--remove-name", f"oldnas.{zone}")
        expect(done.returncode == 0 and f"oldnas.{zone}" not in member.status()["names"], done)
        expect("oldnas" not in domain.tool("spn", "list", "FILES$").lower(), "a service principal is left")
        # Nor does it come back with the next join.
        done = join(member, "--host", f"{MEMBER}.{zone}")
        expect(done.returncode == 0 and f"oldnas.{zone}" not in member.status()["names"], done)
        expect(f"nas.{zone}" in member.status()["names"], member.status()["names"])
        expect_whole(member.steps())
        done = join(member, "--remove-name", f"oldnas.{zone}")
        expect(done.returncode == 2 and "no name of the server" in done.stderr, done)

    def brought() -> None:
        sharer, shared = Member(domain.network.inside, base / "sharer"), base / "shared.keytab"
        shutil.copy(other.keytab, shared)
        done = sharer.run("join", domain.realm, "--keytab", shared)
        expect(done.returncode == 0 and "note" not in done.stderr, done)
        found = sharer.status()
        expect(found["netbios_name"] == WORKGROUP and str(found["domain_sid"]).startswith("S-1-5-21-"), found)
        done = sharer.run("renew")
        expect(done.returncode == 2 and "winbindd" in done.stderr and "--force" in done.stderr, done)
        expect(sharer.status()["keys"] == found["keys"], "the keys were replaced")
        expect("added" in sharer.must("renew", "--force"), "no new key")
        sharer.must("leave")
        expect(shared.exists() and "PRINTER$" in domain.tool("computer", "list"), "what was brought is gone")
        expect(not list(base.glob(".shared.keytab*")), "something lies beside the keytab")
        # The keytab of the earlier join stays until the server leaves.
        done = other.run("join", domain.realm, "--keytab", shared)
        expect(done.returncode == 0 and "an earlier join made" in done.stderr and other.keytab.exists(), done)
        expect_whole(other.steps())

    def steps_of_the_directory() -> None:
        steps = member.steps()
        expect(steps["directory"]["result"] == "works" and "FILES$" in steps["directory"]["seen"], steps)
        expect(steps["ids"]["result"] == "remark" and "id_mapping" in steps["ids"]["mend"], steps)
        config = base / "ids.toml"
        for lines, result, word in ((MAPPING, "works", str(FIRST_ID + DOMAIN_USERS)), ('id_mapping = "rid"\n', "fault", "id_range")):
            config.write_text(f"[domain]\n{lines}")
            steps = {step["step"]: step for step in json.loads(member.run("test", "--json", "--config", config).stdout)}
            told = f"{steps['ids']['seen']} {steps['ids'].get('mend')}"
            expect(steps["ids"]["result"] == result and word in told, steps["ids"])

    def both_files() -> None:
        config = base / "both.toml"
        config.write_text('[domain]\nnetbios_name = "OTHER"\n')
        done = member.run("status", "--config", config)
        expect("netbios_name" in done.stderr and "OTHER" in done.stderr and "changes.toml" in done.stderr, done)
        done = join(member, "--netbios-name", "OTHER")
        expect(done.returncode == 2 and f"is {WORKGROUP}, not OTHER" in done.stderr, done)

    def careful_leave() -> None:
        share, config = base / "named", base / "named.toml"
        share.mkdir()
        config.write_text(f'[share.docs]\npath = "{share}"\nusers = {{ "{WORKGROUP}\\\\ann" = "read" }}\n')
        done = other.run("leave", "--password-file", "-", "--config", config, stdin=PASSWORD)
        expect(done.returncode == 2 and "the server stays in" in done.stderr, done)
        expect("PRINTER$" in domain.tool("computer", "list") and other.keytab.exists(), "half of it was left")
        done = other.run("leave", "--password-file", "-", stdin="\n")
        expect(done.returncode == 2 and "is empty" in done.stderr, done)
        # The other program has renewed the key of the account.
        done = other.run("leave", "--password-file", "-", stdin=PASSWORD)
        expect(done.returncode == 2 and "--keep-account" in done.stderr and "PRINTER$" in domain.tool("computer", "list"), done)
        # As after a run that was killed between the account and the settings.
        domain.tool("computer", "delete", "PRINTER")
        # The settings are the running server's.
        with Served(other, name="printer"):
            done = other.run("leave", "--password-file", "-", stdin=PASSWORD)
        expect(done.returncode == 0 and "no account PRINTER$ any more" in done.stderr, done)
        expect(other.status()["realm"] is None and not other.keytab.exists(), "something was left")

    suite.case("the account of a controller", controller)
    suite.case("the account of another host", other_host)
    suite.case("a join that a signal ends", ended_by_signal)
    suite.case("a name of another machine", other_name)
    suite.case("a name that is taken away", lost_name)
    suite.case("a keytab that another program renews", brought)
    suite.case("the steps of the directory and of ids", steps_of_the_directory)
    suite.case("settings in both files", both_files)
    suite.case("a leave that cannot end, and one that goes on", careful_leave)


def plain_cases(suite: Suite, realm: plain.Realm, member: Member) -> None:
    """The cases of a plain realm."""
    host, directory = f"files.{realm.name.lower()}", member.state.parent
    service = f"cifs/{host}"

    def joined() -> str:
        begun = time.monotonic()
        realm.add_service(service, directory / "brought.keytab")
        member.must("join", realm.name, "--keytab", directory / "brought.keytab")
        took = time.monotonic() - begun
        expect_whole(member.steps())
        found = member.status()
        expect(found["names"] == [host] and found["account"] is None, found)
        expect(took <= JOIN_S, f"the join took {took:.1f} s")
        return f"joined after {took:.1f} s, with a new key"

    def other_service() -> None:
        realm.add_service(f"nfs/{host}", directory / "nfs.keytab")
        done = member.run("join", realm.name, "--keytab", directory / "nfs.keytab")
        expect(done.returncode == 2 and "no key of cifs/" in done.stderr and "ktadd" in done.stderr, done)

    def by_password() -> None:
        done = Member(member.inside, directory / "other").run("join", realm.name, "--password-file", "-", stdin="x")
        expect(done.returncode == 2 and "--keytab" in done.stderr, done)

    def clock() -> None:
        with stage.other_clock(-AHEAD_S) as library:
            expect_fault(member.steps(library), "clock", "behind", "set the clock")

    def old_keys() -> None:
        realm.renew_key(service, directory / "newer.keytab")
        expect_fault(member.steps(), "ticket", "not those of the realm any more", "ktadd")
        member.must("join", realm.name, "--keytab", directory / "newer.keytab")
        expect_whole(member.steps())

    def wrong_type() -> None:
        old = f"cifs/old.{realm.name.lower()}"
        realm.add_service(old, directory / "rc4.keytab", types="arcfour-hmac:normal")
        member.must("join", realm.name, "--keytab", directory / "rc4.keytab")
        expect_fault(member.steps(), old, "only arcfour-hmac", "aes256")
        member.must("join", realm.name, "--keytab", directory / "newer.keytab")
        expect_whole(member.steps())

    def small_letters() -> None:
        done = member.run("join", realm.name.lower(), "--keytab", directory / "newer.keytab")
        expect(done.returncode == 0 and f"it is {realm.name}, not" in done.stderr, done)
        expect(member.status()["realm"] == realm.name, member.status())
        done = Member(member.inside, directory / "other").run("join", "OTHER.TEST", "--keytab", directory / "newer.keytab")
        expect(done.returncode == 2 and f"it has keys of {realm.name}" in done.stderr, done)

    def closed_pipe() -> None:
        reader, writer = os.pipe()
        os.close(reader)
        command = member.inside([server.program(), "domain", "status", "--state-dir", str(member.state)])
        done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=COMMAND_S, env=environment(), check=False)
        os.close(writer)
        expect(done.returncode == 0 and not done.stderr, done)

    def no_domain() -> None:
        other = Member(member.inside, directory / "nowhere")
        expect("in no domain" in other.must("status"), "status does not say so")
        for words in (("test",), ("renew",), ("leave", "--keep-account")):
            done = other.run(*words)
            expect(done.returncode == 2 and "in no domain" in done.stderr and "domain join REALM" in done.stderr, done)

    def silent() -> None:
        realm.close()
        steps = member.steps()
        expect_fault(steps, "kdc", "none answers", f"port {realm.port}")
        expect(steps["clock"]["result"] == "untried", steps)

    def left() -> None:
        member.must("leave")
        expect((directory / "newer.keytab").exists() and member.status()["realm"] is None, "the keytab that was brought is gone")

    suite.case("join with a keytab", joined)
    suite.case("a keytab of another service", other_service)
    suite.case("a join without a keytab", by_password)
    suite.case("a clock that is ten minutes behind", clock)
    suite.case("keys that the KDC has replaced", old_keys)
    suite.case("keys of a wrong encryption type", wrong_type)
    suite.case("a realm in small letters", small_letters)
    suite.case("a closed pipe", closed_pipe)
    suite.case("in no domain", no_domain)
    suite.case("the KDC is down", silent)
    suite.case("leave", left)


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="domain-") as directory:
        yield Path(directory)


def main() -> None:
    """Run all cases."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    server.clean_up_when_told_to_end()
    suite = f"{SUITE} newer" if server.is_newer() else SUITE
    if reason := ActiveDirectory().missing() or ", ".join(plain.missing()):
        skip_whole_suite(suite, reason)
    tally = Tally(suite)
    try:
        with scratch() as directory, plain.Realm(directory / "realm") as realm:
            variable = f"KRB5_CONFIG={realm.config}"
            plain_cases(Suite(tally, "plain realm"), realm, Member(lambda command: ["env", variable, *command], directory))
        begun = time.monotonic()
        with scratch() as directory, ActiveDirectory(has_smb=True) as domain:
            print(f"        a domain controller runs after {time.monotonic() - begun:.1f} s", flush=True)
            directory_cases(Suite(tally, "Active Directory"), domain, Member(domain.network.inside, directory))
    except Missing as reason:
        tally.add("skip", "realm", str(reason))
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
