#!/usr/bin/env python3
"""Count log-ons a second with Kerberos tickets and with NTLM, and the server's CPU time for each.

    logons.py [--rounds N] [--logons N] [--clients N] [--json FILE]

The domain is Samba's Active Directory in a network namespace of its own, and the server is its member. Each round
measures the ways in turn: NTLM of a local user, a ticket with few groups, and one with 200 SIDs in its PAC. The clients
are processes with MIT's library (python3-gssapi) and a small SMB 3.1.1 client. They make their AP-REQs before the clock
starts, and answer challenges while it runs. Each log-on ends with LOGOFF. Clients and server share the processors.
"""

import argparse
import hashlib
import hmac
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.strangers import smb

HERE = Path(__file__).resolve()
# Debian's own Python has Debian's python3-gssapi.
PYTHON = "/usr/bin/python3"
HOST, PORT = "files.corp.example", 4450
LOCAL, LOCAL_PASSWORD = "local", "Local-Word-1"
CONNECTIONS, BATCH = 8, 8
MORE, LOGOFF, LIMIT_S = 0xC0000016, 2, 120
# MS-SMB2 2.2.3: the dialect 3.1.1 with SHA-512 for the pre-authentication integrity.
_SHA512 = struct.pack("<HHIHHH32s", 1, 38, 0, 1, 32, 1, bytes(32))
NEGOTIATE_BODY = struct.pack("<HHHHI16sIHHH2x", 36, 1, 1, 0, 0, os.urandom(16), 104, 1, 0, 0x0311) + _SHA512
LOGOFF_BODY = struct.pack("<HH", 4, 0)
# The goals: log-ons a second, and the CPU time of a ticket in that of NTLM.
GOALS = {"ticket": 3000, "ticket, 200 SIDs": 1500}
MOST_CPU = 1.5


class Link:
    """A connection that sends requests in batches."""

    def __init__(self) -> None:
        self.socket = smb.connect((socket.gethostbyname(HOST), PORT))
        self.number = 0
        self.send(smb.NEGOTIATE, [(0, NEGOTIATE_BODY)])
        status, _, _ = self.receive(1)[0]
        assert status == 0, hex(status)

    def send(self, command: int, requests: list[tuple[int, bytes]]) -> None:
        """Send requests, each with the session that it is for."""
        frames = []
        for session, body in requests:
            frames.append(smb.message(command, self.number, body, session, 0, 64, 1))
            self.number += 1
        self.socket.sendall(b"".join(frames))

    def receive(self, count: int) -> list[tuple[int, int, bytes]]:
        """Return status, session and body of the answers, in the order of the requests."""
        first = self.number - count
        found: dict[int, tuple[int, int, bytes]] = {}
        while len(found) < count:
            header, body = smb.receive(self.socket)
            status, number = struct.unpack_from("<I", header, 8)[0], struct.unpack_from("<Q", header, 24)[0]
            if status != smb.PENDING:
                found[number] = status, struct.unpack_from("<Q", header, 40)[0], body
        return [found[first + at] for at in range(count)]


class Ntlm:
    """Log-ons with the password of a local user (MS-NLMP 3.3.2)."""

    has_challenge = True
    flags = 0x00088205

    def __init__(self, _: int) -> None:
        self.key = hmac.new(smb.md4(LOCAL_PASSWORD.encode("utf-16le")), LOCAL.upper().encode("utf-16le"), hashlib.md5).digest()
        self.now = int((time.time() + 11644473600) * 10_000_000)

    def first(self) -> bytes:
        """The first token."""
        return smb.NTLM_NEGOTIATE

    def second(self, challenge: bytes) -> bytes:
        """The answer to a CHALLENGE."""
        length, _, at = struct.unpack_from("<HHI", challenge, 40)
        blob = struct.pack("<BB6xQ8s4x", 1, 1, self.now, os.urandom(8)) + challenge[at:at + length] + bytes(4)
        answer = hmac.digest(self.key, challenge[24:32] + blob, "md5") + blob
        fields, payload = b"", b""
        for part in (bytes(24), answer, b"", LOCAL.encode("utf-16le"), b"", b""):
            fields += struct.pack("<HHI", len(part), len(part), 64 + len(payload))
            payload += part
        return b"NTLMSSP\0" + struct.pack("<I", 3) + fields + struct.pack("<I", self.flags) + payload


class Ticket:
    """Log-ons with tickets of the credential cache. No two have the same AP-REQ."""

    has_challenge = False

    def __init__(self, count: int) -> None:
        from proving.kerberos.tokens import KERBEROS, context, init, mech_list
        mechs = mech_list(KERBEROS)
        self.tokens = [init(mechs, context(f"cifs@{HOST}").step()) for _ in range(count)]

    def first(self) -> bytes:
        """The next token."""
        return self.tokens.pop()


def client(way: str, count: int) -> None:
    """One process of a round: log on `count` times, once standard input says so."""
    way_of = Ntlm if way == "ntlm" else Ticket
    logon: Any = way_of(count)
    links = [Link() for _ in range(CONNECTIONS)]
    print("ready", flush=True)
    sys.stdin.readline()
    done = 0
    while done < count:
        for link in links:
            link.send(smb.SESSION_SETUP, [(0, smb.setup_body(logon.first())) for _ in range(BATCH)])
        answers = [link.receive(BATCH) for link in links]
        if logon.has_challenge:
            for link, all_of in zip(links, answers, strict=True):
                assert all(status == MORE for status, _, _ in all_of), all_of[0]
                sent = []
                for _, session, body in all_of:
                    at, size = struct.unpack_from("<HH", body, 4)
                    sent.append((session, smb.setup_body(logon.second(body[at - 64:at - 64 + size]))))
                link.send(smb.SESSION_SETUP, sent)
            answers = [link.receive(BATCH) for link in links]
        for link, all_of in zip(links, answers, strict=True):
            assert all(status == 0 for status, _, _ in all_of), [hex(status) for status, _, _ in all_of]
            link.send(LOGOFF, [(session, LOGOFF_BODY) for _, session, _ in all_of])
        for link in links:
            assert all(status == 0 for status, _, _ in link.receive(BATCH))
        done += CONNECTIONS * BATCH
    print("done", flush=True)


@dataclass(frozen=True)
class Sample:
    """Log-ons a second, and µs of the server's processors for each."""

    rate: float
    cpu_us: float


def measure(inside: Any, way: str, variables: dict[str, str], count: int, clients: int, pid: int) -> Sample:
    """One turn of a round."""
    from proving.bench import cpu

    step = CONNECTIONS * BATCH
    each = -(-count // clients // step) * step
    command = inside(["env", *(f"{key}={value}" for key, value in variables.items()), PYTHON, str(HERE), "--client", way, str(each)])
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(clients)]
    try:
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "ready\n", f"a client of {way} does not start"
        used, begun = cpu.seconds(pid), time.monotonic()
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        for process in processes:
            assert process.stdout is not None and process.stdout.readline() == "done\n", f"a log-on of {way} failed"
        took, used = time.monotonic() - begun, cpu.seconds(pid) - used
        return Sample(each * clients / took, used / (each * clients) * 1e6)
    finally:
        for process in processes:
            process.kill()
            process.wait(10)


def run(options: argparse.Namespace) -> int:
    """Measure in a domain of its own."""
    from proving.bench import spread
    from proving.harness.tally import Tally, skip_whole_suite
    from proving.kerberos.active_directory import PASSWORD, USERS, ActiveDirectory
    from proving.kerberos.domain import MAPPING, Member, Served

    tally = Tally("logons")
    if reason := ActiveDirectory().missing():
        skip_whole_suite("logons", reason)
    groups = {f"team{number:03}": {"members": ["many"]} for number in range(200)}
    ways: dict[str, tuple[str, dict[str, str]]] = {"NTLM": ("ntlm", {})}
    samples: dict[str, list[Sample]] = {}
    with tempfile.TemporaryDirectory(prefix="logons-") as base, \
            ActiveDirectory(users={**USERS, "many": {"password": PASSWORD}}, groups=groups) as domain:
        directory = Path(base)
        member = Member(domain.network.inside, directory)
        member.must("join", domain.realm, "--password-file", "-", "--host", HOST, "--computer-name", "FILES", stdin=PASSWORD)
        for user, name in (("bob", "ticket"), ("many", "ticket, 200 SIDs")):
            cache = {"KRB5CCNAME": f"FILE:{directory}/cache-{user}"}
            domain.network.run("kinit", user, stdin=PASSWORD + "\n", variables=cache)
            ways[name] = ("ticket", cache)
        password = directory / "password"
        password.write_text(LOCAL_PASSWORD)
        password.chmod(0o600)
        local = f'[[user]]\nname = "{LOCAL}"\npassword_file = "{password}"\nuid = 1000\ngid = 1000\n'
        with Served(member, MAPPING + local, spn="accepted") as served:
            for number in range(options.rounds + 1):
                for name, (way, cache) in ways.items():
                    sample = measure(domain.network.inside, way, cache, options.logons, options.clients, served.pid)
                    # The first round warms up.
                    if number:
                        samples.setdefault(name, []).append(sample)
    found = {name: {"rate": spread.of(one.rate for one in all_of), "cpu_us": spread.of(one.cpu_us for one in all_of)}
             for name, all_of in samples.items()}
    for name, values in found.items():
        print(f"        {name}: {values['rate'].told(0)} a second, {values['cpu_us'].told(0)} µs of the server's CPU", flush=True)
    for name, least in GOALS.items():
        rate, share = found[name]["rate"].median, found[name]["cpu_us"].median / found["NTLM"]["cpu_us"].median
        tally.add("pass" if rate >= least else "fail", f"{name}: {least:,} a second", "" if rate >= least else f"{rate:,.0f}")
        fits = share <= MOST_CPU or name != "ticket"
        tally.add("pass" if fits else "fail", f"{name}: {share:.2f} times NTLM's CPU", "" if fits else f"more than {MOST_CPU}")
    if options.json:
        options.json.write_text(json.dumps({name: {key: value._asdict() for key, value in values.items()} for name, values in found.items()}))
    return tally.close()


def main() -> int:
    if sys.argv[1:2] == ["--client"]:
        socket.setdefaulttimeout(LIMIT_S)
        client(sys.argv[2], int(sys.argv[3]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--logons", type=int, default=4096)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--json", type=Path)
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
