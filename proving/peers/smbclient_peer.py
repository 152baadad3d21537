#!/usr/bin/env python3
"""Samba's smbclient as a client: PORT SHARE USER PASSWORD. Signed, and encrypted; each case has its own script of commands."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.peers.cases import SIZES, Report, content, digest, same

PORT, SHARE, USER, PASSWORD = sys.argv[1:5]
BASE = "smbclient-peer"


class Client:
    """Runs smbclient in a scratch directory of this machine, with one kind of protection and a highest dialect."""

    def __init__(self, scratch: str, protection: str, dialect: str = "SMB3_11") -> None:
        self.scratch = Path(scratch)
        self.options = [f"--client-protection={protection}", "-m", dialect, "-p", PORT, "-U", f"{USER}%{PASSWORD}"]

    def run(self, *commands: str, fails_with: str | None = None) -> str:
        command = ["smbclient", f"//127.0.0.1/{SHARE}", *self.options, "-c", "; ".join(commands)]
        done = subprocess.run(command, cwd=self.scratch, capture_output=True, text=True, timeout=120)
        text = done.stdout + done.stderr
        statuses = [s for s in re.findall(r"NT_STATUS_\w+", text) if s != "NT_STATUS_OK"]
        if fails_with is None:
            same((done.returncode, statuses), (0, []), f"smbclient's end after {commands}: {text.strip()[-200:]}")
        else:
            same(fails_with in statuses, True, f"{fails_with} in the answer {text.strip()[-200:]!r}")
        return text

    def directory(self) -> None:
        self.run(f"mkdir {BASE}", f"mkdir {BASE}\\sub", f"cd {BASE}\\sub")

    def round_trip(self, size: int) -> None:
        data = content(size)
        (self.scratch / "up").write_bytes(data)
        self.run(f"put up {BASE}\\size-{size}", f"get {BASE}\\size-{size} down")
        same(digest((self.scratch / "down").read_bytes()), digest(data), "content")

    def listing(self) -> None:
        text = self.run(f"ls {BASE}\\*")
        found = {m[1]: int(m[2]) for m in re.finditer(r"^ +(size-\d+) +\w* +(\d+) ", text, re.MULTILINE)}
        same(found, {f"size-{size}": size for size in SIZES}, "names and sizes")

    def recursion(self) -> None:
        tree = self.scratch / "tree" / "deep"
        tree.mkdir(parents=True)
        for number in range(20):
            (tree / f"f{number}").write_text(str(number))
        self.run(f"cd {BASE}", "recurse on", "prompt off", "mput tree")
        (self.scratch / "back").mkdir()
        self.run(f"cd {BASE}", "lcd back", "recurse on", "prompt off", "mget tree")
        found = {p.name: p.read_text() for p in (self.scratch / "back").rglob("f*") if p.is_file()}
        same(found, {f"f{number}": str(number) for number in range(20)}, "files that came back")
        self.run(f"deltree {BASE}\\tree")

    def rename(self) -> None:
        self.run(f"rename {BASE}\\size-1 {BASE}\\sub\\renamed")
        self.run(f"allinfo {BASE}\\size-1", fails_with="NT_STATUS_OBJECT_NAME_NOT_FOUND")
        self.run(f"rename {BASE}\\sub\\renamed {BASE}\\size-1")

    def all_information(self) -> None:
        # This name is its own 8.3 form. A server without short names refuses the one of a longer name, and smbclient
        # stops there.
        (self.scratch / "up").write_bytes(content(5000))
        self.run(f"put up {BASE}\\info.bin")
        text = self.run(f"allinfo {BASE}\\info.bin")
        same(all(word in text for word in ("create_time:", "write_time:", "attributes: A", "[::$DATA], 5000 bytes")), True, text)
        self.run(f"setmode {BASE}\\info.bin +rh")
        same("attributes: RHA" in self.run(f"allinfo {BASE}\\info.bin"), True, "read-only and hidden")
        self.run(f"del {BASE}\\info.bin", fails_with="NT_STATUS_CANNOT_DELETE")
        self.run(f"setmode {BASE}\\info.bin -rh", f"del {BASE}\\info.bin")

    def space(self) -> None:
        found = re.search(r"(\d+) blocks of size (\d+)\. (\d+) blocks available", self.run("du"))
        same(found is not None and int(found[1]) >= int(found[3]) > 0, True, "blocks and available blocks")

    def streams(self) -> None:
        (self.scratch / "up").write_bytes(b"in a stream")
        self.run(f"put up {BASE}\\size-1:named", f"get {BASE}\\size-1:named down")
        same((self.scratch / "down").read_bytes(), b"in a stream", "the stream's content")
        same("stream: [:named:$DATA], 11 bytes" in self.run(f"allinfo {BASE}\\size-1"), True, "the stream is listed")

    def big_directory(self) -> None:
        many = self.scratch / "many"
        many.mkdir()
        for number in range(1500):
            (many / f"entry-{number:04}").touch()
        self.run(f"cd {BASE}", "recurse on", "prompt off", "mput many")
        found = re.findall(r"^ +(entry-\d{4}) ", self.run(f"ls {BASE}\\many\\*"), re.MULTILINE)
        same((len(found), len(set(found))), (1500, 1500), "entries")
        found = re.findall(r"^ +(entry-\d{4}) ", self.run(f"ls {BASE}\\many\\entry-00?7"), re.MULTILINE)
        same(len(found), 10, "entries that match entry-00?7")

    def removal(self) -> None:
        self.run(f"cd {BASE}", "del size-0")
        self.run(f"rmdir {BASE}", fails_with="NT_STATUS_DIRECTORY_NOT_EMPTY")
        self.run(f"deltree {BASE}")
        self.run(f"cd {BASE}", fails_with="NT_STATUS_OBJECT_NAME_NOT_FOUND")

    def share_list(self) -> None:
        done = subprocess.run(["smbclient", "-g", "-L", "//127.0.0.1", *self.options], capture_output=True, text=True, timeout=60)
        found = {line.split("|")[1]: line.split("|")[0] for line in done.stdout.splitlines() if line.count("|") == 2}
        wanted = {"files": "Disk", "sealed": "Disk", "IPC$": "IPC"}
        same({name: found.get(name) for name in wanted}, wanted, done.stderr.strip()[-200:])

    def wrong_password(self) -> None:
        done = subprocess.run(["smbclient", f"//127.0.0.1/{SHARE}", "-p", PORT, "-U", f"{USER}%wrong", "-c", "ls"],
                              capture_output=True, text=True, timeout=60)
        same("NT_STATUS_LOGON_FAILURE" in done.stdout + done.stderr, True, (done.stdout + done.stderr).strip())

    def unsealed_is_refused(self) -> None:
        self.run("ls", fails_with="NT_STATUS_ACCESS_DENIED")


def whole_script(report: Report, label: str, protection: str, dialect: str) -> None:
    with tempfile.TemporaryDirectory(prefix="smbclient-peer-") as scratch:
        client = Client(scratch, protection, dialect)
        report.case(f"{label}, directories", client.directory)
        for size in SIZES:
            report.case(f"{label}, {size} bytes there and back", client.round_trip, size)
        for case in (client.listing, client.recursion, client.rename, client.all_information, client.space, client.streams,
                     client.big_directory, client.removal, client.share_list):
            report.case(f"{label}, {case.__name__.replace('_', ' ')}", case)


def main() -> None:
    report = Report()
    if SHARE == "sealed":
        whole_script(report, "sealed 3.1.1", "encrypt", "SMB3_11")
        whole_script(report, "sealed 3.0", "encrypt", "SMB3_00")
        with tempfile.TemporaryDirectory() as scratch:
            report.case("2.1 is refused where sealing is required", Client(scratch, "sign", "SMB2_10").unsealed_is_refused)
    else:
        whole_script(report, "signed 3.1.1", "sign", "SMB3_11")
        whole_script(report, "signed 2.1", "sign", "SMB2_10")
        whole_script(report, "unsigned 2.0.2", "off", "SMB2_02")
        with tempfile.TemporaryDirectory() as scratch:
            report.case("a wrong password", Client(scratch, "sign").wrong_password)
    report.close()


if __name__ == "__main__":
    main()
