"""A separate loopback for the measurements, whose connections use CUBIC. This is Linux' default.

A host may be set to BBR. BBR lets no connection send faster than its estimate of the path, and uses a timer of the
processor for each 64 KiB. On loopback that is a large part of either server's cost, and it grows with the number of
connections: the numbers would show the host's setting. Start reading at `enter`.
"""

import ctypes
import os
import subprocess
from pathlib import Path

CONGESTION_CONTROL = "cubic"
_NEW_NETWORK_NAMESPACE = 0x40000000
_HOSTS_OWN = Path("/proc/sys/net/ipv4/tcp_congestion_control")
_ROUTES = ("127.0.0.0/8", "127.0.0.1")
# An address for documentation (RFC 5737). Ganesha uses no address of a family for which a host has only loopback
# addresses.
_ANOTHER_ADDRESS = "192.0.2.1/32"


def enter() -> str:
    """Move this process, and all that it starts from now on, to such a loopback. Returns the congestion control of its
    connections.

    This needs root. Without root the measurement uses the host's own loopback.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 or libc.unshare(_NEW_NETWORK_NAMESPACE) != 0:
        return f"{_HOSTS_OWN.read_text().strip()}, as the host has it"
    _ip("link", "set", "lo", "up")
    _ip("address", "add", _ANOTHER_ADDRESS, "dev", "lo")
    for route in _ROUTES:
        _ip("route", "replace", "local", route, "dev", "lo", "table", "local", "congctl", CONGESTION_CONTROL)
    # This also covers emulated links. The file belongs to the network of the process that writes it. A host that keeps
    # CUBIC to itself (tcp_allowed_congestion_control) refuses it to any other network.
    try:
        _HOSTS_OWN.write_text(CONGESTION_CONTROL)
    except OSError:
        return f"{CONGESTION_CONTROL}; over emulated links {_HOSTS_OWN.read_text().strip()}, as the host has it"
    return CONGESTION_CONTROL


def setting(command: list[str]) -> list[str]:
    """Return the command line that sets the same congestion control for `command` in the network of an emulated link,
    which begins with the host's setting. If the host refuses that, the setting stays."""
    return ["sh", "-c", f'{{ echo {CONGESTION_CONTROL} >{_HOSTS_OWN}; }} 2>/dev/null; exec "$@"', "sh", *command]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, timeout=10, stdin=subprocess.DEVNULL)
