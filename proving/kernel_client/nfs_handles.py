#!/usr/bin/env python3
"""Linux's NFS client keeps using filehandles while the server is killed and restarted and the host moves the files.

    nfs_handles.py [--server trunkline|ganesha] [--as root|nobody ...]

The client holds directories and files of a share only by their handles (nfs_handles_agent.py). Trunkline runs as root,
where the host opens files by handle, and as nobody, where the server finds them by itself. Ganesha runs as root only.
"""

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite
from proving.kernel_client import console, guest, kernels

HERE = Path(__file__).resolve().parent
NOBODY = 65534
FILES = 300
LIMIT_S = 120


class Run:
    """A mounted share, and the cases on it."""

    def __init__(self, tally: Tally, name: str, server: servers.Server, client: guest.Guest) -> None:
        self.tally, self.name, self.server, self.client = tally, name, server, client
        self.root = server.share_directory("files")

    def ask(self, do: str, **arguments: Any) -> Any:
        return self.client.ask(LIMIT_S, do=do, **arguments)

    def case(self, label: str, found: object, wanted: object) -> bool:
        right = found == wanted
        self.tally.add("pass" if right else "fail", f"{self.name}: {label}", "" if right else f"wanted {wanted}, found {found}")
        return right

    def all(self) -> None:
        server = self.server
        options = f"vers=4.2,nconnect=2,proto=tcp,port={server.port},sec=sys,actimeo=0"
        if not self.case("mount", self.ask("mount", source=f"{guest.SERVER_ADDRESS}:/files", options=options), ""):
            return
        runs_as = os.stat(f"/proc/{server.pid}").st_uid
        self.case("the server's user", runs_as, 0 if server.user is None else server.user)
        self.ask("make", directory="plain", count=FILES)
        self.ask("make", directory="a/b/c", count=FILES)
        for name in ("stays", "goes", "replaced", "linked"):
            self.ask("write", directory="a/b/c", name=name)
        numbers = {name: self.ask("hold", directory="a/b/c", name=name) for name in ("stays", "goes", "replaced", "linked")}
        deep = self.root / "a" / "b" / "c"
        # Held files stay reachable when the server has lost everything in its memory.
        for again in ("killed", "ended in order"):
            server.kill() if again == "killed" else server.stop()
            server.start()
            self.case(f"a held directory after the server was {again}", self.ask("look", what="a/b/c"), deep.stat().st_ino)
        for name in numbers:
            self.case(f"the held file {name}", self.ask("look", what=f"a/b/c/{name}"), numbers[name])
        # The host moves files while the server is down, and while it runs.
        server.kill()
        os.rename(self.root / "a", self.root / "moved")
        os.rename(self.root / "moved" / "b" / "c" / "stays", self.root / "plain-stays")
        os.link(self.root / "moved" / "b" / "c" / "linked", self.root / "other-name")
        os.unlink(self.root / "moved" / "b" / "c" / "linked")
        os.unlink(self.root / "moved" / "b" / "c" / "goes")
        os.unlink(self.root / "moved" / "b" / "c" / "replaced")
        (self.root / "moved" / "b" / "c" / "replaced").write_text("another file")
        (self.root / "moved" / "b" / "c" / "replaced").unlink()
        server.start()
        self.case("a directory whose parent the host renamed", self.ask("check", directory="a/b/c", count=FILES), [])
        self.case("a file that the host moved", self.ask("look", what="a/b/c/stays"), numbers["stays"])
        self.case("a file that the host gave another name", self.ask("look", what="a/b/c/linked"), numbers["linked"])
        for name in ("goes", "replaced"):
            self.case(f"a file that the host removed ({name})", self.ask("look", what=f"a/b/c/{name}"), "ESTALE")
        os.mkdir(self.root / "x")
        os.rename(self.root / "moved" / "b" / "c", self.root / "x" / "y")
        self.case("a directory that the host moved under the server", self.ask("check", directory="a/b/c", count=FILES), [])
        self.case("what was left alone", self.ask("check", directory="plain", count=FILES), [])
        server.kill()
        server.start()
        self.case("all of it after a further kill", self.ask("check", directory="a/b/c", count=FILES), [])
        self.case("a new file in what was moved", self.ask("write", directory="a/b/c", name="new"), "")
        self.case("is where the host has it", (self.root / "x" / "y" / "new").exists(), True)
        self.case("unmount", self.ask("release"), "")


def run(tally: Tally, kind: str, user: int | None) -> None:
    name = "root" if user is None else "nobody"
    with guest.Network() as network, servers.Server(kind, "nfs", network, user=user) as server:
        script = console.lay([HERE / "nfs_handles_agent.py"], server.directory)
        with guest.Guest(network, [sys.executable, script]) as client:
            client.answer(LIMIT_S)
            try:
                Run(tally, name, server, client).all()
            except guest.GuestEnded as reason:
                tally.add("fail", f"{name}: guest", f"{reason}; {server.log()[-300:]}")
    if server.complaint:
        tally.add("fail", f"{name}: the server's end", server.complaint)


def main() -> None:
    parser = kernels.parser(__doc__)
    parser.add_argument("--server", choices=servers.NFS_KINDS, default="trunkline")
    parser.add_argument("--as", dest="users", action="append", choices=("root", "nobody"))
    options = parser.parse_args()
    if reason := guest.missing(("mount.nfs", "nfs-common")) or guest.cannot_boot():
        skip_whole_suite(kernels.suite("kernel-client-nfs-handles"), reason)
    tally = Tally(kernels.suite("kernel-client-nfs-handles"))
    for name in options.users or (("root", "nobody") if options.server == "trunkline" else ("root",)):
        try:
            run(tally, options.server, NOBODY if name == "nobody" else None)
        except servers.CannotStart as refusal:
            tally.add(refusal.result, name, str(refusal))
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
