#!/usr/bin/env python3
"""The PyPI package smbprotocol as a client: PORT SHARE USER PASSWORD. The cases use its high-level part, smbclient."""

import stat
import sys
from pathlib import Path

import smbclient
from smbprotocol.exceptions import SMBOSError

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.peers.cases import SIZES, Report, content, digest, same

PORT, SHARE, USER, PASSWORD = int(sys.argv[1]), *sys.argv[2:5]
ROOT = rf"\\127.0.0.1\{SHARE}"
BASE = ROOT + r"\smbprotocol"
ARGS = {"port": PORT, "username": USER, "password": PASSWORD}


def connect() -> None:
    smbclient.register_session("127.0.0.1", username=USER, password=PASSWORD, port=PORT, encrypt=SHARE == "sealed")


def round_trip(size: int) -> None:
    data = content(size)
    path = rf"{BASE}\size-{size}"
    with smbclient.open_file(path, mode="wb", **ARGS) as file:
        file.write(data)
    with smbclient.open_file(path, mode="rb", **ARGS) as file:
        same(digest(file.read()), digest(data), "content")
    same(smbclient.stat(path, **ARGS).st_size, size, "size")


def listing() -> None:
    names = {entry.name for entry in smbclient.scandir(BASE, **ARGS)}
    same(names, {f"size-{size}" for size in SIZES}, "names")
    same({e.name: e.smb_info.end_of_file for e in smbclient.scandir(BASE, search_pattern="size-6*", **ARGS)},
         {f"size-{size}": size for size in SIZES if str(size).startswith("6")}, "what a pattern finds")


def rename() -> None:
    smbclient.rename(rf"{BASE}\size-1", rf"{BASE}\renamed", **ARGS)
    same(smbclient.path.exists(rf"{BASE}\size-1", **ARGS), False, "old name")
    smbclient.replace(rf"{BASE}\renamed", rf"{BASE}\size-0", **ARGS)
    same(smbclient.stat(rf"{BASE}\size-0", **ARGS).st_size, 1, "size after replace")


def times_and_attributes() -> None:
    path = rf"{BASE}\size-65535"
    smbclient.utime(path, ns=(1_600_000_000_123_456_700, 1_500_000_000_765_432_100), **ARGS)
    found = smbclient.stat(path, **ARGS)
    same((found.st_atime_ns, found.st_mtime_ns), (1_600_000_000_123_456_700, 1_500_000_000_765_432_100), "times")


def append_and_seek() -> None:
    path = rf"{BASE}\appended"
    for number in range(3):
        with smbclient.open_file(path, mode="ab", **ARGS) as file:
            file.write(f"{number}".encode())
    with smbclient.open_file(path, mode="r+b", **ARGS) as file:
        file.seek(1)
        file.write(b"X")
        file.seek(0)
        same(file.read(), b"0X2", "content")


def missing_file() -> None:
    try:
        smbclient.stat(rf"{BASE}\nothing", **ARGS)
    except SMBOSError as error:
        same(error.ntstatus, 0xC0000034, "status")
        return
    raise AssertionError("a missing file was found")


def exclusive_open() -> None:
    path = rf"{BASE}\exclusive"
    with smbclient.open_file(path, mode="wb", share_access="", **ARGS):
        try:
            smbclient.open_file(path, mode="rb", **ARGS)
        except SMBOSError as error:
            same(error.ntstatus, 0xC0000043, "status")
            return
    raise AssertionError("a second open was granted")


def tree_removal() -> None:
    smbclient.makedirs(rf"{BASE}\a\b\c", **ARGS)
    for number in range(40):
        with smbclient.open_file(rf"{BASE}\a\b\file-{number}", mode="w", **ARGS) as file:
            file.write("x")
    found = sum(len(files) for _, _, files in smbclient.walk(rf"{BASE}\a", **ARGS))
    same(found, 40, "files that walk finds")
    same(stat.S_ISDIR(smbclient.stat(rf"{BASE}\a\b", **ARGS).st_mode), True, "a directory")
    smbclient.shutil.rmtree(BASE, **ARGS)
    same(smbclient.path.exists(BASE, **ARGS), False, "the tree")


def main() -> None:
    import smbclient.path
    import smbclient.shutil

    report = Report()
    report.case("connect", connect)
    report.case("make a directory", lambda: smbclient.mkdir(BASE, **ARGS))
    for size in SIZES:
        report.case(f"{size} bytes there and back", round_trip, size)
    report.case("list", listing)
    report.case("rename", rename)
    report.case("times", times_and_attributes)
    report.case("append and seek", append_and_seek)
    report.case("a missing file", missing_file)
    report.case("an exclusive open", exclusive_open)
    report.case("remove a tree", tree_removal)
    report.case("disconnect", smbclient.reset_connection_cache)
    report.close()


if __name__ == "__main__":
    main()
