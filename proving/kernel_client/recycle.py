#!/usr/bin/env python3
"""The recycle folder with foreign clients: Linux's SMB and NFS clients and smbclient remove files and get them back.

    recycle.py [--only NAME ...]

One guest mounts the shares of one server (profile `recycle` of servers/trunkline.sh) over both protocols, and works on
them as two users (recycle_agent.py). The share `small` lies on a memory file system of a few MiB that becomes full.
"""

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite
from proving.kernel_client import console, guest, kernels, runs

HERE = Path(__file__).resolve().parent
SUITE = "kernel-recycle"
ALICE, BOB = 61001, 61002
LIMIT_S = 90
SMALL_MIB = 32
NFS = "vers=4.2,proto=tcp,sec=sys,actimeo=0,lookupcache=none"
SMB = "vers=3.1.1,sec=ntlmsspi,noperm,actimeo=0"
AT = {"NFS": "/mnt/nfs", "SMB": "/mnt/smb", "small": "/mnt/small"}
OWN = ".recycle/alice"


class Run:
    """The server, the guest, and the cases."""

    def __init__(self, tally: Tally, server: servers.Server, network: guest.Network, client: guest.Guest) -> None:
        self.tally, self.server, self.network, self.client = tally, server, network, client
        self.files, self.small = server.share_directory("files"), server.share_directory("small")

    def ask(self, do: str, **arguments: Any) -> Any:
        return self.client.ask(LIMIT_S, do=do, **arguments)

    def run(self, where: str, command: str, uid: int = ALICE) -> tuple[int, str]:
        """Run a command of a user in a mount. Returns the status, and what it printed."""
        said = self.ask("run", uid=uid, where=AT[where], command=command)
        return (255, said) if isinstance(said, str) else (said[0], said[1])

    def case(self, label: str, found: object, wanted: object) -> bool:
        right = wanted(found) if callable(wanted) else found == wanted
        self.tally.add("pass" if right else "fail", label, "" if right else f"found {found!r}")
        return bool(right)

    def smb_port(self) -> str:
        config = (self.server.directory / "server" / "trunkline.toml").read_text()
        return next(line.split()[-1] for line in config.splitlines() if line.startswith("smb_port = "))

    def mount(self) -> bool:
        """Mount the shares over both protocols."""
        address = guest.SERVER_ADDRESS
        user, password = servers.accounts()[0]
        smb = f"{SMB},port={self.smb_port()},user={user},password={password}"
        wanted = {"NFS": ("nfs", f"{address}:/files", f"{NFS},port={self.server.port}"), "SMB": ("cifs", f"//{address}/files", smb),
                  "small": ("nfs", f"{address}:/small", f"{NFS},port={self.server.port}")}
        errors = {name: self.ask("mount", kind=kind, source=source, where=AT[name], options=options) for name, (kind, source, options) in wanted.items()}
        return self.case("mounts", errors, dict.fromkeys(wanted, ""))

    def both_ways(self) -> None:
        """A removed tree is seen in the folder of its user over either protocol, and comes back by a rename."""
        for over, other in (("NFS", "SMB"), ("SMB", "NFS")):
            top = f"of-{over.lower()}"
            self.case(f"{over}: files are made", self.run(over, f"mkdir -p {top}/d/e && echo one >{top}/d/e/f && echo two >{top}/d/g"), (0, ""))
            self.case(f"{over}: rm -r", self.run(over, f"rm -r {top}"), (0, ""))
            self.case(f"{over}: nothing is left at the old place", (self.files / top).exists(), False)
            seen = f"{OWN}/{top}/d/e/f\n{OWN}/{top}/d/g"
            for side in (over, other):
                self.case(f"{over}: the files are seen over {side}", self.run(side, f"find {OWN}/{top} -type f | sort"), (0, seen))
            self.case(f"{over}: one comes back over {other}", self.run(other, f"mv {OWN}/{top}/d/g back-{top} && cat back-{top}"), (0, "two"))
            self.case(f"{over}: a tree comes back over {over}", self.run(over, f"mv {OWN}/{top}/d/e tree-{top} && cat tree-{top}/f"), (0, "one"))
            self.case(f"{over}: it is there over {other}", self.run(other, f"cat tree-{top}/f"), (0, "one"))

    def users(self) -> None:
        """Each user sees the own folder only."""
        self.run("NFS", "echo secret >hers && chmod 666 hers && rm hers")
        self.run("NFS", "echo his >his && rm his", BOB)
        self.case("the recycle folder as alice sees it", self.run("NFS", "ls -A .recycle"), (0, "alice"))
        self.case("bob reaches the own folder", self.run("NFS", "cat .recycle/bob/his", BOB), (0, "his"))
        # Linux' NFS client keeps one listing of a directory for all its users.
        self.ask("run", uid=0, where="/", command="echo 3 >/proc/sys/vm/drop_caches")
        self.case("the recycle folder as bob sees it", self.run("NFS", "ls -A .recycle", BOB), (0, "bob"))
        self.case("the same over SMB", self.run("SMB", "ls -A .recycle"), (0, "alice"))
        self.case("bob does not read a file that all could read", self.run("NFS", f"cat {OWN}/hers", BOB), lambda found: found[0] != 0 and "denied" in found[1])
        self.case("nobody takes the folder away", self.run("NFS", "mv .recycle elsewhere"), lambda found: found[0] != 0)
        self.case("a removal there is final", self.run("NFS", f"rm {OWN}/hers && ls {OWN}/hers"), lambda found: "No such file" in found[1])

    def open_files(self) -> None:
        """The name that the NFS client gives to a removed file that it has open is not kept."""
        self.run("NFS", "mkdir -p silly && echo busy >silly/busy")
        status, said = self.ask("remove_open", uid=ALICE, where=f"{AT['NFS']}/silly")
        self.case("a removed file is read on", (status, said.splitlines()[:1]), (0, ["busy"]))
        self.case("its name meanwhile", said.splitlines()[1:], lambda found: len(found) == 1 and found[0].startswith(".nfs"))
        self.case("it is gone for good", [str(path) for path in self.files.rglob("*") if path.name.startswith((".nfs", "busy"))], [])

    def full_disk(self) -> None:
        """A writer gets the room of the oldest removed files, and ENOSPC only when they cannot help."""
        self.run("small", "for n in 1 2 3 4 5 6; do head -c 4M /dev/zero >f$n; done; rm f1 f2 f3 f4 f5 f6")
        def kept() -> list[str]:
            return sorted(path.name for path in (self.small / OWN).glob("f*"))

        self.case("six files are kept", kept(), [f"f{number}" for number in range(1, 7)])
        self.case("a hopeless allocation is refused", self.run("small", "fallocate -l 100G huge"), lambda found: "No space left" in found[1])
        self.case("and takes nothing", kept(), [f"f{number}" for number in range(1, 7)])
        said = self.run("small", "dd if=/dev/zero of=new bs=1M count=12 conv=fsync 2>&1 | tail -n 1")
        self.case("12 MiB find room", said, lambda found: "12 MiB" in found[1])
        self.case("that of the oldest", kept(), lambda found: 2 <= len(found) <= 5 and found[-1] == "f6" and "f1" not in found)
        self.case("40 MiB find none", self.run("small", "dd if=/dev/zero of=more bs=1M count=40 conv=fsync 2>&1"), lambda found: "No space left" in found[1])
        self.case("then nothing is kept any more", kept(), [])

    def smbclient(self) -> None:
        """Samba's client removes a file, and takes it back as docs/recycle.md says."""
        if shutil.which("smbclient") is None:
            self.tally.add("skip", "smbclient", "smbclient is missing: apt-get install smbclient")
            return
        user, password = servers.accounts()[0]
        with tempfile.TemporaryDirectory(prefix="proof-recycle-") as scratch:
            (Path(scratch) / "up").write_text("content")

            def run(*commands: str) -> str:
                command = ["smbclient", f"//{guest.SERVER_ADDRESS}/files", "-p", self.smb_port(), "-U", f"{user}%{password}", "-c", "; ".join(commands)]
                done = subprocess.run(self.network.inside(command), cwd=scratch, capture_output=True, text=True, timeout=LIMIT_S)
                return done.stdout + done.stderr

            run("mkdir reports", "put up reports\\june.odt", "del reports\\june.odt")
            self.case("smbclient: the old place", run("ls reports\\june.odt"), lambda found: "NO_SUCH_FILE" in found)
            self.case("smbclient: the folder of the user", run("ls .recycle\\alice\\reports\\*"), lambda found: "june.odt" in found)
            run("put up reports\\june.odt", "del reports\\june.odt")
            self.case("smbclient: a second one", run("ls .recycle\\alice\\reports\\*"), lambda found: "june (20" in found and "june.odt" in found)
            said = run("rename .recycle\\alice\\reports\\june.odt reports\\june.odt", "get reports\\june.odt down")
            self.case("smbclient: it is back", (Path(scratch) / "down").read_text() if (Path(scratch) / "down").exists() else said, "content")

    def all(self, names: Iterable[str]) -> None:
        if self.mount():
            for name in names:
                getattr(self, name)()
        for where in AT.values():
            self.ask("release", where=where)
        self.case("the server lives", self.server.alive(), True)


CASES = ("both_ways", "users", "open_files", "full_disk", "smbclient")


@contextlib.contextmanager
def small_file_system(where: Path) -> Iterator[None]:
    """Mount a small memory file system in which everybody may make files."""
    where.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_MIB}m,mode=0777", "tmpfs", where], check=True, timeout=LIMIT_S)
    try:
        yield
    finally:
        subprocess.run(["umount", where], check=True, timeout=LIMIT_S)
        shutil.rmtree(where.parents[1], ignore_errors=True)


def main() -> None:
    parser = kernels.parser(__doc__)
    parser.add_argument("--only", action="append", choices=CASES)
    options = parser.parse_args()
    servers.clean_up_when_told_to_end()
    if reason := guest.missing(("mount.nfs", "nfs-common")) or guest.missing() or guest.cannot_boot():
        skip_whole_suite(kernels.suite(SUITE), reason)
    tally = Tally(kernels.suite(SUITE))
    with runs.in_one_guest(tally):
        with guest.Network() as network:
            server = servers.Server("trunkline", "recycle", network)
            with small_file_system(server.share_directory("small")), server:
                script = console.lay([HERE / "recycle_agent.py"], server.directory)
                with guest.Guest(network, [sys.executable, script]) as client:
                    client.answer(LIMIT_S)
                    Run(tally, server, network, client).all(options.only or CASES)
        if server.complaint:
            tally.add("fail", "the server's end", server.complaint)


if __name__ == "__main__":
    main()
