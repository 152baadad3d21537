#!/usr/bin/env python3
"""Accounts and the admin page with foreign programs. Samba's smbclient uses accounts with their own requirements, by
their names and addresses, and with their keys. curl and Python's ssl request the page over TLS.

    accounts.py

The suite's server has an account that requires SMB 3 and has an address of its own, one without requirements, a share
with an address of its own, and a share of no account. The suite is skipped without Debian's smbclient and openssl.
"""

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite

PASSWORD = "s3cret-s3cret"
# The address of the server, that of one account, and that of one share.
ANYWHERE, OWN, ALONE = "127.0.0.1", "127.0.0.2", "127.0.0.3"
CONFIG = """
[server]
listen = ["{anywhere}", "{own}", "{alone}"]
smb_port = {port}
state_dir = "state"
discovery = false
log_level = "info"
[admin]
listen = "0.0.0.0:{page_port}"
tls_certificate = "page.pem"
tls_key = "page.key"
{users}
[account.strict]
min_dialect = "3.0"
smb_listen = ["{own}"]
[account.plain]
[share.new]
path = "new"
account = "strict"
users = {{ ann = "full", bob = "full" }}
[share.old]
path = "old"
account = "plain"
users = {{ ann = "full" }}
[share.alone]
path = "alone"
account = "plain"
users = {{ ann = "full" }}
smb_listen = ["{alone}"]
[share.free]
path = "free"
users = {{ eve = "full" }}
"""
USER = '[[user]]\nname = "{name}"\npassword_file = "password"\n' + servers.host_ids()
# A group of every Debian host, of which dan is a member here.
GROUP, GID = "daemon", 1


class AccountsServer:
    """A server in a directory of its own; a context manager that ends it."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="proof-accounts-"))
        self.port, self.page_port = servers.free_port(), servers.free_port()
        self.certify()
        for name in ("new", "old", "alone", "free"):
            (self.directory / name).mkdir()
            (self.directory / name).chmod(0o777)
        (self.directory / "password").write_text(PASSWORD + "\n")
        (self.directory / "password").chmod(0o600)
        users = "".join(USER.format(name=name) for name in ("ann", "bob", "eve"))
        users += USER.format(name="dan") + f"groups = [{GID}]\n"
        text = CONFIG.format(port=self.port, page_port=self.page_port, users=users, anywhere=ANYWHERE, own=OWN, alone=ALONE)
        (self.directory / "t.toml").write_text(text)

    def certify(self) -> None:
        """Create a certificate for the page, and its key."""
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE",
                        "-keyout", "page.key", "-out", "page.pem"],
                       cwd=self.directory, check=True, capture_output=True, timeout=60)

    def line(self, *words: str) -> list[str]:
        return [servers.program(), *words, "--config", str(self.directory / "t.toml")]

    def ask(self, *words: str, given: str | None = None) -> str:
        """Return the output of a command of the program, which must succeed."""
        done = subprocess.run(self.line(*words), capture_output=True, text=True, timeout=60, input=given)
        if done.returncode != 0:
            raise AssertionError(f"{words}: {done.stderr.strip()}")
        return done.stdout

    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def __enter__(self) -> Self:
        with open(self.directory / "output", "w") as output, open(self.directory / "log", "w") as log:
            self._server = subprocess.Popen(self.line("serve"), stdin=subprocess.DEVNULL, stdout=output, stderr=log)
        end = time.monotonic() + 30
        while "serves on " not in (self.directory / "output").read_text():
            if time.monotonic() > end or self._server.poll() is not None:
                why = self.log()[-400:]
                self.__exit__()
                raise servers.CannotStart("trunkline", f"the server does not start: {why}")
            time.sleep(0.05)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.send_signal(signal.SIGTERM)
        try:
            self._server.wait(30)
        except subprocess.TimeoutExpired:
            self._server.kill()
            self._server.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def smbclient(self, user: str, share: str | None, password: str = PASSWORD, highest: str = "SMB3_11", host: str = ANYWHERE,
                  name: str | None = None, commands: str = "ls", listing: bool = False) -> tuple[str | None, str]:
        """Run smbclient. Returns the first error status, or None, and its whole output."""
        address = ["-I", host] if name else []
        what = ["-g", "-L", f"//{host}"] if listing else [f"//{name or host}/{share}", "-c", commands]
        command = ["smbclient", *what, *address, "-p", str(self.port), "-m", highest]
        # Other users of this machine must not see the password.
        environment = dict(os.environ, USER=user, PASSWD=password)
        done = subprocess.run([*command, "-U", user], capture_output=True, text=True, timeout=60, env=environment,
                              cwd=self.directory, stdin=subprocess.DEVNULL)
        text = done.stdout + done.stderr
        statuses = [status for status in re.findall(r"NT_STATUS_\w+", text) if status != "NT_STATUS_OK"]
        # smbclient sends a question in SMB1 after a list of shares, which ends the connection.
        if not statuses and done.returncode != 0 and not listing:
            raise AssertionError(text.strip()[-300:])
        return (statuses[0] if statuses else None), text


def expect(found: object, wanted: object, what: str) -> None:
    if found != wanted:
        raise AssertionError(f"{what}: wanted {wanted!r}, found {found!r}")


DENIED, FAILED = "NT_STATUS_ACCESS_DENIED", "NT_STATUS_LOGON_FAILURE"


def demands(server: AccountsServer) -> None:
    status, text = server.smbclient("bob", "new", highest="SMB2_10")
    expect((status, "session setup failed" in text), (DENIED, True), text.strip()[-200:])
    said = "log-on refused: account `strict` demands SMB 3.0 or later, and this connection speaks SMB 2.1"
    expect(said in server.log(), True, "the server's log says why")
    expect(server.smbclient("bob", "new", highest="SMB3_00")[0], None, "SMB 3.0")
    expect(server.smbclient("bob", "new")[0], None, "SMB 3.1.1")


def either(server: AccountsServer) -> None:
    status, text = server.smbclient("ann", "new", highest="SMB2_10")
    expect((status, "tree connect failed" in text), (DENIED, True), text.strip()[-200:])
    expect(server.smbclient("ann", "old", highest="SMB2_10")[0], None, "the account that demands nothing")
    expect(server.smbclient("eve", "free", highest="SMB2_10")[0], None, "a share of no account")


def names(server: AccountsServer) -> None:
    expect(server.smbclient("ann", "old", name="plain")[0], None, "the share of the account that is named")
    expect(server.smbclient("ann", "new", name="plain")[0], DENIED, "the share of another one")
    expect("the share is of account `strict`, the session of account `plain`" in server.log(), True, "the server's log says why")


def address(server: AccountsServer) -> None:
    expect(server.smbclient("ann", "new", host=OWN)[0], None, "the account's share at its address")
    expect(server.smbclient("ann", "old", host=OWN)[0], DENIED, "another account's share there")
    status, _ = server.smbclient("ann", "new", host=OWN, highest="SMB2_10")
    expect(status in ("NT_STATUS_NOT_SUPPORTED", "NT_STATUS_CONNECTION_DISCONNECTED"), True, f"SMB 2.1 there: {status}")


def listed(server: AccountsServer, user: str, password: str = PASSWORD, host: str = ANYWHERE) -> tuple[str | None, set[str]]:
    """Return the first error status, or None, and the shares listed for a user at an address."""
    status, text = server.smbclient(user, None, password, listing=True, host=host)
    return status, {line.split("|")[1] for line in text.splitlines() if line.startswith("Disk|")}


def alone(server: AccountsServer) -> None:
    """A share is available at its own address, and no other share is."""
    expect(listed(server, "ann", host=ALONE), (None, {"alone"}), "the shares that are listed there")
    expect("alone" in listed(server, "ann")[1], True, "the shares that are listed at the server's address")
    expect(server.smbclient("ann", "alone", host=ALONE)[0], None, "the share at its address")
    expect(server.smbclient("bob", "alone", host=ALONE)[0], DENIED, "a user there without access to the share")
    for other in ("old", "new", "free"):
        expect(server.smbclient("ann", other, host=ALONE)[0], "NT_STATUS_BAD_NETWORK_NAME", f"share {other} there")
    said = "TREE_CONNECT refused: the session came to an address of share `alone`, where there is no other"
    expect(said in server.log(), True, "the server's log says why")
    # The account's requirement applies there, and a change of the address applies to new clients.
    server.ask("account", "set", "plain", "min_dialect=3.1.1")
    status, _ = server.smbclient("ann", "alone", host=ALONE, highest="SMB3_02")
    expect(status in ("NT_STATUS_NOT_SUPPORTED", "NT_STATUS_CONNECTION_DISCONNECTED"), True, f"SMB 3.0.2 there: {status}")
    server.ask("account", "set", "plain", "--reset", "min_dialect")
    taken = subprocess.run(server.line("share", "set", "free", f"smb_listen={ALONE}"), capture_output=True, text=True, timeout=60)
    names_other = any(f"{ALONE} is also an address of share `{share}`" in taken.stderr for share in ("alone", "free"))
    expect((taken.returncode, names_other), (2, True), taken.stderr.strip())
    server.ask("share", "set", "alone", "--reset", "smb_listen")
    server.ask("share", "set", "alone", f"smb_listen={ANYWHERE}")
    expect(server.smbclient("ann", "old")[0], "NT_STATUS_BAD_NETWORK_NAME", "another share at its new address")
    expect(server.smbclient("ann", "old", host=ALONE)[0], None, "another share at its former address")
    server.ask("share", "set", "alone", f"smb_listen={ALONE}")
    expect(server.smbclient("ann", "old")[0], None, "another share at the server's address again")


def live(server: AccountsServer) -> None:
    """A change applies to new clients."""
    server.ask("account", "set", "plain", "min_dialect=3.1.1")
    expect(server.smbclient("ann", "old", highest="SMB3_02")[0], DENIED, "a dialect that was enough before")
    expect(server.smbclient("ann", "old")[0], None, "SMB 3.1.1")
    server.ask("account", "set", "plain", "--reset", "min_dialect")
    expect(server.smbclient("ann", "old", highest="SMB2_10")[0], None, "the change taken back")


def keys(server: AccountsServer) -> None:
    """An account's name logs on with either of its keys, which are renewed one after the other."""
    expect(server.smbclient("strict", "new", "no key yet")[0], FAILED, "an account without keys")
    first = server.ask("account", "keys", "renew", "strict").split()[1]
    second = server.ask("account", "keys", "renew", "strict", "key2").split()[1]
    for key in (first, second):
        expect(server.smbclient("strict", "new", key, commands="mkdir made; ls; rmdir made")[0], None, "a key")
    for other in ("old", "free"):
        expect(server.smbclient("strict", other, second)[0], DENIED, f"share {other}, which is not the account's")
    status, shown = listed(server, "strict", second)
    expect((status, shown), (None, {"new"}), "the shares that are listed")
    # Only the owner may read this file, and the key makes the client the owner of the account's shares.
    own = server.directory / "new" / "own"
    own.write_text("of somebody")
    own.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(own, 12345, 12345)
    expect(server.smbclient("strict", "new", first, commands="get own seen")[0], None, "somebody's file")
    renewed = server.ask("account", "keys", "renew", "strict", "key1").split()[1]
    expect(server.smbclient("strict", "new", first)[0], FAILED, "the key before")
    expect(server.smbclient("strict", "new", renewed)[0], None, "the key that was made for it")
    expect(server.smbclient("strict", "new", second)[0], None, "the other key")
    expect(server.smbclient("strict", "new", second, highest="SMB2_10")[0], DENIED, "a key over SMB 2.1")
    server.ask("account", "keys", "renew", "strict", "key1", "--key-file", "-", given=first + "\n")
    expect(server.smbclient("strict", "new", first)[0], None, "a key of one's own")
    short = subprocess.run(server.line("account", "keys", "renew", "strict", "key1", "--key-file", "-"), text=True, input="c2hvcnQ=\n",
                           capture_output=True, timeout=60)
    expect((short.returncode, "this has 5 bytes" in short.stderr), (2, True), short.stderr.strip())
    expect([key for key in (first, second, renewed) if key in server.log() or key in server.ask("status", "--json")], [], "keys in the log or the status")


def authentication(server: AccountsServer) -> None:
    """An account decides whether users' passwords or its keys are accepted."""
    key = server.ask("account", "keys", "renew", "plain", "key2").split()[1]
    server.ask("account", "set", "plain", "authentication=key")
    expect(server.smbclient("plain", "old", key)[0], None, "a key where keys alone count")
    expect(server.smbclient("ann", "old")[0], DENIED, "a password there")
    server.ask("account", "set", "plain", "authentication=password")
    expect(server.smbclient("plain", "old", key)[0], DENIED, "a key where passwords alone count")
    expect("log-on refused: account `plain` takes no keys" in server.log(), True, "the server's log says why")
    expect(server.smbclient("ann", "old")[0], None, "a password there")
    server.ask("account", "set", "plain", "--reset", "authentication")


def curl(server: AccountsServer, path: str, *options: str) -> tuple[int | str, str]:
    """Return the status and body of curl's response, or its exit status."""
    url = f"https://localhost:{server.page_port}{path}"
    done = subprocess.run(["curl", "-sS", "--max-time", "30", "--noproxy", "*", "-w", "\n%{http_code}", *options, url],
                          capture_output=True, text=True, timeout=60)
    body, _, status = done.stdout.rpartition("\n")
    return (int(status), body) if done.returncode == 0 else (f"curl ends with {done.returncode}", done.stderr)


def page(server: AccountsServer) -> None:
    """The admin page over TLS."""
    if shutil.which("curl") is None:
        raise Skipped("curl is missing: apt-get install curl")
    trusting = ("--cacert", str(server.directory / "page.pem"))
    token = (server.directory / "state" / "admin-token").read_text().strip()
    known = (*trusting, "-H", f"Authorization: Bearer {token}")
    status, body = curl(server, "/api/v1/shares", *known)
    expect((status, '"name":"new"' in body), (200, True), body[-300:])
    expect(curl(server, "/api/v1/shares", *trusting)[0], 401, "without the token")
    expect(curl(server, "/api/v1/shares", *known, "-H", "Origin: https://evil.example")[0], 403, "from another site's page")
    expect(curl(server, "/", *trusting)[0], 200, "the page itself")
    expect(curl(server, "/")[0], "curl ends with 60", "a certificate of an unknown issuer")
    for version in ("--tlsv1.3", "--tls-max=1.2"):
        expect(curl(server, "/", *trusting, *version.split("="))[0], 200, version)
    # Python verifies the name and the certificate by itself.
    context = ssl.create_default_context(cafile=str(server.directory / "page.pem"))
    request = urllib.request.Request(f"https://localhost:{server.page_port}/api/v1/accounts", headers={"Authorization": f"Bearer {token}"})
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30) as answer:
        expect({entry["name"] for entry in json.load(answer)}, {"strict", "plain"}, "accounts")
    with socket.create_connection((ANYWHERE, server.page_port), timeout=30) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        try:
            answer = plain.recv(4096)
        except ConnectionResetError:
            answer = b""
        expect(b"HTTP/1.1" in answer, False, "an answer without TLS")


def renewed(server: AccountsServer) -> None:
    """A new certificate applies to the next connection."""
    before = ssl.get_server_certificate((ANYWHERE, server.page_port))
    server.certify()
    expect(ssl.get_server_certificate((ANYWHERE, server.page_port)) == before, False, "the certificate is the old one")
    expect(ssl.get_server_certificate((ANYWHERE, server.page_port)).split(), (server.directory / "page.pem").read_text().split(), "the new one")


def refused(server: AccountsServer) -> None:
    """The server does not start with a configuration that is unusable or would open the page to everybody."""
    text = (server.directory / "t.toml").read_text()
    open_page = text.replace('tls_certificate = "page.pem"\n', "").replace('tls_key = "page.key"\n', "")
    lost = text.replace('"page.pem"', '"lost.pem"')
    for wrong, words in ((open_page, ("can be reached from other hosts, which needs TLS", ":")),
                         (lost, ("`tls_certificate` in [admin]", "lost.pem: no such file or directory"))):
        (server.directory / "wrong.toml").write_text(wrong)
        done = subprocess.run([servers.program(), "serve", "--config", str(server.directory / "wrong.toml"), "--state-dir", str(server.directory / "other")],
                              capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        expect((done.returncode, [word for word in words if word not in done.stderr]), (2, []), done.stderr.strip())


def homes(server: AccountsServer) -> None:
    """A home share leads each user to their own directory, and one named after its user too. Every user is the same one
    on the host here, so that only the share keeps them apart."""
    put = "put password {name}; ls"
    for number, share in enumerate(("home", "{user}")):
        above = server.directory / f"homes-{number}"
        above.mkdir()
        server.ask("share", "create", share, f"path={above}/{{user}}", "create_home=on", "users=*=full")
        for user in ("ann", "bob"):
            status, text = server.smbclient(user, share.format(user=user), commands=put.format(name=user))
            expect((status, user in text), (None, True), text.strip()[-200:])
            expect([found.name for found in (above / user).iterdir()], [user], f"the files of {user}")
            expect((above / user).stat().st_mode & 0o7777, 0o700, f"the mode of {user}'s home")
        (above / "ann" / "link").symlink_to("../bob")
        for path in ("bob\\bob", "link\\bob", "..\\bob\\bob"):
            status, text = server.smbclient("ann", share.format(user="ann"), commands=f"get {path} got")
            expect((status is not None, (server.directory / "got").exists()), (True, False), text.strip()[-200:])
        status, text = server.smbclient("ann", share.format(user="ann"), commands='deltree ""')
        expect((above / "ann").is_dir(), True, "a home stays")
    expect({"home", "ann"} <= listed(server, "ann")[1] and "bob" not in listed(server, "ann")[1], True, "the shares that ann sees")
    expect(server.smbclient("ann", "bob")[0], "NT_STATUS_BAD_NETWORK_NAME", "another user's share")
    for share in ("home", "{user}"):
        server.ask("share", "delete", share, "--force")


def groups(server: AccountsServer) -> None:
    """A share for a group of the host, and the names that security pages ask for."""
    (server.directory / "grouped").mkdir()
    server.ask("share", "create", "grouped", f"path={server.directory / 'grouped'}", f"users=@{GROUP}=read")
    expect(server.smbclient("dan", "grouped")[0], None, "a member of the group")
    expect(server.smbclient("dan", "grouped", commands="mkdir made")[0], "NT_STATUS_ACCESS_DENIED", "a member who may only read")
    expect(server.smbclient("ann", "grouped")[0], DENIED, "a user of another group")
    (server.directory / "foreign").mkdir()
    foreign = subprocess.run(server.line("share", "create", "other", f"path={server.directory / 'foreign'}", "users=CORP\\dan=read"),
                             capture_output=True, text=True, timeout=60)
    expect((foreign.returncode, "trunkline domain join" in foreign.stderr), (2, True), foreign.stderr.strip())
    if shutil.which("rpcclient") is None:
        raise Skipped("rpcclient is missing: apt-get install smbclient")
    asked = subprocess.run(["rpcclient", ANYWHERE, "-p", str(server.port), "-U", "ann",
                            "-c", f"lookupsids S-1-22-2-{GID} S-1-5-32-544 S-1-1-0; lookupnames dan {GROUP}"],
                           capture_output=True, text=True, timeout=60, env=dict(os.environ, PASSWD=PASSWORD))
    for wanted in (f"S-1-22-2-{GID} Unix Group\\{GROUP} (2)", "S-1-5-32-544 BUILTIN\\Administrators (4)", "Everyone (5)", "dan S-1-5-21-",
                   f"{GROUP} S-1-22-2-{GID} (Domain Group: 2)"):
        expect(wanted in asked.stdout, True, f"{wanted}: {asked.stdout}{asked.stderr}")
    server.ask("share", "delete", "grouped", "--force")


class Skipped(Exception):
    """This machine lacks something that the case needs."""


CASES = {
    "smbclient is refused if it does not meet an account's requirements, and the log says why": demands,
    "smbclient reaches the one of two accounts whose requirements it meets": either,
    "the name of an account binds smbclient to that account": names,
    "the address of an account binds smbclient to that account": address,
    "smbclient finds a share at its own address, and no other": alone,
    "a changed requirement applies to new connections": live,
    "smbclient logs on with an account's keys, renewed one after the other": keys,
    "an account takes users' passwords, its keys, or both": authentication,
    "a home share gives each user of smbclient their own directory": homes,
    "a group of the host has a share, and rpcclient finds the names of users and groups": groups,
    "curl and Python ask for the admin page over TLS": page,
    "a renewed certificate applies at once": renewed,
    "a page reachable without TLS and a missing certificate are refused": refused,
}


def main() -> None:
    for needed in ("smbclient", "openssl"):
        if shutil.which(needed) is None:
            skip_whole_suite("accounts", f"{needed} is missing: apt-get install {needed}")
    tally = Tally("accounts")
    try:
        with AccountsServer() as server:
            for name, case in CASES.items():
                try:
                    case(server)
                    tally.add("pass", name)
                except Skipped as reason:
                    tally.add("skip", name, str(reason))
                except (AssertionError, OSError, subprocess.SubprocessError) as error:
                    tally.add("fail", name, " ".join(str(error).split())[:400])
    except servers.CannotStart as reason:
        tally.add(reason.result, "server", str(reason))
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
