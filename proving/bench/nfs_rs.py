"""NFSv4.1 by the crate `nfs-rs`, which we did not write: our server and Ganesha read by the same client.

The crate has one connection for each mount. Several connections are therefore several mounts of one process, which
divide the requests under way between them. A large read leaves room for the headers of a reply of 1 MiB, which some
servers do not exceed. The program (../peers/rust-nfs/src/load.rs) is built when the first case needs it. Start reading
at `measure`.
"""

import argparse
import os

from proving.bench import loads
from proving.bench.cases import DIRECTORY, FILE_BYTES, PEER_FILE, SHARE
from proving.bench.nfs import CONNECTIONS, Case, Measured, Sample
from proving.harness import server as servers
from proving.peers import run as peers

MIB = 1 << 20
VERSION = "4.1"
CASES = [Case("crate nfs-rs: random read 4 KiB, depth 32", "randread", 4096, 32), Case("crate nfs-rs: read 1,020 KiB, depth 8", "read", MIB - 4096, 8)]


def prepare(server: servers.Server) -> None:
    """Make the file to read."""
    file = server.share_directory(SHARE) / DIRECTORY / PEER_FILE
    if not file.exists():
        file.write_bytes(os.urandom(MIB) * (FILE_BYTES // MIB))
        file.chmod(0o666)


def _load(program: list[str], case: Case, server: servers.Server, connections: int, seconds: float) -> Sample:
    command = [*program, str(server.port), SHARE, VERSION, f"/{DIRECTORY}/{PEER_FILE}", case.workload, str(seconds), str(case.depth), str(connections)]
    ops, moved, took, spent = loads.load(command, server)
    # The program does not count what its connections carry with headers.
    return Sample(ops / took, moved / took, spent * 1e6 / ops, carried=0)


def measure(case: Case, running: list[servers.Server], options: argparse.Namespace) -> Measured:
    """Measure one case on every server in turn, `rounds` times. Returns kind -> connections -> list of samples."""
    program = peers.rust_peer("peer-nfs-load", "rust-nfs", "release")
    samples: Measured = {server.kind: {connections: [] for connections in CONNECTIONS} for server in running}
    for server in running:
        prepare(server)
    for number in range(options.rounds):
        # The first server of one round is the last of the next.
        for server in running if number % 2 == 0 else reversed(running):
            for connections in CONNECTIONS:
                samples[server.kind][connections].append(_load(program, case, server, connections, options.seconds))
    return samples
