"""Start and stop a server under proof through the scripts in `proving/servers` (see the README there)."""

import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

PROVING = Path(__file__).resolve().parent.parent
SERVERS = PROVING / "servers"
KINDS = ("trunkline", "samba")


class CannotStart(Exception):
    """The server did not come up; the message is the script's own and names what is missing."""

    def __init__(self, kind, message):
        super().__init__(message)
        # The other server may be missing here; ours never is.
        self.result = "fail" if kind == "trunkline" else "skip"


def accounts():
    """The (name, password) pairs that every server offers, in the order of `servers/accounts`."""
    lines = (SERVERS / "accounts").read_text().splitlines()
    return [tuple(line.split()[:2]) for line in lines if line and not line.startswith("#")]


def free_port():
    """A TCP port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def version(kind):
    """One line that names the server's version."""
    return _script(kind, "version").strip()


def _script(kind, *arguments, network=None):
    command = [str(SERVERS / f"{kind}.sh"), *map(str, arguments)]
    if network is not None:
        command = network.inside(command)
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise CannotStart(kind, (done.stderr or done.stdout).strip() or f"{kind}.sh ended with {done.returncode}")
    return done.stdout


class Server:
    """A running server in a directory of its own; a context manager that ends it and removes the directory.

    It listens on 127.0.0.1, or on every address of the network namespace `network` (kernel-client/guest.py). Once it is over,
    `complaint` says what was wrong with its end, if anything.
    """

    def __init__(self, kind, profile="default", network=None):
        self.kind, self.profile, self.network = kind, profile, network
        self.directory = Path(tempfile.mkdtemp(prefix=f"proof-{kind}-"))
        os.chmod(self.directory, 0o755)
        self.port = free_port()
        self.pid = 0
        self.complaint = ""

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise
        return self

    def __exit__(self, *_):
        try:
            self.stop()
        except CannotStart as reason:
            self.complaint = str(reason)
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    def start(self):
        """Start the server, or start it again in the same directory."""
        address = "127.0.0.1" if self.network is None else "0.0.0.0"
        words = _script(self.kind, "start", self.profile, self.directory, self.port, address, network=self.network).split()
        self.pid = int(words[0])

    def stop(self):
        """End the server and wait until it is gone."""
        _script(self.kind, "stop", self.directory)

    def alive(self):
        """Whether the server's first process still runs."""
        try:
            return "\nState:\tZ" not in Path(f"/proc/{self.pid}/status").read_text()
        except OSError:
            return False

    def share_directory(self, share):
        """The directory of this machine that the share serves."""
        return self.directory / "shares" / share

    def log(self):
        """The last lines of the server's log."""
        try:
            return "\n".join((self.directory / "server" / "log").read_text(errors="replace").splitlines()[-20:])
        except OSError:
            return ""
