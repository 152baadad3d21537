"""A stranger: its address and the server's, and the actions common to all kinds. The kinds are in kinds.py and members.py."""

import socket
import time
from collections.abc import Callable
from typing import NamedTuple

from proving.strangers import smb

# The time for which a stranger sends to a server that does not read, before it tries something else.
PATIENCE_S = 2.0


class Target(NamedTuple):
    """The server, for a client that comes from `source`: its address, a user, and an account with which strangers log on."""

    smb: tuple[str, int]
    nfs: tuple[str, int]
    source: str | None
    user: str
    password: str
    account: str
    password_of_account: str
    share: str
    uid: int


class Stranger:
    """One stranger: its address, the server's address, and its end time."""

    def __init__(self, number: int, place: Target, until: float) -> None:
        self.number, self.until = number, until
        self.smb, self.nfs = place.smb, place.nfs
        self.user, self.share = place.user, place.share
        self.account, self.password_of_account = place.account, place.password_of_account
        self.source = f"127.{1 + number // 200}.{1 + number % 200}.1"

    def goes_on(self) -> bool:
        return time.monotonic() < self.until

    def connect(self, address: tuple[str, int], buffer: int = 4096) -> socket.socket:
        """Open a connection with a very small receive buffer."""
        connection = smb.connect(address, self.source, buffer)
        connection.settimeout(PATIENCE_S)
        return connection

    def pour(self, connection: socket.socket, make: Callable[[int], bytes]) -> None:
        """Send the results of `make(n)` until the server accepts no more, and leave it so for a while."""
        number = 0
        try:
            while self.goes_on():
                connection.sendall(b"".join(make(number + at) for at in range(256)))
                number += 256
        except TimeoutError:
            time.sleep(PATIENCE_S)

    def hold(self, address: tuple[str, int], greeting: bytes = b"") -> None:
        """Open as many connections as possible, and keep them."""
        held = []
        try:
            while self.goes_on():
                try:
                    connection = self.connect(address)
                    held.append(connection)
                    connection.sendall(greeting)
                    if len(held) >= 1000:
                        raise TimeoutError
                except OSError:
                    time.sleep(PATIENCE_S)
                    held[:] = [one for one in held if is_open(one)]
        finally:
            for connection in held:
                connection.close()


def is_open(connection: socket.socket) -> bool:
    """Return whether the server has left the connection open."""
    connection.setblocking(False)
    try:
        return connection.recv(65536) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
