"""A loopback of the measurements' own, whose connections use CUBIC, as they do on Linux unless somebody changes it.

A host may be set to BBR, which lets no connection send quicker than it believes the path to be, with a timer of the processor for
each 64 KiB. On loopback that is a good part of what either server costs, and grows with the number of connections: the numbers
would be the host's setting. Start reading at `enter`.
"""

import ctypes
import os
import subprocess
from pathlib import Path

CONGESTION_CONTROL = "cubic"
_NEW_NETWORK_NAMESPACE = 0x40000000
_HOSTS_OWN = Path("/proc/sys/net/ipv4/tcp_congestion_control")
_ROUTES = ("127.0.0.0/8", "127.0.0.1")
# One for documentation (RFC 5737). Ganesha takes no address of a family of which a host has nothing but its loopback's.
_ANOTHER_ADDRESS = "192.0.2.1/32"


def enter() -> str:
    """Moves this process, and all that it starts from now on, to such a loopback; says what its connections use.

    Only root may; others measure on the host's own.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if os.geteuid() != 0 or libc.unshare(_NEW_NETWORK_NAMESPACE) != 0:
        return f"{_HOSTS_OWN.read_text().strip()}, as the host has it"
    _ip("link", "set", "lo", "up")
    _ip("address", "add", _ANOTHER_ADDRESS, "dev", "lo")
    for route in _ROUTES:
        _ip("route", "replace", "local", route, "dev", "lo", "table", "local", "congctl", CONGESTION_CONTROL)
    # For emulated links beside it. The file is that of the network in which the process is that writes it, and a host that
    # keeps CUBIC to itself (tcp_allowed_congestion_control) refuses it to any other.
    try:
        _HOSTS_OWN.write_text(CONGESTION_CONTROL)
    except OSError:
        return f"{CONGESTION_CONTROL}; over emulated links {_HOSTS_OWN.read_text().strip()}, as the host has it"
    return CONGESTION_CONTROL


def setting(command: list[str]) -> list[str]:
    """The command line that sets the same for `command`, in the network of an emulated link, which begins as the host is set; where
    that is refused it stays so."""
    return ["sh", "-c", f'{{ echo {CONGESTION_CONTROL} >{_HOSTS_OWN}; }} 2>/dev/null; exec "$@"', "sh", *command]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, timeout=10, stdin=subprocess.DEVNULL)
