"""A fresh installation: what runs afterwards, and three commands to a mounted share with everything that the unit forbids."""

import re
import statistics
import time
from pathlib import Path

from proving.packages.guest.machine import Failed
from proving.packages.guest.trial import ADD_USER, CREATE_SHARE, INSTALL_S, MOUNTS, NFS, PASSWORD, SERVED, SMB, USER, Trial

PAGE = Path(__file__).resolve().parents[3] / "docs" / "install.md"
MOUNTED_WITHIN_S = 60
# Starts that are timed.
STARTS = 10
# SMB, NFS, and discovery (docs/install.md).
PORTS = {"tcp 445", "tcp 2049", "tcp 5357", "udp 5353", "udp 3702"}
# The most that systemd-analyze security may give the unit, in tenths.
EXPOSURE = 35
# Waits for one change below a directory that is open over SMB (CIFS_IOC_NOTIFY of fs/cifs/cifs_ioctl.h).
NOTIFIED = f"""timeout 20 python3 -c '
import fcntl, os, struct
fcntl.ioctl(os.open("{SMB}", os.O_RDONLY), 0x4005cf09, struct.pack("<I?", 0x17, True))' & sleep 2; echo text >{SERVED}/by-the-host; wait $!"""


def run(trial: Trial) -> None:
    """All cases of a fresh installation."""
    machine = trial.machine
    trial.prepare()
    _three_commands(trial)
    trial.does("a user of the host", f"printf %s '{PASSWORD}' | {ADD_USER}")
    trial.does("a share of this user", CREATE_SHARE)
    trial.does("a mount over SMB", MOUNTS[SMB])
    trial.does("a restart", "systemctl restart trunkline", 120)
    trial.does("a mount over NFS", MOUNTS[NFS])
    _listens(trial, "with the share")
    _identity(trial)
    _events(trial)
    _handles(trial)
    _unit(trial)
    _starts(trial)
    trial.does("a man page", "ls /usr/share/man/man1/trunkline.1.gz")
    trial.unmount()
    trial.does("systemctl stop", "systemctl stop trunkline && ! systemctl is-failed trunkline")
    trial.case("no warning in the journal", trial.complaints(but="only after the next start"))
    machine.run("systemctl start trunkline", 120)
    _without_ids(trial)


def _three_commands(trial: Trial) -> None:
    """From the .deb to a mounted share, as docs/install.md has it."""
    machine, commands = trial.machine, documented()
    if len(commands) != 3:
        raise Failed(f"{PAGE} has no three commands for Debian: {commands}")
    install, create, mount = commands
    took = [time.monotonic()]
    said = trial.does("apt installs it", re.sub(r"apt install \S+", f"apt-get install -y {trial.debs.proven}", install), INSTALL_S)
    took.append(time.monotonic())
    trial.does("systemd runs it", "systemctl is-active trunkline && systemctl is-enabled trunkline")
    trial.case("apt has nothing to complain of", "; ".join(re.findall(r"(?im)^.*(?:warning|error|failed|could not).*$", said)))
    _after_installation(trial)
    took.append(time.monotonic())
    trial.does("the first share", create)
    # mount.cifs asks on a terminal otherwise.
    trial.does("its mount", f"PASSWD=$(head -1 /var/lib/trunkline/first-password) {mount}")
    took.append(time.monotonic())
    seconds = took[1] - took[0] + took[3] - took[2]
    trial.show(f"from the .deb to the mounted share: {seconds:.1f} s, of which the installation {took[1] - took[0]:.1f} s")
    trial.case("mounted within a minute", "" if seconds < MOUNTED_WITHIN_S else f"{seconds:.0f} s")
    trial.does("a file there", f"chown trunkline {SERVED} && echo text >/mnt/file && stat -c %U {SERVED}/file", says="^trunkline$")
    machine.must(f"umount /mnt && trunkline share delete docs --force && chown {USER} {SERVED} && rm {SERVED}/file && mkdir -p {SMB} {NFS}")


def documented() -> list[str]:
    """Return the page's commands for Debian, without sudo."""
    section = PAGE.read_text().partition("## Debian")[2].partition("\n## ")[0]
    return re.findall(r"(?m)^    sudo (.*)$", section)[:3]


def _after_installation(trial: Trial) -> None:
    trial.does("dpkg finds its files", "test -z \"$(dpkg --audit)\" && dpkg --verify trunkline && test -z \"$(dpkg --verify trunkline)\"")
    trial.case("systemd was told of its start", "" if trial.property("Type") == "notify" and trial.property("NRestarts") == "0"
               else f"Type={trial.property('Type')}, NRestarts={trial.property('NRestarts')}")
    trial.does("nobody else may read its state", "stat -c '%a %U' /var/lib/trunkline", says=r"^700 root$")
    trial.does("its user exists", "getent passwd trunkline", says="/nologin$")
    _listens(trial, "fresh")


def _listens(trial: Trial, when: str) -> None:
    pid = trial.property("MainPID")
    lines = trial.machine.must(f"ss -lntupH | grep 'pid={pid},' || true").splitlines()
    ports = {f"{line.split()[0]} {line.split()[4].rpartition(':')[2]}" for line in lines}
    trial.show(f"ports, {when}: {', '.join(sorted(ports))}")
    trial.case(f"ports, {when}", ", ".join(ports - PORTS))


def _identity(trial: Trial) -> None:
    """Each request acts as its user on the host."""
    trial.machine.must(f"install -m 600 /dev/null {SERVED}/of-root; chown root: {SERVED}/of-root")
    for name, where in (("smb", SMB), ("nfs", NFS)):
        trial.does(f"a file over {name} belongs to its maker", f"su {USER} -c 'echo text >{where}/by-{name}' && stat -c %U {SERVED}/by-{name}",
                   says=f"^{USER}$")
        trial.refuses(f"what is root's stays closed over {name}", f"su {USER} -c 'cat {where}/of-root'", "Permission denied")
    trial.refuses("NFS takes root for nobody", f"cat {NFS}/of-root", "Permission denied")
    trial.does("SMB's descriptors lie beside the file", f"python3 -c 'import os; print(os.listxattr(\"{SERVED}/by-smb\"))'", says=r"trusted\.trunkline|\[\]")


def _without_ids(trial: Trial) -> None:
    """A user whom the host does not have acts as nobody, and root only if root is said."""
    mount = f"PASSWD={PASSWORD} mount -t cifs //127.0.0.1/docs /mnt -o username=stranger"
    mend = "trunkline user set stranger --uid"
    trial.does("a user whom the host does not have is added with a warning", f"printf %s '{PASSWORD}' | trunkline user add stranger --password-file - 2>&1",
               says=mend)
    trial.machine.must("trunkline share set docs users=*=full")
    trial.refuses("and may not log on", mount, "Permission denied")
    trial.does("the journal says what to do", "journalctl -u trunkline | grep 'log-on refused'", says=mend)
    given = f"{mend} $(id -u {USER}) --gid $(id -g {USER})"
    trial.does("with the uid of another", f"{given} && {mount} && echo text >/mnt/by-stranger && stat -c %U {SERVED}/by-stranger", says=f"{USER}$")
    trial.machine.must(f"umount /mnt; rm {SERVED}/by-stranger; trunkline share set docs users={USER}=full; trunkline user remove stranger")


def _events(trial: Trial) -> None:
    """The host's own programs are seen by fanotify."""
    trial.does("a change by the host is told to an SMB client", NOTIFIED)
    trial.does("it is told by fanotify", "grep -l fanotify /proc/$(systemctl show --value -p MainPID trunkline)/fdinfo/*")


def _handles(trial: Trial) -> None:
    """A filehandle finds its file after a rename by the host and a restart: the server opens by handle."""
    trial.does("a filehandle survives a rename and a restart",
               f"exec 3<{NFS}/by-nfs; mkdir {SERVED}/moved; mv {SERVED}/by-nfs {SERVED}/moved/elsewhere; systemctl restart trunkline; "
               "echo 3 >/proc/sys/vm/drop_caches; cat <&3", 120, "text")
    trial.does("no table of files stands in for handles", "test -z \"$(find /var/lib/trunkline/volumes -name nodes)\"")


def _starts(trial: Trial) -> None:
    """The time from the process's start to its word that it is ready."""
    stamps = "systemctl show --value -p ExecMainStartTimestampMonotonic -p ActiveEnterTimestampMonotonic trunkline"
    # systemd refuses the sixth start within ten seconds.
    restart = f"systemctl reset-failed trunkline; systemctl restart trunkline && {stamps}"
    times = []
    for _ in range(STARTS):
        began, ready = sorted(int(line) for line in trial.machine.must(restart, 120).split())
        times.append((ready - began) / 1000)
    trial.show(f"ready after a start in this guest: {statistics.median(times):.0f} ms ({min(times):.0f}-{max(times):.0f}), {STARTS} starts")


def _unit(trial: Trial) -> None:
    """What systemd says of the unit, and what it forbids."""
    trial.does("systemctl status", "systemctl status --no-pager trunkline", says=r"active \(running\)")
    trial.does("a reload keeps the process and the mounts",
               f"before=$(systemctl show --value -p MainPID trunkline); systemctl reload trunkline; "
               f"test $before = $(systemctl show --value -p MainPID trunkline) && ls {SMB} {NFS}")
    trial.does("systemd-analyze verify", "test -z \"$(systemd-analyze verify --man=no trunkline.service 2>&1 | tee /dev/stderr)\"")
    said = trial.does("systemd-analyze security", f"systemd-analyze security --no-pager --threshold={EXPOSURE} trunkline.service")
    trial.show(said.splitlines()[-1])
    pid = trial.property("MainPID")
    trial.does("no new privileges, and a filter of system calls", f"grep -E '^(NoNewPrivs|Seccomp):' /proc/{pid}/status",
               says=r"(?s)NoNewPrivs:\s+1.*Seccomp:\s+2")
    # The memory of user-mode-linux can always be run, so its maps show nothing.
    trial.does("no memory is written and run", "systemctl show -p MemoryDenyWriteExecute trunkline", says="=yes$")
    trial.machine.must("install -d /home/shared")
    trial.refuses("/home is hidden", "trunkline share create home path=/home/shared users='*=read'", "/home/shared")
