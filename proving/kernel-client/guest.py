"""A Linux kernel client: Debian's user-mode-linux in a network namespace of its own, one virtual cable to this machine.

The guest's root is this machine's file system, mounted read-only; /mnt and /run are fresh memory file systems in the guest.
It has cifs.ko of its own kernel (6.1), so what it does to a server is what a real client does. Needs root, and the
Debian packages user-mode-linux, kmod, iproute2, cifs-utils and keyutils.
"""

import itertools
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SERVER_ADDRESS = "10.77.0.1"
GUEST_ADDRESS = "10.77.0.2"
PROBE_LIMIT_S = 60
_serial = itertools.count()

# What the guest's kernel says around every boot; the job's own output is what remains.
_BOOT_NOISE = ("Core dump limits", "\tsoft -", "\thard -", "Checking ", "Adding ", "SELinux:", "mmapper_init",
               "Failed to initialize ubd", "reboot: System halted", "sysrq: Power Off", "Warning: tempdir")
_STATUS = "guest-job-status "


def missing():
    """What stands in the way of running guests here, as one line; empty when nothing does."""
    if os.geteuid() != 0:
        return "needs root for a network namespace and a tap device"
    if not os.path.exists("/dev/net/tun"):
        return "needs /dev/net/tun"
    programs = {"linux.uml": "user-mode-linux", "modprobe": "kmod", "ip": "iproute2", "mount.cifs": "cifs-utils"}
    absent = sorted({package for program, package in programs.items() if shutil.which(program, path=_PATH) is None})
    return f"needs the Debian packages {', '.join(absent)}" if absent else ""


_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Network:
    """A namespace with a tap device: the server's end is SERVER_ADDRESS, the guest's GUEST_ADDRESS. A context manager."""

    def __init__(self):
        self.name = f"proof-{os.getpid()}-{next(_serial)}"

    def __enter__(self):
        self._ip("netns", "add", self.name)
        try:
            self._ip("-n", self.name, "link", "set", "lo", "up")
            self._ip("-n", self.name, "tuntap", "add", "dev", "tap0", "mode", "tap")
            self._ip("-n", self.name, "addr", "add", f"{SERVER_ADDRESS}/24", "dev", "tap0")
            self._ip("-n", self.name, "link", "set", "tap0", "up")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        subprocess.run(["ip", "netns", "del", self.name], check=False, env=dict(os.environ, PATH=_PATH))

    def inside(self, command):
        """The command line that runs `command` inside the namespace."""
        return ["ip", "netns", "exec", self.name, *command]

    @staticmethod
    def _ip(*words):
        subprocess.run(["ip", *words], check=True, timeout=30, env=dict(os.environ, PATH=_PATH))


def cannot_boot():
    """Boot a guest that does nothing; gives why that is not possible here, as one line, or nothing when it is."""
    try:
        with Network() as network:
            status, lines = run(network, ["true"], PROBE_LIMIT_S)
    except (OSError, subprocess.SubprocessError) as reason:
        return f"no network namespace with a tap device can be made here: {reason}"
    return "" if status == 0 else f"user-mode-linux does not boot here: {' | '.join(lines[-3:]) or f'status {status}'}"


def run(network, job, limit_s, memory_mib=640):
    """Boot a guest that runs `job` (a list of words) as root; gives (status, output lines).

    The status is the job's own; 124 when the time is over, 125 when the guest ended without having run the job.
    """
    work = Path(tempfile.mkdtemp(prefix="proof-guest-"))
    init = Path(shutil.copy(HERE / "guest-init", work))
    script = work / "job"
    script.write_text("#!/bin/sh\nexec " + " ".join(_quote(word) for word in job) + "\n")
    script.chmod(0o755)
    kernel = [
        "linux.uml", f"mem={memory_mib}M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
        "vec0:transport=tap,ifname=tap0,depth=128,gro=1", f"init={init}", f"guestjob={script}",
        f"guestaddr={GUEST_ADDRESS}/24", f"uml_dir={work}", "con=null", "con0=null,fd:1", "quiet", "loglevel=0",
    ]
    # A process namespace of its own: when its first process goes, all of the guest's processes go with it.
    command = network.inside(["unshare", "--pid", "--fork", "--kill-child", *kernel])
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True, env=dict(os.environ, PATH=_PATH, TMPDIR=_memory_directory(work, memory_mib)))
    over = False
    try:
        output, _ = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        over = True
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return _read(output.decode("utf-8", "replace"), over)


def _memory_directory(work, memory_mib):
    """Where the guest's memory is backed: a memory file system when there is one with the room."""
    shm = "/dev/shm"
    if not os.access(shm, os.W_OK):
        return str(work)
    room = os.statvfs(shm)
    return shm if room.f_bavail * room.f_frsize > memory_mib << 20 else str(work)


def _read(text, over):
    status, lines = (124 if over else 125), []
    for line in text.replace("\r", "").splitlines():
        if line.startswith(_STATUS):
            status = int(line[len(_STATUS):])
        elif line and not line.startswith(_BOOT_NOISE):
            lines.append(line)
    return status, lines


def _quote(word):
    return "'" + str(word).replace("'", "'\\''") + "'"
