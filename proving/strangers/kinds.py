"""The kinds of strangers. A kind is one function in `KINDS`. Its argument is a `Stranger`, and it does one kind of harm
repeatedly until its time is over. A lost or refused connection is not a failure but an answer. members.py has the kinds
that log on."""

import os
import struct
import time

from proving.nfs_connections import wire
from proving.strangers import members, smb
from proving.strangers.stranger import Stranger

HELLO = smb.message(smb.NEGOTIATE, 0, smb.NEGOTIATE_BODY, credits=512)


def smb_unread(me: Stranger) -> None:
    """Sends ECHO after NEGOTIATE, and reads no answer."""
    with me.connect(me.smb) as connection:
        connection.sendall(HELLO)
        me.pour(connection, lambda n: smb.message(smb.ECHO, n + 1, smb.ECHO_BODY, credits=512))


def smb_large_answers(me: Stranger) -> None:
    """READs of the largest size without a session. Each is refused, and the server must not reserve room for the data."""
    with me.connect(me.smb) as connection:
        connection.sendall(HELLO)
        me.pour(connection, lambda n: smb.message(smb.READ, n + 1, smb.read_body(8 << 20), credits=512))


def der(tag: int, content: bytes) -> bytes:
    """Encode a DER element with a length of four bytes."""
    return bytes([tag, 0x83]) + struct.pack(">I", len(content))[1:] + content


def long_token(size: int) -> bytes:
    """Encode a SPNEGO NegTokenInit with a long list of mechanisms."""
    oids = bytes.fromhex("060a2b06010401823702020a") + der(0x06, bytes(size))
    inner = der(0x30, der(0xA0, der(0x30, oids)) + der(0xA2, der(0x04, smb.NTLM_NEGOTIATE)))
    return der(0x60, bytes.fromhex("06062b0601050502") + der(0xA0, inner))


LONG = [smb.setup_body(long_token(size)) for size in (61_000, 900)] + [smb.setup_body(smb.NTLM_NEGOTIATE)]


def smb_half_log_ons(me: Stranger) -> None:
    """Log-ons that are started and abandoned, with long tokens and short ones."""
    with me.connect(me.smb) as connection:
        connection.sendall(HELLO)
        me.pour(connection, lambda n: smb.message(smb.SESSION_SETUP, n + 1, LONG[n % 3], credits=512))


def smb_idle(me: Stranger) -> None:
    """Connections that send nothing."""
    me.hold(me.smb)


def smb_half_messages(me: Stranger) -> None:
    """Connections that start a long message and do not finish it."""
    me.hold(me.smb, struct.pack(">I", 128 << 10) + bytes(64 << 10))


def smb_noise(me: Stranger) -> None:
    """Random bytes instead of messages."""
    with me.connect(me.smb) as connection:
        me.pour(connection, lambda _: struct.pack(">I", 200) + b"\xfeSMB" + os.urandom(196))


def compound(operations: list[bytes]) -> bytes:
    body = wire.word(7, 0, 2, wire.PROGRAM, wire.VERSION, 1, 0, 0, 0, 0) + wire.opaque(b"") + wire.word(1, len(operations))
    body += b"".join(operations)
    return wire.word(0x80000000 | len(body)) + body


def nfs_unread(me: Stranger) -> None:
    """Sends COMPOUNDs outside a session, and reads no answer."""
    small = compound([wire.PUTROOTFH])
    with me.connect(me.nfs) as connection:
        me.pour(connection, lambda _: small)


def nfs_large_answers(me: Stranger) -> None:
    """READs of the largest size outside a session."""
    large = compound([wire.read(bytes(16), 0, 1 << 20)])
    with me.connect(me.nfs) as connection:
        me.pour(connection, lambda _: large)


def nfs_long_first(me: Stranger) -> None:
    """Connections whose first record is a long one outside any session."""
    me.hold(me.nfs, wire.word(0x80000000 | (1 << 20)) + bytes(200 << 10))


def nfs_clients(me: Stranger) -> None:
    """Clients that only create a session each."""
    connection = wire.Connection(me.nfs, me.source)
    with connection:
        while me.goes_on():
            known = connection.call([wire.exchange_id(os.urandom(16), os.urandom(8))]).result(42)
            if known is None:
                time.sleep(0.05)
                continue
            connection.call([wire.create_session(known["client"], known["sequence"], slots=1)])


def nfs_introductions(me: Stranger) -> None:
    """Clients that only send EXCHANGE_ID."""
    with me.connect(me.nfs) as connection:
        me.pour(connection, lambda n: compound([wire.exchange_id(struct.pack(">QQ", me.number, n), bytes(8))]))


def nfs_idle(me: Stranger) -> None:
    """Connections that send nothing."""
    me.hold(me.nfs)


KINDS = {
    "smb-unread": smb_unread,
    "smb-large-answers": smb_large_answers,
    "smb-half-log-ons": smb_half_log_ons,
    "smb-idle": smb_idle,
    "smb-half-messages": smb_half_messages,
    "smb-noise": smb_noise,
    "nfs-unread": nfs_unread,
    "nfs-large-answers": nfs_large_answers,
    "nfs-long-first": nfs_long_first,
    "nfs-clients": nfs_clients,
    "nfs-introductions": nfs_introductions,
    "nfs-idle": nfs_idle,
    **members.KINDS,
}


def run(kind: str, me: Stranger) -> None:
    """Run a kind until the time is over."""
    while me.goes_on():
        try:
            KINDS[kind](me)
        except (OSError, wire.ConnectionLost, smb.ConnectionLost, smb.RequestRefused, KeyError, TypeError, struct.error):
            time.sleep(0.1)


def busy(until: float) -> None:
    """The reference for the strangers: a loop that uses a processor as they could, without any request to the server."""
    while time.monotonic() < until:
        sum(range(10_000))
