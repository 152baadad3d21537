"""Programs of Debian trixie that scripts/foreign unpacked: Ceph with all its libraries, and etcd."""

import shlex
from pathlib import Path

from proving.harness import newer

CEPH, ETCD = newer.root("ceph"), newer.root("etcd")
# Ceph's /usr takes the place of the machine's, as in proving/servers/common.sh. A mount that the program makes below a
# shared mount is seen outside.
_WITH_CEPH = 'mount --bind /dev/null /etc/ld.so.cache && mount --bind "$0/usr" /usr && exec "$@"'


def missing() -> str:
    """Return the reason why the stores cannot run here, as one line; empty if they can."""
    lacking = [str(program) for program in (CEPH / "usr/bin/ceph-mon", ETCD / "usr/bin/etcd") if not program.exists()]
    if lacking:
        return f"{' and '.join(lacking)} are missing: scripts/foreign"
    return "" if Path("/dev/fuse").exists() else "needs /dev/fuse"


def with_ceph(program: str, *words: object) -> list[str]:
    """Return the command line that runs a program of Ceph's packages with its own libraries."""
    return ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", _WITH_CEPH, str(CEPH), f"/usr/bin/{program}", *map(str, words)]


def write_program(path: Path, command: list[str]) -> None:
    """Write a program that runs a command with its own arguments behind."""
    path.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
    path.chmod(0o755)


def etcd(program: str, *words: object) -> list[str]:
    """Return the command line that runs a program of etcd's packages. They need nothing but the machine's C library."""
    return [str(ETCD / "usr/bin" / program), *map(str, words)]
