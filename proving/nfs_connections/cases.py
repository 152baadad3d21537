"""The rules of RFC 8881 for many connections of one session; run.py selects the server.

A case is a function with its section. Its argument is an `NfsTestServer`, and it fails with `CaseFailed`. Where a
server may choose, each choice is accepted.
"""

import os
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proving.nfs_connections import wire
from proving.nfs_connections.wire import (
    BACK,
    BACK_OR_BOTH,
    BADSESSION,
    BOTH,
    CB_PATH_DOWN,
    CB_PATH_DOWN_SESSION,
    CONN_NOT_BOUND,
    DEADSESSION,
    DELAY,
    FORE,
    FORE_OR_BOTH,
    NOT_ONLY_OP,
    OK,
    RETRY_UNCACHED_REP,
    SEQ_FALSE_RETRY,
    SEQ_MISORDERED,
    Connection,
    ConnectionLost,
    Session,
    name_of,
)

# The time limit for a request that no other connection may delay.
SOON_S = 10


Case = Callable[["NfsTestServer"], None]
# By name, with the section of RFC 8881.
CASES: dict[str, tuple[str, Case]] = {}


class CaseFailed(Exception):
    """A check of a case failed."""


class Skip(Exception):
    """The case does not apply to this server."""


def case(section: str) -> Callable[[Case], Case]:
    """Register a case with its section."""
    def register(function: Case) -> Case:
        CASES[function.__name__] = (section, function)
        return function
    return register


def expect(holds: object, what: str) -> None:
    if not holds:
        raise CaseFailed(what)


def expect_status(reply: wire.Reply, wanted: int | tuple[int, ...], what: str) -> wire.Reply:
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    expect(reply.status in wanted, f"{what}: {name_of(reply.status)}, and {' or '.join(map(name_of, wanted))} is wanted")
    return reply


class NfsTestServer:
    """The server, and its served directory by both paths: over NFS and on this machine."""

    def __init__(self, address: tuple[str, int], share: bytes, directory: Path) -> None:
        self.address, self.share, self.directory = address, share, directory
        self._opened: list[Connection] = []

    def connect(self) -> Any:
        """Open a new connection, which is closed after the case."""
        self._opened.append(Connection(self.address))
        return self._opened[-1]

    def root(self) -> list[bytes]:
        """Return the operations that lead to the share."""
        return [wire.PUTROOTFH, wire.lookup(self.share)]

    def close(self) -> None:
        for connection in self._opened:
            connection.close()
        self._opened = []

    def make(self, connection: wire.Connection, session: wire.Session, name: bytes) -> tuple[bytes, bytes]:
        """Create a file. Returns its handle and the stateid of its open."""
        made = connection.call([session.sequence(0), *self.root(), wire.open_new(name), wire.GETFH])
        expect_status(made, OK, "OPEN")
        return made.result(10), made.result(18)["stateid"]


def fresh(prefix: str) -> bytes:
    """Return an unused name."""
    return prefix.encode() + b"-" + os.urandom(6).hex().encode()


@case("2.10.3.1")
def a_connection_is_bound_by_its_first_sequence(server: NfsTestServer) -> None:
    first, second = server.connect(), server.connect()
    session = Session(first)
    expect_status(second.call([session.sequence(0), *server.root()]), OK, "SEQUENCE on a new connection")
    first.close()
    expect_status(second.call([session.sequence(0), *server.root()]), OK, "when the first is gone")
    session.end(second)


@case("2.10.6.1.3")
def a_retry_on_another_connection_gets_the_same_reply(server: NfsTestServer) -> None:
    first, second = server.connect(), server.connect()
    session, name = Session(first), fresh("retry")
    request = [session.sequence(3, cache=True), *server.root(), wire.open_new(name), wire.GETFH]
    answer = expect_status(first.call(request), OK, "the request")
    again = second.call(request)
    expect(again.body == answer.body, f"the retry is answered {name_of(again.status)}, and differs from the reply")
    expect_status(second.call([session.sequence(3), wire.PUTROOTFH]), OK, "the slot goes on")
    session.end(second)


@case("2.10.6.1.3, 18.46.3")
def a_retry_that_names_another_highest_slot_is_a_retry(server: NfsTestServer) -> None:
    first, second = server.connect(), server.connect()
    session, name = Session(first), fresh("highest")
    rest = [*server.root(), wire.open_new(name), wire.GETFH]
    answer = expect_status(first.call([session.sequence(3, cache=True), *rest]), OK, "the request")
    # Linux names the slots in use when it sends the request again.
    again = second.call([session.at(3, session.number(3), cache=True, highest=9), *rest])
    expect(again.body == answer.body, f"the retry is answered {name_of(again.status)}, and differs from the reply")
    session.end(second)


@case("2.10.6.1.3")
def a_retry_whose_reply_was_not_to_be_kept_is_not_done_again(server: NfsTestServer) -> None:
    first, second = server.connect(), server.connect()
    session, name = Session(first), fresh("uncached")
    request = [session.sequence(2), *server.root(), wire.open_new(name), wire.GETFH]
    expect_status(first.call(request), OK, "the request")
    # A server may keep the reply nevertheless.
    expect_status(second.call(request), (RETRY_UNCACHED_REP, OK), "the retry")
    session.end(second)


@case("2.10.6.2")
def what_was_sent_on_a_lost_connection_is_done_once(server: NfsTestServer) -> None:
    second = server.connect()
    session = Session(second)
    for number in range(20):
        first, name = server.connect(), fresh("lost")
        request = [session.sequence(1, cache=True), *server.root(), wire.open_new(name), wire.GETFH]
        first.send(request)
        # With and without time for the server to execute it.
        time.sleep(0.01 * (number % 3))
        first.reset()
        answer = _retry(second, request)
        expect_status(answer, OK, f"the retry of request {number}, which makes a file that must be new")
    session.end(second)


def _retry(connection: wire.Connection, request: list[bytes]) -> Any:
    """Repeat the request until the server has finished the first attempt."""
    end = time.monotonic() + wire.LIMIT_S
    while True:
        answer = connection.call(request)
        if answer.status != DELAY or time.monotonic() > end:
            return answer
        time.sleep(0.02)


@case("2.10.6.1.3")
def the_same_request_on_two_connections_at_once_is_done_once(server: NfsTestServer) -> None:
    first, second = server.connect(), server.connect()
    session = Session(first)
    for number in range(30):
        name = fresh("twice")
        request = [session.sequence(1, cache=True), *server.root(), wire.open_new(name), wire.GETFH]
        one, other = first.send(request), second.send(request)
        answers = [first.receive(one), second.receive(other)]
        statuses = sorted(answer.status for answer in answers)
        expect(statuses[0] == OK and statuses[1] in (OK, DELAY, RETRY_UNCACHED_REP),
               f"round {number}: answered {' and '.join(name_of(status) for status in statuses)}")
    session.end(first)


@case("2.10.6.1.3.1")
def another_request_under_the_same_number_is_a_false_retry(server: NfsTestServer) -> None:
    first, second = server.connect(), server.connect()
    session = Session(first)
    begin = session.sequence(0, cache=True)
    expect_status(first.call([begin, wire.PUTROOTFH, wire.GETFH]), OK, "the request")
    expect_status(second.call([begin, *server.root(), wire.GETFH]), SEQ_FALSE_RETRY, "another one")
    session.end(second)


@case("18.46.3")
def numbers_are_counted_over_all_connections(server: NfsTestServer) -> None:
    first, second = server.connect(), server.connect()
    session = Session(first)
    expect_status(first.call([session.sequence(4), wire.PUTROOTFH]), OK, "1 on the first connection")
    expect_status(second.call([session.at(4, 3), wire.PUTROOTFH]), SEQ_MISORDERED, "3 on the second")
    expect_status(second.call([session.sequence(4), wire.PUTROOTFH]), OK, "2 on the second")
    expect_status(first.call([session.at(4, 1), wire.PUTROOTFH]), SEQ_MISORDERED, "1 again")
    session.end(first)


@case("18.34.3")
def binding_stands_alone(server: NfsTestServer) -> None:
    first, second = server.connect(), server.connect()
    session = Session(first)
    expect_status(second.call([session.sequence(0), wire.bind(session.id, FORE)]), NOT_ONLY_OP, "behind SEQUENCE")
    expect_status(second.call([wire.bind(session.id, FORE), wire.PUTROOTFH]), NOT_ONLY_OP, "in front of PUTROOTFH")
    expect_status(second.call([wire.bind(bytes(16), FORE)]), BADSESSION, "to no session")
    for asked, given in ((FORE, (FORE,)), (BACK, (BACK,)), (FORE_OR_BOTH, (FORE, BOTH)), (BACK_OR_BOTH, (BACK, BOTH))):
        bound = expect_status(server.connect().call([wire.bind(session.id, asked)]), OK, f"direction {asked}").result(41)
        expect(bound["direction"] in given and bound["session"] == session.id, f"{asked} gives {bound['direction']}")
    session.end(first)


@case("18.46.3, 2.10.3.1")
def a_session_says_when_it_cannot_be_called(server: NfsTestServer) -> None:
    first, second = server.connect(), server.connect()
    session = Session(first)
    flags = second.call([session.sequence(0)]).result(53)["flags"]
    expect(flags & (CB_PATH_DOWN | CB_PATH_DOWN_SESSION), f"no back channel, and the flags are {flags:#x}")
    third = server.connect()
    expect_status(third.call([wire.bind(session.id, BACK_OR_BOTH)]), OK, "BIND")
    flags = second.call([session.sequence(0)]).result(53)["flags"]
    expect(not flags & CB_PATH_DOWN_SESSION, f"a back channel, and the flags are {flags:#x}")
    third.reset()
    end = time.monotonic() + 10
    while not second.call([session.sequence(0)]).result(53)["flags"] & (CB_PATH_DOWN | CB_PATH_DOWN_SESSION):
        expect(time.monotonic() < end, "10 s after the back channel was lost no flag says so")
        time.sleep(0.1)
    session.end(second)


@case("2.10.3.1, 10.4.5")
def a_recall_is_made_again_when_its_connection_is_lost(server: NfsTestServer) -> None:
    first, second, third = server.connect(), server.connect(), server.connect()
    holder, other, name = Session(first, back=True), Session(third), fresh("recalled")
    expect_status(second.call([wire.bind(holder.id, BACK_OR_BOTH)]), OK, "BIND of a second back channel")
    handle, stateid = server.make(third, other, name)
    expect_status(third.call([other.sequence(0), wire.putfh(handle), wire.close(stateid)]), OK, "CLOSE")
    # OPEN4_SHARE_ACCESS_WANT_READ_DELEG
    opened = first.call([holder.sequence(0), *server.root(), wire.open_old(name, 1 | 0x100), wire.GETFH])
    given = expect_status(opened, OK, "OPEN").result(18)["delegation"]
    if given is None:
        raise Skip("grants no delegation")
    asking = third.send([other.sequence(0), *server.root(), wire.open_old(name, 2)])
    ways = [first, second]
    # The server chooses the connection.
    readable = select.select([way.socket for way in ways], [], [], SOON_S)[0]
    asked = next((way for way in ways if way.socket in readable and way.wait_for_call(SOON_S)), None)
    expect(asked is not None, "the delegation is not recalled before another client opens for writing")
    left = ways[1 - ways.index(asked)]
    assert asked is not None
    asked.reset()
    call = left.wait_for_call(SOON_S)
    expect(call is not None, "the recall was lost with its connection")
    given_back = left.call([holder.sequence(1), wire.putfh(handle), wire.delegreturn(given)])
    expect_status(given_back, OK, "DELEGRETURN")
    answer = third.receive(asking)
    end = time.monotonic() + wire.LIMIT_S
    while answer.status == DELAY and time.monotonic() < end:
        time.sleep(0.1)
        answer = third.call([other.sequence(0), *server.root(), wire.open_old(name, 2)])
    expect_status(answer, OK, "the OPEN that waited")


@case("18.37.3")
def a_session_is_destroyed_while_others_use_it(server: NfsTestServer) -> None:
    ways = [server.connect() for _ in range(8)]
    session = Session(ways[0])
    handle, stateid = server.make(ways[0], session, fresh("destroyed"))
    wrong, data = [], bytes(64 << 10)

    def load(way: wire.Connection, slot: int) -> None:
        try:
            for number in range(200):
                status = way.call([session.sequence(slot), wire.putfh(handle), wire.write(stateid, number << 16, data), wire.commit()]).status
                if status in (BADSESSION, DEADSESSION):
                    return
                if status not in (OK, DELAY):
                    wrong.append(f"slot {slot}: {name_of(status)}")
                    return
        except (ConnectionLost, TimeoutError):
            return  # a server may close connections without a session

    loaders = [threading.Thread(target=load, args=(way, 1 + at)) for at, way in enumerate(ways[1:])]
    for loader in loaders:
        loader.start()
    time.sleep(0.2)
    end = time.monotonic() + wire.LIMIT_S
    while (status := ways[0].call([wire.destroy_session(session.id)]).status) == DELAY and time.monotonic() < end:
        time.sleep(0.01)
    for loader in loaders:
        loader.join(timeout=wire.LIMIT_S)
    expect(status == OK, f"DESTROY_SESSION: {name_of(status)}")
    expect(not any(loader.is_alive() for loader in loaders), "a request was never answered")
    expect(not wrong, "; ".join(wrong))
    expect_status(server.connect().call([session.at(0, 50)]), BADSESSION, "the session afterwards")


@case("18.37.3")
def a_session_is_not_destroyed_by_somebody_else(server: NfsTestServer) -> None:
    first, strange = server.connect(), server.connect()
    session = Session(first)
    strange.uid = 1000
    expect_status(strange.call([wire.destroy_session(session.id)]), CONN_NOT_BOUND, "over a connection that it has not")
    expect_status(first.call([session.sequence(0)]), OK, "and it lives on")
    session.end(first)


@case("2.10.6.1, 2.10.3.1")
def sixteen_connections_carry_sixty_four_slots_at_once(server: NfsTestServer) -> None:
    ways = [server.connect() for _ in range(16)]
    session, name = Session(ways[0]), fresh("slots")
    expect(session.slots >= 64, f"{session.slots} slots were granted, and 64 asked for")
    handle, stateid = server.make(ways[0], session, name)
    rounds, size = 12, 4096
    for number in range(rounds):
        sent = []
        for slot in range(64):
            way = ways[(slot + number) % 16]
            data = bytes([slot, number]) * (size // 2)
            operations = [session.sequence(slot), wire.putfh(handle), wire.write(stateid, (number * 64 + slot) * size, data)]
            sent.append((way, way.send(operations)))
        for way, xid in sent:
            expect_status(way.receive(xid), OK, f"WRITE in round {number}")
    expect_status(ways[0].call([session.sequence(0), wire.putfh(handle), wire.commit(), wire.close(stateid)]), OK, "COMMIT and CLOSE")
    wanted = b"".join(bytes([slot, number]) * (size // 2) for number in range(rounds) for slot in range(64))
    found = (server.directory / name.decode()).read_bytes()
    expect(found == wanted, f"the file of {len(found)} bytes does not hold what was written")
    session.end(ways[0])


@case("2.10.3.1")
def all_connections_but_the_last_are_lost_again_and_again(server: NfsTestServer) -> None:
    session, name = Session(server.connect()), fresh("survivor")
    way = server.connect()
    handle, stateid = server.make(way, session, name)
    for number in range(40):
        following = server.connect()
        expect_status(following.call([session.sequence(0), wire.putfh(handle), wire.write(stateid, number * 8, b"%08d" % number)]), OK,
                      f"WRITE on connection {number}")
        way.reset()
        way = following
    got = expect_status(way.call([session.sequence(0), wire.putfh(handle), wire.read(stateid, 0, 1000)]), OK, "READ").result(25)
    expect(got["data"] == b"".join(b"%08d" % number for number in range(40)), "the file does not hold what was written")
    session.end(way)


@case("2.9.1")
def a_connection_that_stops_in_the_middle_holds_up_no_other(server: NfsTestServer) -> None:
    slow, other = server.connect(), server.connect()
    session = Session(other)
    handle, stateid = server.make(other, session, fresh("slow"))
    # Half a request, and replies that the client does not read.
    _, message = slow.message([session.sequence(5), wire.putfh(handle), wire.write(stateid, 0, bytes(100_000))])
    slow.socket.sendall(message[:50_000])
    deaf = server.connect()
    expect_status(other.call([session.sequence(0), wire.putfh(handle), wire.write(stateid, 0, bytes(900_000))]), OK, "WRITE")
    for slot in range(10, 40):
        deaf.send([session.sequence(slot), wire.putfh(handle), wire.read(stateid, 0, 900_000)])
    for number in range(20):
        began = time.monotonic()
        expect_status(other.call([session.sequence(0), wire.putfh(handle), wire.read(stateid, 0, 4096)]), OK, f"READ {number}")
        took = time.monotonic() - began
        expect(took < SOON_S, f"READ {number} took {took:.1f} s")
