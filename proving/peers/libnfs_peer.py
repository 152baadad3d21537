#!/usr/bin/env python3
"""Debian's libnfs as a client: PORT EXPORT VERSION WORD. Every NFS peer gets the last two (run.py); this one ignores them.

libnfs supports only NFSv3 and 4.0. A server of 4.1 must refuse both, and libnfs must give up.
"""

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.peers.cases import Report, same


def ask(port: str, export: str, version: int) -> tuple[int, str]:
    url = f"nfs://127.0.0.1/{export}?version={version}&nfsport={port}&mountport={port}"
    done = subprocess.run(["nfs-ls", url], capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout + done.stderr


def minor_version_0(port: str, export: str) -> None:
    status, said = ask(port, export, 4)
    same((status != 0, "NFS4ERR_MINOR_VERS_MISMATCH" in said), (True, True), f"what nfs-ls said: {said.strip()}")


def version_3(port: str, export: str) -> None:
    status, said = ask(port, export, 3)
    same((status != 0, "Failed to mount" in said), (True, True), f"what nfs-ls said: {said.strip()}")


def main() -> None:
    port, export = sys.argv[1:3]
    report = Report()
    report.case("minor version 0 is refused as such", minor_version_0, port, export)
    report.case("version 3 is refused", version_3, port, export)
    report.close()


if __name__ == "__main__":
    main()
