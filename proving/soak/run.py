#!/usr/bin/env python3
"""The long counts: the number of times that each run which must never fail is tried, and their progress.

    run.py                    continue after the last call, until every count is full
    run.py --only cuts        one count; may be repeated
    run.py --minutes 30       start no new slice after that time
    run.py --twentieth        a twentieth of each count, without a record: `make test` runs this
    run.py --fresh            forget the earlier record; with --only, of that count
    run.py --program FILE     test this program, such as a release build; tests are built without optimization then

A count is a number of runs and a command that does a slice of them (`COUNTS`). The record lies below cargo's target
directory, with one line of JSON for the result of each slice. So a call can be ended at any point and loses at most one
slice. After each slice `tallies.toml` beside this file is written again from the record, and this file is committed. A
count without a record here, as on a new machine, continues from there.

A slice's command gets {count}, {seed}, {out}, {profile}, which is cargo's profile for its builds, and {least_rate}, the
least changes a second of a load, which is 0 for the part in `make test`. It appends lines to {out} (`server`, `done`,
`failures`, and numbers of its own). A command that appends nothing did its whole slice if its status is 0.
"""

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import rust_tests, tree
from proving.harness import server as servers
from proving.harness.tally import Tally
from proving.kernel_client import cuts

HERE = Path(__file__).resolve().parent
PROVING = HERE.parent
ROOT = PROVING.parent
TALLIES = HERE / "tallies.toml"


class Count:
    """A number of runs of one kind, done in slices."""

    def __init__(self, name: str, wanted: int, unit: str, slice_size: int, command: list[str], slice_limit_s: float, has_twentieth: bool = True) -> None:
        self.name, self.wanted, self.unit, self.slice_size = name, wanted, unit, slice_size
        self.command, self.slice_limit_s = command, slice_limit_s
        # Tells whether `--twentieth` includes a part of it.
        self.has_twentieth = has_twentieth


KERNEL = str(PROVING / "kernel_client")
COUNTS = [
    Count("cuts", 200, "cuts of one to three of four channels under Linux's client", 10,
          [sys.executable, f"{KERNEL}/cuts.py", "--cuts", "{count}", "--per-mount", "10", "--seed", "{seed}", "--out", "{out}"], 1800),
    Count("nfs-cuts", 200, "cuts of one to all of four connections under Linux's NFS client, none of which an application sees", 10,
          [sys.executable, f"{KERNEL}/nfs_cuts.py", "--cuts", "{count}", "--per-mount", "10", "--seed", "{seed}", "--out", "{out}"], 1800),
    Count("kills", 50, "kills of the server under Linux's client, each with a restart within 10 s", 5,
          [sys.executable, f"{KERNEL}/kills.py", "--kills", "{count}", "--per-mount", "5", "--seed", "{seed}", "--handles", "persistent",
           "--out", "{out}"], 900),
    Count("folders-6.12", 1_000, "kills of the server under Linux 6.12's client that makes and removes directories with persistent handles: no rmdir fails", 25,
          [sys.executable, f"{KERNEL}/kills.py", "--kernel", "6.12", "--folders", "--kills", "{count}", "--per-mount", "25", "--seed", "{seed}",
           "--out", "{out}"], 900,
          # `make test` has no time for it.
          has_twentieth=False),
    Count("kills-krb5", 10, "kills of the server under Linux's client with Kerberos tickets over one channel, each with a restart within 10 s", 5,
          [sys.executable, f"{KERNEL}/kills.py", "--sec", "krb5", "--kills", "{count}", "--per-mount", "5", "--seed", "{seed}", "--out", "{out}"],
          900, has_twentieth=False),
    Count("kills-krb5i-6.12", 12, "kills of the server under Linux 6.12's client with signed sessions of Kerberos over four channels, whose "
                                  "tickets end after 6 s; each with a restart within 10 s", 4,
          [sys.executable, f"{KERNEL}/kills.py", "--kernel", "6.12", "--sec", "krb5i", "--ticket-life", "6", "--kills", "{count}", "--per-mount",
           "2", "--seed", "{seed}", "--out", "{out}"], 900, has_twentieth=False),
    Count("cuts-krb5i-6.12", 20, "cuts of one to three of four channels under Linux 6.12's client with Kerberos tickets", 10,
          [sys.executable, f"{KERNEL}/cuts.py", "--kernel", "6.12", "--sec", "krb5i", "--server", "trunkline", "--cuts", "{count}", "--per-mount",
           "5", "--seed", "{seed}", "--out", "{out}"], 1800, has_twentieth=False),
    Count("cuts-tickets-6.12", 20, "the same with tickets that end after 20 s", 10,
          [sys.executable, f"{KERNEL}/cuts.py", "--kernel", "6.12", "--sec", "krb5i", "--ticket-life", "20", "--server", "trunkline",
           "--cuts", "{count}", "--per-mount", "10", "--seed", "{seed}", "--out", "{out}"], 1800, has_twentieth=False),
    Count("mixed", 20, "rounds of 30 s in which Linux's SMB and NFS clients work on the same files of one share", 5,
          [sys.executable, f"{KERNEL}/mixed.py", "--rounds", "{count}", "--per-mount", "5", "--seed", "{seed}", "--out", "{out}"], 1200),
    Count("host-changes", 20, "rounds of 30 s in which the host changes what Linux's SMB and NFS clients look at, and events of it are lost "
                              "now and then: nothing that was before is shown", 5,
          [sys.executable, f"{KERNEL}/host.py", "--rounds", "{count}", "--per-mount", "5", "--seed", "{seed}", "--out", "{out}"], 1200),
    Count("nfs-kills", 50, "kills of the server under Linux's NFS client, each with a restart within 10 s", 5,
          [sys.executable, f"{KERNEL}/nfs_kills.py", "--kills", "{count}", "--per-mount", "5", "--seed", "{seed}", "--out", "{out}"],
          1200),
    Count("histories", 100_000, "seeded histories of cuts, delays, duplicates and replays over one to eight channels, beside a model", 5_000,
          ["env", "SIMULATED_HISTORIES={seed}+{count}", *rust_tests.words("test", "simulation", "histories_agree", "histories_of_two_clients_are")], 3600),
    Count("disk-faults", 20_000, "seeded histories of one session and of two clients over a disk whose calls fail, are done by half or take "
                                 "long, with kills of the server, beside a model", 1_000,
          ["env", "SIMULATED_HISTORIES={seed}+{count}", *rust_tests.words("test", "simulation", "over_failing_disks")], 3600),
    Count("state-damage", 200_000, "offsets at which each file of a state directory has a bit changed and is cut: refused with advice, "
                                   "told, or nothing of it is another", 8192,
          ["env", "DAMAGED_OFFSETS={seed}+{count}", *rust_tests.words("bin", "trunkline", "state::damage")], 3600,
          # `make test` has the quick form among its Rust tests.
          has_twentieth=False),
    Count("backups", 1_000, "backups under at least 1,000 changes of users, shares and opens a second, over the control socket, NFS and SMB "
                            "with persistent handles, each restored: equal to one moment", 50,
          ["env", "BACKUPS={seed}+{count}", "BACKUPS_LEAST_RATE={least_rate}", "BACKUPS_OUT={out}",
           *rust_tests.words("test", "live", "backup_under_load")], 1800),
    Count("tokens", 1_000_000, "forged, replayed, cut and changed Kerberos tickets and SPNEGO tokens: nobody is let in", 50_000,
          [sys.executable, str(PROVING / "kerberos/run.py"), "--only-tokens", "--tokens", "{count}", "--seed", "{seed}"], 600,
          # `make test` has as many in the suite.
          has_twentieth=False),
    Count("directory-users", 10_000, "users of Active Directory in 2,000 groups who each log on with a ticket, and take at most 64 MiB more than "
                                      "ten of them", 10_000,
          [sys.executable, str(PROVING / "kerberos/crowd.py"), "--users", "{count}", "--groups", "2000", "--out", "{out}"], 3600,
          # `make test` has 500 in the suite.
          has_twentieth=False),
    Count("orphans", 20_000, "simulated kills of the server, beside a client that closes files meanwhile and gives up what was not "
                             "answered: it can remove all it has left", 5_000,
          ["env", "SIMULATED_KILLS={seed}+{count}", *rust_tests.words("test", "orphans")], 1800),
    Count("tenures", 10_000, "simulated clusters of five nodes for ten minutes, with partitions, pauses, deaths and moves: each virtual server "
                             "has one owner, and is served after the last fault", 1_000,
          ["env", "SIMULATED_TENURES={seed}+{count}", *rust_tests.words("test", "tenures", "five_nodes")], 3600),
    Count("tenures-large", 10, "simulated clusters of 1,000 nodes with 16 virtual servers each for an hour: the same", 1,
          ["env", "SIMULATED_TENURES={seed}+{count}", *rust_tests.words("test", "tenures", "a_thousand_nodes")], 3600,
          # `make test` has a small one among its Rust tests.
          has_twentieth=False),
    Count("smbtorture", 3, "runs of all of smbtorture 4.17, the installed one, none of which ends otherwise than listed", 1,
          [sys.executable, str(PROVING / "smbtorture/run.py"), "--installed", "--count", "{out}"], 1800,
          # `make test` runs this year's.
          has_twentieth=False),
    Count("strangers", 3, "runs of five minutes in which 32 strangers of each kind send what they can, and clients beside them are served "
                          "within 1 s and three times the usual median", 1,
          [sys.executable, str(PROVING / "strangers/run.py"), "--strangers", "32", "--seconds", "300", "--quiet", "30", "--members",
           "--memory", "--seed", "{seed}", "--out", "{out}"], 900,
          # `make test` has the short form as a stage of its own.
          has_twentieth=False),
    Count("limits", 1, "rounds of 10 s with 1, 4 and 16 connections, 4 KiB and 1 MiB, over SMB, NFS and both, in which a share's limit "
                       "holds within 2 %, and two clients of it and its neighbour have the same within 10 % over SMB and over NFS, medians of 20 pairs", 1,
          ["env", "TRUNKLINE_FULL=1", *rust_tests.words("test", "limits")], 2400,
          # A quarter of an hour: `make test` has the quick form among its Rust tests.
          has_twentieth=False),
    Count("doctor", 1, "rounds of all set-ups of the doctor: each of 22 faults is named by its layer, and ten sound set-ups are healthy", 1,
          [sys.executable, str(PROVING / "doctor/faults.py"), "--count", "{out}"], 1200,
          # `make test` has the short form as a stage of its own.
          has_twentieth=False),
    Count("doctor-steady", 20, "runs of the doctor on one share beside another program, and as many on a link on which four connections are "
                               "worth three: ranges meet, advice is the same, and what is there is found", 20,
          [sys.executable, str(PROVING / "doctor/steady.py"), "--runs", "{count}", "--out", "{out}"], 1200,
          # `make test` has it with simulated rates among its Rust tests.
          has_twentieth=False),
]
CLUSTER = {
    "process": (300, 25, "kills of the owner's program"),
    "machine": (100, 10, "deaths of the owner's machine"),
    "guest": (20, 5, "deaths of the owner's machine, a guest with Linux's own client of Ceph"),
    "mds": (20, 10, "kills of Ceph's MDS"),
    "osd": (20, 5, "kills of Ceph's OSD"),
    "cable": (20, 5, "cuts of the owner's cable for longer than its tenure"),
    "pause": (20, 5, "pauses of the owner's program for longer than its tenure"),
    "clock": (20, 10, "jumps of the owner's clock by an hour"),
}
COUNTS += [
    Count(f"cluster-{kind}", wanted, f"{what}, of two nodes on CephFS, under Linux's SMB and NFS clients", slice_size,
          [sys.executable, str(PROVING / "cluster/run.py"), "--only", kind, "--deaths", "{count}", "--seed", "{seed}", "--out", "{out}"], 1800,
          # `make test` has a few of them as a stage of its own.
          has_twentieth=False)
    for kind, (wanted, slice_size, what) in CLUSTER.items()
]
# The counts under Linux's clients are repeated under newer kernels, by this part of the count.
NEWER_KERNELS = {"6.12": 4, "newest": 10}
UNDER_NEWER_KERNELS = ("cuts", "nfs-cuts", "kills", "mixed", "host-changes", "nfs-kills")


def under(count: Count, series: str, part: int) -> Count:
    """Return a count with another kernel in its guests, and a `part` of its runs, on each kind of mount."""
    wanted = -(-count.wanted // part)
    command = [*count.command[:2], "--kernel", series, *count.command[2:]]
    return Count(f"{count.name}-{series}", wanted, f"{count.unit}; Linux {series}", max(1, min(count.slice_size, wanted // 4)), command,
                 count.slice_limit_s, has_twentieth=False)


COUNTS += [under(count, series, part) for series, part in NEWER_KERNELS.items() for count in COUNTS if count.name in UNDER_NEWER_KERNELS]


def record_directory() -> Path:
    return Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target") / "soak"


class Record:
    """The results of one count, as lines of JSON."""

    def __init__(self, count: Count) -> None:
        self._count = count
        self.path = record_directory() / f"{count.name}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)

    def lines(self, server: str | None = None) -> list[dict[str, Any]]:
        """Return all lines, or those of one server."""
        if self.path.exists():
            found = [json.loads(line) for line in self.path.read_text().splitlines()]
        else:
            found = as_lines(self._count)
        return [line for line in found if server is None or line["server"] == server]

    def done(self) -> int:
        return sum(line["done"] for line in self.lines("trunkline"))

    def add(self, lines: list[dict[str, Any]]) -> None:
        before = [] if self.path.exists() else as_lines(self._count)
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        stamp = {"first": now, "last": now, "commits": [tree.commit(TALLIES)], "machines": [machine()]}
        with open(self.path, "a", encoding="utf-8") as out:
            for line in before + [dict(line, **stamp) for line in lines]:
                out.write(json.dumps(line) + "\n")

    def forget(self) -> None:
        """Start again from zero, without the tallies."""
        self.path.write_text("")


def run_slice(count: Count, size: int, seed: int, out: Path, profile: str = "quick", least_rate: int = 1000) -> tuple[int, list[dict[str, Any]]]:
    """Run one slice. Returns (status, its lines). `profile` is cargo's, for its builds."""
    out.unlink(missing_ok=True)
    command = [word.format(count=size, seed=seed, out=out, profile=profile, least_rate=least_rate) for word in count.command]
    print(f"--- {count.name}: {size} from seed {seed}", flush=True)
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL)
    try:
        status = process.wait(timeout=count.slice_limit_s)
    except subprocess.TimeoutExpired:
        status = 124
    finally:
        end(process)
    lines = [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []
    out.unlink(missing_ok=True)
    if not any(line["server"] == "trunkline" for line in lines):
        failures = [] if status == 0 else [f"the slice from seed {seed} ended with status {status}"]
        lines.append({"server": "trunkline", "done": size if status == 0 else 0, "failures": failures})
    return status, lines


def end(process: subprocess.Popen[bytes]) -> None:
    """Let a running slice clean up after itself, and make sure that it ends."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def go_on(count: Count, deadline: datetime.datetime, profile: str) -> bool:
    """Run slices until the count is full or the time is over. Returns whether all succeeded. `profile` is cargo's."""
    record = Record(count)
    scratch = record_directory() / f"{count.name}.slice"
    while record.done() < count.wanted and datetime.datetime.now() < deadline:
        before = record.done()
        _, lines = run_slice(count, min(count.slice_size, count.wanted - before), 1000 + before, scratch, profile)
        record.add(lines)
        write_tallies()
        if record.done() == before:
            print(f"--- {count.name}: the slice did nothing; a requirement is missing here, or it fails at once", flush=True)
            return False
    return not any(line["failures"] for line in record.lines("trunkline"))


def write_tallies() -> None:
    """Write the record into the tallies. A count without a record here keeps its old entry."""
    text = ["# Written by proving/soak/run.py (make soak): what the long counts have come to. Not to be edited.", ""]
    for count in COUNTS:
        record = Record(count)
        text += describe(count, record) if record.lines() else as_written(count)
    TALLIES.write_text("\n".join(text))


def as_lines(count: Count) -> list[dict[str, Any]]:
    """Return the tallies of a count, as lines of a record: one for each server."""
    table = (tomllib.loads(TALLIES.read_text()) if TALLIES.exists() else {}).get(count.name, {})
    stamp = {key: table[key].isoformat() for key in ("first", "last") if key in table}
    stamp |= {key: table[key] for key in ("commits", "machines", "kernels") if key in table}
    return [dict(table[kind], server=kind, **stamp) for kind in servers.KINDS if kind in table]


def as_written(count: Count) -> list[str]:
    """Return the tables of a count as they are in the tallies."""
    found, ours = [], False
    for line in TALLIES.read_text().splitlines() if TALLIES.exists() else ():
        if line.startswith("["):
            ours = line.split('"')[1] == count.name
        found += [line] if ours else []
    return found + [""] if found and found[-1] else found


def describe(count: Count, record: Record) -> list[str]:
    """Return the table of one count. Its name is quoted, since it may contain a dot."""
    ours = record.lines("trunkline")
    text = [
        f'["{count.name}"]',
        f"what = {json.dumps(count.unit)}",
        f"wanted = {count.wanted}",
        f"done = {record.done()}",
        f"first = {ours[0]['first'] if ours else ''}",
        f"last = {ours[-1]['last'] if ours else ''}",
    ]
    text += [f"{key} = {json.dumps(named)}" for key in ("commits", "machines", "kernels") if (named := all_of(ours, key))]
    text.append("")
    for kind in servers.KINDS:
        lines = record.lines(kind)
        if not lines:
            continue
        text += [f'["{count.name}".{kind}]', f"done = {sum(line['done'] for line in lines)}"]
        text += [f"failures = {json.dumps([failure for line in lines for failure in line['failures']], indent=2)}"]
        for key in sorted({key for line in lines for key in line} - SAID_ONCE):
            text.append(f"{key} = {total([line[key] for line in lines if key in line], key)}")
        text.append("")
    return text


# The fields of a record's line that are not numbers of the count.
SAID_ONCE = {"server", "done", "failures", "mount", "first", "last", "commits", "machines", "kernels"}


def all_of(lines: list[dict[str, Any]], key: str) -> list[str]:
    """Return the names that lines list under a key, each once."""
    return list(dict.fromkeys(name for line in lines for name in line.get(key, ())))


def total(values: list[Any], key: str) -> str | int | float:
    """Sum up one number of all lines. A number whose key begins with `slowest` is a maximum, and with `least` a minimum."""
    if isinstance(values[0], dict):
        whole = sum((Counter(value) for value in values), Counter())
        return "{ " + ", ".join(f"{json.dumps(name)} = {number}" for name, number in sorted(whole.items())) + " }"
    if key.startswith("least"):
        return min(values)
    return max(values) if key.startswith("slowest") else round(sum(values), 3)


def machine() -> str:
    """Describe the machine in one line."""
    return f"{os.cpu_count()} cores, {platform.system()} {platform.release()}, {platform.machine()}"


def passing_errors_are_few(count: Count) -> bool:
    """Return whether Trunkline's clients saw no more transient errors for each cut than Samba's, apart from chance.
    True for another count."""
    if count.name.partition("-")[0] != "cuts":
        return True
    record = Record(count)
    sums = [(sum(line["done"] for line in lines), sum(sum(line["passing_errors"].values()) for line in lines if "passing_errors" in line))
            for lines in (record.lines("trunkline"), record.lines("samba"))]
    (ours, our_errors), (theirs, their_errors) = sums
    if not ours or not theirs:
        return True
    print(f"{count.name}: passing errors: {our_errors} in {ours} cuts, with Samba {their_errors} in {theirs}")
    return cuts.within_chance(our_errors, ours, their_errors, theirs)


def back_in_time(count: Count) -> bool:
    """Return whether enough recoveries over all of a count's cuts were in time. True for a count without cuts."""
    lines = [line for line in Record(count).lines("trunkline") if "late_back" in line]
    done, late = sum(line["done"] for line in lines), sum(line["late_back"] for line in lines)
    if lines:
        print(f"{count.name}: back late {late} of {done} times")
    return cuts.few_late(late, done)


def twentieth(counts: list[Count]) -> int:
    """Run a twentieth of each count. Commands that keep a tally of their own (TALLY_FILE) keep it here too."""
    scratch = record_directory() / "twentieth"
    scratch.parent.mkdir(parents=True, exist_ok=True)
    tally = Tally("soak")
    for count in counts:
        if not count.has_twentieth:
            continue
        size = -(-count.wanted // 20)
        status, lines = run_slice(count, size, 1, scratch, profile="dev", least_rate=0)
        failures = [failure for line in lines if line["server"] == "trunkline" for failure in line["failures"]]
        if status == 0 and not failures:
            done = sum(line["done"] for line in lines if line["server"] == "trunkline")
            tally.add("pass", f"{count.name}: {done} of {count.wanted}")
        else:
            tally.add("fail", count.name, "; ".join(failures) or f"status {status}")
    return tally.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", choices=[count.name for count in COUNTS])
    parser.add_argument("--minutes", type=float, default=24 * 60)
    parser.add_argument("--twentieth", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--program", type=Path, help="test this program")
    options = parser.parse_args()
    servers.clean_up_when_told_to_end()
    counts = [count for count in COUNTS if not options.only or count.name in options.only]
    if options.twentieth:
        sys.exit(twentieth(counts))
    if options.fresh:
        for count in counts:
            Record(count).forget()
    deadline = datetime.datetime.now() + datetime.timedelta(minutes=options.minutes)
    profile = "quick"
    if options.program:
        os.environ["TRUNKLINE"] = str(options.program.resolve())
        profile = "dev"
    results = [go_on(count, deadline, profile) for count in counts]
    write_tallies()
    for count in counts:
        print(f"{count.name}: {Record(count).done()} of {count.wanted}")
    judged = [judge(count) for count in counts for judge in (back_in_time, passing_errors_are_few)]
    sys.exit(0 if all(results) and all(judged) else 1)


if __name__ == "__main__":
    main()
