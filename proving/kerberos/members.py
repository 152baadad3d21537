"""Further cases of users of Active Directory: other names for them, other ways to their ids and to the directory, and
other clients.

Start at `member_cases`. Each case serves the share `docs` at port 445 of the member's address, since smbcacls and GVfs
ask for no other port.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from proving.harness import server as servers
from proving.kerberos.active_directory import MEMBER, PASSWORD, ActiveDirectory
from proving.kerberos.certificates import make_authority
from proving.kerberos.network import environment

HERE = Path(__file__).resolve().parent
LOCAL, LOCAL_PASSWORD = "lena", "Local-Word-1"
LIMIT_S = 60
IMPACKET_TYPE = "aes256-cts-hmac-sha1-96"


class TakesCases(Protocol):
    """A suite."""

    def case(self, name: str, work: Callable[[], str | None]) -> None:
        """Run one case."""

    @property
    def tally(self) -> Any:
        """Its tally."""


def expect(is_so: bool, what: object) -> None:
    """Fail a case."""
    if not is_so:
        raise AssertionError(str(what))


class Clients:
    """Foreign clients in the network of the domain, each with the ticket of one user."""

    def __init__(self, domain: ActiveDirectory, directory: Path) -> None:
        self.domain, self.directory = domain, directory
        self.host = f"{MEMBER}.{domain.realm.lower()}"

    def ticket(self, user: str, service_type: str = "") -> dict[str, str]:
        """Get a ticket and return the variables that select it. With `service_type`, which is an encryption type, get one
        for the server too."""
        cache = {"KRB5CCNAME": f"FILE:{self.directory}/ticket-{user}"}
        self.domain.network.run("kinit", user, stdin=PASSWORD + "\n", variables=cache)
        if service_type:
            self.domain.network.run("kvno", "-e", service_type, f"cifs/{self.host}", variables=cache)
        return cache

    def run(self, user: str, *command: object, stdin: str = "", service_type: str = "") -> subprocess.CompletedProcess[str]:
        """Run a client."""
        return self.domain.network.run(*command, variables=self.ticket(user, service_type), check=False, stdin=stdin, limit_s=LIMIT_S)

    def impacket(self, user: str, *words: object) -> subprocess.CompletedProcess[str]:
        """Run impacket. It knows AES with SHA-1 alone, and this domain takes no request for a ticket from it."""
        return self.run(user, *impacket_command(self), *words, service_type=IMPACKET_TYPE)

    def smbclient(self, user: str, commands: str) -> str:
        """Run smbclient and return what it has said."""
        done = self.run(user, "smbclient", f"//{self.host}/docs", "--use-kerberos=required", "-N", "-c", commands)
        return done.stdout + done.stderr

    def well(self, user: str, commands: str) -> str:
        """Run commands of smbclient that must succeed."""
        said = self.smbclient(user, commands)
        expect("NT_STATUS" not in said, f"{user}: {said}")
        return said

    def refused(self, user: str, commands: str, status: str = "NT_STATUS_ACCESS_DENIED") -> None:
        """Run commands of smbclient that must be refused."""
        said = self.smbclient(user, commands)
        expect(status in said, f"{user}: {said}")

    def smbcacls(self, user: str, file: str, *words: str) -> str:
        """Run smbcacls and return what it has said."""
        done = self.run(user, "smbcacls", f"//{self.host}/docs", file, "--use-kerberos=required", "-N", *words)
        expect(done.returncode == 0, f"smbcacls: {done.stdout}{done.stderr}")
        return done.stdout

    def account(self, kind: str, name: str) -> str:
        """Return the SID of a user or a group."""
        return self.domain.tool(kind, "show", name, "--attributes=objectSid").split("objectSid: ")[1].split()[0]


# Starts a server; the words are those of domain.Served.
Serve = Callable[..., contextlib.AbstractContextManager[Any]]


def member_cases(suite: TakesCases, domain: ActiveDirectory, member: Any, mapping: str, start: Serve) -> None:
    """Run the cases, with servers that `start` starts."""
    clients = Clients(domain, member.state.parent)

    def serve(lines: str = mapping, **more: Any) -> Any:
        server = f'listen = ["{domain.network.member}"]\n' + more.pop("server_lines", "")
        return start(member, lines, port=445, server_lines=server, **more)

    suite.case("a user by a suffix of the forest", lambda: suffix(clients, serve))
    suite.case("the directory over TLS", lambda: over_tls(clients, member, mapping, serve))
    suite.case("NTLM off for one account", lambda: without_ntlm(clients, serve))
    suite.case("names in access lists, the audit and the status", lambda: shown_names(clients, member, serve))
    suite.case("a persistent handle over a kill of the server", lambda: persistent(clients, serve))
    suite.case("impacket with a ticket", lambda: impacket(clients, serve))
    if Path("/usr/share/gvfs/mounts/smb.mount").exists() and shutil.which("dbus-run-session"):
        suite.case("GVfs with a ticket", lambda: gvfs(clients, serve))
    else:
        suite.tally.add("skip", "GVfs with a ticket", "needs the Debian packages gvfs-backends and dbus-daemon")


def suffix(clients: Clients, serve: Serve) -> None:
    """dora's principal name is dora@other.example, which the forest lists as a suffix."""
    with serve(users='{ "dora@other.example" = "full", "ann@no.example" = "full" }') as served:
        clients.well("dora", "put /etc/passwd of-dora")
        clients.refused("ann", "ls")
        unknown = [line for line in served.log().splitlines() if "does not know" in line]
        expect(len(unknown) == 1 and "ann@no.example" in unknown[0], unknown)


def over_tls(clients: Clients, member: Any, mapping: str, serve: Serve) -> str:
    """The directory is asked over TLS, by a server that trusts its authority and by one that trusts another."""
    good, other = clients.domain.controllers[0].tls / "ca.pem", make_authority(clients.directory / "other-authority")
    begun = time.monotonic()
    found = member.found("CORP\\ann", f'{mapping}ldap_ca = "{good}"\n')
    took = time.monotonic() - begun
    expect(found["name"] == "CORP\\ann" and len(found["groups"]) == 4, found)
    done, _ = member.lookup("CORP\\ann", f'{mapping}ldap_ca = "{other}"\n')
    expect(done.returncode == 2 and "TLS: invalid peer certificate" in done.stderr, done)
    done, _ = member.lookup("CORP\\ann", f'{mapping}ldap_ca = "{clients.directory}/none"\n')
    expect(done.returncode == 2 and "mend `ldap_ca` in `[domain]`" in done.stderr, done)
    with serve(f'{mapping}ldap_ca = "{good}"\n', users='{ "@CORP\\\\staff" = "full" }'):
        clients.well("ann", "ls")
        clients.refused("carl", "ls")
    return f"a lookup over TLS took {took:.1f} s"


def without_ntlm(clients: Clients, serve: Serve) -> None:
    """The shares of an account take no NTLM, while those of others do."""
    password = clients.directory / "password"
    password.write_text(LOCAL_PASSWORD)
    password.chmod(0o600)
    free = clients.directory / "free"
    free.mkdir(exist_ok=True)
    free.chmod(0o777)
    more = (f'[account.strict]\nntlm = "off"\n[share.free]\npath = "{free}"\nusers = {{ "*" = "full" }}\n'
            f'[[user]]\nname = "{LOCAL}"\npassword_file = "{password}"\nuid = 1000\ngid = 1000\n')

    def by_password(share: str) -> str:
        done = clients.domain.network.run("smbclient", f"//{clients.host}/{share}", "--use-kerberos=off", "-U",
                                          f"{LOCAL}%{LOCAL_PASSWORD}", "-c", "ls", check=False)
        return done.stdout + done.stderr

    with serve(share_lines='account = "strict"\n', more=more, spn="accepted") as served:
        clients.well("ann", "ls")
        expect("NT_STATUS" not in by_password("free"), served.log()[-800:])
        expect("NT_STATUS_ACCESS_DENIED" in by_password("docs"), served.log()[-800:])
        expect("account `strict` refuses NTLM" in served.log(), served.log()[-800:])


def shown_names(clients: Clients, member: Any, serve: Serve) -> None:
    """Entries of a user and a group are shown by name, as are the users of the audit and of the sessions."""
    audit = clients.directory / "audit.jsonl"
    with serve(share_lines='audit = ["changes", "open"]\n', more=f'[audit]\nfile = "{audit}"\nlogons = true\n') as served:
        clients.well("carl", "put /etc/passwd listed")
        clients.smbcacls("carl", "listed", "-a", "ACL:CORP\\ann:ALLOWED/0x0/READ,ACL:CORP\\painters:ALLOWED/0x0/FULL")
        shown = clients.smbcacls("carl", "listed")
        for wanted in ("OWNER:CORP\\carl", "GROUP:CORP\\Domain Users", "ACL:CORP\\ann:ALLOWED/0x0/R", "ACL:CORP\\painters:ALLOWED/0x0/FULL"):
            expect(wanted in shown, f"no {wanted} in {shown}")
        numeric = clients.smbcacls("carl", "listed", "--numeric")
        for sid in (clients.account("user", "ann"), clients.account("group", "painters")):
            expect(f"ACL:{sid}:" in numeric, numeric)
        # The list counts: ann is a member of painters.
        clients.well("ann", "get listed -; rename listed renamed")
        # smbclient runs a command of the shell among those that it reads line by line, and so while its session is there.
        asked = f"{servers.program()} status --json --state-dir {member.state}"
        status = clients.run("carl", "smbclient", f"//{clients.host}/docs", "--use-kerberos=required", "-N", stdin=f"ls\n!{asked}\n")
        expect("CORP\\\\carl" in status.stdout, f"{status.stdout[-1500:]}{status.stderr}")
        log = served.log()
    events = {(line["operation"], line.get("user")) for line in map(json.loads, audit.read_text().splitlines())}
    expect({("rename", "CORP\\ann"), ("set_acl", "CORP\\carl")} <= events, f"{events} {log[-300:]}")


def impacket_command(clients: Clients) -> list[str]:
    """Return the words that run impacket's client; its action follows."""
    from proving.peers import run as peers

    return [*peers.python_with_packages(), str(HERE / "impacket_tickets.py"), clients.host, "445"]


def impacket(clients: Clients, serve: Serve) -> None:
    """impacket takes its ticket from the cache."""
    with serve() as served:
        done = clients.impacket("carl", "round")
        expect(done.stdout == "fine\n", f"{done.stdout}{done.stderr[-800:]}{served.log()[-500:]}")
        owner = (served.share / "by-impacket").stat().st_uid
        expect(owner == int(clients.account("user", "carl").rsplit("-", 1)[1]) + 100_000, f"it is of {owner}")


def persistent(clients: Clients, serve: Serve) -> str:
    """A handle that a user of the domain has when the server is killed is hers alone afterwards."""
    lines = "continuously_available = true\n"
    with serve(share_lines=lines) as served:
        command = clients.domain.network.inside([*impacket_command(clients), "hold", "held"])
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**environment(), **clients.ticket("bob", IMPACKET_TYPE)})
        assert process.stdout is not None
        handle = process.stdout.readline().strip()
        if not handle:
            raise AssertionError(f"{process.communicate()[1][-800:]}{served.log()[-500:]}")
        # Rights on the file keep nobody out then, but the handle does.
        (served.share / "held").chmod(0o666)
        os.kill(served.pid, signal.SIGKILL)
        process.kill()
        process.communicate()
    with serve(share_lines=lines) as served:
        clients.refused("ann", "put /etc/passwd held", "NT_STATUS_FILE_NOT_AVAILABLE")
        begun = time.monotonic()
        other = clients.impacket("ann", "reclaim", "held", handle)
        expect(other.stdout.startswith("0xc0"), f"ann: {other.stdout}{other.stderr[-500:]}")
        own = clients.impacket("bob", "reclaim", "held", handle)
        expect(own.stdout == "reclaimed\n", f"bob: {own.stdout}{own.stderr[-500:]}{served.log()[-800:]}")
        held = (served.share / "held").read_bytes()
        expect(held == b"beforeafter!", f"the file has {held!r}")
        return f"ann got {other.stdout.strip()}, bob his handle, within {time.monotonic() - begun:.1f} s"


def gvfs(clients: Clients, serve: Serve) -> None:
    """GVfs asks for no password while there is a ticket."""
    url = f"smb://{clients.host}/docs"
    # The daemon of GVfs keeps what it needs below HOME.
    home = clients.directory / "home"
    home.mkdir(exist_ok=True)
    script = (f'gio mount "{url}" </dev/null && gio copy /etc/passwd "{url}/by-gvfs" && gio cat "{url}/by-gvfs" | cmp - /etc/passwd '
              f'&& gio list "{url}" | grep -x by-gvfs')
    with serve() as served:
        done = clients.run("carl", "env", f"HOME={home}", f"XDG_RUNTIME_DIR={home}", "dbus-run-session", "--", "sh", "-c", script)
        expect(done.returncode == 0, f"{done.stdout}{done.stderr}{served.log()[-500:]}")
        expect("principal=\"carl@" in served.log(), served.log()[-500:])

