#!/usr/bin/env python3
"""How many instructions of its own the server runs for one cached READ of 4 KiB, over SMB and over NFS.

    instructions.py [--reads N] [PROGRAM ...]

Time on a shared machine is noisy and instructions are not, so a change of the way of a request shows here to a part in a
hundred. The server's threads are stepped one instruction at a time (ptrace(2)) while a client asks for one block after the other;
what the host does for it is not counted. Emulators that count do not know all of the system calls that the server uses. PROGRAM
is what `servers.program` names, or each of several to be compared. Start reading at `count`.
"""

import argparse
import contextlib
import ctypes
import os
import signal
import statistics
import sys
from collections import Counter, namedtuple
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "strangers"), str(HERE.parent / "nfs-connections")]

import good  # noqa: E402
import smb  # noqa: E402
import wire  # noqa: E402
from harness import server as servers  # noqa: E402

LENGTH, WARM = 4096, 300
# Runs of each, of which the median counts: a timer may fall into one.
RUNS = 3
PTRACE_SINGLESTEP, PTRACE_DETACH = 9, 17
PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207
WALL = 0x40000000
PATIENCE_S = 300

Target = namedtuple("Target", "smb nfs source user password share uid")
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
LIBC.ptrace.restype = ctypes.c_long


def ptrace(request, thread, signal_number=0):
    """ptrace(2); OSError when it fails."""
    if LIBC.ptrace(request, thread, None, signal_number) == -1:
        error = ctypes.get_errno()
        raise OSError(error, f"ptrace({request}, {thread}): {os.strerror(error)}")


def over_smb(target):
    """A client with a file open; gives what reads a block of it."""
    client = smb.Client(target.smb, target.source, target.user, target.password, target.share)
    file = client.create("block")
    client.write(file, bytes(LENGTH))
    return lambda: client.read(file, LENGTH)


def over_nfs(target):
    """The same over NFS."""
    client = good.Export(target, 1)
    opened = client.do([wire.putfh(client.directory), wire.open_new(b"block-%d" % os.getpid()), wire.GETFH])
    state, handle = opened.result(18)["stateid"], opened.result(10)
    client.do([wire.putfh(handle), wire.write(state, 0, bytes(LENGTH))])
    return lambda: client.do([wire.putfh(handle), wire.read(state, 0, LENGTH)]).result(25)["data"]


def start_client(begin, target, reads):
    """A process that reads so often once it is told to; its id, and the pipe by which it is told."""
    ready, ready_there = os.pipe()
    go_there, go = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            read = begin(target)
            for _ in range(WARM):
                read()
            os.write(ready_there, b"r")
            os.read(go_there, 1)
            whole = all(len(read()) == LENGTH for _ in range(reads))
            os._exit(0 if whole else 1)
        except BaseException as error:  # noqa: BLE001 - the parent is told by the status
            print(f"the client: {type(error).__name__} {error}", file=sys.stderr)
            os._exit(1)
    os.close(ready_there)
    os.close(go_there)
    if os.read(ready, 1) != b"r":
        raise SystemExit("the client did not get as far as reading")
    os.close(ready)
    return child, go


def count(server, begin, target, reads):
    """Instructions of all threads of the server for one read."""
    child, go = start_client(begin, target, reads)
    threads = [int(name) for name in os.listdir(f"/proc/{server.pid}/task")]
    for thread in threads:
        ptrace(PTRACE_SEIZE, thread)
        ptrace(PTRACE_INTERRUPT, thread)
        os.waitpid(thread, WALL)
    steps = Counter()
    for thread in threads:
        ptrace(PTRACE_SINGLESTEP, thread)
    os.write(go, b"g")
    os.close(go)
    status = step_until_ends(child, steps)
    for thread in threads:
        release(thread)
    if status != 0:
        raise SystemExit("a read failed")
    return sum(steps.values()) / reads


def step_until_ends(child, steps):
    """Steps whatever stops until the client has ended; the client's status."""
    while True:
        stopped, status = os.waitpid(-1, WALL)
        if stopped == child:
            return os.waitstatus_to_exitcode(status)
        if not os.WIFSTOPPED(status):
            continue
        number = os.WSTOPSIG(status)
        steps[stopped] += 1
        # A stop that is no step is a signal for the server, but for those of ptrace itself.
        is_own = number == signal.SIGTRAP or status >> 16 != 0
        with contextlib.suppress(ProcessLookupError):
            ptrace(PTRACE_SINGLESTEP, stopped, 0 if is_own else number)


def release(thread):
    """Lets a thread go on by itself; one of the blocking pool may have ended meanwhile."""
    with contextlib.suppress(ProcessLookupError, ChildProcessError):
        ptrace(PTRACE_INTERRUPT, thread)
        os.waitpid(thread, WALL)
        ptrace(PTRACE_DETACH, thread)


def measure(program, reads):
    """The medians of both protocols."""
    os.environ["TRUNKLINE"] = program
    user, password = servers.accounts()[0]
    found = {}
    for name, profile, begin in (("SMB", "bench", over_smb), ("NFS", "nfs", over_nfs)):
        with servers.Server("trunkline", profile) as server:
            work = server.share_directory("files")
            work.chmod(0o777)
            address = ("127.0.0.1", server.port)
            target = Target(address, address, "127.0.0.1", user, password, "files", servers.first_uid())
            found[name] = statistics.median(count(server, begin, target, reads) for _ in range(RUNS))
        if server.complaint:
            raise SystemExit(server.complaint)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reads", type=int, default=200)
    parser.add_argument("program", nargs="*")
    options = parser.parse_args()
    servers.clean_up_when_told_to_end()
    # A client that hangs ends the run.
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("no end within its time"))
    first = None
    for program in options.program or [servers.program()]:
        signal.alarm(PATIENCE_S)
        found = measure(os.path.abspath(program), options.reads)
        first = first or found
        told = ", ".join(f"{name} {value:,.0f} ({value / first[name]:.3f} of the first)" for name, value in found.items())
        print(f"{program}: instructions for a READ of 4 KiB: {told}", flush=True)


if __name__ == "__main__":
    main()
