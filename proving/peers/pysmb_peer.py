#!/usr/bin/env python3
"""The PyPI package pysmb as a client: PORT SHARE USER PASSWORD. It speaks SMB 2.0.2 and 2.1, as old clients do."""

import io
import sys
from pathlib import Path
from typing import Any

from smb.base import SMBTimeout
from smb.smb_structs import OperationFailure
from smb.SMBConnection import SMBConnection

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.peers.cases import SIZES, Report, content, digest, same

PORT, SHARE, USER, PASSWORD = int(sys.argv[1]), *sys.argv[2:5]
BASE = "/pysmb"
PATIENCE_S = 60


class Client:
    """One connection, opened by the first case."""

    connection: Any = None

    def connect(self) -> None:
        self.connection = SMBConnection(USER, PASSWORD, "peer", "server", use_ntlm_v2=True, is_direct_tcp=True)
        same(self.connection.connect("127.0.0.1", PORT, timeout=PATIENCE_S), True, "whether the log-on went well")

    def wrong_password(self) -> None:
        other = SMBConnection(USER, PASSWORD + "x", "peer", "server", use_ntlm_v2=True, is_direct_tcp=True)
        same(other.connect("127.0.0.1", PORT, timeout=PATIENCE_S), False, "whether a wrong password is taken")

    def make_directory(self) -> None:
        self.connection.createDirectory(SHARE, BASE)

    def round_trip(self, size: int) -> None:
        data = content(size)
        path = f"{BASE}/size-{size}"
        self.connection.storeFile(SHARE, path, io.BytesIO(data), timeout=PATIENCE_S)
        back = io.BytesIO()
        self.connection.retrieveFile(SHARE, path, back, timeout=PATIENCE_S)
        same(digest(back.getvalue()), digest(data), "content")

    def names(self, pattern: str = "*") -> dict[str, Any]:
        found = self.connection.listPath(SHARE, BASE, pattern=pattern)
        return {entry.filename: entry.file_size for entry in found if not entry.isDirectory}

    def listing(self) -> None:
        same(self.names(), {f"size-{size}": size for size in SIZES}, "names and sizes")

    def rename(self) -> None:
        # FileRenameInformation of 22 bytes, and a target that begins with the separator.
        self.connection.rename(SHARE, f"{BASE}/size-1", "/r")
        self.connection.rename(SHARE, "/r", f"{BASE}/renamed")
        same(self.names("ren*"), {"renamed": 1}, "names")

    def missing_file(self) -> None:
        try:
            self.connection.retrieveFile(SHARE, f"{BASE}/nothing", io.BytesIO())
        except OperationFailure:
            return
        except SMBTimeout as error:
            raise AssertionError("no answer") from error
        raise AssertionError("a missing file was opened")

    def security(self) -> None:
        same(bool(self.connection.getSecurity(SHARE, f"{BASE}/renamed").owner), True, "whether the file has an owner")

    def remove(self) -> None:
        for name in self.names():
            self.connection.deleteFiles(SHARE, f"{BASE}/{name}")
        self.connection.deleteDirectory(SHARE, BASE)
        left = [entry.filename for entry in self.connection.listPath(SHARE, "/")]
        same("pysmb" in left, False, "the directory")


def main() -> None:
    client, report = Client(), Report()
    report.case("connect", client.connect)
    report.case("a wrong password", client.wrong_password)
    report.case("make a directory", client.make_directory)
    for size in SIZES:
        report.case(f"{size} bytes there and back", client.round_trip, size)
    report.case("list", client.listing)
    report.case("rename", client.rename)
    report.case("a missing file", client.missing_file)
    report.case("security", client.security)
    report.case("remove a tree", client.remove)
    report.close()


if __name__ == "__main__":
    main()
