"""A stranger: where it comes from and where the server is, and what all kinds of strangers do. The kinds are in kinds.py and members.py."""

import socket
import time
from collections.abc import Callable
from typing import NamedTuple

from proving.strangers import smb

# So much is sent to a server that does not take it before the stranger thinks of something else.
PATIENCE_S = 2.0


class Target(NamedTuple):
    """The server, for a client that comes from `source`: where it is, a user of it, and an account that strangers log on with."""

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
    """One stranger: where it comes from, where the server is, and whether its time is over."""

    def __init__(self, number: int, place: Target, until: float) -> None:
        self.number, self.until = number, until
        self.smb, self.nfs = place.smb, place.nfs
        self.user, self.share = place.user, place.share
        self.account, self.password_of_account = place.account, place.password_of_account
        self.source = f"127.{1 + number // 200}.{1 + number % 200}.1"

    def goes_on(self) -> bool:
        return time.monotonic() < self.until

    def connect(self, address: tuple[str, int], buffer: int = 4096) -> socket.socket:
        """A connection that hardly takes anything."""
        connection = smb.connect(address, self.source, buffer)
        connection.settimeout(PATIENCE_S)
        return connection

    def pour(self, connection: socket.socket, make: Callable[[int], bytes]) -> None:
        """Send what `make(n)` makes until the server takes no more, and leave it so for a while."""
        number = 0
        try:
            while self.goes_on():
                connection.sendall(b"".join(make(number + at) for at in range(256)))
                number += 256
        except TimeoutError:
            time.sleep(PATIENCE_S)

    def hold(self, address: tuple[str, int], greeting: bytes = b"") -> None:
        """Take as many connections as there are to be had, and keep them."""
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
    """Whether the server has not closed it."""
    connection.setblocking(False)
    try:
        return connection.recv(65536) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False
