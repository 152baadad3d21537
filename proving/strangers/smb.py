"""A small SMB 2.0.2 client in whole messages (MS-SMB2, MS-NLMP), for clients that must come from a particular address.

It sends one request at a time, signs nothing and checks little. Strangers also use `message` and the bodies.
"""

import hashlib
import hmac
import os
import socket
import struct
import time

LIMIT_S = 20
NEGOTIATE, SESSION_SETUP, TREE_CONNECT, CREATE, CLOSE, READ, WRITE, ECHO = 0, 1, 3, 5, 6, 8, 9, 13
PENDING, MORE_PROCESSING_REQUIRED = 0x103, 0xC0000016


class RequestRefused(Exception):
    """The server has answered with an error."""

    def __init__(self, command: int, status: int) -> None:
        super().__init__(f"command {command}: status {status:#010x}")
        self.status = status


class ConnectionLost(Exception):
    """The connection is gone."""


def connect(address: tuple[str, int], source: str | None = None, buffer: int | None = None) -> socket.socket:
    """Open a TCP connection from the address `source`. It accepts `buffer` bytes from the server before they are read."""
    plain = socket.socket()
    try:
        if buffer is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.settimeout(LIMIT_S)
        if source:
            plain.bind((source, 0))
        plain.connect(address)
        return plain
    except BaseException:
        plain.close()
        raise


def message(command: int, number: int, body: bytes, session: int = 0, tree: int = 0, credits: int = 1, charge: int = 0) -> bytes:
    """Encode a request with its transport prefix (MS-SMB2 2.1, 2.2.1.2)."""
    header = struct.pack("<4sHHIHHIIQIIQ16x", b"\xfeSMB", 64, charge, 0, command, credits, 0, 0, number, 0xFEFF, tree, session)
    return struct.pack(">I", len(header) + len(body)) + header + body


# MS-SMB2 2.2.3, for the dialect 2.0.2
NEGOTIATE_BODY = struct.pack("<HHHHI16sQH", 36, 1, 1, 0, 0, os.urandom(16), 0, 0x0202)
# MS-SMB2 2.2.28
ECHO_BODY = struct.pack("<HH", 4, 0)


def receive(connection: socket.socket) -> tuple[bytes, bytes]:
    """Read the next message: header and body."""
    data = exactly(connection, struct.unpack(">I", exactly(connection, 4))[0])
    return data[:64], data[64:]


def exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ConnectionLost("the server has closed the connection")
        data += part
    return data


def setup_body(token: bytes) -> bytes:
    """MS-SMB2 2.2.5"""
    return struct.pack("<HBBIIHHQ", 25, 0, 1, 0, 0, 88, len(token), 0) + token


def read_body(length: int, file: bytes = b"\xff" * 16) -> bytes:
    """MS-SMB2 2.2.19"""
    return struct.pack("<HBBIQ16sIIIHHB", 49, 0x50, 0, length, 0, file, 0, 0, 0, 0, 0, 0)


def md4(data: bytes) -> bytes:
    """RFC 1320; hashlib has no MD4 where OpenSSL forbids it."""
    def rotate(value: int, by: int) -> int:
        return ((value << by) | (value >> (32 - by))) & 0xFFFFFFFF

    state = [0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476]
    data += b"\x80" + bytes((55 - len(data)) % 64) + struct.pack("<Q", 8 * len(data))
    rounds = [
        (lambda x, y, z: (x & y) | (~x & z), 0, list(range(16)), (3, 7, 11, 19)),
        (lambda x, y, z: (x & y) | (x & z) | (y & z), 0x5A827999, [i % 4 * 4 + i // 4 for i in range(16)], (3, 5, 9, 13)),
        (lambda x, y, z: x ^ y ^ z, 0x6ED9EBA1, [0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15], (3, 9, 11, 15)),
    ]
    for at in range(0, len(data), 64):
        words = struct.unpack("<16I", data[at:at + 64])
        a, b, c, d = state
        for mix, constant, order, shifts in rounds:
            for step, index in enumerate(order):
                a = rotate((a + mix(b, c, d) + words[index] + constant) & 0xFFFFFFFF, shifts[step % 4])
                a, b, c, d = d, a, b, c
        state = [(old + new) & 0xFFFFFFFF for old, new in zip(state, (a, b, c, d), strict=True)]
    return struct.pack("<4I", *state)


# MS-NLMP 2.2.1.1: NTLM with extended session security, Unicode
_FLAGS = 0x00088205
NTLM_NEGOTIATE = b"NTLMSSP\0" + struct.pack("<II8x8x", 1, _FLAGS)


def authenticate(challenge: bytes, user: str, password: str) -> bytes:
    """Return the answer to a CHALLENGE (MS-NLMP 2.2.1.3, 3.3.2)."""
    length, _, at = struct.unpack_from("<HHI", challenge, 40)
    info, nonce = challenge[at:at + length], challenge[24:32]
    wide = user.encode("utf-16le")
    key = hmac.new(md4(password.encode("utf-16le")), user.upper().encode("utf-16le"), hashlib.md5).digest()
    now = int((time.time() + 11644473600) * 10_000_000)
    blob = struct.pack("<BB6xQ8s4x", 1, 1, now, os.urandom(8)) + info + bytes(4)
    answer = hmac.new(key, nonce + blob, hashlib.md5).digest() + blob
    fields, payload, at = b"", b"", 64
    for part in (bytes(24), answer, b"", wide, b"", b""):
        fields += struct.pack("<HHI", len(part), len(part), at + len(payload))
        payload += part
    return b"NTLMSSP\0" + struct.pack("<I", 3) + fields + struct.pack("<I", _FLAGS) + payload


class Client:
    """One connection with a session and a share."""

    def __init__(self, address: tuple[str, int], source: str | None, user: str, password: str, share: str) -> None:
        self.socket = connect(address, source)
        self.number = self.session = self.tree = 0
        try:
            self.call(NEGOTIATE, NEGOTIATE_BODY)
            _, challenge = self.call(SESSION_SETUP, setup_body(NTLM_NEGOTIATE), may=MORE_PROCESSING_REQUIRED)
            at, length = struct.unpack_from("<HH", challenge, 4)
            token = challenge[at - 64:at - 64 + length]
            self.call(SESSION_SETUP, setup_body(authenticate(token, user, password)))
            path = f"\\\\{address[0]}\\{share}".encode("utf-16le")
            self.call(TREE_CONNECT, struct.pack("<HHHH", 9, 0, 72, len(path)) + path)
        except BaseException:
            self.close()
            raise

    def begin(self, command: int, body: bytes) -> None:
        """Send a request and do not wait."""
        self.socket.sendall(message(command, self.number, body, self.session, self.tree, 16))
        self.number += 1

    def receive(self) -> tuple[bytes, bytes]:
        """Return the next message."""
        return receive(self.socket)

    def call(self, command: int, body: bytes, may: int = 0) -> tuple[bytes, bytes]:
        """Send a request and return its answer, header and body. Earlier messages for other requests are skipped."""
        number = self.number
        try:
            self.begin(command, body)
            header, body = self.receive()
            while struct.unpack_from("<I", header, 8)[0] == PENDING or struct.unpack_from("<Q", header, 24)[0] != number:
                header, body = self.receive()
        except OSError as error:
            raise ConnectionLost(str(error)) from error
        status, self.session = struct.unpack_from("<I", header, 8)[0], struct.unpack_from("<Q", header, 40)[0]
        if command == TREE_CONNECT:
            self.tree = struct.unpack_from("<I", header, 36)[0]
        if status not in (0, may):
            raise RequestRefused(command, status)
        return header, body

    def create(self, name: str, access: int = 0x0012019F, disposition: int = 3, options: int = 0x40) -> bytes:
        """Open or create a file. Returns its FileId."""
        wide = name.encode("utf-16le")
        body = struct.pack("<HBBIQQIIIIIHHII", 57, 0, 0, 2, 0, 0, access, 0x80, 7, disposition, options, 120, len(wide), 0, 0)
        return self.call(CREATE, body + (wide or b"\0"))[1][64:80]

    def write(self, file: bytes, data: bytes, at: int = 0) -> None:
        self.call(WRITE, struct.pack("<HHIQ16sIIHHI", 49, 112, len(data), at, file, 0, 0, 0, 0, 0) + data)

    def read(self, file: bytes, length: int) -> bytes:
        _, body = self.call(READ, read_body(length, file))
        at, _, count = struct.unpack_from("<BBI", body, 2)
        return body[at - 64:at - 64 + count]

    def close_file(self, file: bytes) -> None:
        self.call(CLOSE, struct.pack("<HHI16s", 24, 0, 0, file))

    def echo(self) -> None:
        self.call(ECHO, ECHO_BODY)

    def close(self) -> None:
        self.socket.close()
