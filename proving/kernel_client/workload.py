"""The workers on a mount while its channels are cut or its server dies: writers, readers, name changers and lock holders.

agent.py uses them inside the guest. The host, which checks the server's own files, also uses `expected_blocks` and
`facts`. Each worker is a process that keeps its descriptors open for its whole life. It writes one line of JSON for
each event to a file of its own:

    {"step": N}                     its progress
    {"error": "fsync EAGAIN"}       a call failed in a way that is known from Linux's client; the worker continued
    {"orphan": "names-0/round-0/two", "pending": true}
                                    the server must have this file open, and no client knows of it; it was unlinked
    {"failure": "..."}              a forbidden state; the worker ended
    {"final": {...}}                the expected final state, after it was told to stop
"""

import collections
import errno
import fcntl
import hashlib
import json
import os
import random
import stat
import time
import traceback
import zlib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TextIO

# The state of a path.
Facts = dict[str, Any]

BLOCK = 64 << 10
BLOCKS = 48
READ_FILE_BLOCKS = 96
# The errors that Linux's client may return to a caller while a channel comes and goes, although the mount survives.
PASSING = {errno.EAGAIN, errno.ECONNABORTED, errno.EHOSTDOWN, errno.EINTR, errno.ECONNRESET, errno.ENOTCONN, errno.ETIMEDOUT,
           errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.ESHUTDOWN, errno.EPIPE}
# The time for which one call may continue to fail with transient errors.
PATIENCE_S = 90
# The time for which a CLOSE may be in flight after its channel was lost. An open that blocks others for longer blocks
# them permanently.
CLOSED_WITHIN_S = 30
# The time after a recovery in which a client's abandoned opens may still block it.
GIVEN_UP_WITHIN_S = 5
LATE_CLOSE = "behind a late close"
# The error of a file that waits for the client that had it open before a restart.
OWNER_AWAY = "open EIO"


def block(label: str, index: int, generation: int) -> bytes:
    """Return the content of block `index` of the file `label` in its `generation`: zeros before the first."""
    if generation == 0:
        return bytes(BLOCK)
    return hashlib.shake_128(f"{label} {index} {generation}".encode()).digest(BLOCK)


def expected_blocks(label: str, generations: Iterable[int]) -> bytes:
    """Return the whole content of a writer's file, from the generation of each of its blocks."""
    return b"".join(block(label, index, generation) for index, generation in enumerate(generations))


def facts(path: str | Path) -> Facts:
    """Return the state of a path: a directory's names, or a file's size, mode and content, or the reason why there is none."""
    try:
        seen = os.lstat(path)
        if stat.S_ISDIR(seen.st_mode):
            return {"names": sorted(os.listdir(path))}
        with open(path, "rb") as file:
            return {"size": seen.st_size, "mode": stat.S_IMODE(seen.st_mode), "content": zlib.crc32(file.read())}
    except OSError as error:
        return {"error": errno.errorcode.get(error.errno or 0, str(error.errno))}


class Failure(Exception):
    """A forbidden state."""


class DirectoryUnusable(Exception):
    """A directory that cannot be used further, through no fault of the server."""


class Worker:
    """The context of a worker process: its directory, its report, and its stop signal."""

    def __init__(self, base: str, label: str, seed: int, report: TextIO, stop: Any) -> None:
        self.base, self.label, self.report, self.stop = base, label, report, stop
        self.random = random.Random(f"{seed} {label}")
        self._steps = 0
        self._said = 0.0

    def say(self, **line: Any) -> None:
        self.report.write(json.dumps(line) + "\n")
        self.report.flush()

    def step(self) -> None:
        self._steps += 1
        if time.monotonic() - self._said > 0.2:
            self._said = time.monotonic()
            self.say(step=self._steps)

    def passing(self, what: str, error: OSError) -> None:
        """Record a transient error. Any other error is a failure."""
        if error.errno not in PASSING:
            raise Failure(f"{what}: {error}") from error
        self.say(error=f"{what.split()[0]} {errno.errorcode[error.errno or 0]}")

    def insist(self, what: str, call: Callable[..., Any], *arguments: Any) -> tuple[Any, bool]:
        """Repeat a call that is safe to repeat until it succeeds. Returns (result, whether it was repeated)."""
        end = time.monotonic() + PATIENCE_S
        again = False
        while True:
            try:
                return call(*arguments), again
            except OSError as error:
                self.passing(what, error)
                if time.monotonic() > end:
                    raise Failure(f"{what}: still {error} after {PATIENCE_S} s") from error
                again = True
                time.sleep(0.05)


def run(function: Callable[[Worker], dict[str, Any]], base: str, label: str, seed: int, report_path: Path, stop: Any) -> None:
    """Run one worker's function to its end in this process."""
    with open(report_path, "w", encoding="utf-8") as report:
        worker = Worker(base, label, seed, report, stop)
        try:
            worker.say(final=function(worker))
        except Failure as failure:
            worker.say(failure=f"{label}: {failure}")
        except Exception as error:  # any other exception is a failure too
            place = traceback.extract_tb(error.__traceback__)[-1].lineno
            worker.say(failure=f"{label}: {type(error).__name__} {error} (line {place})")


def _create(worker: Worker, name: str) -> Any:
    # The file of a failed attempt belongs to this worker.
    return worker.insist(f"open {name}", os.open, f"{worker.base}/{name}", os.O_CREAT | os.O_RDWR, 0o644)[0]


def _flush(worker: Worker, descriptor: int, unsynced: dict[int, bytes]) -> None:
    """Write `unsynced` (offset to bytes) and flush. After a failed flush everything is written again, as careful
    programs do."""
    end = time.monotonic() + PATIENCE_S
    while True:
        for offset, data in unsynced.items():
            _write_all(worker, descriptor, data, offset)
        try:
            os.fsync(descriptor)
            return
        except OSError as error:
            # Linux returns EIO when a late WRITE is refused (mounted.py, `Mounted.finish`).
            if error.errno == errno.EIO:
                worker.say(error="fsync EIO")
            else:
                worker.passing("fsync", error)
            if time.monotonic() > end:
                raise Failure(f"fsync: still {error} after {PATIENCE_S} s") from error
            time.sleep(0.05)


def _write_all(worker: Worker, descriptor: int, data: bytes, offset: int) -> None:
    done = 0
    while done < len(data):
        done += worker.insist("write", os.pwrite, descriptor, data[done:], offset + done)[0]


def _read_all(worker: Worker, descriptor: int, length: int, offset: int) -> bytes:
    parts = []
    while length:
        part, _ = worker.insist("read", os.pread, descriptor, length, offset)
        if not part:
            break
        parts.append(part)
        length -= len(part)
        offset += len(part)
    return b"".join(parts)


def _check(found: bytes, wanted: bytes, label: str, index: int, generation: int) -> None:
    if found == wanted:
        return
    at = next((n for n, (a, b) in enumerate(zip(found, wanted, strict=False)) if a != b), min(len(found), len(wanted)))
    older = [g for g in range(max(0, generation - 400), generation) if block(label, index, g)[at:at + 64] == found[at:at + 64]]
    what = f"holds generation {older[-1]}" if older else "holds bytes of no generation"
    raise Failure(f"block {index}, byte {at} of {len(found)}: {what}, and {generation} was flushed")


def writer(worker: Worker) -> dict[str, Any]:
    """Overwrite random blocks of one file, flush, and sometimes read blocks back from the server."""
    label = worker.label
    generations = [0] * BLOCKS
    descriptor = _create(worker, label)
    _flush(worker, descriptor, {0: bytes(BLOCK * BLOCKS)})
    generation = 0
    while not worker.stop.is_set():
        generation += 1
        chosen = worker.random.sample(range(BLOCKS), worker.random.randint(1, 6))
        _flush(worker, descriptor, {index * BLOCK: block(label, index, generation) for index in chosen})
        for index in chosen:
            generations[index] = generation
        if generation % 3 == 0:
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            for index in worker.random.sample(range(BLOCKS), 6):
                _check(_read_all(worker, descriptor, BLOCK, index * BLOCK), block(label, index, generations[index]), label, index,
                       generations[index])
        worker.step()
    worker.insist("close", os.close, descriptor)
    return {"blocks": generations}


def reader(worker: Worker) -> dict[str, Any]:
    """Read random parts of a file that never changes, from the server and not from the cache."""
    label = worker.label
    whole = expected_blocks(label, [1] * READ_FILE_BLOCKS)
    descriptor = _create(worker, label)
    _flush(worker, descriptor, {0: whole})
    while not worker.stop.is_set():
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        start = worker.random.randrange(len(whole))
        length = worker.random.randint(1, 256 << 10)
        if _read_all(worker, descriptor, min(length, len(whole) - start), start) != whole[start:start + length]:
            raise Failure(f"{length} bytes from {start} differ")
        worker.step()
    worker.insist("close", os.close, descriptor)
    return {"blocks": [1] * READ_FILE_BLOCKS}


class Names:
    """A directory whose names are used repeatedly, and the expected content of each file.

    A name operation that is done twice shows at once: a name exists, or is missing, too early, or the generation inside
    the file differs. After a call that failed with a transient error the result is unknown. The state is looked up, and
    both states are right. If the repeated call then finds its own work done, it counts as `late`.

    If the answer to a CREATE is lost with its channel, a file stays open at the server that Linux's client (6.1) does
    not know and never closes. Not every such CREATE came from a caller, who would see an error. Any server must then
    refuse to replace that file (MS-FSA 2.1.5.15.11; the client unlinks it and tries again), and if it is unlinked its
    name stays until the session ends. Such a directory is `DirectoryUnusable`. The run counts it, and asks the server
    for that open (mounted.py, `Mounted.finish`). Without the open the refusal is a failure.

    A CREATE without an answer may also come late. Linux ends its socket in the usual way, so the host still delivers
    what is in it once the cable is back, and the client has long made, renamed or removed the file over another
    channel. Any server then creates an empty file of that name (MS-SMB2 3.3.5.9 knows no order between channels), which
    stays open in the same way. Such a directory is unusable, too, if a CREATE of that very name had no answer.

    No two consecutive listings are the same, so that one from the client's cache is detected.
    """

    def __init__(self, worker: Worker, number: int) -> None:
        self._worker = worker
        self.name = f"round-{number}"
        self._base = f"{worker.base}/{worker.label}/{self.name}"
        self._generation = 0
        self._history: collections.deque[str] = collections.deque(maxlen=10)
        # The names of which a CREATE had no answer.
        self._unanswered: set[str] = set()
        self.holds: dict[str, str] = {}
        self._change("mkdir", "", lambda: os.mkdir(self._base), lambda: self._exists(self._base), errno.EEXIST)

    def use(self) -> None:
        """Use its names once, and check the result."""
        self.create("one")
        self.rename("one", "two")
        self.create("one")
        self.make_and_remove("folder")
        self.check()
        self.rename("one", "two")
        self.create("three")
        self.check()
        self.rename("two", "one")
        self.unlink("three")
        self.check()
        self.create("two")
        self.check()
        self.unlink("one")
        self.check()
        self.unlink("two")

    def path(self, name: str) -> str:
        return f"{self._base}/{name}"

    def create(self, name: str) -> None:
        """Create the file `name`, which must not exist, and write the next generation into it."""
        self._generation += 1
        content = f"{name} {self._generation}\n"

        def exclusively() -> None:
            descriptor = os.open(self.path(name), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o644)
            os.close(descriptor)

        self._change("create", name, exclusively, lambda: self._exists(self.path(name)), errno.EEXIST)
        descriptor, _ = self._worker.insist(f"open {name}", os.open, self.path(name), os.O_RDWR)
        _flush(self._worker, descriptor, {0: content.encode()})
        self._worker.insist("close", os.close, descriptor)
        self.holds[name] = content

    def rename(self, old: str, new: str) -> None:
        """Rename, possibly over an existing file; one at a time, so that a repetition would be detected."""
        self._change("rename", f"{old} {new}", lambda: os.rename(self.path(old), self.path(new)),
                     lambda: not self._exists(self.path(old)), errno.ENOENT)
        self.holds[new] = self.holds.pop(old)

    def unlink(self, name: str) -> None:
        self._change("unlink", name, lambda: os.unlink(self.path(name)), lambda: not self._exists(self.path(name)), errno.ENOENT)
        del self.holds[name]

    def make_and_remove(self, name: str) -> None:
        """mkdir and rmdir of the same name."""
        self._change("mkdir", name, lambda: os.mkdir(self.path(name)), lambda: self._exists(self.path(name)), errno.EEXIST)
        self._change("rmdir", name, lambda: os.rmdir(self.path(name)), lambda: not self._exists(self.path(name)), errno.ENOENT)

    def check(self) -> None:
        """Compare the directory with its expected content."""
        listed, left = self._listed()
        end, is_late = time.monotonic() + CLOSED_WITHIN_S, False
        while left and all(self._is_being_deleted(name) for name in left):
            if time.monotonic() > end:
                self._give_up("unlink pending", left, pending=left)
            is_late = True
            time.sleep(0.1)
            listed, left = self._listed()
        if is_late:
            self._worker.say(error=f"unlink {LATE_CLOSE}")
        if sorted(listed) != sorted(self.holds):
            self._give_up_late(left)
            raise Failure(f"the directory lists {sorted(listed)}, and {sorted(self.holds)} must be there; {self._story()}")
        for name, wanted in self.holds.items():
            found, _ = self._worker.insist(f"read {name}", self._content, self.path(name))
            if found != wanted:
                raise Failure(f"{name} holds {found!r}, and {wanted!r} was written")

    def _listed(self) -> tuple[list[str], list[str]]:
        """Return the directory's listing, and the names in it that must not be there."""
        listed, _ = self._worker.insist("readdir", os.listdir, self._base)
        return listed, sorted(set(listed) - set(self.holds))

    def _change(self, what: str, name: str, call: Callable[..., Any], happened: Callable[[], bool], twice: int) -> None:
        end, refused_until = time.monotonic() + PATIENCE_S, None
        unknown = False
        if self._worker.insist(f"stat {name}", happened)[0]:
            if what == "create":
                self._give_up_late([name])
            raise Failure(f"before {what} {name} the name is as it must be after it: something was done twice, or undone; {self._story()}")
        while True:
            try:
                call()
                self._history.append(f"{what} {name}")
                if refused_until:
                    self._worker.say(error=f"{what} {LATE_CLOSE}")
                return
            except OSError as error:
                self._history.append(f"{what} {name}: {errno.errorcode[error.errno or 0]}")
                if error.errno == twice and unknown:
                    self._worker.say(error=f"{what} late")
                    return
                if error.errno == twice:
                    raise Failure(f"{what} {name}: {error}: done twice, or undone; {self._story()}") from error
                if what == "rename" and error.errno == errno.EACCES:
                    refused_until = refused_until or time.monotonic() + CLOSED_WITHIN_S
                    if time.monotonic() > refused_until:
                        self._give_up("rename EACCES", name.split()[1:2])
                    time.sleep(0.1)
                    continue
                if error.errno not in PASSING:
                    raise Failure(f"{what} {name}: {error}; {self._story()}") from error
                self._worker.passing(f"{what} {name}", error)
                if what == "create":
                    self._unanswered.add(name)
                if time.monotonic() > end:
                    raise Failure(f"{what} {name}: still {error} after {PATIENCE_S} s") from error
            unknown = True
            time.sleep(0.05)
            if self._worker.insist(f"stat {name}", happened)[0]:
                self._history.append("happened")
                return

    def _give_up(self, how: str, names: Iterable[str], pending: Sequence[str] = ()) -> NoReturn:
        """Give the directory up. These of its files are open at the server, but not here. `pending` disappear with that
        open."""
        self._worker.say(error=how)
        for name in names:
            path = f"{self._worker.label}/{self.name}/{name}"
            self._worker.say(orphan=path, pending=name in pending)
        raise DirectoryUnusable

    def _give_up_late(self, names: Sequence[str]) -> None:
        """Give the directory up if each of these names is the empty file of a CREATE that had no answer."""
        if names and all(name in self._unanswered and self._content(self.path(name)) == "" for name in names):
            self._give_up("create late", names)

    def _story(self) -> str:
        """Return the recent history: the last operations, and the directory's present content."""
        found = {name: self._content(self.path(name)) for name in os.listdir(self._base) if os.path.isfile(self.path(name))}
        return f"before it {list(self._history)}; there is {found}, and {self.holds} was expected"

    def _is_being_deleted(self, name: str) -> bool:
        """Return whether a name is listed and can no longer be opened. It disappears with the last open of its file."""
        try:
            descriptor, _ = self._worker.insist(f"open {name}", os.open, self.path(name), os.O_RDONLY)
        except Failure as failure:
            return isinstance(failure.__cause__, FileNotFoundError)
        os.close(descriptor)
        return False

    @staticmethod
    def _exists(path: str | Path) -> bool:
        try:
            os.lstat(path)
            return True
        except FileNotFoundError:
            return False

    @staticmethod
    def _content(path: str | Path) -> str:
        # Unbuffered: a buffered file turns EAGAIN into None.
        with open(path, "rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            content = file.readall()
        if content is None:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN), str(path))
        return content.decode(errors="replace")


def names(worker: Worker) -> dict[str, Any]:
    """Create, rename, unlink, mkdir and rmdir over the same few names."""
    top = f"{worker.base}/{worker.label}"
    worker.insist("mkdir", os.makedirs, top, 0o755, True)
    directory, spoilt = Names(worker, 0), 0
    while not worker.stop.is_set():
        try:
            directory.use()
        except DirectoryUnusable:
            spoilt += 1
            directory = Names(worker, spoilt)
        worker.step()
    try:
        directory.create("last")
        directory.check()
    except DirectoryUnusable:
        directory = Names(worker, spoilt + 1)
    return {"directory": directory.name, "names": directory.holds}


def folders(worker: Worker) -> dict[str, Any]:
    """Create a directory and a file in it, and remove both, repeatedly. No open left by a lost answer may hold the
    file's name, since the directory would then stay."""
    top = f"{worker.base}/{worker.label}"
    worker.insist("mkdir", os.makedirs, top, 0o755, True)
    number = 0
    while not worker.stop.is_set():
        number += 1
        folder = f"{top}/{number}"
        file = f"{folder}/file"
        _done_once(worker, f"mkdir {number}", errno.EEXIST, os.mkdir, folder)
        descriptor, _ = worker.insist(f"open {number}", os.open, file, os.O_CREAT | os.O_RDWR, 0o644)
        _write_all(worker, descriptor, file.encode(), 0)
        try:
            os.close(descriptor)
        except OSError as error:
            worker.passing("close", error)
        _done_once(worker, f"unlink {number}", errno.ENOENT, os.unlink, file)
        _remove(worker, number, folder)
        worker.step()
    return {"directory": ".", "names": {}}


def _done_once(worker: Worker, what: str, twice: int, call: Callable[..., Any], path: str | Path) -> None:
    """Make a call that may have been done although it failed with a transient error, and then fails with `twice`."""
    tried = False

    def once_more() -> None:
        nonlocal tried
        try:
            call(path)
        except OSError as error:
            if not tried or error.errno != twice:
                tried = True
                raise

    worker.insist(what, once_more)


def _remove(worker: Worker, number: int, folder: str) -> None:
    """Remove a directory that this worker has emptied. A brief obstruction is counted, and a permanent one is a failure."""
    end = time.monotonic() + GIVEN_UP_WITHIN_S
    while True:
        try:
            _done_once(worker, f"rmdir {number}", errno.ENOENT, os.rmdir, folder)
            return
        except Failure as failure:
            if not isinstance(failure.__cause__, OSError) or failure.__cause__.errno != errno.ENOTEMPTY or time.monotonic() > end:
                raise
            worker.say(error="rmdir ENOTEMPTY")
        time.sleep(0.1)


RANGES = [(0, 100), (1000, 1), (4096, 8192), (1 << 40, 1 << 20)]


def holder(worker: Worker) -> dict[str, Any]:
    """Hold byte-range locks on a file for the whole time."""
    descriptor = _hold(worker)
    for start, length in RANGES:
        worker.insist("unlock", fcntl.lockf, descriptor, fcntl.LOCK_UN, length, start)
    worker.insist("close", os.close, descriptor)
    return {}


def keeper(worker: Worker) -> dict[str, Any]:
    """Hold locks of which the server may never have heard."""
    worker.insist("close", os.close, _hold(worker))
    return {}


def _hold(worker: Worker) -> Any:
    descriptor = _create(worker, worker.label)
    for start, length in RANGES:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
    worker.say(step=1)
    while not worker.stop.wait(0.2):
        worker.step()
    return descriptor


def intruder(worker: Worker) -> dict[str, Any]:
    """Request the ranges locked by `holder` continuously, as another client. No lock may be granted while it holds them."""
    return _ask_for_locks(worker, _must_be_refused)


def prober(worker: Worker) -> dict[str, Any]:
    """Do the same with the ranges of a `keeper`, and count the granted locks."""
    return _ask_for_locks(worker, _may_be_granted)


def _ask_for_locks(worker: Worker, ask: Any) -> dict[str, Any]:
    name = worker.label.replace("intruder", "holder")
    while not worker.stop.is_set():
        try:
            descriptor = os.open(f"{worker.base}/{name}", os.O_RDWR)
        except OSError as error:
            # Linux returns EIO while the file waits for its holder (mounted.py, `Mounted.finish`).
            if error.errno == errno.EIO:
                worker.say(error=OWNER_AWAY)
            else:
                worker.passing(f"open {name}", error)
            time.sleep(0.05)
            continue
        try:
            while not worker.stop.is_set():
                start, length = worker.random.choice(RANGES)
                ask(worker, descriptor, start, length)
                worker.step()
                time.sleep(0.02)
        except OSError as error:
            # A lost descriptor of this client does not matter, since it holds nothing.
            worker.say(error=f"intruder {errno.errorcode.get(error.errno or 0, error.errno)}")
        finally:
            try:
                os.close(descriptor)
            except OSError:
                pass
    return {}


def _must_be_refused(worker: Worker, descriptor: int, start: int, length: int) -> None:
    if _is_granted(descriptor, start, length) and not worker.stop.is_set():
        raise Failure(f"the lock of {length} bytes at {start} was granted to another client while its holder has it")


def _may_be_granted(worker: Worker, descriptor: int, start: int, length: int) -> None:
    if _is_granted(descriptor, start, length):
        fcntl.lockf(descriptor, fcntl.LOCK_UN, length, start)
        worker.say(error="lock granted")


def _is_granted(descriptor: int, start: int, length: int) -> bool:
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, length, start)
    except OSError as error:
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return False
        raise
    return True


KINDS = {"writer": writer, "reader": reader, "names": names, "holder": holder, "keeper": keeper, "intruder": intruder,
         "prober": prober, "folders": folders}
