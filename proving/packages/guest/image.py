"""The disk of a Debian machine with systemd, as `machine.py` boots it.

mmdebstrap makes it from the machine's own archive and release, with the modules of Debian's user-mode-linux. It lies in
the cache (harness/newer.py) and is made anew when this file, the release or the kernel changes. Nothing writes to it:
each machine has its changes in a file of its own.
"""

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from proving.harness import newer
from proving.harness.tally import missing_packages
from proving.kernel_client import kernels

# The machine itself, its network, clients for both protocols, and what the cases look at a machine with.
PACKAGES = ("systemd", "systemd-sysv", "dbus", "udev", "kmod", "iproute2", "procps", "apparmor", "acl", "python3-minimal",
            "libpython3-stdlib", "cifs-utils", "keyutils", "nfs-common", "init-system-helpers", "adduser")
SOURCES = ("/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list")
BYTES = 2 << 30
MADE_WITHIN_S = 600
# Nobody logs on there, and nothing there is older than a day.
WITHOUT = ("rpcbind.service", "rpcbind.socket", "rpc-statd-notify.service", "getty@.service", "e2scrub_reap.service",
           "e2scrub_all.timer", "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer")
AGENT_UNIT = "etc/systemd/system/proof-agent.service"
FILES = {
    "etc/hostname": "machine\n",
    "etc/hosts": "127.0.0.1 localhost\n10.77.0.2 machine\n",
    # An empty one is filled at the first boot.
    "etc/machine-id": "",
    # The directory of the host that machine.py names on the kernel's command line.
    "etc/fstab": "/dev/ubda / ext4 rw 0 0\nnone /host hostfs rw 0 0\n",
    "etc/systemd/network/vec0.network": "[Match]\nName=vec0\n\n[Network]\nAddress=10.77.0.2/24\nLinkLocalAddressing=no\n",
    # The kernel has hundreds of devices that this machine does not use.
    "etc/systemd/system/systemd-udev-trigger.service.d/network.conf":
        "[Service]\nExecStart=\nExecStart=udevadm trigger --action=add --subsystem-match=net\n",
    AGENT_UNIT: "[Unit]\nDescription=Runs what the host asks for\nRequiresMountsFor=/host\n\n"
                "[Service]\nType=idle\nExecStart=/usr/bin/python3 /host/proving/packages/guest/machine_agent.py\n"
                "StandardInput=tty\nStandardOutput=tty\nStandardError=journal\nTTYPath=/dev/ttyS0\n"
                "Environment=HOME=/root LC_ALL=C.UTF-8\nKillMode=process\n\n[Install]\nWantedBy=multi-user.target\n",
    "etc/default/locale": "LANG=C.UTF-8\n",
}


class CannotMake(Exception):
    """The disk cannot be made here; the message gives the reason."""


def missing() -> str:
    """Return the reason why there is no disk and none can be made, as one line; empty if there is one or it can be made."""
    if path().exists():
        return ""
    return missing_packages({"mmdebstrap": "mmdebstrap", "mke2fs": "e2fsprogs"})


def path() -> Path:
    """Return the place of the disk that this recipe makes with this machine's release and kernel."""
    recipe = Path(__file__).read_bytes() + f"{_codename()} {kernels.KERNELS[kernels.OWN].release()}".encode()
    return newer.root("package-machine") / f"{_codename()}-{hashlib.sha256(recipe).hexdigest()[:12]}.ext4"


def make() -> Path:
    """Make the disk unless it is there. Returns its path."""
    disk = path()
    if disk.exists():
        return disk
    disk.parent.mkdir(parents=True, exist_ok=True)
    for old in disk.parent.iterdir():
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    with tempfile.TemporaryDirectory(dir=disk.parent) as work:
        root, image = Path(work) / "root", Path(work) / "image"
        _do("mmdebstrap", "--quiet", "--mode=root", "--variant=minbase", f"--include={','.join(PACKAGES)}", _codename(), root, _sources())
        shutil.copytree(f"/{kernels.MODULES}", root / "usr/lib/modules", dirs_exist_ok=True, symlinks=True)
        _write(root)
        with image.open("wb") as file:
            file.truncate(BYTES)
        _do("mke2fs", "-q", "-t", "ext4", "-d", root, image)
        image.rename(disk)
    return disk


def _write(root: Path) -> None:
    (root / "host").mkdir()
    for name, text in FILES.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    # Debian asks this program before it starts a service; mmdebstrap may leave one that forbids it.
    with contextlib.suppress(FileNotFoundError):
        (root / "usr/sbin/policy-rc.d").unlink()
    units = root / "etc/systemd/system"
    for unit in WITHOUT:
        (units / unit).unlink(missing_ok=True)
        (units / unit).symlink_to("/dev/null")
    _do("systemctl", f"--root={root}", "--quiet", "enable", "systemd-networkd.service", Path(AGENT_UNIT).name)


def _codename() -> str:
    lines = Path("/etc/os-release").read_text().splitlines()
    return next((line.partition("=")[2].strip('"') for line in lines if line.startswith("VERSION_CODENAME=")), "")


def _sources() -> str:
    found = [file for file in SOURCES if os.path.exists(file) and Path(file).read_text().strip()]
    if not found:
        raise CannotMake(f"no archive of Debian's is named in {' or '.join(SOURCES)}")
    return found[0]


def _do(*words: object) -> None:
    command = [str(word) for word in words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=MADE_WITHIN_S,
                              env=dict(os.environ, PATH=kernels.PATH))
    except (OSError, subprocess.TimeoutExpired) as reason:
        raise CannotMake(f"{command[0]}: {reason}") from reason
    if done.returncode != 0:
        raise CannotMake(f"{command[0]}: {' '.join(done.stderr.split())[-300:]}")
