"""An NFSv4.1 client in whole messages (RFC 5531, 8881), for tests that control the bytes of each connection and their
timing.

The client retransmits nothing, chooses no slot and binds no connection on its own. `Connection` is one TCP connection;
`Session` counts the requests of its slots. The functions and constants named after operations encode them; `Reply`
decodes an answer.
"""

import os
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any, Self

LIMIT_S = 20
PROGRAM, VERSION, CALLBACK = 100003, 4, 0x40000000

OK, NOENT, EXIST = 0, 2, 17
(BADSESSION, BADSLOT, CONN_NOT_BOUND, DELAY, NOT_ONLY_OP, RETRY_UNCACHED_REP, SEQ_FALSE_RETRY, SEQ_MISORDERED, DEADSESSION) = (
    10052, 10053, 10055, 10008, 10081, 10068, 10076, 10063, 10078)
NAMES = {OK: "NFS4_OK", NOENT: "NFS4ERR_NOENT", EXIST: "NFS4ERR_EXIST", BADSESSION: "NFS4ERR_BADSESSION", BADSLOT: "NFS4ERR_BADSLOT",
         CONN_NOT_BOUND: "NFS4ERR_CONN_NOT_BOUND_TO_SESSION", DELAY: "NFS4ERR_DELAY", NOT_ONLY_OP: "NFS4ERR_NOT_ONLY_OP",
         RETRY_UNCACHED_REP: "NFS4ERR_RETRY_UNCACHED_REP", SEQ_FALSE_RETRY: "NFS4ERR_SEQ_FALSE_RETRY",
         SEQ_MISORDERED: "NFS4ERR_SEQ_MISORDERED", DEADSESSION: "NFS4ERR_DEADSESSION"}
# SEQ4_STATUS_*, FORE to BOTH of channel_dir_from_client4 and of channel_dir_from_server4
CB_PATH_DOWN, CB_PATH_DOWN_SESSION = 0x1, 0x200
FORE, BACK, FORE_OR_BOTH, BACK_OR_BOTH, BOTH = 1, 2, 3, 7, 3


def name_of(status: int) -> str:
    """Return the RFC's name of a status."""
    return NAMES.get(status, f"status {status}")


class ConnectionLost(Exception):
    """The connection is lost, or silent."""


def word(*numbers: int) -> bytes:
    return struct.pack(f">{len(numbers)}I", *numbers)


def long(number: int) -> bytes:
    return struct.pack(">Q", number)


def opaque(data: bytes) -> bytes:
    return word(len(data)) + data + bytes(-len(data) % 4)


def exchange_id(owner: bytes, verifier: bytes) -> bytes:
    return word(42) + verifier + opaque(owner) + word(0, 0, 0)


def create_session(client: int, sequence: int, slots: int = 64, back: bool = False) -> bytes:
    fore = word(0, 1 << 20, 1 << 20, 4096, 16, slots, 0)
    calls = word(0, 4096, 4096, 0, 8, 4, 0)
    return word(43) + long(client) + word(sequence, 2 if back else 0) + fore + calls + word(CALLBACK, 1, 0)


def bind(session: bytes, direction: int) -> bytes:
    return word(41) + session + word(direction, 0)


def destroy_session(session: bytes) -> bytes:
    return word(44) + session


RECLAIM_COMPLETE = word(58, 0)
PUTROOTFH, GETFH = word(24), word(10)


def destroy_clientid(client: int) -> bytes:
    return word(57) + long(client)


def lookup(name: bytes) -> bytes:
    return word(15) + opaque(name)


def putfh(handle: bytes) -> bytes:
    return word(22) + opaque(handle)


def open_new(name: bytes, owner: bytes = b"owner") -> bytes:
    """OPEN for reading and writing of a file that must not exist (GUARDED4)."""
    return word(18, 0, 3, 0) + long(0) + opaque(owner) + word(1, 1, 0, 0) + word(0) + opaque(name)


def open_old(name: bytes, access: int, owner: bytes = b"owner") -> bytes:
    """OPEN of an existing file."""
    return word(18, 0, access, 0) + long(0) + opaque(owner) + word(0) + word(0) + opaque(name)


def close(stateid: bytes) -> bytes:
    return word(4, 0) + stateid


def write(stateid: bytes, offset: int, data: bytes, stable: int = 0) -> bytes:
    return word(38) + stateid + long(offset) + word(stable) + opaque(data)


def read(stateid: bytes, offset: int, count: int) -> bytes:
    return word(25) + stateid + long(offset) + word(count)


def commit() -> bytes:
    return word(5) + long(0) + word(0)


def remove(name: bytes) -> bytes:
    return word(28) + opaque(name)


def delegreturn(stateid: bytes) -> bytes:
    return word(8) + stateid


class Cursor:
    """Decodes XDR."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def fixed(self, count: int) -> bytes:
        found = self._data[self._at:self._at + count]
        if len(found) < count:
            raise ConnectionLost("a reply that is cut short")
        self._at += count
        return found

    def word(self) -> int:
        return struct.unpack(">I", self.fixed(4))[0]

    def long(self) -> int:
        return struct.unpack(">Q", self.fixed(8))[0]

    def opaque(self) -> bytes:
        length = self.word()
        return self.fixed(length + -length % 4)[:length]

    def bitmap(self) -> list[int]:
        return [self.word() for _ in range(self.word())]


class Reply:
    """The answer to a COMPOUND: its status, and the results as (operation, status, result data)."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        r = Cursor(body)
        self.status = r.word()
        r.opaque()
        self.results = []
        for _ in range(r.word()):
            number, status = r.word(), r.word()
            self.results.append((number, status, _RESULTS[number](r) if status == OK and number in _RESULTS else None))

    def result(self, number: int) -> Any:
        """Return the result data of the operation with this number; None if it failed or is missing."""
        return next((value for n, status, value in self.results if n == number and status == OK), None)


def _exchange_id(r: Cursor) -> dict[str, Any]:
    found: dict[str, Any] = {"client": r.long(), "sequence": r.word(), "flags": r.word()}
    if r.word() != 0:
        raise ConnectionLost("state protection without a request for it")
    found["minor"], found["owner"], found["scope"] = r.long(), r.opaque(), r.opaque()
    for _ in range(r.word()):
        r.opaque(), r.opaque(), r.long(), r.word()
    return found


def _channel(r: Cursor) -> list[int]:
    words = [r.word() for _ in range(6)]
    for _ in range(r.word()):
        r.word()
    return words


def _create_session(r: Cursor) -> dict[str, Any]:
    session, sequence, flags = r.fixed(16), r.word(), r.word()
    fore, back = _channel(r), _channel(r)
    return {"session": session, "sequence": sequence, "flags": flags, "slots": fore[5], "back": back}


def _sequence(r: Cursor) -> dict[str, int]:
    r.fixed(16)
    sequence, slot, highest, target, flags = (r.word() for _ in range(5))
    return {"sequence": sequence, "slot": slot, "highest": highest, "target": target, "flags": flags}


def _open(r: Cursor) -> dict[str, Any]:
    found = {"stateid": r.fixed(16), "delegation": None}
    r.word(), r.long(), r.long(), r.word(), r.bitmap()
    kind = r.word()
    if kind in (1, 2):
        found["delegation"] = r.fixed(16)
        r.word()
        if kind == 2 and r.word() == 1:
            r.long()
        elif kind == 2:
            r.word(), r.word()
        r.word(), r.word(), r.word(), r.opaque()
    elif kind == 3 and r.word() in (1, 2):
        r.word()
    return found


def _read(r: Cursor) -> dict[str, Any]:
    return {"eof": r.word(), "data": r.opaque()}


def _write(r: Cursor) -> dict[str, Any]:
    return {"count": r.word(), "committed": r.word(), "verifier": r.fixed(8)}


_RESULTS = {
    42: _exchange_id, 43: _create_session, 53: _sequence, 18: _open, 25: _read, 38: _write,
    41: lambda r: {"session": r.fixed(16), "direction": r.word(), "rdma": r.word()},
    10: lambda r: r.opaque(), 4: lambda r: r.fixed(16), 5: lambda r: r.fixed(8), 28: lambda r: (r.word(), r.long(), r.long()),
}


class Connection:
    """One connection. Callbacks that arrive while it waits for an answer are kept in `called`."""

    def __init__(self, address: tuple[str, int], source: str | None = None) -> None:
        self.socket = socket.create_connection(address, timeout=LIMIT_S, source_address=source and (source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._xid = int.from_bytes(os.urandom(3), "big") << 8
        self._answers: dict[int, Reply] = {}
        self.called: list[tuple[int, bytes]] = []
        # The uid of the requests. The default is root.
        self.uid = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def reset(self) -> None:
        """Close the connection so that the server learns it at once."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def message(self, operations: Sequence[bytes]) -> tuple[int, bytes]:
        """Encode a COMPOUND with its record mark. Returns its number too."""
        self._xid += 1
        credential = opaque(word(0) + opaque(b"host") + word(self.uid, self.uid, 0))
        head = word(self._xid, 0, 2, PROGRAM, VERSION, 1, 1) + credential + word(0, 0)
        body = head + opaque(b"") + word(1, len(operations)) + b"".join(operations)
        return self._xid, word(0x80000000 | len(body)) + body

    def send(self, operations: Sequence[bytes]) -> int:
        """Send a COMPOUND. Returns its number."""
        xid, message = self.message(operations)
        try:
            self.socket.sendall(message)
        except OSError as error:
            raise ConnectionLost(str(error)) from error
        return xid

    def receive(self, xid: int) -> Any:
        """Return the answer to a COMPOUND."""
        while xid not in self._answers:
            self._take()
        return self._answers.pop(xid)

    def call(self, operations: Sequence[bytes]) -> Any:
        """Send a COMPOUND and wait for its answer."""
        return self.receive(self.send(operations))

    def wait_for_call(self, limit_s: float = LIMIT_S) -> Any:
        """Return the next callback: its number and its operations as bytes; None after the time limit."""
        end = time.monotonic() + limit_s
        while not self.called:
            left = end - time.monotonic()
            if left <= 0:
                return None
            self.socket.settimeout(left)
            try:
                self._take()
            except TimeoutError:
                return None
            finally:
                self.socket.settimeout(LIMIT_S)
        return self.called.pop(0)

    def answer_call(self, xid: int, session: bytes, sequence: int, slot: int) -> None:
        """Answer CB_SEQUENCE and CB_RECALL with success."""
        results = word(OK) + opaque(b"") + word(2, 11, OK) + session + word(sequence, slot, 3, 3) + word(4, OK)
        body = word(xid, 1, 0, 0, 0, 0) + results
        self.socket.sendall(word(0x80000000 | len(body)) + body)

    def _take(self) -> None:
        data = b""
        while True:
            mark = struct.unpack(">I", self._exactly(4))[0]
            data += self._exactly(mark & 0x7fffffff)
            if mark >> 31:
                break
        r = Cursor(data)
        xid, kind = r.word(), r.word()
        if kind == 0:
            self.called.append((xid, data))
            return
        if r.word() != 0:
            raise ConnectionLost("the server has rejected a call")
        r.word(), r.opaque()
        if (accepted := r.word()) != 0:
            raise ConnectionLost(f"RPC status {accepted}")
        self._answers[xid] = Reply(data[24:])

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            try:
                part = self.socket.recv(count - len(data))
            except TimeoutError:
                raise
            except OSError as error:
                raise ConnectionLost(str(error)) from error
            if not part:
                raise ConnectionLost("the server has closed the connection")
            data += part
        return data


class Session:
    """A separate client with one session, created over `connection`."""

    def __init__(self, connection: Connection, slots: int = 64, back: bool = False) -> None:
        known = connection.call([exchange_id(b"connections " + os.urandom(8).hex().encode(), os.urandom(8))]).result(42)
        made = connection.call([create_session(known["client"], known["sequence"], slots, back)]).result(43)
        self.client, self.id, self.slots = known["client"], made["session"], made["slots"]
        self._sequences = [0] * self.slots
        connection.call([self.sequence(0), RECLAIM_COMPLETE])

    def sequence(self, slot: int, cache: bool = False) -> Any:
        """Return the SEQUENCE of the next request of a slot."""
        self._sequences[slot] += 1
        return self.at(slot, self._sequences[slot], cache)

    def at(self, slot: int, sequence: int, cache: bool = False, highest: int | None = None) -> Any:
        """Return a SEQUENCE with any number."""
        return word(53) + self.id + word(sequence, slot, slot if highest is None else highest, int(cache))

    def number(self, slot: int) -> Any:
        """Return the number of the last request of a slot."""
        return self._sequences[slot]

    def end(self, connection: Connection) -> None:
        """End the session and the client."""
        connection.call([destroy_session(self.id)])
        connection.call([destroy_clientid(self.client)])
