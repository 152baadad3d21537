"""The set-up of a case: servers with their own configuration, paths in front of them, proxies in between.

    stage.py ADDRESS PORT TO-ADDRESS TO-PORT RATE

As a program it carries connections from one address to the other, at most RATE bytes per second on each, until it is
ended.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness.server import free_port, program

ROOT = Path(__file__).resolve().parent.parent.parent
PASSWORD = "Trunk-ann-7"
# The time limit for a server's start and end, in seconds.
PATIENCE = 20


class Missing(Exception):
    """This machine lacks something that a case needs; the message names it."""


def wait_for(address: str, port: int, server: subprocess.Popen[bytes]) -> None:
    """Wait until the server listens there."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until and server.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection((address, port), 1):
            return
        time.sleep(0.05)
    state = "is silent" if server.returncode is None else f"ended with status {server.returncode}"
    raise RuntimeError(f"the server for {address} port {port} {state}")


class Trunkline:
    """Our server with additional lines in its configuration."""

    def __init__(self, server: str = "", share: str = "", account: str = "", listen: str = "127.0.0.1", storage: Path | None = None,
                 before: Sequence[str] = (), protocols: Sequence[str] = ("smb", "nfs")) -> None:
        self.scratch = tempfile.TemporaryDirectory(prefix="doctor-")
        self.directory = Path(self.scratch.name)
        self.lines = (server, share, account)
        # `before` is a program that runs the server's command line.
        self.listen, self.storage, self.before, self.protocols = listen, storage, list(before), protocols
        self.port, self.nfs_port = free_port(), free_port()

    def configuration(self) -> Path:
        """Write the configuration and the files that it names."""
        server, share, account = self.lines
        files = self.storage or self.directory / "files"
        files.mkdir(exist_ok=True)
        files.chmod(0o777)
        password = self.directory / "password"
        password.write_text(PASSWORD + "\n")
        password.chmod(0o600)
        place = self.directory / "trunkline.toml"
        place.write_text(
            f'[server]\nlisten = {json.dumps(self.listen.split())}\nsmb_port = {self.port}\nnfs_port = {self.nfs_port}\ndiscovery = false\n{server}\n'
            f'[[user]]\nname = "ann"\npassword_file = "password"\nuid = 0\n[account.lab]\n{account}\n'
            f'[share.files]\npath = "{files}"\naccount = "lab"\nusers = {{ "*" = "full" }}\nprotocols = {list(self.protocols)}\n'
            f'root_squash = "none"\nnfs_secure_port = false\n{share}\n'
        )
        return place

    def command(self) -> list[str]:
        """Return the command line that starts it."""
        return [*self.before, program(), "serve", "--config", str(self.configuration()), "--state-dir", str(self.directory / "state")]

    def __enter__(self) -> Self:
        environment = dict(os.environ, TRUNKLINE_LOG="error")
        log = (self.directory / "log").open("w")
        self.process = subprocess.Popen(self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        try:
            wait_for("127.0.0.1" if self.listen == "0.0.0.0" else self.listen, self.port, self.process)
        except RuntimeError as reason:
            said = (self.directory / "log").read_text().strip()
            self.__exit__()
            raise RuntimeError(f"{reason}; its log: {said or 'empty'}") from None
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self._end()
        self.scratch.cleanup()

    def _end(self) -> None:
        # A program in front of the server ends when the server does.
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split() if self.before else []
        for pid in map(int, children) if children else [self.process.pid]:
            os.kill(pid, signal.SIGTERM)
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def left(self) -> list[str]:
        """Return the names in the share."""
        return sorted(path.name for path in (self.storage or self.directory / "files").iterdir() if path.name != "lost+found")


class Proxy:
    """Carries connections from an address to a server. Each piece is delayed by `hold` seconds, at most `rate` bytes
    per second."""

    def __init__(self, address: str, port: int, to: tuple[str, int], hold: float = 0.0, rate: float | None = None) -> None:
        self.listener = socket.create_server((address, port))
        self.to, self.hold, self.rate = to, hold, rate
        self.over = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over = True
        self.listener.close()

    def _accept(self) -> None:
        while not self.over:
            try:
                near, _ = self.listener.accept()
                far = socket.create_connection(self.to, 5)
            except OSError:
                return
            for one, other in ((near, far), (far, near)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                # Nagle's algorithm does this with a partial packet, until the other side's acknowledgement is due.
                if len(data) < 1400 and self.hold:
                    time.sleep(self.hold)
                sink.sendall(data)
                if self.rate:
                    time.sleep(len(data) / self.rate)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


class Samba:
    """Debian's Samba with additional lines in its configuration, by the script of the other suites."""

    def __init__(self, lines: Sequence[str] = (), address: str = "127.0.0.1") -> None:
        self.lines, self.address = lines, address
        self.scratch = tempfile.TemporaryDirectory(prefix="doctor-samba-")
        self.port = free_port()
        self.script = ROOT / "proving" / "servers" / "samba.sh"

    def __enter__(self) -> Self:
        # The script writes the configuration. A copy of it inserts our lines, and finds the other files beside it.
        folder = Path(self.scratch.name) / "servers"
        folder.mkdir()
        for name in ("common.sh", "accounts"):
            (folder / name).write_text((self.script.parent / name).read_text())
        more = "".join(f"  {line}\n" for line in self.lines)
        text = self.script.read_text().replace("  ea support = yes\n", "  ea support = yes\n" + more)
        (folder / "samba.sh").write_text(text)
        self._run("start", "bench", self.scratch.name, str(self.port), self.address)
        return self

    def _run(self, *arguments: str) -> None:
        script = Path(self.scratch.name) / "servers" / "samba.sh"
        done = subprocess.run(["bash", str(script), *arguments], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        if done.returncode:
            raise Missing(done.stderr.strip() or "Samba did not start")

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Missing):
            self._run("stop", self.scratch.name)
        self.scratch.cleanup()


class Ganesha(Samba):
    """Debian's Ganesha, by the script of the other suites."""

    def __init__(self) -> None:
        super().__init__()
        self.script = ROOT / "proving" / "servers" / "ganesha.sh"

    def __enter__(self) -> Self:
        folder = Path(self.scratch.name) / "servers"
        folder.mkdir()
        for name in ("common.sh", "accounts"):
            (folder / name).write_text((self.script.parent / name).read_text())
        (folder / "samba.sh").write_text(self.script.read_text())
        self._run("start", "nfs", self.scratch.name, str(self.port), self.address)
        return self


@contextlib.contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """A file system of the given size."""
    with tempfile.TemporaryDirectory(prefix="doctor-disk-") as place:
        image = Path(place) / "image"
        mounted = Path(place) / "mounted"
        mounted.mkdir()
        image.write_bytes(b"")
        os.truncate(image, megabytes << 20)
        if shutil.which("mkfs.ext4") is None:
            raise Missing("needs the Debian package e2fsprogs")
        subprocess.run(["mkfs.ext4", "-q", "-m", "0", str(image)], check=True)
        if subprocess.run(["mount", "-o", "loop", str(image), str(mounted)], capture_output=True).returncode:
            raise Missing("a loop device cannot be mounted here")
        try:
            yield mounted
        finally:
            subprocess.run(["umount", str(mounted)], check=False)


@contextlib.contextmanager
def other_clock(seconds: int) -> Iterator[Path]:
    """A library that shows another time to any program started with it."""
    with tempfile.TemporaryDirectory(prefix="doctor-clock-") as place:
        source, library = Path(place) / "clock.c", Path(place) / "clock.so"
        source.write_text(
            "#define _GNU_SOURCE\n#include <time.h>\n#include <sys/syscall.h>\n#include <unistd.h>\n"
            "int clock_gettime(clockid_t id, struct timespec *at) {\n"
            f"  long r = syscall(SYS_clock_gettime, id, at); if (r == 0 && id == CLOCK_REALTIME) at->tv_sec += {seconds}; return r; }}\n"
        )
        if subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], capture_output=True).returncode:
            raise Missing("there is no C compiler")
        yield library


def main() -> None:
    """Carry connections, see above."""
    address, port, to_address, to_port, rate = sys.argv[1:]
    with Proxy(address, int(port), (to_address, int(to_port)), rate=float(rate)):
        signal.pause()


if __name__ == "__main__":
    main()
