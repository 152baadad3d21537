"""A Debian machine in a guest: systemd as its first process, a disk of its own, a network card, and AppArmor.

    with Machine(network) as machine:
        machine.must("apt-get install -y /host/trunkline.deb")

The kernel is Debian's user-mode-linux, which has all that the unit asks for: control groups, seccomp, namespaces,
fanotify, filehandles, extended attributes and AppArmor. It has one processor. /host is the machine's window to a directory of
this host. The machine's changes to its disk lie in a file that ends with it (image.py).
"""

import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple, Self

from proving.kernel_client import console, guest, kernels, workload
from proving.packages.guest import image

HERE = Path(__file__).resolve().parent
MEMORY_MIB = 1000
# A busy host boots it in 20 s.
BOOTED_WITHIN_S = 180
ENDED_WITHIN_S = 120
# More time for an answer than the script itself has.
ANSWER_S = 30
WORDS = ("root=/dev/ubda", "rootfstype=ext4", "rw", "vec0:transport=tap,ifname=tap0,depth=128,gro=1", "con=null", "con0=null,fd:2",
         "ssl=null", "ssl0=fd:0,fd:1", "quiet", "apparmor=1", "security=apparmor", "audit=1", "systemd.show_status=0")


class Done(NamedTuple):
    """A script that is over: its exit status (124 after its limit) and all that it printed."""

    status: int
    output: str


class Failed(Exception):
    """The machine did not do what a case needs; the message says what."""


class Machine:
    """One machine. A context manager: entering boots it, leaving ends it and drops its disk."""

    def __init__(self, network: guest.Network) -> None:
        self._network = network
        self._base = image.make()
        self._work = Path(tempfile.mkdtemp(prefix="proof-machine-"))
        # The directory that the machine has as /host.
        self.host = self._work / "host"
        self._running: guest.Conversation | None = None

    def __enter__(self) -> Self:
        self.host.mkdir()
        # Users of the machine run scripts from there too.
        os.chmod(self._work, 0o755)
        console.lay([HERE / "machine_agent.py", HERE / "held_open.py", HERE / "connects.py", Path(workload.__file__)], self.host)
        try:
            self.boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.cut_power()
        shutil.rmtree(self._work, ignore_errors=True)

    def boot(self) -> float:
        """Boot from the disk as it is. Returns the seconds until the machine answered."""
        began = time.monotonic()
        words = [f"mem={MEMORY_MIB}M", f"ubd0={self._work / 'disk'},{self._base}", f"hostfs={self.host}", f"uml_dir={self._work}", *WORDS]
        with open(self._work / "console", "ab") as log:
            process = guest.start(self._network, kernels.KERNELS[kernels.OWN].command(words),
                                  guest.memory_directory(self._work, MEMORY_MIB), subprocess.PIPE, log)
        self._running = guest.Conversation(process)
        try:
            self._running.answer(BOOTED_WITHIN_S)
        except guest.GuestEnded as reason:
            raise Failed(f"the machine does not boot: {reason}; {self.console()[-500:]}") from reason
        return time.monotonic() - began

    def cut_power(self) -> None:
        """End the machine at once."""
        if self._running:
            self._running.__exit__()
            self._running = None

    def reboot(self) -> float:
        """Shut the machine down in order and boot it again. Returns the seconds from the boot to the first answer."""
        self.run("systemctl poweroff --no-block")
        if not (self._running and self._running.ended(ENDED_WITHIN_S)):
            raise Failed(f"the machine did not shut down within {ENDED_WITHIN_S} s: {self.console()[-500:]}")
        self.cut_power()
        return self.boot()

    def run(self, script: str, limit_s: float = 60) -> Done:
        """Run a script with bash as root."""
        if not self._running:
            raise Failed("the machine is off")
        try:
            said: dict[str, Any] = self._running.ask(limit_s + ANSWER_S, do="run", script=script, within_s=limit_s)
        except guest.GuestEnded as reason:
            raise Failed(f"{script}: {reason}") from reason
        return Done(said["status"], said["output"].strip())

    def must(self, script: str, limit_s: float = 60) -> str:
        """Run a script that may not fail. Returns its output."""
        done = self.run(script, limit_s)
        if done.status != 0:
            raise Failed(f"`{script}` gave {done.status}: {' | '.join(done.output.splitlines()[-8:])}")
        return done.output

    def until(self, script: str, limit_s: float = 60) -> str:
        """Run a script again and again until it succeeds. Returns the last output."""
        return self.must(f"until out=$({script}) 2>&1; do sleep 0.2; done; echo \"$out\"", limit_s)

    def console(self) -> str:
        """Return what the kernel and systemd printed."""
        log = self._work / "console"
        return log.read_text(errors="replace") if log.exists() else ""
