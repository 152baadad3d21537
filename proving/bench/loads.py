"""One load on one server, and one case on several servers in turn."""

import argparse
import json
import os
import subprocess
import tempfile
import time
from collections.abc import Sequence

from proving.bench import cpu
from proving.bench.cases import DIRECTORY, FILE_BYTES, PEER_FILE, SHARES, Case, Generator
from proving.harness import server as servers

# The numbers of one round for a server: CPU µs for each operation, operations per second, CPU µs for each MiB.
Row = tuple[float, float, float | None]


class CannotMeasure(Exception):
    """The load command failed or printed no result."""


def prepare(server: servers.Server, generator: str) -> None:
    """Create the working directories. Our own generator creates its files before it measures."""
    for share in SHARES:
        directory = server.share_directory(share) / DIRECTORY
        directory.mkdir()
        directory.chmod(0o777)
        if generator != "trunkline":
            file = server.share_directory(share) / PEER_FILE
            file.write_bytes(os.urandom(1 << 20) * (FILE_BYTES >> 20))
            file.chmod(0o666)


def load(command: list[str], server: servers.Server) -> tuple[int, int, float, float]:
    """Run a load command. Returns operations, bytes, seconds and the server's CPU seconds for them.

    Our own generator reads the server's processor time itself, exactly around the measurement. A foreign one prints
    `ready` and `over` around it, and ends with one JSON object of ops, bytes and seconds.
    """
    before, after = cpu.seconds(server.pid), None
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    lines = []
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "ready":
            before = cpu.seconds(server.pid)
        elif line.strip() == "over":
            after = cpu.seconds(server.pid)
        else:
            lines.append(line)
    if process.wait() != 0:
        raise CannotMeasure(f"{' '.join(command[:3])} ... ended with {process.returncode}")
    if lines[0].startswith("{\n"):
        job = json.loads("".join(lines))["jobs"][0]
        own = job["trunkline"]
        parts = [part for part in (job["read"], job.get("write"), own.get("metadata")) if part and part["total_ios"]]
        ops, moved = sum(part["total_ios"] for part in parts), sum(part["io_bytes"] for part in parts)
        return ops, moved, parts[0]["runtime"] / 1000, own["server_cpu_ns"] / 1e9
    time.sleep(0.2)
    spent = (cpu.seconds(server.pid) if after is None else after) - before
    done = json.loads(lines[-1])
    return done["ops"], done["bytes"], done["seconds"], spent


def measure(case: Case, running: Sequence[servers.Server], generator: Generator, options: argparse.Namespace) -> dict[str, list[Row]] | None:
    """Measure one case on every server in turn, `rounds` times. Returns label -> list of (CPU µs for an op, ops/s, CPU
    µs for a MiB)."""
    user, password = servers.accounts()[0]
    samples: dict[str, list[Row]] = {server.label: [] for server in running}
    with tempfile.NamedTemporaryFile("w") as secret:
        secret.write(password)
        secret.flush()
        for number in range(options.rounds):
            # The first server of one round is the last of the next.
            for server in running if number % 2 == 0 else reversed(running):
                command = generator(case, server, user, secret.name, options.seconds)
                if command is None:
                    return None
                ops, moved, seconds, spent = load(command, server)
                per_mib = spent * 1e6 / (moved / (1 << 20)) if moved else None
                samples[server.label].append((spent * 1e6 / ops, ops / seconds, per_mib))
    return samples
