"""Ordinary clients. They work in sequence, and record the time of each request."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from proving.nfs_connections import wire
from proving.strangers import smb
from proving.strangers.stranger import Target

T = TypeVar("T")

PAUSE_S = 0.01
DATA = bytes(range(256)) * 16


class Times:
    """The duration of each request in seconds, and the failures."""

    def __init__(self) -> None:
        self.taken: list[float] = []
        self.failed: list[str] = []

    def of(self, what: str, function: Callable[[], T]) -> T | None:
        """Call a function and record its time. Returns its result, or None if it fails."""
        begun = time.monotonic()
        try:
            return function()
        except Exception as error:
            self.failed.append(f"{what}: {type(error).__name__} {error}")
            return None
        finally:
            self.taken.append(time.monotonic() - begun)


def over_smb(place: Target, until: float) -> Times:
    """Reads, writes, and regularly a new log-on."""
    times, client, number = Times(), None, 0
    while time.monotonic() < until:
        if client is None or number % 50 == 0:
            if client is not None:
                client.close()
            client = times.of("log-on", lambda: smb.Client(place.smb, place.source, place.user, place.password, place.share))
            if client is None:
                time.sleep(0.2)
                continue
        number += 1
        one = client
        file = times.of("open", lambda: one.create(f"good-{number % 7}"))
        if file is None:
            client.close()
            client = None
            continue
        times.of("write", lambda: one.write(file, DATA))
        if times.of("read", lambda: one.read(file, len(DATA))) != DATA:
            times.failed.append("read: other bytes than were written")
        times.of("close", lambda: one.close_file(file))
        time.sleep(PAUSE_S)
    if client is not None:
        client.close()
    return times


class Export:
    """A client with a session, and the share's directory."""

    def __init__(self, place: Target, number: int) -> None:
        self.connection = wire.Connection(place.nfs, place.source)
        self.connection.uid = place.uid
        known = self.connection.call([wire.exchange_id(b"good %d" % number, b"verifier")]).result(42)
        begun = self.connection.call([wire.create_session(known["client"], known["sequence"])]).result(43)
        self.session, self.sequence, self.client = begun["session"], 0, known["client"]
        self.do([wire.RECLAIM_COMPLETE])
        found = self.do([wire.PUTROOTFH, wire.lookup(place.share.encode()), wire.GETFH])
        self.directory = found.result(10)

    def do(self, operations: list[bytes]) -> Any:
        """Run operations in slot 0. Raises an exception if one fails."""
        self.sequence += 1
        first = wire.word(53) + self.session + wire.word(self.sequence, 0, 0, 0)
        answer = self.connection.call([first] + operations)
        if answer.status != wire.OK:
            raise wire.ConnectionLost(wire.name_of(answer.status))
        return answer

    def close(self) -> None:
        self.connection.close()


def over_nfs(place: Target, until: float) -> Times:
    """Opens, reads, writes, and regularly a new client."""
    times, client, number = Times(), None, 0
    while time.monotonic() < until:
        if client is None or number % 200 == 0:
            if client is not None:
                end(client)
            client = times.of("new client", lambda: Export(place, number))
            if client is None:
                time.sleep(0.2)
                continue
        number += 1
        one, name = client, b"nfs-%d-%d" % (number, time.monotonic_ns())
        opened = times.of("open", lambda: one.do([wire.putfh(one.directory), wire.open_new(name), wire.GETFH]))
        if opened is None:
            client.close()
            client = None
            continue
        state, handle = opened.result(18)["stateid"], opened.result(10)
        times.of("write", lambda: one.do([wire.putfh(handle), wire.write(state, 0, DATA)]))
        back = times.of("read", lambda: one.do([wire.putfh(handle), wire.read(state, 0, len(DATA))]))
        if back is not None and back.result(25)["data"] != DATA:
            times.failed.append("read: other bytes than were written")
        times.of("close", lambda: one.do([wire.putfh(handle), wire.close(state)]))
        times.of("remove", lambda: one.do([wire.putfh(one.directory), wire.remove(name)]))
        time.sleep(PAUSE_S)
    if client is not None:
        end(client)
    return times


def end(client: Export) -> None:
    """End a client properly."""
    try:
        client.connection.call([wire.destroy_session(client.session)])
        client.connection.call([wire.destroy_clientid(client.client)])
    except (wire.ConnectionLost, OSError):
        pass
    client.close()


CLIENTS = {"SMB": over_smb, "NFS": over_nfs}
