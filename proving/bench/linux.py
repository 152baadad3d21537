"""Linux' own client (6.1, in user-mode-linux) on our server and this year's peers: large reads and writes, and ordinary
work on trees of files.

One guest for each protocol mounts every server, and the servers are loaded in turn within each round. A virtual cable
joins servers and guest (kernel_client/guest.py). The files of all servers lie on an XFS whose image is in memory. Large
files are read and written past the client's caches. The time of each step on a tree is measured (linux_agent.py). Start
reading at `Client.measure`.
"""

import contextlib
import os
import random
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proving.bench import cpu, network, ratios, spread
from proving.bench.cases import SHARE
from proving.bench.loads import CannotMeasure
from proving.bench.spread import Values
from proving.harness import server as servers
from proving.kernel_client import console, guest

HERE = Path(__file__).resolve().parent
# The data moved in each sample, and the number of passes: processor time is counted in ticks of 10 ms. user-mode-linux
# sends slowly.
READ_MIB, READ_PASSES, WRITTEN_MIB = 1024, 2, 512
LARGE_FILE = "large"
# A tree whose sizes have the distribution of a source library.
DIRECTORIES, FILES, MEDIAN_BYTES, SPREAD, LARGEST_BYTES = 40, 400, 6_000, 1.2, 200_000
# The names in linux_agent.py.
STEPS = ("untar", "find with stat", "read all", "cp -r", "git clone", "git status", "rm -rf")
# The large file, the trees, and the space that XFS reserves for itself.
STORAGE_BYTES = 2 << 30
MEMORY_MIB = 768
BOOT_LIMIT_S, LIMIT_S = 60, 600
PROGRAMS = {"smb": ("mount.cifs", "cifs-utils"), "nfs": ("mount.nfs", "nfs-common")}
# The defaults of the kernel: a mount with these words sets no others. The client caches nothing for large files.
OPTIONS = {"smb": "vers=3.1.1,sec=ntlmssp", "nfs": "vers=4.2"}
UNCACHED = {"smb": ",cache=none", "nfs": ""}
WORKS = {"read": "read 1 GiB", "write": "write 512 MiB", "trees": "trees"}


# Kind, profile and label of a server.
Start = tuple[str, str, str | None]


@dataclass(frozen=True)
class Case:
    """`work` is read, write or trees. An operation of read and write is a MiB, and one of trees is a step."""

    protocol: str
    work: str
    cpu_ratio: float | None
    rate_ratio: float

    @property
    def name(self) -> str:
        return f"Linux {self.protocol.upper()}: {WORKS[self.work]}"


READ, WRITE = (1.2, 1.05), (1.15, 1.1)
CASES = [Case(protocol, *rest) for protocol in ("smb", "nfs") for rest in (("read", *READ), ("write", *WRITE), ("trees", None, 1.1))]


@dataclass(frozen=True)
class Tree:
    """The tree for the steps, as an archive and as a bare repository, with its names and the bytes of its files."""

    archive: Path
    repository: Path
    names: int
    size: int


def make_tree(directory: Path) -> Tree:
    """Create the same tree every time, below `directory`."""
    made, chance, size = directory / "tree", random.Random(1), 0
    places = [made]
    made.mkdir()
    for number in range(DIRECTORIES):
        places.append(chance.choice(places) / f"directory-{number}")
        places[-1].mkdir()
    for number in range(FILES):
        content = chance.randbytes(min(LARGEST_BYTES, int(MEDIAN_BYTES * chance.lognormvariate(0, SPREAD)))).hex().encode()
        content = content[: len(content) // 2]
        (chance.choice(places) / f"file-{number}.pm").write_bytes(content)
        size += len(content)
    archive, repository = directory / "tree.tar", directory / "tree.git"
    with tarfile.open(archive, "w") as out:
        out.add(made, "tree")
    git = ["git", "-c", "user.name=bench", "-c", "user.email=bench@localhost"]
    at = [*git, f"--git-dir={repository}", f"--work-tree={made}"]
    for words in ([*git, "init", "--quiet", "--bare", str(repository)], [*at, "add", "--all"], [*at, "commit", "--quiet", "--message=tree"]):
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=60)
    return Tree(archive, repository, len(places) + FILES, size)


class Client:
    """The guest with its agent, and the servers of one protocol. The `number`th is mounted at /mnt/`number`."""

    def __init__(self, machine: guest.Guest, protocol: str, running: list[servers.Server], tree: Tree) -> None:
        self._machine, self._protocol, self.running, self._tree = machine, protocol, running, tree

    def _ask(self, do: str, **arguments: Any) -> Any:
        said = self._machine.ask(LIMIT_S, do=do, **arguments)
        if "refused" in said:
            raise CannotMeasure(f"{do}: {said['refused']}")
        return said["done"]

    @contextlib.contextmanager
    def mounted(self, more: str = "") -> Iterator[None]:
        """Keep a mount of each server; `more` are further options."""
        user, password = servers.accounts()[0]
        with contextlib.ExitStack() as stack:
            for number, server in enumerate(self.running):
                options = f"port={server.port},{OPTIONS[self._protocol]}{more}"
                if self._protocol == "smb":
                    kind, source, options = "cifs", f"//{guest.SERVER_ADDRESS}/{SHARE}", f"user={user},password={password},{options}"
                else:
                    kind, source = "nfs4", f"{guest.SERVER_ADDRESS}:/{SHARE}"
                self._ask("mount", kind=kind, where=f"/mnt/{number}", source=source, options=options)
                stack.callback(self._ask, "umount", where=f"/mnt/{number}")
            yield

    def measure(self, case: Case, rounds: int) -> dict[str, list[Any]]:
        """Measure a case on every server in turn. Returns label -> samples as loads.measure returns them, or label ->
        seconds by step."""
        samples: dict[str, list[Any]] = {server.label: [] for server in self.running}
        with self.mounted("" if case.work == "trees" else UNCACHED[self._protocol]):
            for number in range(rounds):
                order = list(enumerate(self.running))
                # The first server of one round is the last of the next.
                for place, server in order if number % 2 == 0 else reversed(order):
                    samples[server.label].append(self._trees(f"/mnt/{place}/trees") if case.work == "trees" else self._large(place, case.work == "write"))
        return samples

    def _large(self, number: int, write: bool) -> tuple[float, float, float]:
        """Take one sample of one server; an operation is a MiB."""
        pid, mib, passes = self.running[number].pid, *((WRITTEN_MIB, 1) if write else (READ_MIB, READ_PASSES))
        before = cpu.seconds(pid)
        seconds = self._ask("large", path=f"/mnt/{number}/{LARGE_FILE}", mib=mib, passes=passes, write=write)
        spent = (cpu.seconds(pid) - before) * 1e6 / (mib * passes)
        return spent, mib * passes / seconds, spent

    def _trees(self, where: str) -> Any:
        """Return the seconds of each step in a directory of the guest."""
        return self._ask("tree", where=where, repository=str(self._tree.repository), names=self._tree.names, size=self._tree.size)

    def begin(self) -> None:
        """Copy the tree to the guest, and create the files that the servers need. All steps run once in the guest's
        memory, so that the guest has read its programs before the timing starts."""
        self._ask("take", archive=str(self._tree.archive))
        self._trees("/run/scratch")
        block = os.urandom(1 << 20)
        for server in self.running:
            share = server.share_directory(SHARE)
            (share / "trees").mkdir()
            (share / "trees").chmod(0o777)
            with (share / LARGE_FILE).open("wb") as file:
                for _ in range(READ_MIB):
                    file.write(block)
                # No data is written back during a measurement.
                os.fsync(file.fileno())
            (share / LARGE_FILE).chmod(0o666)


@contextlib.contextmanager
def client(protocol: str, starts: list[Start]) -> Iterator[Client]:
    """Start the servers in a network with a guest. `starts` are their kinds, profiles and labels."""
    if reason := guest.missing(PROGRAMS[protocol]):
        raise CannotMeasure(reason)
    with contextlib.ExitStack() as stack:
        cable = stack.enter_context(guest.Network())
        # The same congestion control as on the loopback of all other rows (network.py).
        route = ["ip", "route", "replace", f"{guest.SERVER_ADDRESS.rpartition('.')[0]}.0/24", "dev", "tap0", "src", guest.SERVER_ADDRESS]
        subprocess.run(cable.inside([*route, "congctl", network.CONGESTION_CONTROL]), check=True, timeout=30)
        running = [stack.enter_context(servers.Server(kind, profile, cable, label=label, shares_storage=True, storage_bytes=STORAGE_BYTES))
                   for kind, profile, label in starts]
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-guest-")))
        directory.chmod(0o755)
        tree = make_tree(directory)
        agent = console.lay([HERE / "linux_agent.py"], directory)
        machine = stack.enter_context(guest.Guest(cable, [sys.executable, agent], MEMORY_MIB))
        machine.answer(BOOT_LIMIT_S)
        found = Client(machine, protocol, running, tree)
        found.begin()
        yield found


def tree_values(rounds: dict[str, list[dict[str, float]]], ours: str, peers: Sequence[str]) -> Values:
    """Return the numbers of all steps: our seconds, and each peer's over ours within a round."""
    found: Values = {}
    for step in STEPS:
        found[f"{step}: seconds"] = spread.of(own[step] for own in rounds[ours])
        for peer in peers:
            found[f"{step}: rate × {peer}"] = spread.of(theirs[step] / own[step] for own, theirs in zip(rounds[ours], rounds[peer], strict=True))
    return found


def tree_row(case: Case, of: Values, step: str, peers: Sequence[str]) -> list[str]:
    """Return the columns behind the step's name: our seconds, each peer's over ours, and the verdict on them."""
    return [f"{of[f'{step}: seconds'].median:.2f} s", *(spread.told(of, f"{step}: rate × {peer}") for peer in peers),
            ratios.verdict(of, peers, f"{step}: ", rate=case.rate_ratio)]
