"""Start and stop a server under proof with the scripts in `proving/servers` (see the README there)."""

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Protocol, Self

from proving.harness import volume

PROVING = Path(__file__).resolve().parent.parent
ROOT = PROVING.parent
SERVERS = PROVING / "servers"
# The servers of SMB, and those of NFS.
KINDS = ("trunkline", "samba")
NFS_KINDS = ("trunkline", "ganesha")
_used_ports: set[int] = set()


class Network(Protocol):
    """A separate network for a server, such as that of kernel_client/guest.py."""

    def inside(self, command: list[str]) -> list[str]:
        """Return the command line that runs `command` there."""


def runs(status: Path) -> bool:
    """Return whether the thread with this file in /proc still runs. A zombie does not."""
    try:
        return "\nState:\tZ" not in status.read_text()
    except OSError:
        return False


class CannotStart(Exception):
    """The server did not start. The message is the script's own and names the missing part."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        # The other server may be missing here; ours never is.
        self.result = "fail" if kind == "trunkline" else "skip"


def program() -> str:
    """Return the path of our own program: the value of TRUNKLINE, or the release build."""
    built = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "release" / "trunkline"
    return os.path.abspath(os.environ.get("TRUNKLINE") or built)


def clean_up_when_told_to_end() -> None:
    """Make SIGTERM and SIGINT end this process through its context managers, even where SIGINT was ignored at its start."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: sys.exit(128 + number))


def accounts() -> list[tuple[str, str]]:
    """Return the (name, password) pairs of every server, in the order of `servers/accounts`."""
    return [(name, password) for name, password, *_ in _accounts()]


def host_ids() -> str:
    """Return the lines of a [[user]] who acts as the user of this process. A server of root refuses users without ids."""
    return f"uid = {os.geteuid()}\ngid = {os.getegid()}\n"


def first_uid() -> int:
    """Return the uid of the first account on this machine."""
    return int(_accounts()[0][2])


def _accounts() -> list[list[str]]:
    lines = (SERVERS / "accounts").read_text().splitlines()
    return [line.split() for line in lines if line and not line.startswith("#")]


def free_port() -> int:
    """Return a TCP port that is unused on every address of this host. No port is returned twice.

    The kernel gives outgoing connections the ports of ip_local_port_range. For a minute after its end, such a
    connection keeps its port from a server that listens on all addresses. The port therefore lies outside that range,
    unless the range holds them all.
    """
    first, last = map(int, Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    unused = [port for port in range(10_000, 65_536) if port not in _used_ports]
    ports = [port for port in unused if not first <= port <= last] or unused
    random.shuffle(ports)
    for port in ports:
        if is_free("0.0.0.0", port):
            _used_ports.add(port)
            return port
    raise OSError("every TCP port from 10000 on is in use")


def is_free(address: str, port: int) -> bool:
    """Return whether a server may listen there."""
    with socket.socket() as probe:
        try:
            probe.bind((address, port))
        except OSError:
            return False
        return True


def is_newer() -> bool:
    """Return whether the other servers are of this year (`GENERATION`, servers/README.md)."""
    return os.environ.get("GENERATION") == "newer"


def version(kind: str) -> str:
    """Return one line that names the server's version."""
    return _script(kind, "version").strip()


def _script(kind: str, *arguments: object, network: Network | None = None, user: int | None = None,
            variables: dict[str, str] | None = None) -> str:
    command = [str(SERVERS / f"{kind}.sh"), *map(str, arguments)]
    if user is not None:
        command = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", *command]
    if network is not None:
        command = network.inside(command)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                          env={**os.environ, **(variables or {})})
    if done.returncode != 0:
        raise CannotStart(kind, (done.stderr or done.stdout).strip() or f"{kind}.sh ended with {done.returncode}")
    return done.stdout


class CannotSetUp(Exception):
    """This machine lacks something that a profile needs; the message names it."""


# The port that clients use by default, and an address of this machine that other suites leave alone.
SMB_PORT = 445
OWN_ADDRESS = "127.4.45.1"


class Server:
    """A running server in its own directory; a context manager that ends it and removes the directory.

    It listens on `address`, a loopback one. If it is `reachable` from elsewhere, as behind an emulated link, it listens
    on every address of this machine, or of the network namespace `network` (kernel_client/guest.py). After its end,
    `complaint` describes what was wrong with the end, if anything. The class sets up two profiles itself, without the
    server's script: `shared-storage` puts the shares on a volume of their own, and `port-445` listens on that port.
    With `shares_storage` other profiles have such a volume too, of `storage_bytes` if given. With `user`, a uid, the
    server runs as that user, without any privilege. `label` distinguishes servers of one kind in reports.
    """

    def __init__(self, kind: str, profile: str = "default", network: Network | None = None, user: int | None = None,
                 shares_storage: bool = False, reachable: bool = False, label: str | None = None, storage_bytes: int | None = None) -> None:
        self._storage_bytes = storage_bytes
        self.label = label or kind
        self.kind, self.profile, self.network, self.user = kind, profile, network, user
        self.shares_storage = shares_storage or profile == "shared-storage"
        self.address = "127.0.0.1" if network is None and not reachable else "0.0.0.0"
        self.directory = Path(tempfile.mkdtemp(prefix=f"proof-{kind}-"))
        os.chmod(self.directory, 0o755)
        if user is not None:
            os.chown(self.directory, user, user)
        self.port = free_port()
        self.pid = 0
        self.complaint = ""
        # Variables of the environment for the server's script, as for a realm (kernel_client/tickets.py).
        self.variables: dict[str, str] = {}
        self._lent = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            self._set_up()
            self.start()
        except BaseException:
            self._clean_up()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.stop()
        except CannotStart as reason:
            self.complaint = str(reason)
        finally:
            self._clean_up()

    def _set_up(self) -> None:
        if self.shares_storage:
            try:
                self._lent.enter_context(volume.SharingVolume(self.directory / "shares", self._storage_bytes))
            except volume.CannotMount as reason:
                raise CannotSetUp(str(reason)) from None
        elif self.profile == "port-445":
            self.address, self.port = OWN_ADDRESS, SMB_PORT
            if not is_free(self.address, self.port):
                raise CannotSetUp(f"port {self.port} is taken, or needs root")

    def _clean_up(self) -> None:
        self._lent.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def start(self) -> None:
        """Start the server, or restart it in the same directory."""
        words = _script(self.kind, "start", self.profile, self.directory, self.port, self.address, network=self.network,
                        user=self.user, variables=self.variables).split()
        self.pid = int(words[0])

    def stop(self) -> None:
        """End the server and wait until it has ended."""
        _script(self.kind, "stop", self.directory)

    def kill(self) -> None:
        """End the server and all its processes at once, as a crash would. `start` restarts it in the same directory."""
        # Samba's children share its process group; Trunkline is one process.
        group = os.getpgid(self.pid)
        if group == self.pid:
            os.killpg(group, signal.SIGKILL)
        else:
            os.kill(self.pid, signal.SIGKILL)
        # The first thread may have ended while another still holds the port and the state.
        while self.alive() or self._threads() > 1:
            time.sleep(0.01)
        (self.directory / "server" / "pid").unlink(missing_ok=True)

    def alive(self) -> bool:
        """Return whether any thread of the server's first process still runs. One may be waiting for the disk, and
        holds all files."""
        return any(runs(thread) for thread in Path(f"/proc/{self.pid}/task").glob("*/status"))

    def _threads(self) -> int:
        try:
            return len(os.listdir(f"/proc/{self.pid}/task"))
        except OSError:
            return 0

    def report(self) -> dict[str, Any]:
        """Return the server's own report, as the JSON of smbstatus."""
        said: dict[str, Any] = json.loads(_script(self.kind, "status", self.directory))
        return said

    def opens(self) -> dict[str, int]:
        """Return the paths of the files that clients have open, by the server's own report, each with the number of opens."""
        return {path: len(file["opens"]) for path, file in self.report()["open_files"].items()}

    def channels(self) -> list[int]:
        """Return the number of channels of each session, by the server's own report."""
        return sorted(len(session["channels"]) for session in self.report()["sessions"].values())

    def ticket_ends(self) -> tuple[int, int]:
        """Return how often our server has told a session that its ticket has ended, and how often one was authenticated again."""
        ends = self.report()["transport"]["ticket_ends"]
        return ends["expired"], ends["reauthenticated"]

    def share_directory(self, share: str) -> Path:
        """Return the directory of this machine that the share serves."""
        return self.directory / "shares" / share

    def log_count(self, text: str) -> int:
        """Return the number of lines of the server's log that contain this text."""
        try:
            return sum(text in line for line in (self.directory / "server" / "log").read_text(errors="replace").splitlines())
        except OSError:
            return 0

    def log(self, lines: int = 20) -> str:
        """Return the last lines of the server's log."""
        try:
            return "\n".join((self.directory / "server" / "log").read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""
