#!/usr/bin/env python3
"""Inject faults one by one and let `trunkline doctor` examine each. Counts how often its verdict names the right layer.
Then the doctor examines as many sound set-ups, which it must call healthy.

    proving/doctor/faults.py [--only NAME] [--cases FIRST-LAST] [--course quick|usual|full] [--out FILE]
    proving/doctor/faults.py --short
    proving/doctor/faults.py --table FILE...

--short runs the six cases of `make test`. `make soak` runs all of them, and gives --count FILE, to which a line is
appended.

Needs root (emulated links, network namespaces, Samba, Ganesha). A fault counts as skipped if this machine lacks
something for it. The last line is "N passed, N failed, N skipped". The status is 1 for a wrong verdict, or with --least
for fewer named faults than that. --table turns the results of several runs into the table of docs/doctor.md.
"""

import argparse
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.doctor.stage import PASSWORD, Ganesha, Missing, Proxy, Samba, Trunkline, free_port, other_clock, program, small_disk
from proving.harness.tally import Tally

# A set-up: the words before a command, the target, and the environment.
Stage = tuple[list[str], str, dict[str, str]]
Staged = contextlib.AbstractContextManager[Stage]
# A case in FAULTS.
Fault = tuple[str, str, Callable[[], Staged], *tuple[str, ...]]

SEED = ("--rtt", "23ms", "--flow-rate", "200Mbit")


def smb(server: Trunkline, host: str = "127.0.0.1") -> str:
    """Return the SMB target of our server."""
    return f"smb://ann@{host}:{server.port}/files"


def nfs(server: Trunkline, host: str = "127.0.0.1") -> str:
    """Return the NFS target of our server."""
    return f"nfs://{host}:{server.nfs_port}/files"


def link(*options: str, setting: str | None = None) -> list[str]:
    """Return the words before a command that runs behind a path. `setting` sets up that end of the path."""
    if os.geteuid() != 0:
        raise Missing("an emulated path needs root")
    before = [program(), "link", *options, "--"]
    if setting:
        before += ["sh", "-c", f'{setting}; exec "$@"', "sh"]
    return before


@contextlib.contextmanager
def behind(options: Sequence[str], setting: str | None = None, protocol: Callable[..., str] = smb, **server: Any) -> Iterator[Stage]:
    """Our server behind an emulated path."""
    with Trunkline(listen="0.0.0.0", **server) as running:
        yield link(*options, setting=setting), protocol(running, "{host}"), {}


@contextlib.contextmanager
def beside(protocol: Callable[..., str] = smb, **server: Any) -> Iterator[Stage]:
    """Our server on this machine."""
    with Trunkline(**server) as running:
        yield [], protocol(running), {}


@contextlib.contextmanager
def samba(*lines: str) -> Iterator[Stage]:
    """Debian's Samba on this machine."""
    with Samba(lines) as running:
        yield [], f"smb://alice@127.0.0.1:{running.port}/files", {"TRUNKLINE_PASSWORD": "Trunk-alice-7"}


@contextlib.contextmanager
def ganesha() -> Iterator[Stage]:
    """Debian's Ganesha on this machine."""
    with Ganesha() as running:
        yield [], f"nfs://127.0.0.1:{running.port}/files", {}


@contextlib.contextmanager
def wanting_one(staged: Staged) -> Iterator[Stage]:
    """The same with a client that wants one connection for each session."""
    with staged as (before, target, environment):
        yield before, target + " --one-connection", environment


@contextlib.contextmanager
def held_answers() -> Iterator[Stage]:
    """A proxy on the path that holds small packets back."""
    with Trunkline() as running, Proxy("127.0.0.1", port := free_port(), ("127.0.0.1", running.port), hold=0.02):
        yield [], f"smb://ann@127.0.0.1:{port}/files", {}


@contextlib.contextmanager
def apart(running: Trunkline, target: str, before: str, proxy: Sequence[Any] = ()) -> Iterator[Stage]:
    """A separate network, set up by the shell commands `before`. The server, a proxy and the doctor run in it."""
    with tempfile.TemporaryDirectory(prefix="doctor-apart-") as place:
        address = running.listen.split()[0].replace("0.0.0.0", "127.0.0.1")
        helper = f"{sys.executable} {Path(__file__).parent / 'stage.py'} {' '.join(map(str, proxy))} & helper=$!;" if proxy else "helper=;"
        script = (
            f"ip link set lo up; {before} {' '.join(running.command())} >{place}/log 2>&1 & server=$!;"
            f" for i in $(seq 100); do (exec 3<>/dev/tcp/{address}/{running.port}) 2>/dev/null && break; sleep 0.1; done;"
            f' {helper} sleep 0.5; "$@"; status=$?; kill $server $helper; wait $server; exit $status'
        )
        try:
            yield ["unshare", "-nm", "bash", "-c", script, "bash"], target, {}
        finally:
            running.scratch.cleanup()


def slow_channel() -> Staged:
    """Four addresses that count as an interface each. One of them leads over a slow line."""
    addresses = [f"10.77.{number}.1" for number in range(4)]
    # These addresses belong to this host but to no interface: clients use only one of the addresses on one interface.
    plugs = "ip route add local 10.77.0.0/16 dev lo;"
    # The server offers the last address without listening there. A proxy carries its connections to the first, slowly.
    running = Trunkline(listen=" ".join(addresses[:3]), server=f"advertise = {json.dumps(addresses[1:])}")
    slow = (addresses[3], running.port, addresses[0], running.port, 10e6)
    return apart(running, smb(running, addresses[0]), plugs, slow)


@contextlib.contextmanager
def full_disk() -> Iterator[Stage]:
    """A share whose file system is full."""
    with small_disk(8) as place, Trunkline(storage=place) as running:
        with contextlib.suppress(OSError), (place / "filler").open("wb") as filler:
            while True:
                filler.write(b"x" * 4096)
                filler.flush()
        yield [], smb(running), {}


@contextlib.contextmanager
def skewed_clock() -> Iterator[Stage]:
    """A client whose clock is an hour behind the server's."""
    with other_clock(-3600) as library, Trunkline() as running:
        yield ["env", f"LD_PRELOAD={library}"], smb(running), {}


@contextlib.contextmanager
def public_name() -> Iterator[Stage]:
    """A name service that returns the public address of a server with a private one."""
    with tempfile.TemporaryDirectory(prefix="doctor-name-") as place:
        hosts = Path(place) / "hosts"
        hosts.write_text("127.0.0.1 localhost\n203.0.113.5 files.test\n10.77.0.1 files.test\n")
        plugs = (
            "ip address add 203.0.113.5/32 dev lo; ip address add 10.77.0.1/32 dev lo;"
            f" mount --bind {hosts} /etc/hosts;"
        )
        running = Trunkline(listen="0.0.0.0")
        with apart(running, smb(running, "files.test"), plugs) as staged:
            yield staged


@contextlib.contextmanager
def crowded_metadata(others: int = 6) -> Iterator[Stage]:
    """A share on which other clients use up the limit on metadata, so that the doctor gets a small part of it. The
    share is far enough away that the doctor's reads stay below the limit of a single file, which would otherwise be
    found first."""
    share = "provisioned_gib = 102400\n" + UNCACHED
    with Trunkline(listen="0.0.0.0", account=PREMIUM, share=share, protocols=("smb",)) as running, contextlib.ExitStack() as ends:
        for number in range(others):
            work = ["--metadata", "stat", "--files", "50", "--iodepth", "16", "--runtime", "600"]
            command = [program(), "load", f"{smb(running)}/other{number}", *work]
            environment = {**os.environ, "TRUNKLINE_PASSWORD": PASSWORD}
            (running.directory / "files" / f"other{number}").mkdir(mode=0o777)
            other = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment,
            )
            ends.callback(other.wait)
            ends.callback(other.terminate)
        # Wait until all of them work.
        time.sleep(3)
        yield link("--rtt", "10ms"), f"{smb(running, '{host}')} --server {running.directory / 'state'}", {}


@contextlib.contextmanager
def closed_port() -> Iterator[Stage]:
    """A host without a listener."""
    yield [], f"smb://ann@127.0.0.1:{free_port()}/files", {}


LIMITED = 'kind = "standard"\nformula = "small"'
V2020 = 'kind = "premium"\nformula = "v1-2020"'
PREMIUM = 'kind = "premium"\nformula = "v1"'
NARROW_WINDOW = 'echo "4096 65536 65536" >/proc/sys/net/ipv4/tcp_rmem'
UNCACHED = "metadata_caching = false"
# A store in which each call on a name takes 3 ms, as in a distant one.
SLOW_NAMES = "testing.metadata_delay_us = 3000"
CMAC = ("server signing = mandatory", "server smb3 signing algorithms = AES-128-CMAC")
SMALL_REQUESTS = ("smb2 max read = 65536", "smb2 max write = 65536")

# Name, the layer that the verdict must name, set-up, and the required basis of one of the limiting findings. The last
# is given where the layer alone does not show that this fault was found.
FAULTS: list[Fault] = [
    ("Multichannel off at the server", "connections", lambda: behind(SEED, server="multichannel = false")),
    ("Multichannel off at the client", "connections", lambda: wanting_one(behind(SEED))),
    ("an unreachable address offered", "connections", lambda: behind(("--rtt", "5ms"), server='advertise = ["203.0.113.7"]')),
    ("RSS flag missing", "connections", lambda: behind(SEED, server='rss = "never"')),
    ("window too small", "transport", lambda: behind(("--rtt", "23ms"), setting=NARROW_WINDOW)),
    ("lossy link", "transport", lambda: behind(("--rtt", "10ms", "--loss", "0.5%"))),
    ("10 Mbit/s link", "transport", lambda: behind(("--rtt", "5ms", "--rate", "10Mbit"))),
    ("signing by CMAC", "protocol", lambda: samba(*CMAC)),
    ("sealing required", "protocol", lambda: beside(server='encryption = "required"', protocols=("smb",))),
    ("throttled IOPS", "limits", lambda: beside(account=LIMITED)),
    ("throttled egress", "limits", lambda: beside(account=V2020, share="provisioned_gib = 1024")),
    ("throttled metadata", "limits", crowded_metadata, "SuccessWithMetadataThrottling"),
    ("metadata cache off", "metadata", lambda: beside(server=SLOW_NAMES, share=UNCACHED)),
    ("64 KiB requests", "protocol", lambda: samba(*SMALL_REQUESTS)),
    ("small slot table", "protocol", lambda: beside(protocol=nfs, server="nfs_slots = 2")),
    ("Nagle-like delay", "transport", held_answers),
    ("one slow channel of four", "connections", slow_channel),
    ("full disk", "storage", full_disk),
    ("clock skew", "protocol", skewed_clock),
    ("the name gives the public address", "name", public_name),
    ("large packets are lost", "transport", lambda: behind(("--rtt", "10ms", "--black-hole", "1400")), "a packet of 1400 bytes was acknowledged"),
    ("a closed port", "transport", closed_port, "onnection refused"),
]

# Samba without Multichannel is not among them: on this machine several sessions move half as much again as one, and
# that is the first of the faults.
SOUND = [
    ("Trunkline, SMB", lambda: beside()),
    ("Trunkline, NFS", lambda: beside(protocol=nfs)),
    ("Trunkline, SMB, signing required", lambda: beside(server='signing = "required"')),
    ("Trunkline, one connection is enough", lambda: beside(server="multichannel = false")),
    ("Samba, Multichannel", lambda: samba()),
    ("Ganesha", lambda: ganesha()),
    ("Trunkline, NFS, behind 5 ms", lambda: behind(("--rtt", "5ms"), protocol=nfs)),
    ("Trunkline behind 5 ms", lambda: behind(("--rtt", "5ms"))),
    ("Trunkline behind the seed's path", lambda: behind(SEED)),
    ("Trunkline, NFS, behind the seed's path", lambda: behind(SEED, protocol=nfs)),
]

# The cases of `make test`: faults of five layers with the most different ways of detection, and two sound set-ups, near
# and far. They use the quick course. A slow host is the exception, since two turns on a long path do not suffice there
# to measure the gain of several connections.
SHORT = {
    "Multichannel off at the server": "usual", "full disk": "quick", "the name gives the public address": "quick",
    "large packets are lost": "quick", "Trunkline, SMB": "quick", "Trunkline behind 5 ms": "quick",
}


def examine(before: list[str], target: str, environment: dict[str, str], course: str) -> tuple[Any, str]:
    """Return the report on `target`."""
    command = [*before, program(), "doctor", *target.split(), "--json"] + ([f"--{course}"] if course != "usual" else [])
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, stdin=subprocess.DEVNULL,
        env={**os.environ, "TRUNKLINE_PASSWORD": PASSWORD, **environment},
    )
    try:
        return json.loads(done.stdout), done.stderr
    except json.JSONDecodeError:
        raise RuntimeError(f"status {done.returncode}: {done.stderr.strip()[-400:]}") from None


def one(name: str, expected: str, stage: Callable[[], Staged], course: str, basis: str | None = None) -> dict[str, Any]:
    """Examine one set-up. Returns its result."""
    try:
        with stage() as (before, target, environment):
            report, said = examine(before, target, environment, course)
    except Missing as reason:
        return {"name": name, "expected": expected, "result": "skip", "says": str(reason)}
    except (RuntimeError, OSError, subprocess.SubprocessError) as reason:
        return {"name": name, "expected": expected, "result": "fail", "says": str(reason)}
    examined = report["targets"][0]
    verdict = examined["verdict"]
    named = "healthy" if verdict["state"] == "healthy" else verdict["layer"]
    holding = [finding for finding in examined["findings"] if finding["holds_back"]]
    held = [finding["kind"] for finding in holding]
    is_found = basis is None or any(basis in said for finding in holding for said in finding["rests_on"])
    result = "pass" if named == expected and is_found else "fail"
    return {"name": name, "expected": expected, "named": named, "kinds": held, "result": result, "took_s": report["took_s"],
            "basis": grounds(holding, examined["facts"], said), "latency": latency(said, examined["facts"]), "report": report}


def grounds(holding: list[dict[str, Any]], facts: dict[str, Any], said: str) -> list[str]:
    """Return lines that explain a wrong verdict: the findings, the runs, and the link's counters."""
    lines = [f"{it['kind']}: {'; '.join(it['rests_on'])}" for it in holding]
    for run in (facts.get("data") or {}).get("runs", []):
        tcp = run.get("tcp") or {}
        lines.append(
            f"{run['work']} by {run['connections']}: {run['mib_s']:.1f} MiB/s, idle {run['idle']:.2f}, again {tcp.get('sent_again')}"
            f" of {tcp.get('sent')}, out of order {tcp.get('out_of_order')} of {tcp.get('came')}, round trip {tcp.get('rtt_ms', 0):.1f} ms"
        )
    return lines + said.splitlines()


def latency(said: str, facts: dict[str, Any]) -> dict[str, float] | None:
    """Return the time of a connect by the doctor, by the link's own earlier measurement, and by the link's options, in
    ms. Returns None without a link."""
    link = re.search(r"a round trip of ([0-9.]+) ms was asked for; [0-9]+ connections took ([0-9.]+) ms", said)
    if not link or not facts.get("transport"):
        return None
    asked, had = map(float, link.groups())
    return {"doctor_ms": statistics.median(facts["transport"]["connect"]["times_ms"]), "link_ms": had, "asked_ms": asked}


def table(files: list[Path]) -> None:
    """Print the results of all cases as a table."""
    results = [result for file in files for result in json.loads(file.read_text())]
    print("| case | expected layer | named layer | found | took |\n|---|---|---|---|---|")
    for it in results:
        named = it.get("named") or it["says"]
        took = f"{it['took_s']:.1f} s" if "took_s" in it else ""
        named = named if it["result"] == "pass" else f"**{named}**"
        print(f"| {it['name']} | {it['expected']} | {named} | {', '.join(f'`{kind}`' for kind in it.get('kinds', []))} | {took} |")
    for kind, is_kind in (("faults named", lambda it: it["expected"] != "healthy"), ("sound set-ups healthy", lambda it: it["expected"] == "healthy")):
        of = [it for it in results if is_kind(it)]
        print(f"{sum(it['result'] == 'pass' for it in of)} of {len(of)} {kind}")
    print_latency(results)


def print_latency(results: list[dict[str, Any]]) -> None:
    """Print how close the doctor's figures are to the links'."""
    seen = [(it["name"], it["latency"]) for it in results if it.get("latency")]
    for name, it in seen:
        print(f"{name}: a connect took {it['doctor_ms']:.2f} ms; the link itself measured {it['link_ms']:.2f} ms; its options asked for {it['asked_ms']:g} ms")
    if seen:
        def of(what: str) -> float:
            return max(abs(it["doctor_ms"] / it[what] - 1) for _, it in seen) * 100

        print(f"connects differ from the links' own measurement by {of('link_ms'):.1f} % at most, from their options by "
              f"{of('asked_ms'):.1f} %, on {len(seen)} links")


def main() -> None:
    """Run the cases that the options select."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", help="part of the name of the cases to run")
    parser.add_argument("--cases", help="numbers of the first and last case to run, such as 1-10")
    parser.add_argument("--short", action="store_true", help="the cases of make test")
    parser.add_argument("--count", type=Path, help="append the result, for proving/soak")
    parser.add_argument("--table", type=Path, nargs="+", help="print the table of these files of --out")
    parser.add_argument("--course", default="quick", choices=["quick", "usual", "full"])
    parser.add_argument("--out", type=Path, help="file for all reports")
    parser.add_argument("--least", type=int, help="faults that must be named; the others may be missed")
    arguments = parser.parse_args()
    if arguments.table:
        table(arguments.table)
        return
    cases: list[Fault] = [*FAULTS, *((name, "healthy", stage) for name, stage in SOUND)]
    first, last = map(int, arguments.cases.split("-")) if arguments.cases else (1, len(cases))
    results, tally = [], Tally("doctor")
    for number, case in enumerate(cases, 1):
        is_asked = not arguments.only or any(part in case[0] for part in arguments.only)
        if not first <= number <= last or not is_asked or arguments.short and case[0] not in SHORT:
            continue
        name, layer, stage, *basis = case
        course = SHORT[name] if arguments.short else arguments.course
        result = one(name, layer, stage, course, *basis)
        results.append(result)
        shown = result.get("says") or f"named {result['named']} ({', '.join(result['kinds']) or 'nothing'}), {result['took_s']:.1f} s"
        print(f"{result['result']:5} {result['name']}: expected {result['expected']}; {shown}", flush=True)
        tally.add(result["result"], name, "; ".join([f"expected {layer}", shown, *result.get("basis", [])[:1]]))
        if result["result"] == "fail":
            print("".join(f"        {line}\n" for line in result.get("basis", [])), end="", flush=True)
        if arguments.out:
            arguments.out.write_text(json.dumps(results, indent=1))
    print_latency(results)
    if arguments.count:
        failures = [note for note in tally.notes if note.startswith("fail")]
        with open(arguments.count, "a", encoding="utf-8") as out:
            done = int(tally.passed > 0 or tally.failed > 0)
            out.write(json.dumps({"server": "trunkline", "done": done, "failures": failures}) + "\n")
    tally.close()
    named = sum(it["result"] == "pass" and it["expected"] != "healthy" for it in results)
    healthy_failed = any(it["result"] == "fail" and it["expected"] == "healthy" for it in results)
    wrong = tally.failed > 0 if arguments.least is None else named < arguments.least or healthy_failed
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
