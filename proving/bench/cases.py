"""The SMB cases, their goals, and the load commands for them."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from proving.bench import every_segment
from proving.harness import server as servers
from proving.peers import run as peers

FILE_BYTES = 256 << 20
# The file that the foreign generator reads (../peers/rust/src/load.rs).
PEER_FILE = "bench-file"
# The directory that already holds names, and the number of operations on names in one round.
DIRECTORY, NAMES = "bench", 10_000
# On the second share Trunkline copies large plain reads too, as it must where they are signed or sealed. The third
# share caches no names or files.
SHARES = SHARE, COPIED, UNCACHED = "files", "t4", "t3"
# Enough operations to take seconds, since processor time is counted in ticks of 10 ms. Samba takes 4 ms for a create.
OPERATIONS = {"create": 3_000, "open": 20_000, "stat": 20_000, "unlink": 5_000}


@dataclass(frozen=True)
class Case:
    """`workload` is --rw or --metadata of the load command; `protection` is plain, gmac, cmac or sealed.

    `cpu_ratio` is the wanted ratio of our operations for each CPU-second to Samba's. `rate_ratio` is the same for
    operations per second. `extra_us_per_mib` is the most CPU that the protection may add for each MiB, over the plain
    case `base`. `counts` is the number of operations on names in a round, for our server and for another one. The other
    does fewer, since each costs it so much more.
    """

    name: str
    workload: str
    block: int = 0
    depth: int = 1
    protection: str = "plain"
    cpu_ratio: float | None = None
    base: str = ""
    share: str = SHARE
    extra_us_per_mib: float | None = None
    rate_ratio: float | None = None
    counts: tuple[int, int] | None = None

    @property
    def metadata(self) -> bool:
        return self.block == 0

    def operations(self, server: servers.Server) -> int:
        """Return the number of operations on names for this server in one round."""
        if self.counts is None:
            return OPERATIONS[self.workload]
        return self.counts[0 if server.kind == "trunkline" else 1]


CASES = [
    Case("random read 4 KiB, depth 32", "randread", 4096, 32, cpu_ratio=6.0),
    Case("read 1 MiB", "read", 1 << 20, 8, cpu_ratio=1.4),
    Case("write 1 MiB", "write", 1 << 20, 8, cpu_ratio=1.4),
    Case("create, write 4 KiB, close, depth 32", "create", depth=32, cpu_ratio=4.0),
    Case("open, close, depth 32", "open", depth=32, cpu_ratio=4.0),
    Case("stat, depth 32", "stat", depth=32, cpu_ratio=4.0),
    Case("unlink, depth 32", "unlink", depth=32, cpu_ratio=4.0),
    Case("create, write 4 KiB, close, depth 32, nothing remembered", "create", depth=32, cpu_ratio=4.0, share=UNCACHED),
    Case("open, close, depth 32, nothing remembered", "open", depth=32, cpu_ratio=4.0, share=UNCACHED),
    Case("stat, depth 32, nothing remembered", "stat", depth=32, cpu_ratio=4.0, share=UNCACHED),
    Case("unlink, depth 32, nothing remembered", "unlink", depth=32, cpu_ratio=4.0, share=UNCACHED),
    Case("create, write 4 KiB, close, depth 1", "create", depth=1),
    Case("open, close, depth 1", "open", depth=1),
    Case("stat, depth 1", "stat", depth=1),
    Case("unlink, depth 1", "unlink", depth=1),
    Case("read 1 MiB, copied", "read", 1 << 20, 8, share=COPIED),
    Case("read 1 MiB, signed GMAC", "read", 1 << 20, 8, "gmac", base="read 1 MiB, copied", extra_us_per_mib=90),
    Case("read 1 MiB, signed CMAC", "read", 1 << 20, 8, "cmac", base="read 1 MiB, copied", extra_us_per_mib=950),
    Case("read 1 MiB, sealed GCM", "read", 1 << 20, 8, "sealed", base="read 1 MiB, copied", extra_us_per_mib=130),
]

PROTECTION = {
    "plain": ["--signing", "off"],
    "gmac": ["--signing", "gmac"],
    "cmac": ["--signing", "cmac"],
    "sealed": ["--encryption", "aes128gcm"],
}


def trunkline_target(server: servers.Server, share: str, user: str, password_file: str) -> list[str]:
    """Return the common beginning of every command line of our own generator."""
    target = f"smb://{user}@127.0.0.1:{server.port}/{share}/{DIRECTORY}"
    return [servers.program(), "load", target, "--password-file", str(password_file), "--json",
            "--server-pid", str(server.pid)]


def trunkline_load(case: Case, server: servers.Server, user: str, password_file: str, seconds: float) -> list[str]:
    """Return the command line of our own generator."""
    command = trunkline_target(server, case.share, user, password_file)
    if case.metadata:
        command += ["--metadata", case.workload, "--files", str(NAMES), "--number-ios", str(case.operations(server)),
                    "--iodepth", str(case.depth)]
    else:
        command += ["--rw", case.workload, "--bs", str(case.block), "--iodepth", str(case.depth), "--runtime", f"{seconds * 1000:.0f}ms",
                    "--ramp_time", "1", "--filesize", str(FILE_BYTES)]
    return command + PROTECTION[case.protection]


def every_segment_load(case: Case, server: servers.Server, user: str, password_file: str, seconds: float) -> list[str]:
    """Return the same command line with a client that wakes for every arriving segment, as most clients do."""
    return [*every_segment.COMMAND, *trunkline_load(case, server, user, password_file, seconds)]


def torture_load(case: Case, server: servers.Server, user: str, password_file: str, seconds: float) -> list[str]:
    """Return the command line of smbtorture's benches."""
    return [sys.executable, str(Path(__file__).resolve().parent / "torture_load.py"), str(server.port), case.share, user,
            Path(password_file).read_text(), case.workload, str(seconds), str(case.depth), str(case.block)]


def peer_load(case: Case, server: servers.Server, user: str, password_file: str, seconds: float) -> list[str] | None:
    """Return the command line of the foreign generator, or None for a case that it does not support."""
    if case.protection != "plain" or case.workload in ("write", "open"):
        return None
    password = Path(password_file).read_text()
    return [*peers.rust_peer("peer-load", profile="release"), str(server.port), case.share, user, password, case.workload, str(seconds), str(case.depth)]


# Returns the command line for a case and a server, or None for a case that it does not support. The further arguments
# are a user, a file with the password, and the number of seconds.
Generator = Callable[[Case, servers.Server, str, str, float], list[str] | None]
GENERATORS: dict[str, Generator] = {"trunkline": trunkline_load, "smb2-crate": peer_load}
