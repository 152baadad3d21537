#!/usr/bin/env python3
"""Count log-ons a second with Kerberos tickets and with NTLM, and the server's CPU time for each.

    logons.py [--rounds N] [--logons N] [--clients N] [--json FILE]

The domain is Samba's Active Directory in a network namespace of its own, and the server is its member. Each round
measures the ways in turn: NTLM of a local user, a ticket with few groups, and one with 200 SIDs in its PAC. The clients
are processes with MIT's library (python3-gssapi) and a small SMB 3.1.1 client. They make their AP-REQs before the clock
starts, and answer challenges while it runs. Each log-on has a connection of its own, as those of real clients have, and
ends with LOGOFF. Clients and server share the processors.
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
# Log-ons of a process at once. One address may have so many connections before it logs on.
CONNECTIONS = 8
MORE, LOGOFF, LIMIT_S = 0xC0000016, 2, 120
# MS-SMB2 2.2.3: the dialect 3.1.1 with SHA-512 for the pre-authentication integrity.
_SHA512 = struct.pack("<HHIHHH32s", 1, 38, 0, 1, 32, 1, bytes(32))
NEGOTIATE_BODY = struct.pack("<HHHHI16sIHHH2x", 36, 1, 1, 0, 0, os.urandom(16), 104, 1, 0, 0x0311) + _SHA512
LOGOFF_BODY = struct.pack("<HH", 4, 0)
# The goals: log-ons a second, and the CPU time of a ticket in that of NTLM.
GOALS = {"ticket": 3000, "ticket, 200 SIDs": 1500}
MOST_CPU = 1.5


class Link:
    """A connection."""

    def __init__(self) -> None:
        # Linux uses a port again at once only where the address is one of the loopback network.
        self.socket = smb.connect(("127.0.0.1", PORT))
        self.number = self.session = 0
        self.send(smb.NEGOTIATE, NEGOTIATE_BODY)

    def send(self, command: int, body: bytes) -> None:
        """Send a request."""
        self.socket.sendall(smb.message(command, self.number, body, self.session, 0, 64, 1))
        self.number += 1

    def receive(self, wanted: int = 0) -> bytes:
        """Return the token of the answer, which has the status `wanted`."""
        status = smb.PENDING
        while status == smb.PENDING:
            header, body = smb.receive(self.socket)
            status = struct.unpack_from("<I", header, 8)[0]
        assert status == wanted, hex(status)
        self.session = struct.unpack_from("<Q", header, 40)[0]
        at, size = struct.unpack_from("<HH", body, 4) if len(body) > 8 else (64, 0)
        return body[at - 64:at - 64 + size]


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
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(count // CONNECTIONS):
        links = [Link() for _ in range(CONNECTIONS)]
        for link in links:
            link.receive()
            link.send(smb.SESSION_SETUP, smb.setup_body(logon.first()))
        for link in links:
            token = link.receive(MORE if logon.has_challenge else 0)
            if logon.has_challenge:
                link.send(smb.SESSION_SETUP, smb.setup_body(logon.second(token)))
        for link in links:
            if logon.has_challenge:
                link.receive()
            link.send(LOGOFF, LOGOFF_BODY)
        for link in links:
            link.receive()
            link.socket.close()
    print("done", flush=True)


@dataclass(frozen=True)
class Sample:
    """Log-ons a second, and µs of the server's processors for each."""

    rate: float
    cpu_us: float


def measure(inside: Any, way: str, variables: dict[str, str], count: int, clients: int, pid: int) -> Sample:
    """One turn of a round."""
    from proving.bench import cpu

    each = -(-count // clients // CONNECTIONS) * CONNECTIONS
    named = [f"{key}={value}" for key, value in variables.items()]
    command = inside(["env", *named, PYTHON, str(HERE), "--client", way, str(each)])
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
    shares = {name: values["cpu_us"].median / found["NTLM"]["cpu_us"].median for name, values in found.items()}
    for name, values in found.items():
        print(f"        {name}: {values['rate'].told(0)} a second, {values['cpu_us'].told(0)} µs of the server's CPU, "
              f"{shares[name]:.2f} times NTLM's", flush=True)
    for name, least in GOALS.items():
        rate = found[name]["rate"].median
        tally.add("pass" if rate >= least else "fail", f"{name}: {least:,} a second", "" if rate >= least else f"{rate:,.0f}")
    fits = shares["ticket"] <= MOST_CPU
    tally.add("pass" if fits else "fail", f"ticket: at most {MOST_CPU} times NTLM's CPU", "" if fits else f"{shares['ticket']:.2f}")
    if options.json:
        options.json.write_text(json.dumps(found))
    return tally.close()


def main() -> int:
    if sys.argv[1:2] == ["--client"]:
        socket.setdefaulttimeout(LIMIT_S)
        client(sys.argv[2], int(sys.argv[3]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--logons", type=int, default=1536)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--json", type=Path)
    return run(parser.parse_args())


if __name__ == "__main__":
    sys.exit(main())
