"""Mounts with Kerberos tickets for the suites of this folder that accept `--sec krb5` or `--sec krb5i`.

Such a suite has a realm of MIT's KDC in the guest's network. The server has the realm's keytab and takes no NTLM. The
guest gets its tickets by kinit, and its kernel's client by cifs.upcall. With `--ticket-life` the tickets are short, and
the guest gets a new one before each ends, so the sessions end and go on under the load.
"""

import argparse
import contextlib
import shutil
from pathlib import Path
from typing import Any, Self

from proving.harness import server as servers
from proving.kerberos import realm as realms
from proving.kerberos.network import Missing, RealmNetwork
from proving.kernel_client import guest, kernels

KINDS = ("krb5", "krb5i")
PASSWORD_OPTIONS = "sec=ntlmsspi"
DOMAIN = "kerberos.test"
HOST = f"files.{DOMAIN}"
# A session ends so much later than its ticket. Short tickets come with less.
MAX_CLOCK_SKEW_S = 300
# Tickets with at most this life end under the load.
SHORT_LIFE_S = 60
SETTINGS = " default_ccache_name = FILE:/run/tickets/%{uid}\n"


class Security:
    """The security of the mounts of this process: NTLM with a password, or the kind that --sec selects."""

    kind = ""
    # How long a ticket is valid, in seconds.
    life_s = 36_000


class _Choose(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, value: Any, option_string: str | None = None) -> None:
        if option_string == "--sec":
            Security.kind = value
        else:
            Security.life_s = value


def add_arguments(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the options of suites that can mount with tickets."""
    parser.add_argument("--sec", choices=KINDS, action=_Choose, help="mount with Kerberos tickets")
    parser.add_argument("--ticket-life", type=int, action=_Choose, help="seconds for which a ticket is valid (36000)")
    return parser


def suite(name: str) -> str:
    """Return a suite's name with the kind of security, unless it is the password."""
    return f"{name} {Security.kind}" if Security.kind else name


def missing() -> str:
    """Return the reason why no tickets can be had here, as one line; empty if they can or need not."""
    if not Security.kind:
        return ""
    absent = realms.missing() + [name for name in ("cifs.upcall", "request-key") if shutil.which(name, path=guest.PATH) is None]
    return f"{', '.join(absent)} missing: run scripts/foreign" if absent else ""


def lacks_channels() -> str:
    """Return the reason why the guest's kernel gets one channel with tickets, as one line; empty if it gets more. It asks
    no server, since it has no ticket to show."""
    if Security.kind and kernels.GuestKernel.series == kernels.OWN:
        return "Linux 6.1 tells cifs.upcall an empty name for further channels, for which there is no ticket; use --kernel 6.12"
    return ""


def never_ended(server: servers.Server) -> list[str]:
    """Return as a failure that no session of our server has met the end of its short ticket since the server's start. Linux
    then logs on anew and names its former session, which `reauthenticated` does not count."""
    if server.kind != "trunkline" or not Security.kind or Security.life_s > SHORT_LIFE_S:
        return []
    expired, renewed = server.ticket_ends()
    print(f"        sessions were told {expired} times that their ticket has ended; {renewed} were authenticated again", flush=True)
    return [] if expired else [f"no session has ended with its ticket of {Security.life_s} s"]


def options(words: str) -> str:
    """Return mount options with the chosen security in the place of NTLM."""
    return words.replace(PASSWORD_OPTIONS, f"sec={Security.kind},cruid=0") if Security.kind else words


class TicketRealm:
    """A realm in a guest's network, with the first account of every server. A context manager."""

    def __init__(self, network: guest.Network, directory: Path) -> None:
        self._network, self._directory = network, directory
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            try:
                # Its files lie over those of /etc in the namespace, and the guest lays them over its own.
                files = stack.enter_context(RealmNetwork(self._network.name, guest.SERVER_ADDRESS.rpartition(".")[0] + ".", "tap0"))
            except Missing as reason:
                raise servers.CannotStart("samba", str(reason)) from None
            realm = stack.enter_context(realms.Realm(self._directory / "realm", network=self._network, address=guest.SERVER_ADDRESS,
                                                     clock_skew_s=min(MAX_CLOCK_SKEW_S, max(2, Security.life_s // 10)),
                                                     settings=SETTINGS))
            files.write("krb5.conf", realm.config.read_text())
            files.write("hosts", f"127.0.0.1 localhost\n{guest.SERVER_ADDRESS} {HOST}\n")
            self._settings = f"/etc/netns/{self._network.name}"
            self._keytab = self._directory / "keytab"
            realm.add_service(f"cifs/{HOST}", self._keytab)
            realm.add_user(*servers.accounts()[0])
            self._realm = realm
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def for_guest(self) -> dict[str, Any]:
        """Return what the guest needs for `get_tickets` (agent.py)."""
        user, password = servers.accounts()[0]
        return {"settings": self._settings, "user": user, "password": password, "life_s": Security.life_s}

    def variables(self) -> dict[str, str]:
        """Return the variables that make a server of `proving/servers` a member of the realm."""
        return {"REALM": self._realm.name, "KEYTAB": str(self._keytab), "DOMAIN_HOST": HOST, "KRB5_CONFIG": str(self._realm.config)}
