#!/usr/bin/env python3
"""Install, upgrade, break, confine, remove and purge the .deb on Debian machines in guests.

    run.py [--deb FILE] [--only SUBJECT ...]

Each subject has a machine of its own (machine.py), with systemd, AppArmor and both of Linux's clients. Without --deb the
newest package of `make package` is taken. Needs root, and the Debian packages user-mode-linux and mmdebstrap.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from proving.harness import server as servers
from proving.harness.tally import Tally, skip_whole_suite
from proving.kernel_client import guest
from proving.packages.guest import confined, debs, faults, fresh, homes, image, removal, unprivileged, upgrade
from proving.packages.guest.machine import Failed, Machine
from proving.packages.guest.trial import Debs, Trial, copied

SUITE = "package-machine"
SUBJECTS: dict[str, Callable[[Trial], None]] = {
    "fresh": fresh.run, "upgrade": upgrade.run, "removal": removal.run, "faults": faults.run, "confined": confined.run,
    "unprivileged": unprivileged.run, "homes": homes.run,
}


def exercise(tally: Tally, subject: str, deb: Path, newer: Path) -> None:
    """Run one subject on a machine of its own."""
    began = time.monotonic()
    try:
        with guest.Network() as network, Machine(network) as machine:
            packages = Debs(copied(deb, machine, "trunkline.deb"), copied(newer, machine, "trunkline-newer.deb"))
            try:
                SUBJECTS[subject](Trial(tally, machine, packages, subject))
            except Failed as reason:
                tally.add("fail", subject, f"{reason} | the journal: {machine.run('journalctl -b --no-pager -u trunkline | tail -5').output}")
    except Failed as reason:
        tally.add("fail", subject, str(reason))
    print(f"        {subject}: {time.monotonic() - began:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--deb", type=Path, help="the package; unset: the newest of `make package`")
    parser.add_argument("--only", action="append", choices=list(SUBJECTS))
    options = parser.parse_args()
    servers.clean_up_when_told_to_end()
    deb = options.deb or debs.built()
    if deb is None:
        skip_whole_suite(SUITE, "no package is built: make package")
    if reason := guest.missing() or guest.missing(("mount.nfs", "nfs-common")) or image.missing():
        skip_whole_suite(SUITE, reason)
    tally = Tally(SUITE)
    print(f"        {deb.name}: {deb.stat().st_size / 1e6:.2f} MB", flush=True)
    try:
        image.make()
    except image.CannotMake as reason:
        skip_whole_suite(SUITE, str(reason))
    with tempfile.TemporaryDirectory(prefix="proof-debs-") as work:
        newer = debs.changed(deb, Path(work) / "newer.deb", f"{debs.field(deb, 'Version')}+newer", debs.with_further_line)
        for subject in options.only or SUBJECTS:
            exercise(tally, subject, deb, newer)
    sys.exit(tally.close())


if __name__ == "__main__":
    main()
