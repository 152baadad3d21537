#!/usr/bin/env python3
"""Measure the servers against each other: CPU of the server for an operation, and the rate, in interleaved rounds.

    run.py [--rounds N] [--seconds S] [--servers trunkline,samba] [--generator trunkline|smb2-crate]
           [--case TEXT ...]

Both servers run at the same time and are loaded in turn, so that what drifts on the machine meets both; medians are taken
over the rounds. NFS follows, with Ganesha in Samba's place (nfs.py; `--case 'nfs, '` measures that alone), then the machine's own
limit (null.py; `--case 'null, '`), and the tables that users of several connections go by (seeds.py; `--case 'seed, '`; needs root).
Data is in the page cache. With both servers and our own generator docs/benchmarks.md is written.
Start reading at `main`; what is measured and what it must come to stands in cases.py.
"""

import argparse
import contextlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import channels  # noqa: E402
import cpu  # noqa: E402
import network  # noqa: E402
import nfs  # noqa: E402
import null  # noqa: E402
import report  # noqa: E402
import seeds  # noqa: E402
from cases import CASES, DIRECTORY, FILE_BYTES, GENERATORS, PEER_FILE, SHARES  # noqa: E402
from harness import server as servers  # noqa: E402


class CannotMeasure(Exception):
    """The load command failed or did not say what it did."""


def prepare(server, generator):
    """The directories in which everything happens; our own generator makes what it works on before it measures."""
    for share in SHARES:
        directory = server.share_directory(share) / DIRECTORY
        directory.mkdir()
        directory.chmod(0o777)
        if generator != "trunkline":
            file = server.share_directory(share) / PEER_FILE
            file.write_bytes(os.urandom(1 << 20) * (FILE_BYTES >> 20))
            file.chmod(0o666)


def load(command, server):
    """Run a load command; gives operations, bytes, seconds and the server's CPU seconds for them.

    Our own generator reads the server's processor time itself, around just what it measures; a foreign one says `ready` and
    `over` around it, and ends with one JSON object of ops, bytes and seconds.
    """
    before, after = cpu.seconds(server.pid), None
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    lines = []
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


def measure(case, running, generator, options):
    """One case on every server in turn, `rounds` times; gives kind -> list of (CPU µs for an op, ops/s, CPU µs for a MiB)."""
    user, password = servers.accounts()[0]
    samples = {server.kind: [] for server in running}
    with tempfile.NamedTemporaryFile("w") as secret:
        secret.write(password)
        secret.flush()
        for number in range(options.rounds):
            # Whoever goes first in one round goes last in the next.
            for server in running if number % 2 == 0 else reversed(running):
                command = generator(case, server, user, secret.name, options.seconds)
                if command is None:
                    return None
                ops, moved, seconds, spent = load(command, server)
                per_mib = spent * 1e6 / (moved / (1 << 20)) if moved else None
                samples[server.kind].append((spent * 1e6 / ops, ops / seconds, per_mib))
    return samples


def measure_channels(chosen, running, options):
    """What several channels bring to our own server, loaded by our own generator; gives case -> rounds."""
    ours = [server for server in running if server.kind == "trunkline"]
    if not ours or options.generator != "trunkline":
        return {}
    results = {}
    user, password = servers.accounts()[0]
    with tempfile.NamedTemporaryFile("w") as secret:
        secret.write(password)
        secret.flush()
        for case in chosen:
            try:
                results[case.name] = channels.measure(case, ours[0], secret.name, user, options)
            except (subprocess.CalledProcessError, OSError, ValueError, KeyError) as reason:
                print(f"channels, {case.name}: not measured: {reason}", file=sys.stderr)
                continue
            print(channels.line(case, results[case.name]), flush=True)
    return results


def median(samples, column):
    values = [sample[column] for sample in samples if sample[column] is not None]
    return statistics.median(values) if values else None


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--servers", default="trunkline,samba")
    parser.add_argument("--generator", choices=list(GENERATORS), default="trunkline")
    parser.add_argument("--case", action="append", default=[], metavar="TEXT", help="only cases whose name has TEXT in it")
    return parser.parse_args()


def _is_chosen(case, prefix, options):
    return not options.case or any(text in prefix + case.name for text in options.case)


def _version(kind):
    try:
        return servers.version(kind)
    except servers.CannotStart:
        return "not installed"


def measure_smb(kinds, chosen, of_channels, options):
    """The servers of SMB in turns, then channels on our own; gives the medians of each case, and the rounds of channels."""
    results = {}
    with contextlib.ExitStack() as stack:
        try:
            running = [stack.enter_context(servers.Server(kind, "bench")) for kind in kinds]
        except servers.CannotStart as reason:
            print(f"bench: {reason}", file=sys.stderr)
            sys.exit(2)
        for server in running:
            prepare(server, options.generator)
        for case in chosen:
            try:
                samples = measure(case, running, GENERATORS[options.generator], options)
            except (CannotMeasure, OSError, ValueError, KeyError) as reason:
                print(f"{case.name}: not measured: {reason}", file=sys.stderr)
                continue
            if samples is None:
                print(f"{case.name}: the generator cannot make it")
                continue
            results[case.name] = {kind: [median(rows, column) for column in range(3)] for kind, rows in samples.items()}
            print(report.line(case, results), flush=True)
        return results, measure_channels(of_channels, running, options)


def main():
    options = arguments()
    kinds = options.servers.split(",")
    congestion_control = network.enter()
    chosen, of_channels = ([case for case in cases if _is_chosen(case, prefix, options)] for cases, prefix in
                           ((CASES, ""), (channels.CASES, "channels, ")))
    results, over_channels = {}, {}
    if chosen or of_channels:
        results, over_channels = measure_smb(kinds, chosen, of_channels, options)
    over_nfs, nfs_complete = nfs.run(options, _is_chosen) if options.generator == "trunkline" else ("", True)
    limit, limit_complete = null.run(options, _is_chosen) if options.generator == "trunkline" else ("", True)
    told, told_complete = seeds.run(options, _is_chosen) if options.generator == "trunkline" else ("", True)
    machine = f"{platform.system()} {platform.release()}, {os.cpu_count()} CPUs ({report.processor()}); TCP's congestion control: {congestion_control}"
    versions = [f"{kind}: {_version(kind)}" for kind in (*kinds, "ganesha")]
    text = report.page(CASES, results, versions, machine, " ".join(sys.argv), options)
    text += channels.section(over_channels, os.cpu_count()) + over_nfs + limit + told
    if set(kinds) == {"trunkline", "samba"} and options.generator == "trunkline" and not options.case:
        page = HERE.parent.parent / "docs" / "benchmarks.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(text)
        print(f"written: {page}")
    else:
        print(text)
    complete = len(results) == len(chosen) and len(over_channels) == len(of_channels) and nfs_complete and limit_complete and told_complete
    sys.exit(0 if complete or options.generator != "trunkline" else 1)


if __name__ == "__main__":
    main()
