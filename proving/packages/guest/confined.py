"""AppArmor's profile of the package, which binds."""

import re

from proving.packages.guest.trial import MOUNTS, NFS, SMB, USER, Trial

PROFILE = "/etc/apparmor.d/trunkline"
MARK = "/proc/$(systemctl show --value -p MainPID trunkline)/attr/current"
WORK = "cd {0} && mkdir {1} && cd {1} && echo text >a && ln a b && mv b c && touch -d yesterday a && cat c && : >a && rm a && cd .. && rm -r {1}"


def run(trial: Trial) -> None:
    """All cases of this subject."""
    trial.set_up()
    trial.does("the service has the profile", f"cat {MARK}", says=r"^trunkline \(enforce\)")
    for name, where in (("smb", SMB), ("nfs", NFS)):
        trial.does(f"work over {name}", f"su {USER} -c '{WORK.format(where, 'work-' + name)}'", says="text")
    trial.does("a symbolic link", f"su {USER} -c 'cd {NFS} && ln -s nowhere link && readlink link && rm link'", says="nowhere")
    trial.does("a change by the host", f"ls {SMB}; echo text >/srv/docs/by-the-host; sleep 1; cat {SMB}/by-the-host", says="text")
    trial.does("a reload", "systemctl reload trunkline")
    trial.does("a command of the administrator", "trunkline status && trunkline share set docs comment=text")
    trial.does("a restart with the mounts", f"systemctl restart trunkline && cat {NFS}/by-the-host {SMB}/by-the-host", 120)
    trial.case("nothing is denied", _denied(trial))
    _outside(trial)


def _denied(trial: Trial) -> str:
    lines = trial.machine.must("journalctl -b --no-pager | grep -E 'apparmor=\"(DENIED|ALLOWED)\"' | grep trunkline || true")
    fields = r'(?:operation|name|requested_mask|capname)="[^"]*"'
    return "; ".join(sorted({" ".join(re.findall(fields, line)) for line in lines.splitlines()}))


def _outside(trial: Trial) -> None:
    """What no share needs is denied even to a share that has it, and to its administrator."""
    machine = trial.machine
    machine.must(f"umount -l {SMB}; trunkline share create wrong path=/etc 'users=*=full'; chmod 644 /etc/shadow")
    trial.does("a share in the wrong place", MOUNTS[SMB].replace("/docs", "/wrong").replace(",persistenthandles", ""))
    trial.refuses("the passwords of the host are denied to it", f"cat {SMB}/shadow", "Permission denied|Input/output")
    trial.case("and the journal has it", "" if "shadow" in _denied(trial) else f"the journal has: {_denied(trial)}")
    machine.run(f"umount -l {SMB}; chmod 640 /etc/shadow; trunkline share delete wrong --force")
