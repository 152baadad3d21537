#!/usr/bin/env python3
"""Identities and origins of clients: Linux's NFS client at shares that differ in root_squash, networks, ports and protocols.

    nfs_exports.py [--only NAME ...]

One guest mounts the shares of one server (profile `nfs-exports` of servers/trunkline.sh) and works on them as root and
as ordinary users (nfs_exports_agent.py). The resulting files are then checked on this machine.
"""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite
from proving.kernel_client import console, guest, kernels, runs

HERE = Path(__file__).resolve().parent
SUITE = "kernel-client-nfs-exports"
ROOT, USER, ANONYMOUS = 0, 61002, 61001
# A user of this machine with 40 groups. A client sends 16 of them (RFC 5531 appendix A).
MEMBER, GROUPS = 61003, range(62001, 62041)
LIMIT_S = 60


class Run:
    """The server, the guest, and the cases."""

    def __init__(self, tally: Tally, server: servers.Server, client: guest.Guest) -> None:
        self.tally, self.server, self.client = tally, server, client

    def ask(self, do: str, **arguments: Any) -> Any:
        return self.client.ask(LIMIT_S, do=do, **arguments)

    def case(self, label: str, found: Any, wanted: Any) -> bool:
        right = wanted(found) if callable(wanted) else found == wanted
        self.tally.add("pass" if right else "fail", label, "" if right else f"found {found!r}")
        return right

    def mount(self, share: str, more: str = "") -> Any:
        """Mount a share (all of them with an empty name) at /mnt/a. Returns the error."""
        options = f"vers=4.2,proto=tcp,sec=sys,port={self.server.port},actimeo=0{more}"
        return self.ask("mount", source=f"{guest.SERVER_ADDRESS}:/{share}", options=options)

    def at(self, label: str, share: str, more: str = "") -> bool:
        """Return whether a share could be mounted. Only a failure counts as a case."""
        return not (wrong := self.mount(share, more)) or self.case(f"{label}: mount", wrong, "")

    def owner(self, share: str, name: str) -> tuple[int, int]:
        """Return the owner of a file on this machine."""
        found = os.lstat(self.server.share_directory(share) / name)
        return found.st_uid, found.st_gid

    def secret(self, share: str) -> None:
        """Create a file that only root of this machine may read."""
        path = self.server.share_directory(share) / "secret"
        path.write_text("of root")
        path.chmod(0o600)

    def squash_none(self) -> None:
        self.secret("files")
        if not self.at("none", "files"):
            return
        self.case("none: root makes a file", self.ask("make", uid=ROOT, gid=ROOT, name="r"), "")
        self.case("none: whose it is", self.owner("files", "r"), (ROOT, ROOT))
        self.case("none: root reads what is root's", self.ask("read", uid=ROOT, gid=ROOT, name="secret"), "of root")
        self.case("none: root gives a file away", self.ask("give", uid=ROOT, gid=ROOT, name="r", to=USER), "")
        self.case("none: whose it is then", self.owner("files", "r"), (USER, USER))
        self.case("none: a user makes a file", self.ask("make", uid=USER, gid=USER, name="u"), "")
        self.case("none: whose that is", self.owner("files", "u"), (USER, USER))
        self.case("none: a user does not read what is root's", self.ask("read", uid=USER, gid=USER, name="secret"), "EACCES")

    def squash_root(self) -> None:
        self.secret("t1")
        if not self.at("root", "t1"):
            return
        self.case("root: root makes a file", self.ask("make", uid=ROOT, gid=ROOT, name="r"), "")
        self.case("root: whose it is", self.owner("t1", "r"), (ANONYMOUS, ANONYMOUS))
        self.case("root: root does not read what is root's", self.ask("read", uid=ROOT, gid=ROOT, name="secret"), "EACCES")
        self.case("root: root gives no file away", self.ask("give", uid=ROOT, gid=ROOT, name="r", to=USER), "EPERM")
        self.case("root: a user makes a file", self.ask("make", uid=USER, gid=USER, name="u"), "")
        self.case("root: whose that is", self.owner("t1", "u"), (USER, USER))
        self.case("root: a user of root's group makes a file", self.ask("make", uid=USER, gid=ROOT, name="g"), "")
        self.case("root: whose that one is", self.owner("t1", "g"), (USER, ANONYMOUS))

    def squash_all(self) -> None:
        if not self.at("all", "t2"):
            return
        for name, uid in (("r", ROOT), ("u", USER)):
            self.case(f"all: uid {uid} makes a file", self.ask("make", uid=uid, gid=uid, name=name), "")
            self.case(f"all: whose uid {uid}'s is", self.owner("t2", name), (ANONYMOUS, ANONYMOUS))
        self.case("all: anybody reads what another made", self.ask("read", uid=USER, gid=USER, name="r"), "r")

    def networks(self) -> None:
        self.case("networks: another network's share is refused", self.mount("t3"), bool)
        if self.at("networks", "t4"):
            self.case("networks: one's own is not", self.ask("make", uid=USER, gid=USER, name="u"), "")

    def what_is_seen(self) -> None:
        if self.at("all shares", ""):
            seen = self.ask("names", uid=USER, gid=USER)
            self.case("all shares: those that one may use are seen", seen, ["files", "t1", "t2", "t4"])
            self.case("all shares: no other can be entered", self.ask("enter", name="t3"), lambda found: found in ("EACCES", "ENOENT"))
            self.case("all shares: one that is for SMB alone is not there", self.ask("enter", name="sealed"), "ENOENT")
        self.ask("release")
        self.case("protocols: a share for SMB alone cannot be mounted", self.mount("sealed"), bool)

    def ports(self) -> None:
        # t4 accepts only ports below 1024. The client has already closed every connection.
        self.case("ports: a high port is refused", self.mount("t4", ",noresvport"), bool)
        if self.at("ports", "files", ",noresvport"):
            self.case("ports: a share for every port is not", self.ask("make", uid=USER, gid=USER, name="high"), "")

    def managed_groups(self) -> None:
        for share in ("files", "t1"):
            for gid in (GROUPS[0], GROUPS[-1]):
                path = self.server.share_directory(share) / f"of-{gid}"
                path.write_text("of a group")
                os.chown(path, ROOT, gid)
                path.chmod(0o640)
        wanted = {"files": ("of a group", "EACCES", "of a group"), "t1": ("of a group", "of a group", "EACCES")}
        for share, (first, last, claimed) in wanted.items():
            label = f"groups of {'the server' if share == 't1' else 'the client'}"
            if not self.at(label, share):
                continue
            mine = {"uid": MEMBER, "gid": MEMBER, "groups": list(GROUPS)}
            self.case(f"{label}: the first of 40", self.ask("read", name=f"of-{GROUPS[0]}", **mine), first)
            self.case(f"{label}: the last of 40", self.ask("read", name=f"of-{GROUPS[-1]}", **mine), last)
            other = {"uid": USER, "gid": USER, "groups": [GROUPS[0]]}
            self.case(f"{label}: one that only the client gives", self.ask("read", name=f"of-{GROUPS[0]}", **other), claimed)
            self.ask("release")

    def all(self, names: Iterable[str]) -> None:
        for name in names:
            getattr(self, name)()
            self.ask("release")
        self.case("the server lives", self.server.alive(), True)


CASES = ("squash_none", "squash_root", "squash_all", "networks", "what_is_seen", "ports", "managed_groups")


@contextlib.contextmanager
def user_database(network: guest.Network) -> Iterator[None]:
    """Give the machine's programs in a network a user with many groups."""
    directory = Path("/etc/netns") / network.name
    directory.mkdir(parents=True)
    try:
        passwd, group = Path("/etc/passwd").read_text(), Path("/etc/group").read_text()
        (directory / "passwd").write_text(f"{passwd}member:x:{MEMBER}:{MEMBER}::/:/bin/sh\n")
        (directory / "group").write_text(group + "".join(f"group{gid}:x:{gid}:member\n" for gid in GROUPS))
        yield
    finally:
        shutil.rmtree(directory)


def main() -> None:
    parser = kernels.parser(__doc__)
    parser.add_argument("--only", action="append", choices=CASES)
    options = parser.parse_args()
    servers.clean_up_when_told_to_end()
    if reason := guest.missing(("mount.nfs", "nfs-common")) or guest.cannot_boot():
        skip_whole_suite(kernels.suite(SUITE), reason)
    tally = Tally(kernels.suite(SUITE))
    with runs.in_one_guest(tally):
        with guest.Network() as network, user_database(network), servers.Server("trunkline", "nfs-exports", network) as server:
            script = console.lay([HERE / "nfs_exports_agent.py"], server.directory)
            with guest.Guest(network, [sys.executable, script]) as client:
                client.answer(LIMIT_S)
                Run(tally, server, client).all(options.only or CASES)
        if server.complaint:
            tally.add("fail", "the server's end", server.complaint)


if __name__ == "__main__":
    main()
