"""winbindd of Debian as a member of the domain, and NTLM of the domain's users through it.

`Winbind` is the daemon with a machine account and a keytab of its own, as `net ads join` makes them, and `ntlm_cases` are
the cases. Start reading at `ntlm_cases`.
"""

import contextlib
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol, Self

from proving.kerberos.active_directory import ADMINISTRATOR, PASSWORD, ActiveDirectory, with_winbindd
from proving.kerberos.network import end_process, environment

# The name of the member, and of its machine account.
NAME = "wb"
# The file that a user writes.
MADE = "by-password"
# The ids that this winbindd gives.
IDS = "1000000-1999999"
START_S = 30


def is_there() -> bool:
    """Return whether the programs are installed."""
    return all(shutil.which(program) for program in ("winbindd", "wbinfo", "net"))


class Winbind:
    """A joined winbindd in the network of a domain; a context manager."""

    def __init__(self, domain: ActiveDirectory, directory: Path) -> None:
        self.domain, self.directory = domain, directory
        self.keytab, self.settings = directory / "krb5.keytab", directory / "smb.conf"
        self._run = directory / "run"
        self._process: subprocess.Popen[bytes] | None = None

    def inside(self, command: Sequence[object]) -> list[str]:
        """Return a command that runs in the domain's network and finds this winbindd."""
        return self.domain.network.inside(with_winbindd(self._run, command))

    def net(self, *words: object) -> None:
        """Run a command of Samba's `net`."""
        self.domain.network.run("net", *words, f"--configfile={self.settings}")

    def __enter__(self) -> Self:
        self.directory.mkdir()
        (self._run / "winbindd").mkdir(parents=True, mode=0o755)
        kinds = {kind: self.directory / kind for kind in ("private", "state", "lock", "cache")}
        for kind in kinds.values():
            kind.mkdir()
        settings = {"netbios name": NAME.upper(), "workgroup": self.domain.workgroup, "realm": self.domain.realm, "security": "ads",
                    **{("private dir" if kind == "private" else f"{kind} directory"): path for kind, path in kinds.items()},
                    "pid directory": self._run, "winbindd socket directory": self._run / "winbindd",
                    "ncalrpc dir": self.directory / "ncalrpc", "kerberos method": "dedicated keytab",
                    "dedicated keytab file": self.keytab, "idmap config * : backend": "autorid",
                    "idmap config * : range": IDS, "idmap config * : rangesize": "100000",
                    "log file": self.directory / "log", "disable netbios": "yes"}
        self.settings.write_text("[global]\n" + "".join(f"\t{key} = {value}\n" for key, value in settings.items()))
        self.net("ads", "join", f"-U{ADMINISTRATOR}%{PASSWORD}", "--no-dns-updates")
        self.net("ads", "keytab", "create", "-P")
        self.net("ads", "keytab", "add_update_ads", "cifs", "-P")
        self.begin()
        return self

    def begin(self) -> None:
        """Start the daemon and wait until it has reached the domain."""
        with (self.directory / "output").open("ab") as log:
            # In a process namespace of its own, nothing that it has started outlives it.
            command = ["unshare", "--pid", "--fork", "--kill-child", "winbindd", "--foreground", "--no-process-group",
                       f"--configfile={self.settings}"]
            self._process = subprocess.Popen(self.inside(command), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment())
        until = time.monotonic() + START_S
        while self._wbinfo("-t").returncode:
            if time.monotonic() > until or self._process.poll() is not None:
                raise RuntimeError(f"winbindd does not reach the domain: {(self.directory / 'output').read_text()[-400:]}")
            time.sleep(0.1)

    def uid(self, sid: str) -> int:
        """Return the uid that winbindd gives a SID."""
        done = self._wbinfo("--sid-to-uid", sid)
        expect(done.returncode == 0, f"wbinfo: {done.stdout}{done.stderr}")
        return int(done.stdout)

    @property
    def ranges(self) -> Path:
        """The database of its ranges."""
        return self.directory / "state" / "autorid.tdb"

    def _wbinfo(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.inside(["wbinfo", *words]), capture_output=True, text=True, timeout=START_S, env=environment())

    def end(self) -> None:
        """End the daemon."""
        if self._process is None:
            return
        end_process(self._process, 10)
        self._process = None

    def __exit__(self, *_: object) -> None:
        self.end()
        with contextlib.suppress(RuntimeError):
            self.net("ads", "leave", f"-U{ADMINISTRATOR}%{PASSWORD}")


class HasLog(Protocol):
    """A running server with the share `docs`."""

    share: Path

    def log(self) -> str:
        """Return its log."""


class TakesCases(Protocol):
    """A suite."""

    def case(self, name: str, work: Callable[[], str | None]) -> None:
        """Run one case."""


# Starts a server with the winbindd, of the name NAME and with more lines of [domain].
Serve = Callable[[Winbind, str], contextlib.AbstractContextManager[HasLog]]


def expect(is_so: bool, what: str) -> None:
    """Fail a case."""
    if not is_so:
        raise AssertionError(what)


def ntlm_cases(suite: TakesCases, winbind: Winbind, serve: Serve, port: int) -> None:
    """Users of the domain log on with NTLM."""
    domain = winbind.domain

    def log_on(user: str, password: str = PASSWORD, file: str = "") -> str:
        done = domain.network.run("smbclient", "//127.0.0.1/docs", "-p", port, "--use-kerberos=off", "-U", f"{user}%{password}",
                                  "-c", f"put /etc/passwd {file or MADE}", check=False)
        return done.stdout + done.stderr

    def refused(served: HasLog, user: str, status: str, *words: str, password: str = PASSWORD) -> None:
        told = log_on(user, password)
        expect(status in told, f"{user}: {told}")
        expect(any(all(word in line for word in words) for line in served.log().splitlines()), served.log()[-900:])

    def by_password() -> None:
        with serve(winbind, "") as served:
            # The forest lists other.example as a suffix of principal names.
            for user in (f"{domain.workgroup}/bob", f"bob@{domain.realm.lower()}", "dora@other.example"):
                told = log_on(user, file=f"{MADE}-{user[:4]}")
                expect("NT_STATUS" not in told, f"{user}: {told}{served.log()[-900:]}")
            expect(served.log().count(f'user="{domain.workgroup}\\\\bob"') == 2, served.log()[-900:])
            refused(served, f"{domain.workgroup}/bob", "NT_STATUS_LOGON_FAILURE", "bob", "WRONG_PASSWORD", password="wrong")
            refused(served, f"{domain.workgroup}/zoe", "NT_STATUS_LOGON_FAILURE", "zoe", "NO_SUCH_USER")
            domain.tool("user", "disable", "carl")
            try:
                refused(served, f"{domain.workgroup}/carl", "NT_STATUS_ACCOUNT_DISABLED", "carl", "ACCOUNT_DISABLED")
            finally:
                domain.tool("user", "enable", "carl")

    def local_only() -> None:
        with serve(winbind, 'ntlm = "local"\n') as served:
            refused(served, f"{domain.workgroup}/bob", "NT_STATUS_LOGON_FAILURE", "unknown user or wrong password")

    def silent() -> None:
        with serve(winbind, "") as served:
            winbind.end()
            try:
                refused(served, f"{domain.workgroup}/bob", "NT_STATUS_NO_LOGON_SERVERS", "winbindd", "systemctl start winbind")
            finally:
                winbind.begin()
            told = log_on(f"{domain.workgroup}/bob")
            expect("NT_STATUS" not in told, f"after winbindd's return: {told}")

    def by_autorid() -> None:
        sid = domain.tool("user", "show", "bob", "--attributes=objectSid").split("objectSid: ")[1].split()[0]
        uid = winbind.uid(sid)
        ranges = winbind.directory / "copy.tdb"
        shutil.copy(winbind.ranges, ranges)
        with serve(winbind, f'id_mapping = "autorid"\nid_file = "{ranges}"\n') as served:
            told = log_on(f"{domain.workgroup}/bob", file="by-autorid")
            expect("NT_STATUS" not in told, f"{told}{served.log()[-900:]}")
            owner = (served.share / "by-autorid").stat().st_uid
            expect(owner == uid, f"the file is of {owner}, and winbindd's uid is {uid}")

    suite.case("NTLM of a user of the domain through winbindd", by_password)
    suite.case("ids from the ranges of winbindd's autorid", by_autorid)
    suite.case("NTLM for local users only", local_only)
    suite.case("NTLM of a user of the domain while winbindd is away", silent)
