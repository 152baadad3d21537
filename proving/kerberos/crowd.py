#!/usr/bin/env python3
"""Many users of Active Directory: they log on once over SMB with a ticket, or are looked up by name.

    crowd.py [--users N] [--groups N] [--logons N] [--out FILE]

Each user is a member of two groups. The first --logons of them log on, by default all. The server may take 64 MiB more
for all users than for the first ten: for what it remembers of them, and for the sessions of the last 500, which stay. One
user is in 1,200 groups, and one in a circle of groups. The
clients have MIT's library (python3-gssapi) and a small SMB 3.1.1 client.
"""

import argparse
import collections
import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.kerberos.logons import HOST, LOGOFF, LOGOFF_BODY, PYTHON, Link

HERE = Path(__file__).resolve()
# What `make test` has time for; the whole number is in `make soak`.
USERS, GROUPS = 500, 100
# The names of one question to lsarpc.
NAMES_AT_ONCE = 100
FEW = 10
# The sessions that each of two clients keeps.
KEPT = 250
MOST_MORE_MIB = 64
WIDE, MANY, LOOPED = "wide", 1_200, "looped"
# A log-on of a user with very many groups, with its tickets.
WIDE_LIMIT_S = 10.0
LIMIT_S = 1800


def people(users: int, logons: int, groups: int, password: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the users and the groups for populate.py. The first `logons` users have a password."""
    names = [f"user{number:05}" for number in range(users)]
    accounts = {name: {"password": password} for name in (*names[:logons], WIDE, LOOPED)} | {name: {} for name in names[logons:]}
    teams: dict[str, list[str]] = {f"team{number:04}": [] for number in range(groups)}
    for number, name in enumerate(names):
        for team in {number % groups, (number * 7 + 1) % groups}:
            teams[f"team{team:04}"].append(name)
    found = {name: {"members": members} for name, members in teams.items()}
    found |= {f"wide{number:04}": {"members": [WIDE]} for number in range(MANY)}
    found |= {"circle1": {"members": [LOOPED, "circle3"]}, "circle2": {"members": ["circle1"]}, "circle3": {"members": ["circle2"]}}
    return accounts, found


def client(first: int, end: int, password: str) -> None:
    """A process that logs users on, and keeps their sessions until standard input ends."""
    import gssapi  # type: ignore[import-not-found]

    from proving.kerberos.tokens import KERBEROS, context, init, mech_list
    from proving.strangers import smb

    mechs, links = mech_list(KERBEROS), collections.deque[Link](maxlen=KEPT)
    socket.setdefaulttimeout(LIMIT_S)
    for number in range(first, end):
        name = gssapi.Name(f"user{number:05}", gssapi.NameType.user)
        acquired = gssapi.raw.acquire_cred_with_password(name, password.encode(), usage="initiate")
        token = context(f"cifs@{HOST}", gssapi.Credentials(acquired.creds)).step()
        link = Link()
        link.receive()
        link.send(smb.SESSION_SETUP, smb.setup_body(init(mechs, token)))
        link.receive()
        if len(links) == KEPT:
            links[0].send(LOGOFF, LOGOFF_BODY)
            links[0].receive()
            links[0].socket.close()
        links.append(link)
    print(f"done {end - first}", flush=True)
    sys.stdin.read()


class Clients:
    """The users who are logged on. Their processes end with this."""

    def __init__(self, inside: Any, password: str) -> None:
        self._inside, self._password, self._processes = inside, password, list[subprocess.Popen[str]]()

    def log_on(self, first: int, end: int, at_once: int = 2) -> None:
        """Log on the users from `first` to before `end`."""
        each = -(-(end - first) // at_once)
        begun = []
        for start in range(first, end, each):
            command = self._inside([PYTHON, str(HERE), "--client", str(start), str(min(start + each, end)), self._password])
            begun.append(subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
        self._processes += begun
        done = 0
        for process in begun:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("done "):
                raise AssertionError(f"a user could not log on: the client ended with {process.wait(10)}")
            done += int(line.split()[1])
        if done != end - first:
            raise AssertionError(f"{done} of {end - first} users logged on")

    def __enter__(self) -> "Clients":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()


def resident_mib(pid: int) -> float:
    """Return the memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("the server has no memory")


def crowd_cases(suite: Any, domain: Any, member: Any, serve: Any, users: int, logons: int) -> dict[str, float]:
    """The cases, with a server that `serve()` starts. Returns the measured values."""
    from proving.kerberos.active_directory import PASSWORD

    measured: dict[str, float] = {}

    def everyone() -> str:
        with serve() as served, Clients(domain.network.inside, PASSWORD) as clients:
            begun = time.monotonic()
            clients.log_on(0, FEW, 1)
            few = resident_mib(served.pid)
            clients.log_on(FEW, logons)
            for first in range(logons, users, NAMES_AT_ONCE):
                look_up([f"user{number:05}" for number in range(first, min(first + NAMES_AT_ONCE, users))])
            took, more = time.monotonic() - begun, resident_mib(served.pid) - few
            measured.update(seconds=round(took, 1), more_mib=round(more, 1))
            logged_on = served.log().count(": logged on peer=")
            if logged_on < logons:
                raise AssertionError(f"{logged_on} of {logons} users logged on: {served.log()[-400:]}")
            if more > MOST_MORE_MIB:
                raise AssertionError(f"{users} users take {more:.1f} MiB more than {FEW}")
            return (f"{logons} users logged on and {users - logons} were looked up within {took:.1f} s, and they take {more:.1f} MiB more "
                    f"than {FEW}")

    def look_up(names: list[str]) -> None:
        cache = {"KRB5CCNAME": f"FILE:{member.state.parent}/ticket-first"}
        domain.network.run("kinit", "user00000", stdin=PASSWORD + "\n", variables=cache)
        done = domain.network.run("rpcclient", HOST, "-p", "4450", "--use-kerberos=required", "-N", "-c", f"lookupnames {' '.join(names)}",
                                  variables=cache, check=False)
        found = [line.split()[0] for line in done.stdout.splitlines() if line.endswith("(User: 1)")]
        if found != names:
            raise AssertionError(f"{len(found)} of {len(names)} users are found: {done.stdout[-400:]}{done.stderr}")

    def log_on(user: str) -> tuple[subprocess.CompletedProcess[str], float]:
        cache = {"KRB5CCNAME": f"FILE:{member.state.parent}/ticket-{user}"}
        begun = time.monotonic()
        domain.network.run("kinit", user, stdin=PASSWORD + "\n", variables=cache)
        done = domain.network.run("smbclient", f"//{HOST}/docs", "-p", "4450", "--use-kerberos=required", "-N", "-c",
                                  f"put /etc/passwd of-{user}", variables=cache, check=False)
        return done, time.monotonic() - begun

    def wide() -> str:
        with serve() as served:
            done, took = log_on(WIDE)
            lines = [line for line in served.log().splitlines() if WIDE in line]
            if took > WIDE_LIMIT_S:
                raise AssertionError(f"{took:.1f} s")
            if done.returncode == 0 and (served.share / f"of-{WIDE}").exists():
                groups = len(member.found(f"CORP\\{WIDE}", serve.mapping)["groups"])
                if groups < MANY:
                    raise AssertionError(f"the lookup has {groups} groups")
                return f"a user of {MANY} groups logged on within {took:.2f} s, and a lookup has {groups} groups"
            raise AssertionError(f"{done.stdout}{done.stderr}: {lines}")

    def looped() -> None:
        with serve() as served:
            done, took = log_on(LOOPED)
            if done.returncode or took > WIDE_LIMIT_S:
                raise AssertionError(f"{took:.1f} s: {done.stdout}{done.stderr}{served.log()[-400:]}")
            groups = len(member.found(f"CORP\\{LOOPED}", serve.mapping)["groups"])
            # Domain Users, and each group of the circle once.
            if groups != 4:
                raise AssertionError(f"{groups} groups")

    suite.case("many users", everyone)
    suite.case("a user of 1,200 groups", wide)
    suite.case("a user in a circle of groups", looped)
    return measured


def run(options: argparse.Namespace) -> int:
    """Run the cases in a domain of their own."""
    from proving.harness import server
    from proving.harness.tally import Tally, skip_whole_suite
    from proving.kerberos.active_directory import PASSWORD, ActiveDirectory
    from proving.kerberos.domain import Member, Served, Suite, scratch

    server.clean_up_when_told_to_end()
    if reason := ActiveDirectory().missing():
        skip_whole_suite("crowd", reason)
    tally, begun = Tally("crowd"), time.monotonic()
    logons = min(options.logons or options.users, options.users)
    accounts, groups = people(options.users, logons, options.groups, PASSWORD)
    with scratch() as directory, ActiveDirectory(users=accounts, groups=groups) as domain:
        print(f"        a domain of {len(accounts)} users and {len(groups)} groups runs after {time.monotonic() - begun:.1f} s", flush=True)
        member = Member(domain.network.inside, directory)
        member.must("join", domain.realm, "--password-file", "-", "--host", HOST, "--computer-name", "FILES", stdin=PASSWORD)
        mapping = 'id_mapping = "rid"\nid_range = "100000-199999"\n'

        def serve() -> Served:
            # All users come from one address.
            return Served(member, mapping, server_lines=f"max_connections_per_address = {4 * KEPT}\n")

        serve.mapping = mapping  # type: ignore[attr-defined]
        measured = crowd_cases(Suite(tally, f"{options.users} users"), domain, member, serve, options.users, logons)
    status = tally.close()
    if options.out:
        with options.out.open("a") as out:
            out.write(json.dumps({"server": "trunkline", "done": options.users if status == 0 else 0,
                                  "failures": [f"{tally.failed} cases failed"] if status else [], **measured}) + "\n")
    return status


def main() -> int:
    if sys.argv[1:2] == ["--client"]:
        client(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--users", type=int, default=USERS)
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("--logons", type=int, default=0)
    parser.add_argument("--out", type=Path)
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
