"""Ceph for machines that are guests: they mount the file system by their kernel's own client."""

import re
from pathlib import Path

from proving.cluster import network, unpacked
from proving.cluster.ceph import FILE_SYSTEM, MON_PORT, Ceph
from proving.cluster.machine import Machine

BLOCKED_S = 31_536_000
# The kernel's client has a random number in its address, which only a kernel with debugfs tells. user-mode-linux has none. So a
# former owner is fenced by the address of its host.
_FENCE = """\
#!/bin/sh
case $TRUNKLINE_FORMER_NODE in
{cases}
*) echo "no node $TRUNKLINE_FORMER_NODE" >&2; exit 1 ;;
esac
exec ceph osd blocklist range add "$address/32" {blocked_s}
"""


class KernelCeph(Ceph):
    """The same Ceph, under guests."""

    def boot(self, machine: Machine) -> None:
        """Mount the whole of CephFS on a machine, with its own key. Its programs find a `ceph` with that key, and a `fence`."""
        client = f"node-{machine.name}"
        keyring = self.client_key(client)
        unpacked.write_program(machine.programs / "ceph", unpacked.with_ceph("ceph", "-c", self.settings, "--id", client, "--keyring", keyring))
        fence = machine.programs / "fence"
        cases = "\n".join(f"{name}) address={address} ;;" for name, address in network.MACHINES.items())
        fence.write_text(_FENCE.format(cases=cases, blocked_s=BLOCKED_S))
        fence.chmod(0o755)
        # Its kernel is another one now. Nothing of the former one can write any more.
        self.run("ceph", "osd", "blocklist", "range", "rm", f"{machine.address}/32")
        options = f"name={client},secret={_secret(keyring)},ms_mode=crc,mds_namespace={FILE_SYSTEM}"
        # The kernel finds the monitor by this, without Ceph's own mount.ceph.
        machine.run("mount", "-i", "-t", "ceph", f"{network.STORE}:{MON_PORT}:/", machine.directory, "-o", options)

    def shut_out(self, machine: Machine) -> None:
        """Shut a machine out that may live."""
        self.run("ceph", "osd", "blocklist", "range", "add", f"{machine.address}/32", BLOCKED_S)

    def repair(self, machine: Machine) -> None:
        """Boot the machine anew if its client was shut out."""
        try:
            machine.run("stat", machine.directory / "virtual")
        except OSError:
            machine.die()
            machine.boot()
            self.boot(machine)


def _secret(keyring: Path) -> str:
    found = re.search(r"key\s*=\s*(\S+)", keyring.read_text())
    if found is None:
        raise OSError(f"{keyring} has no key")
    return found[1]
