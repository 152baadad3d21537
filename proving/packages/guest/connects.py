#!/usr/bin/env python3
"""In the machine: connect to ports of this host again and again, until SIGTERM.

    connects.py RESULT PORT ...

RESULT is one JSON object: `made`, `refused` and `other` count the connects by what became of them.
"""

import json
import signal
import socket
import sys
import time
from pathlib import Path

PAUSE_S = 0.005
WITHIN_S = 30


def main() -> None:
    told: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: told.append(number))
    counts = {"made": 0, "refused": 0, "other": 0}
    while not told:
        for port in map(int, sys.argv[2:]):
            try:
                socket.create_connection(("127.0.0.1", port), WITHIN_S).close()
                counts["made"] += 1
            except ConnectionRefusedError:
                counts["refused"] += 1
            except OSError:
                counts["other"] += 1
        time.sleep(PAUSE_S)
    result = Path(sys.argv[1])
    fresh = result.with_suffix(".new")
    fresh.write_text(json.dumps(counts))
    fresh.rename(result)


if __name__ == "__main__":
    main()
