"""A guest with one of Debian's kernels for machines, for features that user-mode-linux lacks: it has no ksmbd.

QEMU emulates the processor, so such a guest needs no KVM. It boots in ten seconds and works at a fifth of the machine's
speed. Its root is the machine's file system, read-only, by virtiofs; /mnt and /run are its own memory. Its only network
is its loopback: one kernel is both server and client. scripts/foreign unpacked the kernels, beside ksmbd-tools.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from proving.harness import newer
from proving.kernel_client import guest

# The folders of scripts/foreign, by the names of `kernels.KERNELS`.
FOLDERS = {"6.12": "ksmbd-6.12", "newest": "ksmbd-newest"}
PROGRAM = "qemu-system-x86_64"
# Debian 12 has it in QEMU, Debian 13 in a package of its own.
VIRTIOFSD = ("/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd")
READY_WITHIN_S = 20


def root(series: str) -> Path:
    """Return the directory of the unpacked kernel and its companions."""
    return newer.root(FOLDERS[series])


def missing(series: str) -> str:
    """Return the reason why such a guest is not available here, as one line; empty if it is."""
    if os.geteuid() != 0:
        return "needs root to give a guest this machine's files"
    if series not in FOLDERS:
        return f"no kernel {series} of Debian's is unpacked: --kernel {' or '.join(FOLDERS)}"
    if not (root(series) / "usr/lib/modules").exists():
        return f"{root(series)} is missing: scripts/foreign all"
    if not shutil.which(PROGRAM):
        return "needs the Debian package qemu-system-x86"
    return "" if _virtiofsd() else "needs the Debian package virtiofsd (Debian 12: qemu-system-common)"


def _virtiofsd() -> str | None:
    return next((path for path in VIRTIOFSD if os.access(path, os.X_OK)), None)


def _release(series: str) -> Path:
    """Return the directory of the kernel's modules. The files of `depmod` are created here, once."""
    (modules,) = (root(series) / "usr/lib/modules").iterdir()
    if not (modules / "modules.dep").exists():
        subprocess.run(["depmod", "-b", root(series), modules.name], check=True, env=dict(os.environ, PATH=guest.PATH))
    return modules


def run(series: str, job: guest.Job, limit_s: float, memory_mib: int) -> guest.Ran:
    """Boot a guest that runs `job` as root. Returns the same as `guest.run`."""
    modules = _release(series)
    images = [modules / "vmlinuz", root(series) / "boot" / f"vmlinuz-{modules.name}"]
    with tempfile.TemporaryDirectory(prefix="proof-qemu-") as directory, contextlib.ExitStack() as stack:
        work = Path(directory)
        init, script = guest.lay(job, work)
        words = ["console=ttyS0", "root=machine", "rootfstype=virtiofs", "ro", f"init={init}", f"guestjob={script}",
                 f"guestmodules={modules.parent}", "quiet", "loglevel=0", "panic=-1"]
        command = [PROGRAM, "-accel", "tcg", "-cpu", "max", "-m", str(memory_mib), "-nodefaults", "-no-user-config", "-display", "none",
                   "-serial", "stdio", "-no-reboot", "-object", f"memory-backend-memfd,id=memory,size={memory_mib}M,share=on",
                   "-machine", "q35,memory-backend=memory", "-chardev", f"socket,id=files,path={_files(stack, work)}",
                   "-device", "vhost-user-fs-pci,chardev=files,tag=machine",
                   "-kernel", str(next(image for image in images if image.exists())), "-append", " ".join(map(str, words))]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
        output, over = guest.outlast(process, limit_s)
    return guest.read(output.decode("utf-8", "replace"), over)


def _files(stack: contextlib.ExitStack, work: Path) -> Path:
    """Serve this machine's files at a socket, until the stack is left."""
    socket = work / "files"
    # The default sandbox would change the root directory, which is not possible for this machine's own.
    command = [_virtiofsd() or "virtiofsd", f"--socket-path={socket}", "-o", "source=/", "-o", "sandbox=chroot", "-o", "cache=auto"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    stack.callback(_end, process)
    end = time.monotonic() + READY_WITHIN_S
    while not socket.exists():
        if process.poll() is not None or time.monotonic() > end:
            raise OSError("virtiofsd does not serve this machine's files")
        time.sleep(0.05)
    return socket


def _end(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()
