#!/usr/bin/env python3
"""The exercise that a mounted share must pass over NFS, run inside the guest.

    nfs_tree.py --address A --port P --share S --options MOUNT-OPTIONS --connections N --host-directory DIR
                --size-bytes N --size-files N

It has the cases of build_tree.py that also hold for NFS, and those that only a Unix file system has. The share is
mounted twice with separate caches: /mnt/a does the work, and /mnt/b observes. Over NFS /mnt/b sees everything that was
done before it opened. DIR is the directory that the server serves, visible here read-only, and the sizes are those of
its file system. Each case prints `PASS name` or `FAIL name: why`; the exit status is the number of failures.
"""

import argparse
import errno
import fcntl
import mmap
import multiprocessing
import os
import re
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.kernel_client import build_tree as tree
from proving.kernel_client.build_tree import A, B, expect, expect_error, expect_mode, forget_cached_data, pattern

# linux/fs.h
FICLONE, FICLONERANGE = 0x40049409, 0x4020940D

NFS_CASES: list[tree.Case] = []
V42_CASES = [tree.punch_a_hole, tree.seek_hole_and_data, tree.extended_attributes]
# A second SMB client sees the first one's cached data at once. A second NFS client sees it after the first has closed.
NOT_OVER_NFS = (tree.two_clients_agree, tree.write_without_a_lease, tree.two_write_to_one_page, tree.extended_attributes)
# The rounds of each worker in `locks_beside_readers`.
LOCK_ROUNDS = [1]


def case(function: tree.Case) -> tree.Case:
    """Register a case for every mount."""
    NFS_CASES.append(function)
    return function


def v42_case(function: tree.Case) -> tree.Case:
    """Register a case for mounts of 4.2."""
    V42_CASES.append(function)
    return function


def connections_in_use(where: Path) -> list[int]:
    """Requests sent on each transport of a mount, from the client's own statistics."""
    text = Path("/proc/self/mountstats").read_text()
    block = next(part for part in text.split("\ndevice ") if f" mounted on {where} " in part)
    return [int(line.split()[8]) for line in block.splitlines() if line.strip().startswith("xprt:")]


@case
def close_to_open(_host: Path) -> None:
    for number in range(20):
        text = f"version {number}" * (number + 1)
        (A / "coherent").write_text(text)
        expect((B / "coherent").read_text() == text, f"after close, an open elsewhere reads version {number}")
    (B / "coherent").write_text("from the other side")
    expect((A / "coherent").read_text() == "from the other side", "and the other way round")


@case
def hard_links(host: Path) -> None:
    base = A / "links"
    base.mkdir()
    (base / "one").write_text("shared")
    os.link(base / "one", base / "two")
    one, two = (base / "one").stat(), (base / "two").stat()
    expect((one.st_ino, one.st_nlink) == (two.st_ino, 2), f"number {one.st_ino} and {two.st_ino}, {one.st_nlink} links")
    (base / "two").write_text("changed through the second name")
    expect((base / "one").read_text() == "changed through the second name", "the data that the first name leads to")
    expect((host / "links" / "one").samefile(host / "links" / "two"), "the server has two files")
    os.unlink(base / "one")
    expect((base / "two").stat().st_nlink == 1, "links after the first name is gone")
    expect_error(errno.EEXIST, os.link, base / "two", base / "two")


@case
def symbolic_links(host: Path) -> None:
    base = A / "symbolic"
    (base / "dir").mkdir(parents=True)
    (base / "dir" / "target").write_text("target")
    targets = {"near": "dir/target", "up": "../symbolic/dir", "nowhere": "not/there", "long": "x" * 1000, "root": "/etc/hostname"}
    for name, target in targets.items():
        os.symlink(target, base / name)
    forget_cached_data()
    for name, target in targets.items():
        expect(os.readlink(base / name) == target, f"where {name} leads")
        expect(os.readlink(host / "symbolic" / name) == target, f"where {name} leads on the server")
        expect(stat.S_ISLNK(os.lstat(base / name).st_mode), f"kind of {name}")
    expect((base / "near").read_text() == "target" and (base / "up" / "target").read_text() == "target", "followed")
    expect_error(errno.ENOENT, (base / "nowhere").read_text)
    expect_error(errno.ELOOP, os.open, base / "near", os.O_RDONLY | os.O_NOFOLLOW)


@case
def special_files(_host: Path) -> None:
    base = A / "special"
    base.mkdir()
    os.mkfifo(base / "fifo", 0o640)
    with socket.socket(socket.AF_UNIX) as listener:
        os.chdir(base)
        listener.bind("socket")
        os.chdir("/run/scratch")
    os.mknod(base / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    forget_cached_data()
    kinds = {name: stat.S_IFMT(os.lstat(base / name).st_mode) for name in os.listdir(base)}
    expect(kinds == {"fifo": stat.S_IFIFO, "socket": stat.S_IFSOCK, "null": stat.S_IFCHR}, f"kinds {kinds}")
    device = os.lstat(base / "null").st_rdev
    expect((os.major(device), os.minor(device)) == (1, 3), "numbers of the device")


@case
def mkdir_and_rmdir(_host: Path) -> None:
    base = A / "directories"
    os.makedirs(base / "a" / "b" / "c")
    before = base.stat().st_nlink
    os.mkdir(base / "d", 0o700)
    expect(base.stat().st_nlink == before + 1, "a directory counts its directories")
    expect_error(errno.EEXIST, os.mkdir, base / "a")
    expect_error(errno.ENOTEMPTY, os.rmdir, base / "a")
    expect_error(errno.ENOENT, os.rmdir, base / "nothing")
    (base / "file").write_text("")
    expect_error(errno.ENOTDIR, os.rmdir, base / "file")
    expect_error(errno.EISDIR, os.unlink, base / "d")
    expect_error(errno.ENOTDIR, os.mkdir, base / "file" / "below")
    expect_error(errno.ENAMETOOLONG, os.mkdir, base / ("n" * 256))
    os.removedirs(base / "a" / "b" / "c")
    expect(sorted(os.listdir(base)) == ["d", "file"], "what is left")


@case
def modes_and_owners(host: Path) -> None:
    path = A / "owned"
    path.write_text("x")
    for mode in (0o600, 0o644, 0o755, 0o2750, 0o4711, 0o1777, 0):
        os.chmod(path, mode)
        expect_mode(host / "owned", mode, "on the server")
        forget_cached_data()
        expect_mode(path, mode, "read back")
    os.chown(path, 12345, 54321)
    forget_cached_data()
    found = path.stat()
    expect((found.st_uid, found.st_gid) == (12345, 54321), f"owner {found.st_uid}, group {found.st_gid}")
    os.chown(path, -1, 100)
    found = (host / "owned").stat()
    expect((found.st_uid, found.st_gid) == (12345, 100), f"on the server owner {found.st_uid}, group {found.st_gid}")


def _as_user(uid: int, function: Callable[..., Any], *arguments: Any) -> int:
    """Run `function` in a process of that user. Returns its errno, or 0 if it succeeded."""
    child = os.fork()
    if child == 0:
        code = 255
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            function(*arguments)
            code = 0
        except OSError as error:
            code = error.errno or 255
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@case
def permissions_of_users(_host: Path) -> None:
    base = A / "private"
    base.mkdir(mode=0o711)
    (base / "secret").write_text("secret")
    os.chmod(base / "secret", 0o600)
    (base / "public").write_text("public")
    os.chmod(base / "public", 0o644)
    expect(_as_user(2001, (base / "public").read_text) == 0, "another user reads what all may read")
    expect(_as_user(2001, (base / "secret").read_text) == errno.EACCES, "another user reads a secret")
    expect(_as_user(2001, (base / "public").write_text, "x") == errno.EACCES, "another user writes")
    expect(_as_user(2001, os.listdir, base) == errno.EACCES, "another user lists")
    expect(_as_user(2001, os.unlink, base / "public") == errno.EACCES, "another user removes a name")
    os.chmod(A, 0o777)
    expect(_as_user(2001, (A / "of-2001").write_text, "mine") == 0, "another user makes a file")
    expect((A / "of-2001").stat().st_uid == 2001, "whose it is")
    expect(_as_user(2002, os.chmod, A / "of-2001", 0o777) == errno.EPERM, "only the owner changes the mode")


@case
def times(host: Path) -> None:
    path = A / "timed"
    path.write_text("x")
    wanted = (1_000_000_000_123_456_789, 1_234_567_890_987_654_321)
    os.utime(path, ns=wanted)
    forget_cached_data()
    found = path.stat()
    expect((found.st_atime_ns, found.st_mtime_ns) == wanted, f"times {found.st_atime_ns}, {found.st_mtime_ns}")
    # The guest sees the server's directory without fractions of a second.
    expect((host / "timed").stat().st_mtime_ns // 10**9 == wanted[1] // 10**9, "on the server")
    before = found.st_ctime_ns
    time.sleep(0.02)
    os.chmod(path, 0o600)
    expect(path.stat().st_ctime_ns > before, "a new mode changes the change time")
    os.utime(path)
    expect(abs(path.stat().st_mtime - time.time()) < 60, "the present time")
    path.write_text("longer")
    forget_cached_data()
    expect(abs(path.stat().st_mtime - time.time()) < 60, "the time of a write")


def _make_exclusively(path: Path, results: Any) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        results.put(True)
    except FileExistsError:
        results.put(False)


@case
def exclusive_create(_host: Path) -> None:
    for number in range(20):
        results: multiprocessing.Queue[Any] = multiprocessing.Queue()
        path = f"exclusive-{number}"
        makers = [multiprocessing.Process(target=_make_exclusively, args=(where / path, results)) for where in (A, B, A, B)]
        for maker in makers:
            maker.start()
        won = [results.get(timeout=20) for _ in makers]
        for maker in makers:
            maker.join()
        expect(won.count(True) == 1, f"{won.count(True)} of {len(won)} made {path}")
        expect_mode(A / path, 0o600, "of a file that was made exclusively")


def _refused(path: Path, kind: int, length: int, start: int) -> bool:
    """Return whether another process is denied a lock on the range."""
    with open(path, "r+b") as file:
        try:
            fcntl.lockf(file, kind | fcntl.LOCK_NB, length, start)
        except OSError as error:
            expect(error.errno in (errno.EAGAIN, errno.EACCES), str(error))
            return True
    return False


def _expect_ranges(path: Path, kind: int, held: list[tuple[int, int]], free: list[tuple[int, int]], what: str) -> None:
    """Ask in a separate process, since a process never conflicts with its own locks."""
    results: multiprocessing.Queue[Any] = multiprocessing.Queue()

    def ask() -> None:
        results.put(([_refused(path, kind, *r) for r in held], [_refused(path, kind, *r) for r in free]))

    asker = multiprocessing.Process(target=ask)
    asker.start()
    found = results.get(timeout=30)
    asker.join()
    expect(all(found[0]) and not any(found[1]), f"{what}: held {found[0]}, free {found[1]}")


@case
def locks_merge_and_split(_host: Path) -> None:
    (A / "ranges").write_bytes(bytes(1000))
    exclusive, shared = fcntl.LOCK_EX, fcntl.LOCK_SH
    with open(A / "ranges", "r+b") as file:
        fcntl.lockf(file, exclusive, 100, 0)
        fcntl.lockf(file, exclusive, 100, 100)
        fcntl.lockf(file, fcntl.LOCK_UN, 20, 90)
        for where in (A, B):
            _expect_ranges(where / "ranges", exclusive, [(1, 0), (1, 89), (1, 110), (1, 199)], [(20, 90), (1, 200)], "split")
        fcntl.lockf(file, shared, 50, 0)
        for where in (A, B):
            _expect_ranges(where / "ranges", shared, [(1, 50), (1, 150)], [(50, 0), (20, 90)], "turned to shared")
            _expect_ranges(where / "ranges", exclusive, [(1, 0), (1, 49)], [(20, 90)], "shared against exclusive")
        fcntl.lockf(file, exclusive, 0, 500)
        _expect_ranges(B / "ranges", shared, [(1, 500), (1, 1 << 40)], [(100, 400)], "to the end of all files")
    _expect_ranges(B / "ranges", exclusive, [], [(0, 0)], "after close")


def _lock_and_write(path: Path, worker: int, rounds: int, results: Any) -> None:
    """Check the file, and write to the worker's own range under a lock, repeatedly. Returns the errors."""
    wrong, mine = [], bytes([worker + 1]) * 16
    for number in range(rounds):
        step = "open to read"
        try:
            with open(path, "rb", buffering=0):
                pass
            step = "open to write"
            with open(path, "r+b", buffering=0) as file:
                step = "lock"
                fcntl.lockf(file, fcntl.LOCK_EX, len(mine), worker * len(mine))
                step = "write"
                os.pwrite(file.fileno(), mine, worker * len(mine))
                step = "fsync"
                os.fsync(file.fileno())
                step = "close"
        except OSError as error:
            wrong.append(f"{step} {number} of worker {worker}: {error}")
    results.put(wrong)


@case
def locks_beside_readers(host: Path) -> None:
    """A READ delegation to a client that itself writes and locks costs it locks, and then fsync and close fail with EIO."""
    path, workers = A / "locked", 4
    path.write_bytes(bytes(16 * workers))
    results: multiprocessing.Queue[Any] = multiprocessing.Queue()
    processes = [multiprocessing.Process(target=_lock_and_write, args=(path, worker, LOCK_ROUNDS[0], results)) for worker in range(workers)]
    for process in processes:
        process.start()
    wrong = [one for _ in processes for one in results.get(timeout=240)]
    for process in processes:
        process.join()
    expect(not wrong, f"{len(wrong)} of {workers * LOCK_ROUNDS[0]} failed: {wrong[:3]}")
    expect((host / "locked").read_bytes() == b"".join(bytes([worker + 1]) * 16 for worker in range(workers)), "what was written")


@case
def large_file(host: Path) -> None:
    path = A / "large"
    block = 1 << 20
    with open(path, "wb", buffering=0) as file:
        for number in range(48):
            file.write(pattern(number, block))
        os.fsync(file.fileno())
    expect(tree.digest(host / "large") == tree.digest(path), "the server's file differs")
    forget_cached_data()
    with open(path, "rb", buffering=0) as file:
        for number in (47, 0, 31, 30, 16):
            file.seek(number * block)
            expect(file.read(block) == pattern(number, block), f"block {number}")


@case
def direct_io(_host: Path) -> None:
    path = A / "direct"
    with mmap.mmap(-1, 65536) as page:
        for size in (512, 4096, 65536):
            page[:size] = pattern(size, size)
            file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_DIRECT | os.O_TRUNC, 0o644)
            try:
                expect(os.pwritev(file, [memoryview(page)[:size]], 0) == size, f"writing {size} bytes")
                page[:size] = bytes(size)
                expect(os.preadv(file, [memoryview(page)[:size]], 0) == size, f"reading {size} bytes")
                expect(page[:size] == pattern(size, size), f"{size} bytes differ")
            finally:
                os.close(file)


@v42_case
def preallocate(host: Path) -> None:
    path = A / "preallocated"
    # Not through the library, which writes zeros where the client cannot allocate.
    subprocess.run(["fallocate", "--length", str(4 << 20), str(path)], check=True)
    found = (host / "preallocated").stat()
    expect(found.st_size == 4 << 20 and found.st_blocks * 512 >= 4 << 20, f"size {found.st_size}, {found.st_blocks} blocks")


@v42_case
def copy_within_the_server(_host: Path) -> None:
    (A / "copy-from").write_bytes(pattern(5, 3_000_000))
    with open(A / "copy-from", "rb") as source, open(A / "copy-to", "wb") as target:
        left = 3_000_000
        while left:
            count = os.copy_file_range(source.fileno(), target.fileno(), left)
            expect(count > 0, "copy_file_range ends too early")
            left -= count
    forget_cached_data()
    expect(tree.digest(A / "copy-to") == tree.digest(A / "copy-from"), "the copy differs")


def _clone_range(source: BinaryIO, source_at: int, length: int, target: BinaryIO, target_at: int) -> None:
    fcntl.ioctl(target, FICLONERANGE, struct.pack("=qQQQ", source.fileno(), source_at, length, target_at))


def clone(_host: Path) -> None:
    """Files share storage, as a whole and in part, until one of them is written."""
    size = (1 << 20) + 3
    (A / "cloned-from").write_bytes(pattern(7, size))
    with open(A / "cloned-from", "rb") as source, open(A / "cloned-to", "wb") as target, open(A / "cloned-part", "w+b") as part:
        fcntl.ioctl(target, FICLONE, source.fileno())
        part.write(pattern(8, 65536))
        part.flush()
        os.fsync(part.fileno())
        _clone_range(source, 8192, 16384, part, 4096)
        # A range of partial blocks cannot be shared, and the attempt changes nothing.
        for at, length, to in ((1, 4096, 0), (0, 4096, 1), (0, 100, 0), (0, 4096, 1 << 20 | 1)):
            try:
                _clone_range(source, at, length, part, to)
            except OSError as error:
                expect(error.errno == errno.EINVAL, f"{at} {length} {to}: {error}")
            else:
                raise AssertionError(f"{at} {length} {to} was cloned")
    forget_cached_data()
    expect((A / "cloned-to").read_bytes() == pattern(7, size), "the clone differs")
    wanted = bytearray(pattern(8, 65536))
    wanted[4096:20480] = pattern(7, size)[8192:24576]
    expect((A / "cloned-part").read_bytes() == bytes(wanted), "the part differs")
    with open(A / "cloned-from", "r+b") as source:
        source.write(b"changed")
    forget_cached_data()
    expect((A / "cloned-to").read_bytes() == pattern(7, size), "a write reached the clone")


def no_clone(_host: Path) -> None:
    """Where files cannot share storage, the client gets an error and copies."""
    (A / "cloned-from").write_bytes(pattern(7, 8192))
    with open(A / "cloned-from", "rb") as source, open(A / "cloned-to", "wb") as target:
        try:
            fcntl.ioctl(target, FICLONE, source.fileno())
        except OSError as error:
            expect(error.errno == errno.EOPNOTSUPP, str(error))
        else:
            raise AssertionError("it was cloned")


# A mount in a network namespace with another host name looks like another machine to the server.
AS_ANOTHER = 'echo another >/proc/sys/kernel/hostname && namespace=$1 && shift && exec nsenter --net="/run/netns/$namespace" "$@"'


def mount(options: argparse.Namespace, where: Path) -> None:
    """Mount at A or B. Two mounts of one Linux are the same client to a server. A server that gives delegations to
    clients need not protect one of these mounts from the other. So B belongs to another client where a namespace for it
    exists."""
    where.mkdir(exist_ok=True)
    words = f"proto=tcp,port={options.port},sec=sys,nosharecache,actimeo=1,{options.options}"
    another = options.another if where == B else None
    command = ["mount.nfs", f"{another[1] if another else options.address}:/{options.share}", str(where), "-o", words]
    if another:
        command = ["unshare", "--uts", "sh", "-c", AS_ANOTHER, "sh", another[0], *command]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        kernel = subprocess.run(["dmesg"], capture_output=True, text=True).stdout.splitlines()
        raise AssertionError(f"{(done.stderr + done.stdout).strip().splitlines()[:1]} | " + " | ".join(kernel[-4:]))


def check_statfs(options: argparse.Namespace) -> None:
    """The file system is as large as the server's."""
    found = os.statvfs(A)
    # The client counts in blocks of its read size.
    size = found.f_blocks * found.f_frsize
    expect(abs(size - options.size_bytes) <= found.f_frsize, f"{size} bytes in all, not {options.size_bytes}")
    free = found.f_bavail * found.f_frsize
    expect(0 < free < options.size_bytes, f"{free} bytes free")
    expect(found.f_files == options.size_files and found.f_namemax == 255, f"{found.f_files} files, names of {found.f_namemax}")


def check_connections(options: argparse.Namespace) -> None:
    """Every requested connection exists and has carried requests."""
    requests = connections_in_use(A)
    expect(len(requests) == options.connections, f"{len(requests)} connections of {options.connections}")
    expect(min(requests) > 10, f"requests of each connection: {requests}")


def check_below(options: argparse.Namespace) -> None:
    """A file system that the host has mounted below the share is also a separate file system to the client."""
    tops = [where / options.below[0] for where in (A, B)]
    try:
        # The client mounts it on entry, and not for stat.
        expect([os.listdir(top) for top in tops] == [[], []], "it is not empty")
        here, there = (top.stat().st_dev for top in tops)
        expect(here not in (A.stat().st_dev, there), f"device {here} below {A.stat().st_dev}, {there}")
        room = os.statvfs(tops[0])
        size = int(options.below[1])
        expect(abs(room.f_blocks * room.f_frsize - size) <= room.f_frsize, f"{room.f_blocks * room.f_frsize} bytes, not {size}")
        (tops[0] / "made").write_bytes(b"below")
        expect((tops[1] / "made").read_bytes() == b"below", "the second mount reads something else")
        expect_error(errno.EXDEV, os.rename, tops[0] / "made", A / "made")
        expect((tops[0] / "..").stat().st_ino == A.stat().st_ino, "the way up does not lead to the share")
        (tops[0] / "made").unlink()
    finally:
        for top in tops:
            subprocess.run(["umount", str(top)], capture_output=True)


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("address", "port", "share", "options", "host-directory"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("connections", "size-bytes", "size-files", "lock-rounds"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--clones", action="store_true", help="files of the share can share storage")
    parser.add_argument("--below", nargs=2, help="a directory of the share with a file system of this many bytes mounted on it")
    parser.add_argument("--another", nargs=2, help="the network namespace of a second client, and the server's address there")
    options = parser.parse_args()
    LOCK_ROUNDS[0] = options.lock_rounds
    try:
        mount(options, A)
        mount(options, B)
    except AssertionError as error:
        print(f"FAIL mount: {error}")
        return 1
    print("PASS mount", flush=True)
    cases = [function for function in tree.CASES if function not in NOT_OVER_NFS]
    cases += tree.POSIX_CASES + NFS_CASES
    if re.search(r"vers=4\.2", options.options):
        cases += V42_CASES + [clone if options.clones else no_clone]
    failures = tree.run_cases(cases, Path(options.host_directory))
    checks = {"statfs": check_statfs, "connections": check_connections}
    if options.below:
        checks["a file system below"] = check_below
    failures += tree.run_cases(list(checks.values()), options, list(checks))
    return failures + tree.unmount_both()


if __name__ == "__main__":
    sys.exit(main())
