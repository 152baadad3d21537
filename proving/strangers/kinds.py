"""What strangers do. A kind is one function in `KINDS`: it is given a `Stranger` and does one piece of harm, again and again until
its time is over; a lost or refused connection is no failure but an answer. members.py has those that log on.
"""

import os
import struct
import time

from proving.nfs_connections import wire
from proving.strangers import members, smb
from proving.strangers.stranger import Stranger

HELLO = smb.message(smb.NEGOTIATE, 0, smb.NEGOTIATE_BODY, credits=512)


def smb_unread(me: Stranger) -> None:
    """ECHO after NEGOTIATE, of which no answer is read."""
    with me.connect(me.smb) as connection:
        connection.sendall(HELLO)
        me.pour(connection, lambda n: smb.message(smb.ECHO, n + 1, smb.ECHO_BODY, credits=512))


def smb_large_answers(me: Stranger) -> None:
    """READs of the largest size by nobody: each is refused, and room for the data must not be kept."""
    with me.connect(me.smb) as connection:
        connection.sendall(HELLO)
        me.pour(connection, lambda n: smb.message(smb.READ, n + 1, smb.read_body(8 << 20), credits=512))


def der(tag: int, content: bytes) -> bytes:
    """A DER element with a length of four bytes."""
    return bytes([tag, 0x83]) + struct.pack(">I", len(content))[1:] + content


def long_token(size: int) -> bytes:
    """A SPNEGO NegTokenInit whose list of mechanisms is long."""
    oids = bytes.fromhex("060a2b06010401823702020a") + der(0x06, bytes(size))
    inner = der(0x30, der(0xA0, der(0x30, oids)) + der(0xA2, der(0x04, smb.NTLM_NEGOTIATE)))
    return der(0x60, bytes.fromhex("06062b0601050502") + der(0xA0, inner))


LONG = [smb.setup_body(long_token(size)) for size in (61_000, 900)] + [smb.setup_body(smb.NTLM_NEGOTIATE)]


def smb_half_log_ons(me: Stranger) -> None:
    """Log-ons that are begun and left, with long tokens and short ones."""
    with me.connect(me.smb) as connection:
        connection.sendall(HELLO)
        me.pour(connection, lambda n: smb.message(smb.SESSION_SETUP, n + 1, LONG[n % 3], credits=512))


def smb_idle(me: Stranger) -> None:
    """Connections that say nothing."""
    me.hold(me.smb)


def smb_half_messages(me: Stranger) -> None:
    """Connections that begin a long message and do not end it."""
    me.hold(me.smb, struct.pack(">I", 128 << 10) + bytes(64 << 10))


def smb_noise(me: Stranger) -> None:
    """Bytes that are no message."""
    with me.connect(me.smb) as connection:
        me.pour(connection, lambda _: struct.pack(">I", 200) + b"\xfeSMB" + os.urandom(196))


def compound(operations: list[bytes]) -> bytes:
    body = wire.word(7, 0, 2, wire.PROGRAM, wire.VERSION, 1, 0, 0, 0, 0) + wire.opaque(b"") + wire.word(1, len(operations))
    body += b"".join(operations)
    return wire.word(0x80000000 | len(body)) + body


def nfs_unread(me: Stranger) -> None:
    """COMPOUNDs outside of a session, of which no answer is read."""
    small = compound([wire.PUTROOTFH])
    with me.connect(me.nfs) as connection:
        me.pour(connection, lambda _: small)


def nfs_large_answers(me: Stranger) -> None:
    """READs of the largest size outside of a session."""
    large = compound([wire.read(bytes(16), 0, 1 << 20)])
    with me.connect(me.nfs) as connection:
        me.pour(connection, lambda _: large)


def nfs_long_first(me: Stranger) -> None:
    """Connections whose first record is a long one of no session."""
    me.hold(me.nfs, wire.word(0x80000000 | (1 << 20)) + bytes(200 << 10))


def nfs_clients(me: Stranger) -> None:
    """Clients that make a session each and nothing else."""
    connection = wire.Connection(me.nfs, me.source)
    with connection:
        while me.goes_on():
            known = connection.call([wire.exchange_id(os.urandom(16), os.urandom(8))]).result(42)
            if known is None:
                time.sleep(0.05)
                continue
            connection.call([wire.create_session(known["client"], known["sequence"], slots=1)])


def nfs_introductions(me: Stranger) -> None:
    """Clients that only introduce themselves."""
    with me.connect(me.nfs) as connection:
        me.pour(connection, lambda n: compound([wire.exchange_id(struct.pack(">QQ", me.number, n), bytes(8))]))


def nfs_idle(me: Stranger) -> None:
    """Connections that say nothing."""
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
    """Do it until the time is over."""
    while me.goes_on():
        try:
            KINDS[kind](me)
        except (OSError, wire.ConnectionLost, smb.ConnectionLost, smb.RequestRefused, KeyError, TypeError, struct.error):
            time.sleep(0.1)


def busy(until: float) -> None:
    """What strangers are compared with: a loop that takes a processor as they could, and asks nothing of the server."""
    while time.monotonic() < until:
        sum(range(10_000))
