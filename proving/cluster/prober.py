#!/usr/bin/env python3
"""Ask an NFS server for nothing (NULL), on a new connection each time, and print when it answered.

    prober.py ADDRESS PORT

Each line has the time at which the question was asked and the time of the answer, in seconds of the monotonic clock. A
connection of its own for each question is not held up by the back-off of an old one.
"""

import socket
import struct
import sys
import time

LIMIT_S, PAUSE_S = 0.3, 0.02
# RPC: record mark, transaction, call, RPC 2, NFS 4, procedure 0, no credentials and no verifier.
_CALL = struct.pack("!10I", *(1, 0, 2, 100003, 4, 0, 0, 0, 0, 0))
QUESTION = struct.pack("!I", 0x8000_0000 | len(_CALL)) + _CALL


def answers(address: str, port: int) -> bool:
    """Ask once. Returns whether an answer came."""
    try:
        with socket.create_connection((address, port), LIMIT_S) as connection:
            connection.sendall(QUESTION)
            return len(connection.recv(64)) >= 28
    except OSError:
        return False


def main() -> None:
    address, port = sys.argv[1], int(sys.argv[2])
    while True:
        asked = time.monotonic()
        if answers(address, port):
            print(f"{asked:.3f} {time.monotonic():.3f}", flush=True)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
