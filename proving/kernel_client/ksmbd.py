#!/usr/bin/env python3
"""Linux' own SMB server with Linux' own client: runs in the guest, serves a file system in its memory there, and runs a job.

    ksmbd.py ROOT DIRECTORY PORT USER PASSWORD PROGRAM ...    serves each directory in DIRECTORY as a share, to USER, who is root there

ROOT is the directory of the unpacked ksmbd-tools (scripts/foreign). Its /usr replaces the machine's where they run.
"""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.kernel_client.knfsd import make_volume, run

STATE = Path("/run/ksmbd")
READY_WITHIN_S = 60
FROM_ROOT = 'mount --bind /dev/null /etc/ld.so.cache && mount --bind "$1/usr" /usr && shift && exec "$@"'


def tool(root: str, *words: object) -> None:
    """Run one of ksmbd-tools."""
    run("unshare", "--mount", "sh", "-c", FROM_ROOT, "sh", root, *words)


def configuration(where: Path, port: int) -> str:
    """Return the text of ksmbd.conf, with all features of the server and no limits on the user."""
    lines = ["[global]", "server string = proof", f"tcp port = {port}", "map to guest = never", "smb2 leases = yes",
             "server multi channel support = yes", "durable handles = yes"]
    for share in sorted(where.iterdir()):
        lines += [f"[{share.name}]", f"path = {share}", "read only = no", "force user = root", "force group = root",
                  "vfs objects = streams_xattr", "create mask = 0777", "directory mask = 0777"]
    return "\n".join(lines) + "\n"


def serve(root: str, where: Path, port: int, user: str, password: str) -> None:
    """Start the server on this port."""
    run("/run/modprobe", "ksmbd")
    STATE.mkdir()
    conf, users = STATE / "ksmbd.conf", STATE / "ksmbdpwd.db"
    conf.write_text(configuration(where, port))
    users.write_text("")
    tool(root, "/usr/sbin/ksmbd.adduser", "-C", conf, "-P", users, "-a", "-p", password, user)
    tool(root, "/usr/sbin/ksmbd.mountd", "-C", conf, "-P", users)
    end = time.monotonic() + READY_WITHIN_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def main() -> None:
    root, place, port, user, password, *job = sys.argv[1:]
    where = Path(place)
    began = time.monotonic()
    make_volume(where)
    serve(root, where, int(port), user, password)
    print(f"ksmbd of Linux {os.uname().release} serves after {time.monotonic() - began:.1f} s", flush=True)
    sys.exit(subprocess.run(job).returncode)


if __name__ == "__main__":
    main()
