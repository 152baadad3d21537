"""Remove, reinstall and purge, as Debian's policy has them (10.7.3, 6.8)."""

from proving.packages.guest.trial import MOUNTS, SERVED, SMB, USER, Trial

KEPT = "find /var/lib/trunkline /etc/trunkline -type f ! -name lock | sort"
# What a purge must leave none of.
LEFT = ("find / -xdev -ipath '*trunkline*' ! -path '/srv/*' ! -path '/host/*' ! -path '/var/log/journal/*' ! -path '/proc/*' "
        "! -path '/var/cache/apt/*' ! -path '/var/lib/systemd/*'")


def run(trial: Trial) -> None:
    """All cases of a removal."""
    machine = trial.machine
    trial.set_up()
    machine.must(f"su {USER} -c 'echo text >{SMB}/kept'")
    trial.unmount()
    files = machine.must(KEPT)
    trial.does("apt removes it", "apt-get remove -y trunkline", 120)
    trial.does("the service is gone", "test -z \"$(pidof trunkline)\" && ! test -e /usr/bin/trunkline && "
               "! test -e /usr/lib/systemd/system/trunkline.service && ! systemctl start trunkline")
    trial.does("systemd has no failure", "systemctl --failed --no-legend | grep -c . | grep -x 0; systemctl is-system-running", says="running")
    left = set(machine.must(KEPT).splitlines())
    trial.case("state and configuration stay", "; ".join(set(files.splitlines()) - left))
    trial.does("the users' files stay", f"cat {SERVED}/kept", says="text")
    trial.install(label="apt installs it again")
    trial.does("user, share and files are there again", f"{MOUNTS[SMB]} && cat {SMB}/kept && umount {SMB}", says="text")
    _purge(trial)


def _purge(trial: Trial) -> None:
    trial.does("apt purges it", "apt-get purge -y trunkline", 120)
    left = trial.machine.must(f"{LEFT} || true").splitlines()
    trial.case("nothing of it is left", "; ".join(left))
    trial.does("dpkg does not know it any more", "test -z \"$(dpkg-query -W -f '${Status}' trunkline 2>/dev/null)\" && test -z \"$(dpkg --audit)\"")
    trial.does("the users' files stay after a purge", f"cat {SERVED}/kept && stat -c %U {SERVED}/kept", says=USER)
    trial.install(label="apt installs it after the purge")
    trial.case("it is a new server", "" if USER not in trial.machine.must("trunkline user list") else f"{USER} is still there")
    trial.does("purge of what was removed", "apt-get remove -y trunkline && apt-get purge -y trunkline", 120)
    trial.does("no state is left", "test ! -e /var/lib/trunkline && test ! -e /etc/trunkline")
