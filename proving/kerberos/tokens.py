#!/usr/bin/env python3
"""A foreign GSSAPI (python3-gssapi over MIT's library) that sends good, replayed, cut and changed tokens in SESSION_SETUP.

    tokens.py PORT SERVICE@HOST OTHER@HOST COUNT SEED    with KRB5_CONFIG and KRB5CCNAME of a client that has a ticket

The server has no key of the other service, whose host's name is as long.

Prints a line of JSON: how many of each kind were let in, and the statuses of those that were not.
"""

import contextlib
import json
import random
import socket
import struct
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import gssapi

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.strangers import smb

SPNEGO, KERBEROS = bytes.fromhex("06062b0601050502"), bytes.fromhex("06092a864886f712010202")
MICROSOFT, NEGOEX = bytes.fromhex("06092a864882f712010202"), bytes.fromhex("060a2b06010401823702021e")
SUCCESS, MORE = 0, 0xC0000016
# Connections, and log-ons on each at once; the server allows 16.
LINKS, DEPTH = 4, 12


def der(tag: int, content: bytes) -> bytes:
    """One element of DER."""
    size = len(content)
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag]) + (bytes([size]) if size < 128 else bytes([0x80 | len(digits)]) + digits) + content


def mech_list(*mechs: bytes) -> bytes:
    """The MechTypeList of RFC 4178."""
    return der(0x30, b"".join(mechs))


def init(mechs: bytes, token: bytes | None) -> bytes:
    """NegTokenInit (RFC 4178 section 4.2.1)."""
    fields = der(0xA0, mechs) + (der(0xA2, der(4, token)) if token else b"")
    return der(0x60, SPNEGO + der(0xA0, der(0x30, fields)))


def response(token: bytes | None, mic: bytes | None = None) -> bytes:
    """NegTokenResp (RFC 4178 section 4.2.2)."""
    fields = (der(0xA2, der(4, token)) if token else b"") + (der(0xA3, der(4, mic)) if mic else b"")
    return der(0xA1, der(0x30, fields))


def elements(data: bytes) -> dict[int, bytes]:
    """The elements of a DER string, by tag."""
    found = {}
    while data:
        size, at = data[1], 2
        if size & 0x80:
            at += size & 0x7F
            size = int.from_bytes(data[2:at], "big")
        found[data[0]], data = data[at:at + size], data[at + size:]
    return found


def fields(token: bytes) -> dict[int, bytes]:
    """The fields of a NegTokenResp."""
    return elements(elements(elements(token)[0xA1])[0x30])


class Link:
    """A connection with one log-on."""

    def __init__(self, port: int) -> None:
        self._socket = smb.connect(("127.0.0.1", port))
        self._number = self._session = 0
        self._call(smb.NEGOTIATE, smb.NEGOTIATE_BODY)

    def _call(self, command: int, body: bytes) -> tuple[int, bytes]:
        self._socket.sendall(smb.message(command, self._number, body, self._session, 0, 16))
        self._number += 1
        header, body = smb.receive(self._socket)
        self._session = struct.unpack_from("<Q", header, 40)[0]
        return struct.unpack_from("<I", header, 8)[0], body

    def set_up(self, token: bytes) -> tuple[int, bytes]:
        """Send a token; returns the status and the server's token."""
        status, body = self._call(smb.SESSION_SETUP, smb.setup_body(token))
        if status not in (SUCCESS, MORE):
            self._session = 0
            return status, b""
        at, size = struct.unpack_from("<HH", body, 4)
        return status, body[at - 64:at - 64 + size]

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> "Link":
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def context(service: str, credentials: Any = None) -> Any:
    """A fresh context of a client, whose server must prove itself. Without credentials it has those of the environment."""
    name = gssapi.Name(service, gssapi.NameType.hostbased_service)
    flags = gssapi.RequirementFlag.mutual_authentication | gssapi.RequirementFlag.integrity
    return gssapi.SecurityContext(name=name, creds=credentials, usage="initiate", mech=gssapi.MechType.kerberos, flags=flags)


def set_up_once(port: int, token: bytes) -> int:
    """The status of a token on a connection of its own."""
    with Link(port) as link:
        try:
            return link.set_up(token)[0]
        except (smb.ConnectionLost, OSError):
            return -1


def forms(port: int, service: str) -> dict[str, int]:
    """Statuses of whole log-ons in each form, with the server's proof checked by the library."""
    found = {}
    for name, mechs in {"kerberos": mech_list(KERBEROS), "microsoft": mech_list(MICROSOFT, KERBEROS)}.items():
        client = context(service)
        with Link(port) as link:
            found[name], reply = link.set_up(init(mechs, client.step()))
        client.step(elements(fields(reply)[0xA2])[4])
        assert client.complete
    client = context(service)
    with Link(port) as link:
        found["bare"], reply = link.set_up(client.step())
    client.step(reply)
    return found


def second_choice(port: int, service: str, change: bool) -> int:
    """The status of a log-on in which Kerberos is not the first choice, so that both sides vouch for the list. With `change`, the
    server has got another list than the client has sent."""
    sent, client = mech_list(NEGOEX, KERBEROS), context(service)
    got = mech_list(NEGOEX[:-1] + b"\x1f", KERBEROS) if change else sent
    with Link(port) as link:
        link.set_up(init(got, b"for another mechanism"))
        status, reply = link.set_up(response(client.step()))
        if status != MORE:
            return status
        parts = fields(reply)
        client.step(elements(parts[0xA2])[4])
        if not change:
            client.verify_signature(sent, elements(parts[0xA3])[4])
        return link.set_up(response(None, client.get_signature(sent)))[0]


class Crowd:
    """Connections that carry many log-ons at once, so that many tokens cost little time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._links = [self._connect() for _ in range(LINKS)]
        self.statuses = Counter[int]()

    def _connect(self) -> tuple[socket.socket, int]:
        plain = smb.connect(("127.0.0.1", self._port))
        plain.sendall(smb.message(smb.NEGOTIATE, 0, smb.NEGOTIATE_BODY, credits=64))
        smb.receive(plain)
        return plain, 1

    def send(self, tokens: list[bytes]) -> None:
        """Send tokens, each as a log-on of its own, and count the statuses. A lost connection counts as -1."""
        parts = [tokens[at::LINKS] for at in range(LINKS)]
        for (plain, number), part in zip(self._links, parts, strict=True):
            with contextlib.suppress(OSError):
                plain.sendall(b"".join(smb.message(smb.SESSION_SETUP, number + at, smb.setup_body(token), credits=32)
                                       for at, token in enumerate(part)))
        for at, part in enumerate(parts):
            plain, number = self._links[at]
            seen = Counter(self._statuses(plain, len(part)))
            self.statuses += seen
            self._links[at] = plain, number + len(part)
            # A log-on that goes on or has gone well keeps its place.
            if seen.keys() & {SUCCESS, MORE, -1}:
                plain.close()
                self._links[at] = self._connect()

    @staticmethod
    def _statuses(plain: socket.socket, count: int) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            try:
                status: int = struct.unpack_from("<I", smb.receive(plain)[0], 8)[0]
            except (smb.ConnectionLost, OSError):
                return found + [-1] * (count - len(found))
            if status != smb.PENDING:
                found.append(status)
        return found

    def close(self) -> None:
        for plain, _ in self._links:
            plain.close()


def forged(service: str, other: str) -> bytes:
    """A request whose ticket is for another service with a key that the server does not have, under the name of `service`."""
    mine, its = (name.partition("@")[2].encode() for name in (service, other))
    assert len(mine) == len(its)
    token: bytes = context(other).step()
    assert its in token
    return init(mech_list(KERBEROS), token.replace(its, mine))


def bad_token(number: int, service: str, other: str, good: bytes, dice: random.Random) -> bytes:
    """One of the bad tokens.

    Most are those of a request that counted before, so that not even a change of an unprotected byte lets it in again. One in ten
    is of a request that never came before, with a change in what is encrypted: its end is the authenticator.
    """
    kind, token = number % 20, bytearray(good)
    if kind in (0, 10):
        token = bytearray(init(mech_list(KERBEROS), context(service).step()))
        token[-1 - dice.randrange(150)] ^= 1 << dice.randrange(8)
    elif kind == 1:
        return forged(service, other)
    elif kind == 2:
        return good
    elif kind in (3, 7, 11, 15, 19):
        del token[dice.randrange(len(token)):]
    elif kind == 4:
        at = dice.randrange(len(token))
        token[at:at + dice.randrange(1, 64)] = dice.randbytes(dice.randrange(64))
    else:
        token[dice.randrange(len(token))] ^= 1 << dice.randrange(8)
    return bytes(token)


def bad_tokens(port: int, service: str, other: str, count: int, seed: int) -> Counter[int]:
    """The statuses of forged, replayed, cut and changed tokens."""
    dice, crowd, good = random.Random(seed), Crowd(port), b""
    for begin in range(0, count, LINKS * DEPTH):
        # An old request is refused for its age alone.
        if begin % (40 * LINKS * DEPTH) == 0:
            good = init(mech_list(KERBEROS), context(service).step())
            assert set_up_once(port, good) == SUCCESS
        numbers = range(begin, min(begin + LINKS * DEPTH, count))
        crowd.send([bad_token(number, service, other, good, dice) for number in numbers])
    crowd.close()
    return crowd.statuses


def main() -> None:
    port, service, other, count, seed = int(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5])
    socket.setdefaulttimeout(20)
    found: dict[str, Any] = {"forms": forms(port, service)}
    token = init(mech_list(KERBEROS), context(service).step())
    found["replay"] = [set_up_once(port, token) for _ in range(3)]
    found["mic"] = second_choice(port, service, change=False)
    found["changed list"] = second_choice(port, service, change=True)
    statuses = bad_tokens(port, service, other, count, seed)
    found["let in"] = statuses[SUCCESS]
    found["statuses"] = {f"{status & 0xFFFFFFFF:#x}": many for status, many in statuses.items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main()
