#!/usr/bin/env python3
"""The exercise that a mounted share must pass, run inside the guest.

    build_tree.py --address A --port P --share S --user U --password W --options MOUNT-OPTIONS --host-directory DIR [--posix] [--modes]

The share is mounted twice, on separate connections, so that the server has two clients: /mnt/a does the work, and
/mnt/b observes. DIR is the directory that the server serves, visible here read-only. Each case prints `PASS name` or
`FAIL name: why`; the exit status is the number of failures.
"""

import argparse
import errno
import fcntl
import hashlib
import mmap
import multiprocessing
import os
import random
import shutil
import stat
import subprocess
import sys
import tarfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

# A case. Its argument is the directory that the server serves.
Case = Callable[[Path], None]

A, B = Path("/mnt/a"), Path("/mnt/b")
SCRATCH = Path("/run/scratch")
# The time within which a client must drop cached reads after another one's write.
BREAK_TAKEN_S = 10

CASES: list[Case] = []
SMB3_CASES: list[Case] = []
POSIX_CASES: list[Case] = []
MODE_CASES: list[Case] = []


def case(function: Case) -> Case:
    """Register a case that every mount must pass."""
    CASES.append(function)
    return function


def smb3_case(function: Case) -> Case:
    """Register a case for mounts of SMB 3 and later: cifs.ko offers no fallocate before."""
    SMB3_CASES.append(function)
    return function


def posix_case(function: Case) -> Case:
    """Register a case for mounts with the POSIX extensions."""
    POSIX_CASES.append(function)
    return function


def mode_case(function: Case) -> Case:
    """Register a case for mounts that keep modes at the server: by the POSIX extensions, or in descriptors (`modefromsid`)."""
    MODE_CASES.append(function)
    return function


class NotSupported(Exception):
    """This machine lacks a program, or the kernel a feature."""


def expect(condition: object, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def expect_mode(path: Path, wanted: int, what: str) -> None:
    found = path.stat().st_mode & 0o7777
    expect(found == wanted, f"mode {what}: wanted {wanted:o}, found {found:o}")


def expect_error(number: int, call: Callable[..., Any], *arguments: Any) -> None:
    try:
        call(*arguments)
    except OSError as error:
        expect(error.errno == number, f"wanted {errno.errorcode[number]}, got {error}")
        return
    raise AssertionError(f"wanted {errno.errorcode[number]}, but the call succeeded")


def digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def forget_cached_data() -> None:
    """Drop the guest's caches, so that the next reads come from the server."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def pattern(seed: int, length: int) -> bytes:
    return random.Random(seed).randbytes(length)


@case
def untar_a_tree(_host: Path) -> None:
    source = SCRATCH / "tree"
    wanted = {}
    for number in range(600):
        path = source / f"d{number % 7}" / f"e{number % 31}" / f"file-{number}.c"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(pattern(number, (number * 7919) % 40000 if number % 50 else 300000))
        wanted[path.relative_to(source)] = digest(path)
    archive = SCRATCH / "tree.tar"
    with tarfile.open(archive, "w") as tar:
        tar.add(source, arcname="tree")
    subprocess.run(["tar", "xf", str(archive), "-C", str(A), "--no-same-owner"], check=True)
    forget_cached_data()
    found = {p.relative_to(A / "tree"): digest(p) for p in (A / "tree").rglob("*") if p.is_file()}
    expect(found == wanted, f"{len(wanted)} files packed, {len(found)} found, {sum(found.get(k) != v for k, v in wanted.items())} differ")
    stamp = (source / "d0/e0/file-0.c").stat().st_mtime_ns // 10**9
    expect((A / "tree/d0/e0/file-0.c").stat().st_mtime_ns // 10**9 == stamp, "tar's modification time is lost")
    subprocess.run(["rm", "-r", str(A / "tree")], check=True)
    expect(not (A / "tree").exists(), "the tree is still there after rm -r")


def _write_whole(path: Path, seed: int, length: int) -> None:
    data = pattern(seed, length)
    with open(path, "wb") as file:
        for start in range(0, length, 100_000):
            file.write(data[start:start + 100_000])


def _write_stripes(path: Path, worker: int, workers: int, stripe: int, count: int) -> None:
    with open(path, "r+b", buffering=0) as file:
        for index in range(worker, count, workers):
            file.seek(index * stripe)
            file.write(pattern(index, stripe))


def _together(function: Callable[..., Any], argument_lists: list[tuple[Any, ...]]) -> None:
    processes = [multiprocessing.Process(target=function, args=arguments) for arguments in argument_lists]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    expect(all(process.exitcode == 0 for process in processes), "a writer failed")


@case
def parallel_writers(_host: Path) -> None:
    length, workers = 6_000_000, 4
    _together(_write_whole, [(A / f"writer-{w}", w, length) for w in range(workers)])
    forget_cached_data()
    for w in range(workers):
        expect(digest(A / f"writer-{w}") == hashlib.sha256(pattern(w, length)).hexdigest(), f"writer {w}'s file differs")
    stripe, count = 10_007, 300
    shared = A / "shared"
    shared.write_bytes(b"")
    _together(_write_stripes, [(shared, w, workers, stripe, count) for w in range(workers)])
    forget_cached_data()
    wanted = hashlib.sha256(b"".join(pattern(index, stripe) for index in range(count))).hexdigest()
    expect(digest(shared) == wanted, "stripes written side by side into one file differ")


@case
def five_thousand_entries(_host: Path) -> None:
    directory = A / "many"
    directory.mkdir()
    names = {f"entry-{number:05}-{'x' * (number % 60)}" for number in range(5000)}
    for name in names:
        os.close(os.open(directory / name, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    expect(set(os.listdir(directory)) == names, "the listing is not what was made")
    forget_cached_data()
    with os.scandir(B / "many") as entries:
        seen = [(e.name, e.stat().st_size) for e in entries]
    expect(len(seen) == 5000 and {n for n, _ in seen} == names, f"the other client lists {len(seen)} entries")
    for name in sorted(names):
        os.unlink(directory / name)
    expect(os.listdir(directory) == [], "entries remain after unlink")
    directory.rmdir()


@case
def rename(_host: Path) -> None:
    base = A / "rename"
    (base / "from" / "deep").mkdir(parents=True)
    (base / "to").mkdir()
    (base / "from" / "deep" / "leaf").write_text("leaf")
    (base / "old").write_text("old")
    (base / "new").write_text("new")
    os.rename(base / "old", base / "new")
    expect((base / "new").read_text() == "old" and not (base / "old").exists(), "rename over a file")
    os.rename(base / "new", base / "to" / "moved")
    expect((base / "to" / "moved").read_text() == "old", "rename into another directory")
    os.rename(base / "from", base / "to" / "dir")
    expect((base / "to" / "dir" / "deep" / "leaf").read_text() == "leaf", "rename of a directory with content")
    expect_error(errno.ENOENT, os.rename, base / "nothing", base / "else")
    expect_error(errno.ENOTEMPTY, os.rmdir, base / "to")
    time.sleep(1.1)
    expect(sorted(os.listdir(B / "rename" / "to")) == ["dir", "moved"], "what the other client sees")


@case
def rename_while_open(_host: Path) -> None:
    path = A / "open-rename"
    with open(path, "w+b") as file:
        file.write(b"before")
        file.flush()
        os.rename(path, A / "open-renamed")
        file.write(b" after")
    expect((A / "open-renamed").read_bytes() == b"before after", "writes after the rename are lost")
    expect(not path.exists(), "the old name is still there")


@case
def unlink_while_open(_host: Path) -> None:
    path = A / "unlinked"
    with open(path, "w+b") as file:
        file.write(b"still here")
        file.flush()
        os.unlink(path)
        expect_error(errno.ENOENT, os.open, B / "unlinked", os.O_RDONLY)
        file.seek(0)
        expect(file.read() == b"still here", "the open file lost its data")
        file.write(b" and growing")
        file.flush()
        file.seek(0)
        expect(file.read() == b"still here and growing", "the open file takes no more data")
    # A break that the client still processes keeps the open beyond close(2) (cifs_queue_oplock_break takes a
    # reference), and the server shows the name until the last CLOSE. The name must not stay.
    deadline = time.monotonic() + 2
    while (left := (path.exists(), "unlinked" in os.listdir(A))) != (False, False) and time.monotonic() < deadline:
        time.sleep(0.05)
    expect(left == (False, False), f"the name is back after close: found {left[0]}, listed {left[1]}; other client {'unlinked' in os.listdir(B)}")


@case
def truncate(_host: Path) -> None:
    path = A / "truncated"
    path.write_bytes(b"x" * 100_000)
    os.truncate(path, 12_345)
    forget_cached_data()
    expect(path.read_bytes() == b"x" * 12_345, "shrinking")
    os.truncate(path, 50_000)
    forget_cached_data()
    expect(path.read_bytes() == b"x" * 12_345 + bytes(50_000 - 12_345), "growing must fill with zeros")
    with open(path, "r+b") as file:
        file.truncate(0)
        expect(os.fstat(file.fileno()).st_size == 0, "to nothing")
    time.sleep(1.1)
    expect((B / "truncated").stat().st_size == 0, "the size that the other client sees")


@case
def sparse(_host: Path) -> None:
    path = A / "sparse"
    with open(path, "wb") as file:
        file.write(b"head")
        file.seek(64 << 20)
        file.write(b"tail")
    forget_cached_data()
    expect(path.stat().st_size == (64 << 20) + 4, "size")
    with open(path, "rb") as file:
        expect(file.read(6) == b"head\0\0", "head")
        file.seek(30 << 20)
        expect(file.read(4096) == bytes(4096), "the hole reads as zeros")
        file.seek(64 << 20)
        expect(file.read() == b"tail", "tail")


@smb3_case
def punch_a_hole(host: Path) -> None:
    path = A / "punched"
    path.write_bytes(b"d" * (4 << 20))
    subprocess.run(["fallocate", "--punch-hole", "--offset", str(1 << 20), "--length", str(2 << 20), str(path)], check=True)
    forget_cached_data()
    data = path.read_bytes()
    expect(data == b"d" * (1 << 20) + bytes(2 << 20) + b"d" * (1 << 20), "content around the hole")
    expect((host / "punched").stat().st_blocks * 512 < 3 << 20, "the server's file still occupies the hole")


@smb3_case
def seek_hole_and_data(_host: Path) -> None:
    path = A / "holes"
    path.write_bytes(b"d" * (4 << 20))
    subprocess.run(["fallocate", "--punch-hole", "--offset", str(1 << 20), "--length", str(2 << 20), str(path)], check=True)
    with open(path, "rb") as file:
        expect(os.lseek(file.fileno(), 0, os.SEEK_HOLE) == 1 << 20, "SEEK_HOLE")
        expect(os.lseek(file.fileno(), 1 << 20, os.SEEK_DATA) == 3 << 20, "SEEK_DATA")


def _hold_lock(path: Path, ready: Any, release: Any) -> None:
    with open(path, "r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, 100, 0)
        ready.set()
        release.wait(20)


@case
def fcntl_locks(_host: Path) -> None:
    (A / "locked").write_bytes(b"0" * 1000)
    ready, release = multiprocessing.Event(), multiprocessing.Event()
    holder = multiprocessing.Process(target=_hold_lock, args=(A / "locked", ready, release))
    holder.start()
    expect(ready.wait(10), "the first client did not get its lock")
    for where in (A, B):
        with open(where / "locked", "r+b") as file:
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 50)
                raise AssertionError(f"a conflicting lock was granted below {where}")
            except OSError as error:
                expect(error.errno in (errno.EAGAIN, errno.EACCES), f"conflict below {where}: {error}")
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 500)
            fcntl.lockf(file, fcntl.LOCK_UN, 10, 500)
    with open(B / "locked", "r+b") as file:
        timer = multiprocessing.Process(target=_set_later, args=(release, 1.5))
        began = time.monotonic()
        timer.start()
        fcntl.lockf(file, fcntl.LOCK_EX, 100, 0)
        waited = time.monotonic() - began
        expect(1.0 < waited < 15, f"a blocking lock was granted after {waited:.1f} s, and the holder let go after 1.5 s")
        timer.join()
    holder.join()


def _set_later(event: Any, seconds: float) -> None:
    time.sleep(seconds)
    event.set()


@case
def mmap_write(host: Path) -> None:
    path = A / "mapped"
    path.write_bytes(bytes(1 << 20))
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 1 << 20) as view:
        for offset in range(0, 1 << 20, 4096 * 3 + 5):
            view[offset:offset + 3] = b"map"
        view.flush()
        wanted = hashlib.sha256(view[:]).hexdigest()
    expect(digest(host / "mapped") == wanted, "the server's file does not hold what was flushed")
    forget_cached_data()
    expect(digest(path) == wanted, "reading back")


@case
def fsync_reaches_the_server(host: Path) -> None:
    data = pattern(99, 700_001)
    with open(A / "synced", "wb", buffering=0) as file:
        file.write(data)
        os.fsync(file.fileno())
        expect((host / "synced").read_bytes() == data, "after fsync the server's file does not hold the data")


@case
def two_clients_agree(_host: Path) -> None:
    with open(A / "coherent", "w+b", buffering=0) as writer:
        writer.write(b"first")
        expect((B / "coherent").read_bytes() == b"first", "the second client misses what the first holds in its cache")
        with open(B / "coherent", "r+b", buffering=0) as other:
            other.write(b"SECOND")
            os.fsync(other.fileno())
        # A write does not wait for a client that only caches reads (MS-FSA 2.1.5.4 and 2.1.5.18). The break goes over
        # the first client's connection, the answer over the second's. On a busy host the first client may read before
        # it has processed the break: 5 to 70 ms in 20 of 7,500 turns with five guests on two processors.
        began = time.monotonic()
        while (seen := os.pread(writer.fileno(), 16, 0)) != b"SECOND":
            expect(time.monotonic() - began < BREAK_TAKEN_S, f"the first client sees {seen!r} and not the second's write")
            time.sleep(0.01)


@case
def write_without_a_lease(host: Path) -> None:
    path = "written-by-two"
    (A / path).write_bytes(bytes(mmap.PAGESIZE))
    with open(B / path, "r+b", buffering=0) as other, open(A / path, "r+b", buffering=0) as writer:
        for file in (other, writer):
            os.pread(file.fileno(), 10, 0)
        for number in range(3):
            os.pwrite(writer.fileno(), b"written", 100 * number)
            seen = (host / path).read_bytes()[100 * number:][:7]
            expect(seen == b"written", f"write {number + 1} is not at the server, where another has it open: {seen!r}")


@case
def two_write_to_one_page(host: Path) -> None:
    path, words = "page-of-two", [b"one", b"two", b"three", b"four"]
    (A / path).write_bytes(bytes(mmap.PAGESIZE))
    with open(A / path, "r+b", buffering=0) as one, open(B / path, "r+b", buffering=0) as two:
        for number, word in enumerate(words):
            file = (one, two)[number % 2]
            with mmap.mmap(file.fileno(), mmap.PAGESIZE, prot=mmap.PROT_READ) as seen:
                seen[0]
            os.pwrite(file.fileno(), word, 100 * number)
        for file in (one, two):
            os.fsync(file.fileno())
    found = [(host / path).read_bytes()[100 * number:][:len(word)] for number, word in enumerate(words)]
    expect(found == words, f"at the server is {found}, and {words} were written")


@case
def append_from_two_opens(_host: Path) -> None:
    path = A / "appended"
    with open(path, "ab", buffering=0) as one, open(path, "ab", buffering=0) as two:
        for number in range(50):
            (one if number % 2 else two).write(f"{number:04}\n".encode())
    expect(path.read_text().split() == [f"{number:04}" for number in range(50)], "appends overwrote each other")


@case
def names(_host: Path) -> None:
    base = A / "names"
    base.mkdir()
    wanted = {"with space", "ünïcödé", "日本語", "🚂 train", ".hidden", "x" * 255, "semi;colon", "a.b.c"}
    for name in wanted:
        (base / name).write_text(name)
    forget_cached_data()
    expect(set(os.listdir(base)) == wanted, f"listed {sorted(os.listdir(base))}")
    for name in wanted:
        expect((base / name).read_text() == name, name)
    expect_error(errno.EEXIST, os.mkdir, base / "with space")


@case
def extended_attributes(_host: Path) -> None:
    path = A / "attributed"
    path.write_text("x")
    os.setxattr(path, "user.colour", b"green")
    os.setxattr(path, "user.second", b"\x00\x01\x02")
    expect(os.getxattr(B / "attributed", "user.colour") == b"green", "the value that the other client reads")
    expect(os.getxattr(path, "user.second") == b"\x00\x01\x02", "a value with a zero byte")


@posix_case
def unlinked_name_is_gone_at_once(_host: Path) -> None:
    path = A / "unlinked-at-once"
    with open(path, "w+b") as file:
        os.unlink(path)
        expect("unlinked-at-once" not in os.listdir(A), "the name is still listed")
        path.write_bytes(b"another file of the same name")
        file.write(b"the first file")
    expect(path.read_bytes() == b"another file of the same name", "the two files are mixed up")


@posix_case
def case_sensitive_names(_host: Path) -> None:
    base = A / "case"
    base.mkdir()
    (base / "File").write_text("upper")
    (base / "file").write_text("lower")
    forget_cached_data()
    expect(sorted(os.listdir(base)) == ["File", "file"], "both names are there")
    expect((base / "File").read_text() == "upper" and (base / "file").read_text() == "lower", "each keeps its data")


@posix_case
def modes(host: Path) -> None:
    path = A / "mode"
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o640))
    expect_mode(host / "mode", 0o640, "given to open, on the server's file")
    os.mkdir(A / "mode-dir", 0o750)
    forget_cached_data()
    # The other client checks: Linux 6.1 does not request the POSIX information of a file that it has just created
    # itself.
    expect_mode(B / "mode-dir", 0o750, "given to mkdir")
    expect_mode(B / "mode", 0o640, "given to open")


@posix_case
def reserved_characters(_host: Path) -> None:
    base = A / "reserved"
    base.mkdir()
    wanted = {'quo"te', "que?stion", "st*r", "lt<gt>", "pi|pe", "co:lon"}
    for name in wanted:
        (base / name).write_text(name)
    forget_cached_data()
    expect(set(os.listdir(base)) == wanted, f"listed {sorted(os.listdir(base))}")


@mode_case
def chmod(host: Path) -> None:
    path, directory = A / "changed", A / "changed-dir"
    path.write_text("before")
    directory.mkdir()
    for mode in (0o600, 0o755, 0o640, 0o2711, 0o604):
        # The owner must be able to enter the directory.
        wanted = {path: mode, directory: mode | 0o100}
        for changed, its in wanted.items():
            os.chmod(changed, its)
            expect_mode(host / changed.name, its, f"of {changed.name} on the server")
        forget_cached_data()
        for changed, its in wanted.items():
            expect_mode(changed, its, f"of {changed.name} read back")
        path.write_text(f"{mode:o}")
        (directory / f"{mode:o}").write_text("made in it")
    expect(path.read_text() == "604" and len(os.listdir(directory)) == 5, "what was written between")


def _owner() -> tuple[int, int]:
    """Return the owner of new files here, as this client sees it."""
    path = A / "whose"
    path.write_text("")
    time.sleep(1.1)
    forget_cached_data()
    found = path.stat()
    return found.st_uid, found.st_gid


def _run_as(owner: tuple[int, int], *words: str | Path, cwd: Path = SCRATCH) -> str:
    """Run a program as the owner of the mount's files, so that no ownership needs to change. Returns its output."""
    command = ["setpriv", f"--reuid={owner[0]}", f"--regid={owner[1]}", "--clear-groups", *words]
    home = dict(os.environ, HOME=str(SCRATCH), GIT_CONFIG_NOSYSTEM="1")
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, env=home)
    expect(done.returncode == 0, f"{' '.join(map(str, words))}: {done.returncode}: {done.stderr.strip()[-200:]}")
    return done.stdout


def _need(program: str) -> None:
    if shutil.which(program) is None:
        raise NotSupported(f"needs {program}")


@mode_case
def git_keeps_a_repository(_host: Path) -> None:
    _need("git")
    owner, base = _owner(), A / "repository"
    _run_as(owner, "git", "init", "-q", str(base))
    (base / "program").write_text("#!/bin/sh\n")
    os.chmod(base / "program", 0o755)
    os.chown(SCRATCH, *owner)
    identity = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    _run_as(owner, *identity, "add", ".", cwd=base)
    _run_as(owner, *identity, "commit", "-q", "-m", "first", cwd=base)
    _run_as(owner, "git", "clone", "-q", str(base), str(A / "clone"))
    _run_as(owner, "git", "fsck", "--strict", cwd=A / "clone")
    forget_cached_data()
    expect(_run_as(owner, "git", "status", "--porcelain", cwd=base) == "", "git sees a change where there is none")
    expect_mode(A / "clone" / "program", 0o755, "of a program that was cloned")


@mode_case
def rsync_finds_nothing_left_to_do(host: Path) -> None:
    _need("rsync")
    owner, source, target = _owner(), SCRATCH / "source", A / "rsynced"
    (source / "sub").mkdir(parents=True)
    for number, mode in enumerate((0o600, 0o644, 0o755, 0o444)):
        path = source / "sub" / f"file-{number}"
        path.write_bytes(pattern(number, 5000 * number))
        os.chmod(path, mode)
        os.utime(path, (1_000_000_000 + number, 1_100_000_000 + number))
    os.chmod(source / "sub", 0o750)
    os.symlink("sub/file-1", source / "link")
    subprocess.run(["chown", "-hR", f"{owner[0]}:{owner[1]}", str(source)], check=True)
    # No call sets a link's own times here: Linux opens the link's target, which the server refuses.
    words = ["rsync", "-a", "--omit-link-times", f"{source}/", f"{target}/"]
    _run_as(owner, *words)
    time.sleep(1.1)
    forget_cached_data()
    left = _run_as(owner, *words, "--dry-run", "--itemize-changes")
    expect(left == "", f"rsync would still do: {left!r}")
    for path in source.rglob("*"):
        wanted, found = path.lstat(), (target / path.relative_to(source)).lstat()
        expect(found.st_mode == wanted.st_mode, f"{path.name}: mode {found.st_mode:o}, wanted {wanted.st_mode:o}")
    expect_mode(host / "rsynced" / "sub" / "file-0", 0o600, "on the server")
    expect(os.readlink(target / "link") == "sub/file-1", "where the link leads")


@posix_case
def links_and_their_targets_are_told_apart(host: Path) -> None:
    base = A / "told-apart"
    (base / "dir").mkdir(parents=True)
    (base / "file").write_text("text")
    (base / "dir" / "deep").write_text("deep")
    # Linux 6.1 creates none over SMB.
    try:
        os.symlink("file", base / "to-file")
        os.symlink("dir", base / "to-dir")
        os.symlink("dir/deep", base / "to-deep")
    except OSError as error:
        expect(error.errno == errno.EOPNOTSUPP, str(error))
        raise NotSupported("this kernel makes no symbolic links") from None
    forget_cached_data()
    # The listing comes first. It must agree with a stat of each name.
    with os.scandir(B / "told-apart") as entries:
        listed = {e.name: e.is_symlink() for e in entries}
    looked = {name: stat.S_ISLNK((B / "told-apart" / name).lstat().st_mode) for name in listed}
    expect(listed == looked == {"dir": False, "file": False, "to-deep": True, "to-dir": True, "to-file": True}, f"listed {listed}, looked at {looked}")
    for name, text in (("to-dir", "dir"), ("to-deep", "dir/deep")):
        for seen in (B / "told-apart", host / "told-apart"):
            expect(os.readlink(seen / name) == text, f"where {name} leads: {os.readlink(seen / name)}")
    expect((B / "told-apart" / "to-deep").read_text() == "deep", "what a link leads to")


def mount(options: argparse.Namespace, where: Path) -> None:
    where.mkdir(exist_ok=True)
    command = ["mount.cifs", f"//{options.address}/{options.share}", str(where), "-o",
               f"port={options.port},user={options.user},password={options.password},nosharesock,{options.options}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        kernel = subprocess.run(["dmesg"], capture_output=True, text=True).stdout.splitlines()
        raise AssertionError(f"{done.stderr.strip().splitlines()[:1]} | " + " | ".join(kernel[-4:]))


def run_cases(functions: Sequence[Callable[[Any], None]], given: Any, names: Sequence[str] = ()) -> int:
    """Run each case, with its argument, and print its result. Returns the number of failures. A case has its function's
    name unless `names` has another."""
    failures = 0
    for place, function in enumerate(functions):
        name = names[place] if place < len(names) else function.__name__
        try:
            function(given)
            print(f"PASS {name}", flush=True)
        except NotSupported as lacking:
            print(f"SKIP {name}: {lacking}", flush=True)
        except Exception as error:  # every exception is one failed case
            line = traceback.extract_tb(error.__traceback__)[-1].lineno
            print(f"FAIL {name}: {type(error).__name__} {error} (line {line})".replace("\n", " "), flush=True)
            failures += 1
    return failures



def unmount_both() -> int:
    """Unmount both. Returns the number of failures."""
    failures = 0
    for where in (B, A):
        done = subprocess.run(["umount", str(where)], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"FAIL umount: {done.stderr.strip()}")
            failures += 1
    return failures


def main() -> int:
    parser = argparse.ArgumentParser()
    for name in ("address", "port", "share", "user", "password", "options", "host-directory"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--posix", action="store_true")
    parser.add_argument("--modes", action="store_true", help="the mount keeps modes at the server")
    options = parser.parse_args()
    try:
        mount(options, A)
        mount(options, B)
    except AssertionError as error:
        print(f"FAIL mount: {error}")
        return 1
    print("PASS mount", flush=True)
    smb3 = SMB3_CASES if "vers=3" in options.options else []
    failures = run_cases(CASES + smb3 + (POSIX_CASES if options.posix else []) + (MODE_CASES if options.modes else []), Path(options.host_directory))
    return failures + unmount_both()


if __name__ == "__main__":
    sys.exit(main())
