#!/usr/bin/env python3
"""Mount with `multichannel,max_channels=4` over one NIC and over two, signed and sealed, and check the load of each channel.

    multichannel.py [--server trunkline|samba] [--sec krb5|krb5i]

Linux finds the other addresses by itself. /proc/fs/cifs/DebugData must show four connected channels, the server four
connections, and its status one session with four channels. Under the load of workload.py each must carry requests. A
client that requests more channels than the server allows must keep the allowed number.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite
from proving.kernel_client import faults, guest, kernels, mounted, tickets

SUITE = "kernel-multichannel"


def spread(mount: mounted.Mounted) -> list[str]:
    """Load the mount. Returns the failures."""
    mount.start(mounted.STORM, 1)
    took = mount.wait_for_channels(time.monotonic(), {}, 60)
    carried = mount.carrying()
    print(f"        four channels carry requests after {took:.1f} s: " +
          ", ".join(f"{address}:{port} {received >> 10} KiB in, {sent >> 10} KiB out" for (address, port), (received, sent) in carried.items()))
    failures = []
    used = {address for address, _ in carried}
    if used != {guest.guest_address(nic) for nic in range(mount.nics)}:
        failures.append(f"of {mount.nics} NICs only {sorted(used)} carry a channel")
    if len(carried) != mounted.CHANNELS:
        failures.append(f"{len(carried)} connections for {mounted.CHANNELS} channels")
    failures += counted(mount)
    mount.wait_for_steps(mount.progress()["steps"], 60)
    return failures + mount.finish()


def counted(mount: mounted.Mounted) -> list[str]:
    """Compare the channels that the server counts with those that the client has. Returns the failures."""
    channels = mount.server.channels()
    return [] if channels == [mounted.CHANNELS] else [f"the server reports sessions with {channels} channels, not one with {mounted.CHANNELS}"]


def stays_at_four(mount: mounted.Mounted) -> list[str]:
    """A client that wants eight channels works with the four that it gets. Returns the failures."""
    mount.start(mounted.STORM, 1)
    mount.wait_for_steps({}, 60)
    # Newer clients open a further connection now and then, which is refused before it carries a request.
    carried = [received for received, _ in mount.carrying().values() if received > mounted.WORKING_BYTES]
    failures = [] if len(carried) == mounted.CHANNELS else [f"{len(carried)} connections carry requests, and four channels is the server's most"]
    failures += counted(mount)
    return failures + mount.finish()


CASES = {f"{mounted.describe(nics, options)}: four channels": (nics, mounted.MULTICHANNEL + options, spread) for nics, options in mounted.MOUNTS}
CASES["eight asked for, four given"] = (1, f"{mounted.BASIC},multichannel,max_channels=8", stays_at_four)
SAMBA_LACKS = {"eight asked for, four given": "Samba gives as many channels as a client asks for"}


def main() -> None:
    parser = tickets.add_arguments(kernels.parser(__doc__))
    parser.add_argument("--server", choices=servers.KINDS, default="trunkline")
    options = parser.parse_args()
    servers.clean_up_when_told_to_end()
    if reason := guest.missing() or faults.missing() or tickets.missing() or tickets.lacks_channels() or guest.cannot_boot() or faults.cannot_cut():
        skip_whole_suite(kernels.suite(tickets.suite(SUITE)), reason)
    tally = Tally(kernels.suite(tickets.suite(SUITE)))
    for name in CASES:
        if options.server == "samba" and name in SAMBA_LACKS:
            tally.add("skip", name, SAMBA_LACKS[name])
        else:
            nics, mount_options, check = CASES[name]
            mount = mounted.Mounted(options.server, "four-channels", nics, mount_options)
            mounted.run_case(tally, name, mount, check)
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
