#!/usr/bin/env python3
"""The number of connections of each mount of one Linux client, when several shares are mounted with settings of their own.

    nconnect.py [--only NAME ...]

The first three are the scenarios of the seed (shared/seeds/003-nfs-nconnect.txt), whose authors support only the first
one: shares of two accounts by two addresses; two accounts, one with two shares; three shares of one account. The last
two use one name and one address, and only `port=` distinguishes the shares. Mounts with nconnect 4, none and 2 must
have 4, 1 and 2 connections that all carry requests. The client's statistics (/proc/self/mountstats), its sockets, and
`trunkline status` must agree.

Two more scenarios show the limits. Without endpoints of their own the first mount decides, and `trunkline status` gives
the reason. A client that opens more connections than `nfs_max_connections` continues with the permitted number.
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite
from proving.kernel_client import console, guest, kernels, mounted

SUITE = "kernel-nconnect"
# Files that are written and read back on each mount, so that every connection is used.
FILES = 64


class Mount:
    """A mount: its share, the offset of its port from the server's, NIC, nconnect (None: not given), and the required
    number of connections."""

    def __init__(self, share: str, port: int, nic: int, nconnect: int | None, wanted: int | None) -> None:
        self.share, self.port, self.nic, self.nconnect, self.wanted = share, port, nic, nconnect, wanted
        self.where = f"/mnt/{share}"

    def options(self, port: int) -> str:
        """Return the options for mount(8)."""
        return f"vers=4.2,port={port + self.port}" + (f",nconnect={self.nconnect}" if self.nconnect else "")


# The server's profile, NICs, mounts, and the reason that `trunkline status` must give for each client.
SCENARIOS = {
    "1: two accounts by two addresses": ("nconnect-addresses", 2, [Mount("files", 0, 0, 4, 4), Mount("t1", 0, 1, None, 1)],
                                         {"account one": "several", "account two": "opens_none"}),
    "2: two accounts and three shares by ports of one address": (
        "nconnect-accounts", 1, [Mount("files", 1, 0, 4, 4), Mount("t1", 2, 0, None, 1), Mount("t2", 3, 0, 2, 2)],
        {"account one": "several", "share t1": "opens_none", "account two": "several"}),
    "3: three shares of one account by ports of one address": (
        "nconnect-shares", 1, [Mount("files", 1, 0, 4, 4), Mount("t1", 2, 0, None, 1), Mount("t2", 3, 0, 2, 2)],
        {"share files": "several", "share t1": "opens_none", "share t2": "several"}),
    "without endpoints of their own the first mount decides": (
        "nfs", 1, [Mount("files", 0, 0, None, 1), Mount("t1", 0, 0, 4, 1)], {"server": "shared_mounts"}),
    "more connections than a client may have": ("nconnect-limit", 1, [Mount("files", 0, 0, 8, None)], {"server": "limit"}),
}


class ScenarioFailed(Exception):
    """A check of a scenario failed."""


def expect(holds: object, what: str) -> None:
    """Raise ScenarioFailed unless the condition holds."""
    if not holds:
        raise ScenarioFailed(what)


def ask(client: guest.Guest, do: str, limit_s: float = 60, **arguments: Any) -> Any:
    """Send the agent a request. Returns its answer."""
    said = client.ask(limit_s, do=do, **arguments)
    if isinstance(said, dict) and "refused" in said:
        raise ScenarioFailed(f"{do}: {said['refused']}")
    return said


def status(server: servers.Server) -> Any:
    """Return the server's report on NFS."""
    script = servers.SERVERS / "trunkline.sh"
    done = subprocess.run([str(script), "status", str(server.directory)], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)["nfs"]


def check_mount(client: guest.Guest, server: servers.Server, mount: Mount) -> None:
    """Check one mount's connections, as the client counts them."""
    port = server.port + mount.port
    transports = ask(client, "transports", where=mount.where)
    used = [one for one in transports if one["receives"] > 0]
    sockets = [far for _, far in ask(client, "ports") if far.endswith(f":{port}") and guest.server_address(mount.nic) in far]
    if mount.wanted is not None:
        expect(len(transports) == mount.wanted, f"{mount.share} has {len(transports)} connections, and {mount.wanted} are wanted")
        expect(len(used) == mount.wanted, f"{len(used)} of {len(transports)} connections of {mount.share} were used: {transports}")
        expect(len(sockets) == mount.wanted, f"{len(sockets)} sockets lead to port {port}, and {mount.wanted} are wanted")


def check_status(server: servers.Server, mounts: list[Mount], reasons: dict[str, str]) -> None:
    """Check the same by the server's count, and the reason why there are no more."""
    said = status(server)
    clients = {one["endpoint"]: one for one in said["clients"]}
    expect(sorted(clients) == sorted(reasons), f"clients at {sorted(clients)}, and {sorted(reasons)} are wanted")
    for endpoint, reason in reasons.items():
        expect(clients[endpoint]["reason"] == reason, f"{endpoint}: {clients[endpoint]['reason']}, and {reason} is the reason")
    endpoints = {share: one["name"] for one in said["endpoints"] for share in one["shares"]}
    for mount in mounts:
        one = clients[endpoints[mount.share]]
        ways = [way for session in one["sessions"] for way in session["connections"]]
        if mount.wanted is not None:
            expect(one["current_connections"] == mount.wanted, f"{mount.share}: {one['current_connections']} at the server")
            expect(all(way["requests"] and way["bytes_in"] and way["bytes_out"] for way in ways), f"counts of {ways}")
        else:
            expect(one["current_connections"] <= one["max_connections"], f"{one['current_connections']} of {one['max_connections']}")
            expect(one["crowded_out"] > 0, "no connection was closed in favour of another")


def scenario(name: str) -> None:
    """Run one scenario. Returns the server's last report."""
    profile, nics, mounts, reasons = SCENARIOS[name]
    with guest.Network(nics) as network, servers.Server("trunkline", profile, network) as server:
        with guest.Guest(network, [sys.executable, console.lay(mounted.AGENT, server.directory)]) as client:
            client.answer(60)
            for mount in mounts:
                source = f"{guest.server_address(mount.nic)}:/{mount.share}"
                refused = ask(client, "mount_nfs", where=mount.where, source=source, options=mount.options(server.port))
                expect(not refused, f"mount {mount.share}: {refused}")
            for mount in mounts:
                began = time.monotonic()
                wrong = ask(client, "exercise", 180, where=mount.where, files=FILES)
                expect(not wrong, "; ".join(wrong))
                print(f"        {mount.share}: {FILES} files in {time.monotonic() - began:.1f} s", flush=True)
            for mount in mounts:
                check_mount(client, server, mount)
            check_status(server, mounts, reasons)
            for mount in mounts:
                refused = ask(client, "umount", where=mount.where)
                expect(not refused, f"umount {mount.share}: {refused}")
            expect(server.alive(), "the server ended")


def main() -> None:
    parser = kernels.parser(__doc__)
    parser.add_argument("--only", action="append", choices=list(SCENARIOS))
    options = parser.parse_args()
    servers.clean_up_when_told_to_end()
    if reason := guest.missing(("mount.nfs", "nfs-common")) or guest.cannot_boot():
        skip_whole_suite(kernels.suite(SUITE), reason)
    tally = Tally(kernels.suite(SUITE))
    for name in options.only or SCENARIOS:
        try:
            scenario(name)
            tally.add("pass", name)
        except (ScenarioFailed, guest.GuestEnded, OSError, subprocess.SubprocessError) as reason:
            tally.add("fail", name, str(reason))
        except servers.CannotStart as reason:
            tally.add(reason.result, name, str(reason))
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
