"""A Linux kernel client: Debian's user-mode-linux in its own network namespace, with a virtual cable to this machine
for each NIC.

`run` boots a guest for one job and returns its output. `Guest` boots one that exchanges lines of JSON with the host
over its console, so that this needs no network. The guest's root is this machine's file system, mounted read-only; /mnt
and /run are fresh memory file systems in the guest.

The guest has cifs.ko and nfs.ko of its own kernel (6.1, or a newer one: kernels.py), so a server sees a real client.
Needs root, and the Debian packages user-mode-linux, kmod and iproute2, and cifs-utils and keyutils or nfs-common.
"""

import atexit
import functools
import itertools
import json
import os
import queue
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Self

from proving.harness.tally import missing_packages
from proving.kernel_client import console, kernels

# The words of a job.
Job = Sequence[object]
# The result of a guest: status and lines.
Ran = tuple[int, list[str]]

HERE = Path(__file__).resolve().parent
PROBE_LIMIT_S = 60
_serial = itertools.count()


def server_address(nic: int = 0) -> str:
    """Return the address of the server's end of the cable `nic`."""
    return f"10.77.{nic}.1"


def guest_address(nic: int = 0) -> str:
    """Return the address of the guest's end of the cable `nic`."""
    return f"10.77.{nic}.2"


SERVER_ADDRESS = server_address()

# The lines that the guest's kernel prints around every boot. The rest is the job's own output.
_BOOT_NOISE = ("Core dump limits", "\tsoft -", "\thard -", "Checking ", "Adding ", "SELinux:", "mmapper_init",
               "Failed to initialize ubd", "reboot: System halted", "sysrq: Power Off", "Warning: tempdir")
_STATUS = "guest-job-status "


def missing(mount: tuple[str, str] = ("mount.cifs", "cifs-utils")) -> str:
    """Return the reason why guests that need a program and its package cannot run here, as one line; empty if they can."""
    if os.geteuid() != 0:
        return "needs root for a network namespace and a tap device"
    if not os.path.exists("/dev/net/tun"):
        return "needs /dev/net/tun"
    if reason := kernels.GuestKernel.kernel.missing():
        return reason
    programs = {"modprobe": "kmod", "ip": "iproute2", mount[0]: mount[1]}
    return missing_packages(programs)


PATH = kernels.PATH


class Network:
    """A namespace with a tap device for each NIC of the guest (`server_address`, `guest_address`). A context manager."""

    def __init__(self, nics: int = 1) -> None:
        self.name = f"proof-{os.getpid()}-{next(_serial)}"
        self.nics = nics

    def __enter__(self) -> Self:
        self._ip("netns", "add", self.name)
        try:
            self._ip("-n", self.name, "link", "set", "lo", "up")
            for nic in range(self.nics):
                self._ip("-n", self.name, "tuntap", "add", "dev", f"tap{nic}", "mode", "tap")
                self._ip("-n", self.name, "addr", "add", f"{server_address(nic)}/24", "dev", f"tap{nic}")
                self._ip("-n", self.name, "link", "set", f"tap{nic}", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["ip", "netns", "del", self.name], check=False, env=dict(os.environ, PATH=PATH))

    def guest_address(self, nic: int) -> str:
        """Return the address of the guest's end of the cable `nic`."""
        return guest_address(nic)

    def tap(self, nic: int) -> str:
        """Return the name of the server's end of the cable `nic`."""
        return f"tap{nic}"

    def inside(self, command: list[str]) -> list[str]:
        """Return the command line that runs `command` inside the namespace."""
        return ["ip", "netns", "exec", self.name, *command]

    @staticmethod
    def _ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, timeout=30, env=dict(os.environ, PATH=PATH))


def cannot_boot() -> str:
    """Boot a guest that does nothing. Returns the reason why that fails here, as one line, or an empty string."""
    try:
        with Network() as network:
            status, lines = run(network, ["uname", "-r"], PROBE_LIMIT_S)
    except (OSError, subprocess.SubprocessError) as reason:
        return f"no network namespace with a tap device can be made here: {reason}"
    if status == 0:
        print(f"        the guests run Linux {lines[-1]}", flush=True)
        return ""
    return f"user-mode-linux does not boot here: {' | '.join(lines[-3:]) or f'status {status}'}"


def run(network: Network, job: Job, limit_s: float, memory_mib: int = 640) -> Ran:
    """Boot a guest that runs `job` (a list of words) as root. Returns (status, output lines).

    The status is the job's own; 124 after a time-out, 125 when the guest ended without having run the job.
    """
    work = Path(tempfile.mkdtemp(prefix="proof-guest-"))
    process = _boot(network, job, work, memory_mib, ["con0=null,fd:1"], subprocess.DEVNULL)
    try:
        output, over = outlast(process, limit_s)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return read(output.decode("utf-8", "replace"), over)


def outlast(process: subprocess.Popen[bytes], limit_s: float) -> tuple[bytes, bool]:
    """Wait for a guest's end, or end it. Returns its output and whether it timed out."""
    try:
        return process.communicate(timeout=limit_s)[0], False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate()[0], True


def lay(job: Job, work: Path) -> tuple[Path, Path]:
    """Write the guest's first files into `work`: its first process, and a script that is the job."""
    init = Path(shutil.copy(HERE / "guest-init", work))
    script = work / "job"
    script.write_text("#!/bin/sh\nexec " + " ".join(_quote(word) for word in job) + "\n")
    script.chmod(0o755)
    return init, script


def _boot(network: Network, job: Job, work: Path, memory_mib: int, consoles: list[str], stdin: int, kernel: kernels.Kernel | None = None,
          descriptors: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    init, script = lay(job, work)
    kernel = kernel or kernels.GuestKernel.kernel
    words = [
        f"mem={memory_mib}M", "root=/dev/root", "rootfstype=hostfs", f"rootflags={kernel.path('/')}", "ro",
        *(f"vec{nic}:transport=tap,ifname={network.tap(nic)},depth=128,gro=1" for nic in range(network.nics)),
        f"init={init}", f"guestjob={script}", "guestaddr=" + ",".join(f"{network.guest_address(nic)}/24" for nic in range(network.nics)),
        f"guestmodules={kernel.modules()}", f"uml_dir={kernel.path(work)}", "con=null", *consoles, "quiet", "loglevel=0",
    ]
    return start(network, kernel.command(words), kernel.path(memory_directory(work, memory_mib)), stdin, subprocess.STDOUT, descriptors)


def start(network: Network, command: list[str], memory: str, stdin: int, stderr: int | IO[bytes],
          descriptors: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """Start a kernel with its words, in the network, with its memory in the directory `memory`. Its output is a pipe."""
    # A separate process namespace: the end of its first process ends all of the guest's processes.
    command = network.inside(["unshare", "--pid", "--fork", "--kill-child", *_wide_registers(), *command])
    return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True,
                            pass_fds=descriptors, env=dict(os.environ, PATH=PATH, TMPDIR=memory))


@functools.cache
def _wide_registers() -> list[str]:
    """Return the words before the kernel's command where the processor has registers that the kernel does not know
    (wide_registers.c)."""
    if "amx_tile" not in Path("/proc/cpuinfo").read_text().split():
        return []
    if shutil.which("cc", path=PATH) is None:
        raise OSError("this processor has AMX, for which a C compiler (cc) is needed to build wide_registers.c")
    directory = tempfile.mkdtemp(prefix="proof-registers-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    library = Path(directory) / "wide_registers.so"
    subprocess.run(["cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, HERE / "wide_registers.c"], check=True,
                   timeout=60, env=dict(os.environ, PATH=PATH))
    return ["env", f"LD_PRELOAD={library}"]


class GuestEnded(Exception):
    """The guest, or its job, has ended or does not answer in time."""


class Conversation:
    """A guest's process whose agent reads requests and prints answers, one line of JSON each. A mark precedes each
    answer (console.py).

    A context manager: leaving it ends the guest. `noise` holds the guest's other output.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._answers: queue.Queue[Any] = queue.Queue()
        self.noise: list[str] = []
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._process.wait()
        self._reader.join(timeout=10)

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            text = line.decode("utf-8", "replace").replace("\r", "").rstrip("\n")
            if text.startswith(console.MARK):
                self._answers.put(json.loads(text[len(console.MARK):]))
            elif text and not text.startswith(_BOOT_NOISE):
                self.noise.append(text)
        self._answers.put(None)

    def ask(self, limit_s: float, **request: Any) -> Any:
        """Send a request and wait for its answer. Raises GuestEnded if none comes within `limit_s` seconds."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as reason:
            raise GuestEnded(f"the guest is gone: {reason}; {self._last_words()}") from reason
        return self.answer(limit_s)

    def answer(self, limit_s: float) -> Any:
        """Wait for the next answer. Raises GuestEnded if none comes within `limit_s` seconds."""
        try:
            found = self._answers.get(timeout=limit_s)
        except queue.Empty:
            raise GuestEnded(f"no answer within {limit_s} s; {self._last_words()}") from None
        if found is None:
            raise GuestEnded(f"the guest ended; {self._last_words()}")
        return found

    def _last_words(self) -> str:
        return "it said: " + " | ".join(self.noise[-6:])

    def signal(self, number: int) -> None:
        """Send a signal to the kernel. Its processes do nothing without it."""
        # The kernel has taken the place of the child that the first program has put into a process namespace.
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        os.kill(int(children[0]), number)

    def ended(self, limit_s: float) -> bool:
        """Wait for the guest's own end. Returns whether it came in time."""
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return False
        return True


class Guest(Conversation):
    """A running guest with an agent as its job. What its programs write to /dev/tty1 goes to the descriptor `log`, a pipe."""

    def __init__(self, network: Network, job: Job, memory_mib: int = 640, kernel: kernels.Kernel | None = None, log: int | None = None) -> None:
        self._work = Path(tempfile.mkdtemp(prefix="proof-guest-"))
        consoles, descriptors = ["con0=fd:0,fd:1"], []
        if log is not None:
            consoles.append(f"con1=null,fd:{log}")
            descriptors.append(log)
        super().__init__(_boot(network, job, self._work, memory_mib, consoles, subprocess.PIPE, kernel, descriptors))

    def __exit__(self, *what: object) -> None:
        super().__exit__(*what)
        shutil.rmtree(self._work, ignore_errors=True)


def memory_directory(work: Path, memory_mib: int) -> str:
    """Return the directory for the guest's memory: a memory file system if one has the room."""
    shm = "/dev/shm"
    if not os.access(shm, os.W_OK):
        return str(work)
    room = os.statvfs(shm)
    return shm if room.f_bavail * room.f_frsize > memory_mib << 20 else str(work)


def read(text: str, over: bool) -> Ran:
    """Return the status and the lines of a guest's output."""
    status, lines = (124 if over else 125), []
    for line in text.replace("\r", "").splitlines():
        if line.startswith(_STATUS):
            status = int(line[len(_STATUS):])
        elif line and not line.startswith(_BOOT_NOISE):
            lines.append(line)
    return status, lines


def _quote(word: object) -> str:
    return "'" + str(word).replace("'", "'\\''") + "'"
