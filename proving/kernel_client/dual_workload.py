"""The workers in the guest while one share is mounted twice, over SMB at `c` and over NFS at `n` below the base
(mixed.py). With a server that has no NFS, `n` is a second mount over SMB.

The workers are of the same kind as in workload.py, and use both mounts. They rely on this: an open sees the data that
the other side has flushed or closed before. Over NFS it also sees data that an SMB client has only written. The open
breaks the client's right to write back, and without that right the client writes at once (`writes_behind` names the
exceptions). Over SMB a right to read from memory ends with a notice that nobody waits for (MS-SMB2 3.3.4.7). So an open
at the same moment may still be answered from memory. Such a read counts as `late`, and after `LATE_S` as `stale`. The
number of stale reads with another server shows whether the server causes them.
"""

import collections
import errno
import fcntl
import functools
import mmap
import os
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from proving.kernel_client.workload import BLOCK, Failure, Worker, block

SIDES = ("c", "n")
BLOCKS = 12
# The time within which a client must learn that its cached data is old.
LATE_S = 2
# The time for which a removed or listed name may stay, where Linux closes after the caller's close or has not received
# the notice yet.
SETTLED_S = 10
# The longest wait for a lock, and the longest call that must break another client's caching right.
LOCK_LIMIT_S = 60
BUSY_LIMIT_S = 40


def writes_behind() -> bool:
    """Return whether Linux' SMB client delays writes even without the right to write back, until a flush or close. It
    does so since 6.10, with any server (kernels.py, `_BEHIND`)."""
    return tuple(int(part) for part in os.uname().release.split(".")[:2]) >= (6, 10)


@functools.cache
def over(base: str, side: str) -> str:
    """Return the protocol of one side's mount."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    return {"cifs": "SMB"}.get(next(kind for _, where, kind, *_ in mounts if where == f"{base}/{side}"), "NFS")


def other(side: str) -> str:
    """Return the other mount."""
    return SIDES[1 - SIDES.index(side)]


class SharedFile:
    """One file seen from both mounts, and the expected content of its blocks."""

    def __init__(self, worker: Worker, name: str) -> None:
        self._worker, self._name = worker, name
        self.generations = [0] * BLOCKS
        self._generation = 0
        self._held: dict[str, int] = {}
        self._story: collections.deque[str] = collections.deque(maxlen=40)
        # The last generations of each block.
        self._past = [collections.deque([0], maxlen=50) for _ in range(BLOCKS)]

    def path(self, side: str) -> str:
        return f"{self._worker.base}/{side}/{self._name}"

    def _over(self, side: str) -> str:
        return over(self._worker.base, side)

    def begin(self) -> None:
        """Create the file on one side, for both sides. Over SMB another user owns it."""
        os.umask(0)
        descriptor = os.open(self.path(self._worker.random.choice(SIDES)), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)
        os.pwrite(descriptor, bytes(BLOCK * BLOCKS), 0)
        os.close(descriptor)

    def hold(self, side: str) -> None:
        """Open the file on a side and keep it open, or close the kept file, so that a caching right stays or goes."""
        if side in self._held:
            self._story.append(f"{self._over(side)} let go")
            os.close(self._held.pop(side))
        else:
            # Linux' NFS client that has a file open for writing attributes every change to itself (nfs_update_inode).
            flags = os.O_RDONLY if side == "n" else self._worker.random.choice((os.O_RDONLY, os.O_RDWR))
            self._story.append(f"{self._over(side)} hold {flags}")
            self._held[side] = os.open(self.path(side), flags)

    def write(self, side: str) -> Any:
        """Write the next generation into some blocks from one side, so that an open on the other side must see it."""
        self._generation += 1
        chosen = self._worker.random.sample(range(BLOCKS), self._worker.random.randint(1, 4))
        self._story.append(f"{self._over(side)} write {chosen}")
        descriptor = os.open(self.path(side), os.O_RDWR)
        for index in chosen:
            whole = block(self._name, index, self._generation)
            if os.pwrite(descriptor, whole, index * BLOCK) != BLOCK:
                raise Failure(f"a write over {self._over(side)} was cut short")
            self.generations[index] = self._generation
            self._past[index].append(self._generation)
        # Data written over SMB is visible to every later open, flushed or not, except with some clients. Data written
        # over NFS is visible after a flush or close.
        if side == "n" and self._worker.random.random() < 0.5 or self._worker.random.random() < 0.3:
            self._story.append("fsync")
            os.fsync(descriptor)
        if side == "c" and self._worker.random.random() < 0.5:
            if writes_behind():
                os.fsync(descriptor)
            self.read(other(side), chosen)
        self._story.append("close")
        os.close(descriptor)
        return chosen

    def read(self, side: str, chosen: Iterable[int]) -> None:
        """Open the file on a side and compare blocks with their expected content."""
        self._story.append(f"{self._over(side)} read")
        descriptor = os.open(self.path(side), os.O_RDONLY)
        try:
            for index in chosen:
                self._compare(side, descriptor, index)
        finally:
            os.close(descriptor)
        if side in self._held:
            for index in chosen:
                self._compare(side, self._held[side], index)

    def _compare(self, side: str, descriptor: int, index: int) -> None:
        wanted = block(self._name, index, self.generations[index])
        began = None
        late = False
        while True:
            found = os.pread(descriptor, BLOCK, index * BLOCK)
            if found == wanted:
                break
            began = began or time.monotonic()
            known = self._known(index, found)
            what = f"generation {known}" if known else f"{len(found)} bytes of no generation"
            is_stale = time.monotonic() - began > LATE_S
            if self._over(side) == "NFS" or not known or is_stale and self._at_the_server(index) != f"generation {self.generations[index]}":
                raise Failure(f"block {index} of {self._name} over {self._over(side)}: {what}, and {self.generations[index]} was written; "
                              f"at the server is {self._at_the_server(index)}; {list(self._story)}")
            if is_stale:
                self._worker.say(error="stale read over SMB")
                return
            late = True
            time.sleep(0.01)
        if late:
            self._worker.say(error="late read over SMB")

    def _at_the_server(self, index: int) -> str:
        """Return the generation of a block, read past all caches."""
        room = mmap.mmap(-1, BLOCK)
        descriptor = os.open(self.path("n"), os.O_RDONLY | os.O_DIRECT)
        length = os.preadv(descriptor, [room], index * BLOCK)
        os.close(descriptor)
        known = self._known(index, room[:length])
        return f"generation {known}" if known else f"{length} other bytes"

    def _known(self, index: int, found: bytes) -> str:
        """Describe the generations of a block's pages; empty if a page matches none. A client drops pages one by one."""
        pages: list[set[int]] = [set() for _ in range(0, BLOCK, mmap.PAGESIZE)]
        for generation in self._past[index]:
            whole = block(self._name, index, generation)
            for number, fits in enumerate(pages):
                part = slice(number * mmap.PAGESIZE, (number + 1) * mmap.PAGESIZE)
                if found[part] == whole[part]:
                    fits.add(generation)
        return " and ".join(str(fits) for fits in sorted({max(fits, default=-1) for fits in pages})) if all(pages) else ""

    def end(self) -> None:
        for side in list(self._held):
            os.close(self._held.pop(side))


def exchange(worker: Worker) -> dict[str, Any]:
    """Write one file on one side and read it on the other, with caching rights that come and go on both."""
    shared = SharedFile(worker, worker.label)
    shared.begin()
    while not worker.stop.is_set():
        side = worker.random.choice(SIDES)
        if worker.random.random() < 0.25:
            shared.hold(worker.random.choice(SIDES))
        chosen = shared.write(side)
        shared.read(worker.random.choice((side, other(side), other(side))), chosen)
        worker.step()
    shared.end()
    for side in SIDES:
        shared.read(side, range(BLOCKS))
    return {"blocks": shared.generations}


class LockFlag:
    """A word that all processes of the guest share: the process that believes it has the lock."""

    def __init__(self, name: str) -> None:
        path = Path("/run/scratch") / f"{name}.flag"
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
        os.ftruncate(descriptor, mmap.PAGESIZE)
        self._map = mmap.mmap(descriptor, mmap.PAGESIZE)

    def take(self, who: int) -> int:
        """Record that a process has the lock. Returns the process that had it already."""
        had = self._map[0]
        self._map[0] = who
        return had

    def free(self, who: int) -> int:
        """Record the release of the lock. Returns the process that has taken it meanwhile."""
        has = self._map[0]
        self._map[0] = 0
        return 0 if has == who else has or 255


def _lock(worker: Worker, side: str) -> dict[str, int]:
    """Take a lock on one side repeatedly, never while the process of the other side has it, and increment a counter
    under it."""
    name = worker.label.rpartition("-")[0]
    me, flag = SIDES.index(side) + 1, LockFlag(name)
    descriptor = _open_both(worker, side, name)
    rounds = 0
    while not worker.stop.is_set():
        # The other side cannot distinguish the lock of the whole file (flock) from that of a range far behind its end.
        whole = worker.random.random() < 0.3
        if not _acquire(worker, descriptor, whole):
            continue
        if had := flag.take(me):
            raise Failure(f"the lock was granted over {over(worker.base, side)} while {over(worker.base, SIDES[had - 1])} has it")
        try:
            count = int(os.pread(descriptor, 20, 0) or b"0")
            time.sleep(worker.random.uniform(0, 0.01))
            os.pwrite(descriptor, b"%019d\n" % (count + 1), 0)
            os.fsync(descriptor)
        except OSError as error:
            raise Failure(f"under the lock over {over(worker.base, side)}: {error}") from error
        rounds += 1
        if took := flag.free(me):
            raise Failure(f"process {took} took the lock while {over(worker.base, side)} had it")
        _release(descriptor, whole)
        worker.step()
    os.close(descriptor)
    return {"counted": rounds}


def _open_both(worker: Worker, side: str, name: str) -> int:
    """Open the file of a pair of lockers. The first of the two creates it."""
    os.umask(0)
    return os.open(f"{worker.base}/{side}/{name}", os.O_CREAT | os.O_RDWR, 0o666)


LOCK_AT = 1 << 30


def _acquire(worker: Worker, descriptor: int, whole: bool) -> bool:
    end = time.monotonic() + LOCK_LIMIT_S
    while not worker.stop.is_set():
        try:
            if whole:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            else:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 100, LOCK_AT)
            return True
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise Failure(f"lock: {error}") from error
        if time.monotonic() > end:
            raise Failure(f"no lock within {LOCK_LIMIT_S} s")
        time.sleep(worker.random.uniform(0.001, 0.01))
    return False


def _release(descriptor: int, whole: bool) -> None:
    if whole:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    else:
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 100, LOCK_AT)


def smb_locker(worker: Worker) -> dict[str, int]:
    """The process of a pair that locks over SMB."""
    return _lock(worker, "c")


def nfs_locker(worker: Worker) -> dict[str, int]:
    """The process of a pair that locks over NFS."""
    return _lock(worker, "n")


class Directory:
    """A directory whose names are created, renamed and removed from both sides, and the expected content of each file."""

    def __init__(self, worker: Worker) -> None:
        self._worker, self._generation, self._names = worker, 0, 0
        self.holds: dict[str, str] = {}
        self._story: list[str] = []
        os.mkdir(self.path("c", ""))

    def path(self, side: str, name: str) -> str:
        return f"{self._worker.base}/{side}/{self._worker.label}/{name}"

    def step(self) -> None:
        """Do one operation on a side, and check from both."""
        side = self._worker.random.choice(SIDES)
        do = self._worker.random.choice(["create"] * (len(self.holds) < 5) + ["rename", "rename", "unlink"] * bool(self.holds))
        {"create": self._create, "rename": self._rename, "unlink": self._unlink}[do](side)
        self.check()

    def _new_name(self) -> str:
        """Return a name that was never used. Linux' SMB client trusts a name that it knows as long as it may read that
        file from memory, even after another client has renamed it."""
        self._names += 1
        return f"name-{self._names}"

    def _create(self, side: str) -> None:
        name = self._new_name()
        self._generation += 1
        content = f"{name} {self._generation}\n"
        self._do(side, f"create {name}", lambda: self._make(side, name, content))
        self.holds[name] = content

    def _make(self, side: str, name: str, content: str) -> None:
        with open(self.path(side, name), "x", encoding="utf-8") as file:
            file.write(content)

    def _rename(self, side: str) -> None:
        old = self._worker.random.choice(sorted(self.holds))
        new = self._worker.random.choice([self._new_name(), *sorted(set(self.holds) - {old})])
        # A process that has it open on the other side continues with it under its new name.
        held = self._hold(other(side), old) if self._worker.random.random() < 0.5 else None
        self._do(side, f"rename {old} {new}", lambda: os.rename(self.path(side, old), self.path(side, new)))
        content = self.holds[new] = self.holds.pop(old)
        if held is not None:
            self._story.append(f"{over(self._worker.base, other(side))} had it open")
            self._still(held, other(side), content)

    def _hold(self, side: str, name: str) -> int:
        return os.open(self.path(side, name), os.O_RDONLY)

    def _still(self, held: int, side: str, content: str) -> None:
        """Compare a file that was opened before with its expected content."""
        found = os.pread(held, 1000, 0).decode()
        os.close(held)
        if found != content:
            raise Failure(f"the open file over {over(self._worker.base, side)} holds {found!r}, and {content!r} was written; {self._story[-6:]}")

    def _unlink(self, side: str) -> None:
        name = self._worker.random.choice(sorted(self.holds))
        # Over NFS the name disappears at once, even while the file is open. Over SMB it disappears with the last open
        # (SEMANTICS.md).
        held = self._hold("c", name) if side == "n" and self._worker.random.random() < 0.5 else None
        self._do(side, f"unlink {name}", lambda: os.unlink(self.path(side, name)))
        content = self.holds.pop(name)
        if held is not None:
            self._still(held, "c", content)

    def _do(self, side: str, what: str, call: Callable[[], Any]) -> None:
        self._story.append(f"{over(self._worker.base, side)} {what}")
        try:
            call()
        except OSError as error:
            raise Failure(f"{over(self._worker.base, side)} {what}: {error}; before it {self._story[-8:]}; {self.holds} was there") from error

    def check(self) -> None:
        """Compare the directory, as both sides see it, with its expected content."""
        end = time.monotonic() + SETTLED_S
        while True:
            listed = {side: sorted(os.listdir(self.path(side, ""))) for side in SIDES}
            if all(names == sorted(self.holds) for names in listed.values()):
                break
            # A name removed over SMB disappears with its last open, and Linux' NFS client closes after the caller's
            # close. An SMB client that lists from memory gets a notice of other clients' changes, and nobody waits for
            # that.
            late = ("unlink over SMB" if self._story[-1].startswith("SMB unlink") else
                    "list over SMB" if listed["n"] == sorted(self.holds) else "")
            if not late or time.monotonic() > end:
                raise Failure(f"listed are {listed}, and {sorted(self.holds)} must be there; {self._story[-8:]}")
            self._worker.say(error=f"late {late}")
            time.sleep(0.02)
        side = self._worker.random.choice(SIDES)
        for name, wanted in self.holds.items():
            self._compare(side, name, wanted)

    def _compare(self, side: str, name: str, wanted: str) -> None:
        """Read a file by its name on a side. If Linux' SMB client must return the right to keep a file open, it may
        open it from memory once more between its answer and its close. Such a read is late too."""
        end = time.monotonic() + SETTLED_S
        while True:
            try:
                found = Path(self.path(side, name)).read_text(encoding="utf-8")
            except OSError as error:
                raise Failure(f"{over(self._worker.base, side)} reads {name}: {error}; {self._story[-8:]}") from error
            if found == wanted:
                return
            if side == "n" or time.monotonic() > end:
                raise Failure(f"{name} holds {found!r} over {over(self._worker.base, side)}, and {wanted!r} was written; {self._story[-8:]}")
            self._worker.say(error="late name over SMB")
            time.sleep(0.02)


def renames(worker: Worker) -> dict[str, Any]:
    """Create, rename and remove names from both sides. Each side's user may do everything to the other's files. Linux
    7.2 removes an open file over SMB by setting attributes and renaming it, and gives EIO if it may not
    (docs/proving.md)."""
    os.umask(0)
    directory = Directory(worker)
    while not worker.stop.is_set():
        directory.step()
        worker.step()
    return {"directory": "", "names": directory.holds}


# nfsace4: allow. A descriptor has S-1-22-1-N as the identifier of a host user (MS-DTYP 2.4.2).
ALLOW, READ_DATA, EVERYTHING = 0, 1, 0x1F01FF
USER = struct.Struct("<BB6sII")


def as_nfs(entries: list[tuple[int, int]]) -> bytes:
    """Return entries (user, rights) behind one for the owner, as Linux expects them in system.nfs4_acl."""
    out = struct.pack(">I", len(entries) + 1)
    for who, mask in [("OWNER@", EVERYTHING), *((str(user), mask) for user, mask in entries)]:
        name = who.encode()
        out += struct.pack(">IIII", ALLOW, 0, mask, len(name)) + name + bytes(-len(name) % 4)
    return out


def from_nfs(value: bytes) -> list[tuple[int, int]]:
    """Return the entries of users in system.nfs4_acl."""
    (count,), at, found = struct.unpack_from(">I", value), 4, []
    for _ in range(count):
        kind, _, mask, length = struct.unpack_from(">IIII", value, at)
        who = value[at + 16:at + 16 + length].decode()
        at += 16 + length + -length % 4
        if who.isdigit():
            found.append((int(who), mask))
        elif kind != ALLOW:
            raise Failure(f"an unknown entry: {kind} {who}")
    return found


def _aces(descriptor: bytes | bytearray) -> Iterator[tuple[int, int]]:
    """Return the offset of each entry of a descriptor's access list, and its length (MS-DTYP 2.4.5)."""
    at = struct.unpack_from("<I", descriptor, 16)[0]
    count = struct.unpack_from("<H", descriptor, at + 4)[0]
    at += 8
    for _ in range(count):
        size = struct.unpack_from("<H", descriptor, at + 2)[0]
        yield at, size
        at += size


def from_smb(descriptor: bytes) -> list[tuple[int, int]]:
    """Return the entries of host users in a descriptor."""
    found = []
    for at, size in _aces(descriptor):
        if size == 8 + USER.size:
            revision, count, authority, kind, user = USER.unpack_from(descriptor, at + 8)
            if (revision, count, authority, kind) == (1, 2, (22).to_bytes(6, "big"), 1):
                found.append((user, struct.unpack_from("<I", descriptor, at + 4)[0]))
    return found


def set_rights(descriptor: bytearray, of: int, to: int) -> int:
    """Give every user whose entry has exactly the rights `of` the rights `to`. Returns the number of such entries."""
    found = [at for at, _ in _aces(descriptor) if struct.unpack_from("<I", descriptor, at + 4)[0] == of]
    for at in found:
        struct.pack_into("<I", descriptor, at + 4, to)
    return len(found)


def lists(worker: Worker) -> dict[str, Any]:
    """Set a file's access list over NFS and find it in the descriptor over SMB; change it there and find it over NFS."""
    path = {side: f"{worker.base}/{side}/{worker.label}" for side in SIDES}
    # Created over SMB: its user may always change the list.
    Path(path["c"]).write_text("listed", encoding="utf-8")
    while not worker.stop.is_set():
        users = worker.random.sample(range(70_000, 70_100), worker.random.randint(1, 6))
        wanted = [(user, worker.random.randrange(1, 0x200)) for user in users]
        os.setxattr(path["n"], "system.nfs4_acl", as_nfs(wanted))
        descriptor = os.getxattr(path["c"], "system.cifs_acl")
        if (found := from_smb(descriptor)) != wanted:
            raise Failure(f"SMB shows the entries {found}, and {wanted} were set over NFS")
        changed = bytearray(descriptor)
        for at, size in _aces(descriptor):
            if size == 8 + USER.size:
                struct.pack_into("<I", changed, at + 4, READ_DATA)
        os.setxattr(path["c"], "system.cifs_acl", bytes(changed))
        found = from_nfs(os.getxattr(path["n"], "system.nfs4_acl"))
        if found != [(user, READ_DATA) for user in users]:
            raise Failure(f"NFS shows the entries {found}, and reading was left to {users} over SMB")
        worker.step()
    return {}


KINDS = {"exchange": exchange, "smb_locker": smb_locker, "nfs_locker": nfs_locker, "renames": renames, "lists": lists}
