#!/usr/bin/env python3
"""Tell the neighbours on eth0 who has an address now (gratuitous ARP), for take-overs that the harness does by hand.

    announce.py ADDRESS
"""

import socket
import struct
import sys
import time

# One announcement may be lost.
PAUSES_S = (0, 0.2, 0.5, 1)


def main() -> None:
    address = socket.inet_aton(sys.argv[1])
    everybody = b"\xff" * 6
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as link:
        link.bind(("eth0", 0x0806))
        mine = link.getsockname()[4]
        for pause_s in PAUSES_S:
            time.sleep(pause_s)
            # A request, and a reply that nobody asked for.
            for operation, asked in ((1, b"\0" * 6), (2, everybody)):
                link.send(everybody + mine + b"\x08\x06" + struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation) + mine + address + asked + address)


if __name__ == "__main__":
    main()
