#!/usr/bin/env python3
"""`trunkline doctor PATH` on mounts of Linux's own clients: its reading of the kernel's state, and its findings.

    doctor.py [--server trunkline|samba] [--only NAME ...]

Each case is a guest with mounts of its own (mounted.py), on which the doctor of the release build runs. Each mount must
have exactly the given findings about the client, and the right number of connections. The doctor also measures the
first mount of a case with runs through it, which must leave no files behind. For the others it only reads the kernel's
state.
"""

import functools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite
from proving.kernel_client import guest, kernels, mounted, nfs_mounted

# A mount: its path, options, findings, connections.
ExpectedMount = tuple[str, str, set[str], int]

SUITE = "kernel-doctor"
# More than the doctor's longest run.
LIMIT_S = 90
# Without `actimeo=0`, which would be another finding.
SMB = "vers=3.1.1,sec=ntlmsspi,noperm,nosharesock"

# The path of a mount, its options, its required findings about the client, and its connections.
CASES = {
    "smb": (lambda kind, options: mounted.Mounted(kind, "four-channels", 1, options), [
        ("/mnt/a", f"{SMB},multichannel,max_channels=4", set(), 4),
        ("/mnt/b", SMB, {"client_multichannel_off"}, 1),
        ("/mnt/c", f"{SMB},actimeo=0,rsize=65536", {"client_multichannel_off", "client_option", "client_small_requests"}, 1),
    ]),
    "nfs": (nfs_mounted.NfsMounted, [
        ("/mnt/a", "vers=4.2,nconnect=4", set(), 4),
        ("/mnt/b", "vers=4.2,nconnect=4,rsize=32768,sync", {"client_small_requests", "client_option"}, 4),
        ("/mnt/c", "vers=4.2,nconnect=4,ro", set(), 4),
    ]),
}


def examine(mount: mounted.Mounted, where: str, wanted: set[str], connections: int, arguments: list[str]) -> list[str]:
    """Run the doctor on one mount. Returns the failures."""
    report = mount.ask("examine", LIMIT_S, program=servers.program(), where=where, arguments=arguments)
    target = report["targets"][0]
    facts, state = target["facts"], target["facts"]["protocol"]
    held = {it["kind"]: it for it in target["findings"] if it["holds_back"] and it["kind"].startswith("client_")}
    standing = [one for one in state["connections"] if one["connected"]]
    print(f"        {where}: {report['took_s']:.1f} s, {len(standing)} connections, {', '.join(held) or 'nothing'} found; "
          f"{len((facts['data'] or {}).get('runs', []))} runs", flush=True)
    if facts["stopped"]:
        return [f"{where}: it stopped: {facts['stopped']}"]
    failures = []
    # Only the options of these mounts are wrong. A limiting finding about anything else is wrong too.
    others = [it for it in target["findings"] if it["holds_back"] and not it["kind"].startswith("client_")]
    if others:
        failures.append(f"{where}: held against it as well: {[(it['kind'], it['says'], it['rests_on']) for it in others]}")
    verdict = target["verdict"]
    if verdict["state"] != ("held_back" if wanted else "healthy"):
        failures.append(f"{where}: called {verdict['state']}, and {sorted(wanted) or 'nothing'} must be found: {verdict['paragraph']}")
    if wanted and not {it["because"] for it in verdict["changes"]} <= wanted:
        failures.append(f"{where}: it asks for {verdict['changes']}, and {sorted(wanted)} must be found")
    if set(held) != wanted:
        failures.append(f"{where}: found {sorted(held)}, and {sorted(wanted)} must be: {state['options']}")
    if len(standing) != connections:
        failures.append(f"{where}: {len(standing)} connections, and {connections} must be: {state['connections']}")
    if state["address"] != guest.SERVER_ADDRESS or state["port"] != mount.server.port:
        failures.append(f"{where}: the server is {state['address']} port {state['port']}")
    if facts["left_behind"]:
        failures.append(f"{where}: {facts['left_behind']} was left")
    if not arguments and not any(run["work"] == "read" and run["mib_s"] > 0 for run in facts["data"]["runs"]):
        failures.append(f"{where}: nothing was read through the mount")
    return failures


def examine_all(mount: mounted.Mounted, mounts: list[ExpectedMount]) -> list[str]:
    """Run the doctor on each mount in turn. Returns the failures."""
    failures = []
    for number, (where, options, wanted, connections) in enumerate(mounts):
        if number:
            mount.mount(where, options)
        failures += examine(mount, where, wanted, connections, ["--read-only"] if number else [])
        # The client does not attribute connections to one of several mounts of a share.
        if refused := mount.ask("umount", where=where):
            failures.append(f"umount: {refused}")
    if left := [path.name for path in mount.server.share_directory("files").iterdir() if "doctor" in path.name]:
        failures.append(f"the share holds {left}")
    return failures


def main() -> None:
    parser = kernels.parser(__doc__)
    parser.add_argument("--server", choices=servers.KINDS, default="trunkline")
    parser.add_argument("--only", action="append", choices=list(CASES))
    options = parser.parse_args()
    servers.clean_up_when_told_to_end()
    if reason := guest.missing() or nfs_mounted.missing() or guest.cannot_boot():
        skip_whole_suite(kernels.suite(SUITE), reason)
    tally = Tally(kernels.suite(SUITE))
    for name in options.only or CASES:
        if options.server == "samba" and name.startswith("nfs"):
            tally.add("skip", name, "Samba has no NFS")
        else:
            kind_of_mount, mounts = CASES[name]
            mount = kind_of_mount(options.server, mounts[0][1])
            mounted.run_case(tally, name, mount, functools.partial(examine_all, mounts=mounts))
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
