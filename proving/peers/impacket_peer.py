#!/usr/bin/env python3
"""The PyPI package impacket as a client: PORT SHARE USER PASSWORD. It also lists the shares by srvsvc."""

import io
import sys
from pathlib import Path
from typing import Any

from impacket.smbconnection import SessionError, SMBConnection

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.peers.cases import SIZES, Report, content, digest, same

PORT, SHARE, USER, PASSWORD = int(sys.argv[1]), *sys.argv[2:5]
BASE = r"\impacket"


class Client:
    """One connection, opened by the first case."""

    connection: Any = None

    def connect(self) -> None:
        self.connection = SMBConnection("127.0.0.1", "127.0.0.1", sess_port=PORT)
        self.connection.login(USER, PASSWORD)

    def wrong_password(self) -> None:
        other = SMBConnection("127.0.0.1", "127.0.0.1", sess_port=PORT)
        try:
            other.login(USER, PASSWORD + "x")
        except SessionError as error:
            same(error.getErrorCode(), 0xC000006D, "status")
            return
        raise AssertionError("a wrong password was accepted")

    def share_list(self) -> None:
        names = {entry["shi1_netname"][:-1] for entry in self.connection.listShares()}
        missing = {"files", "sealed", "IPC$"} - names
        same(missing, set(), "shares that are not listed")

    def round_trip(self, size: int) -> None:
        data = content(size)
        self.connection.putFile(SHARE, rf"{BASE}\size-{size}", io.BytesIO(data).read)
        back = io.BytesIO()
        self.connection.getFile(SHARE, rf"{BASE}\size-{size}", back.write)
        same(digest(back.getvalue()), digest(data), "content")

    def listing(self) -> None:
        entries = self.connection.listPath(SHARE, rf"{BASE}\*")
        found = {entry.get_longname(): entry.get_filesize() for entry in entries if not entry.is_directory()}
        same(found, {f"size-{size}": size for size in SIZES}, "names and sizes")

    def rename(self) -> None:
        self.connection.rename(SHARE, rf"{BASE}\size-1", rf"{BASE}\renamed")
        names = [entry.get_longname() for entry in self.connection.listPath(SHARE, rf"{BASE}\*ed")]
        same(names, ["renamed"], "names")

    def missing_file(self) -> None:
        try:
            self.connection.openFile(self.connection.connectTree(SHARE), rf"{BASE}\nothing")
        except SessionError as error:
            same(error.getErrorCode() in (0xC0000034, 0xC0000022), True, f"status {error.getErrorCode():#x}")
            return
        raise AssertionError("a missing file was opened")

    def remove(self) -> None:
        for entry in self.connection.listPath(SHARE, rf"{BASE}\*"):
            if not entry.is_directory():
                self.connection.deleteFile(SHARE, rf"{BASE}\{entry.get_longname()}")
        self.connection.deleteDirectory(SHARE, BASE)
        left = [entry.get_longname() for entry in self.connection.listPath(SHARE, "\\*")]
        same("impacket" in left, False, "the directory")


def main() -> None:
    report, client = Report(), Client()
    report.case("connect", client.connect)
    report.case("a wrong password", client.wrong_password)
    report.case("list the shares", client.share_list)
    report.case("make a directory", lambda: client.connection.createDirectory(SHARE, BASE))
    for size in SIZES:
        report.case(f"{size} bytes there and back", client.round_trip, size)
    report.case("list", client.listing)
    report.case("rename", client.rename)
    report.case("a missing file", client.missing_file)
    report.case("remove", client.remove)
    report.case("log off", lambda: client.connection.logoff())
    report.close()


if __name__ == "__main__":
    main()
