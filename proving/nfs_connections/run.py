#!/usr/bin/env python3
"""Many connections of one NFSv4.1 session, by the RFC: retries on another connection, lost back channels, binding, ending.

    run.py [--server trunkline|ganesha|both] [--only CASE ...]

pynfs has two tests for trunking and none for a session with several connections. The cases are in cases.py, each with
its section of RFC 8881; wire.py is their client, which shares no code with the server.
`expected/ganesha-connections.toml` lists Ganesha's differences, with the sections. A difference that is not listed
fails the run, and so does a listed one that does not occur. For Trunkline nothing is listed. Ganesha needs root.
"""

import argparse
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally
from proving.nfs_connections import cases
from proving.nfs_connections.wire import ConnectionLost

HERE = Path(__file__).resolve().parent
GANESHAS = HERE.parent / "expected" / "ganesha-connections.toml"
SHARE = "files"


def try_one(function: Callable[[cases.NfsTestServer], None], under_test: cases.NfsTestServer) -> tuple[str, str]:
    """Run one case. Returns (result, detail)."""
    try:
        function(under_test)
        return "pass", ""
    except cases.CaseFailed as wrong:
        return "fail", str(wrong)
    except cases.Skip as reason:
        return "skip", str(reason)
    except (ConnectionLost, TimeoutError, OSError, KeyError, TypeError) as error:
        return "fail", f"{type(error).__name__} {error}"
    finally:
        under_test.close()


def run(tally: Tally, kind: str, names: list[str]) -> None:
    """Run all cases against one server."""
    differs = tomllib.loads(GANESHAS.read_text()) if kind == "ganesha" else {}
    with servers.Server(kind, "nfs") as server:
        for name in names:
            section, function = cases.CASES[name]
            under_test = cases.NfsTestServer((server.address, server.port), SHARE.encode(), server.share_directory(SHARE))
            result, detail = try_one(function, under_test)
            told = f"{kind}: {name} (RFC 8881 {section})"
            if name in differs:
                listed = differs[name]["reason"]
                expected = {"fail": ("skip", f"{listed}: {detail}"), "skip": ("skip", f"{listed}: {detail}"),
                            "pass": ("fail", f"listed as a difference, and there is none: {listed}")}
                result, detail = expected[result]
            elif kind == "trunkline" and result == "skip":
                result = "fail"
            tally.add(result, told, detail)
        if not server.alive():
            tally.add("fail", f"{kind}: the server ended", server.log())
    if server.complaint:
        tally.add("fail", f"{kind}: the server's end", server.complaint)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", choices=(*servers.NFS_KINDS, "both"), default="both")
    parser.add_argument("--only", action="append", choices=list(cases.CASES))
    options = parser.parse_args()
    servers.clean_up_when_told_to_end()
    tally = Tally("nfs-connections")
    for kind in servers.NFS_KINDS if options.server == "both" else (options.server,):
        try:
            run(tally, kind, options.only or list(cases.CASES))
        except servers.CannotStart as reason:
            tally.add(reason.result, kind, str(reason))
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
