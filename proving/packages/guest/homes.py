"""Home shares: the drop-in of the package opens /home (docs/home-shares.md)."""

from proving.packages.guest.trial import ADD_USER, PASSWORD, SMB, USER, Trial

CREATE_SHARE = "trunkline share create home 'path=/home/{user}' create_home=on 'users=*=full'"
OPEN_HOME = ("install -D -m 644 /usr/share/trunkline/home-shares.conf -t /etc/systemd/system/trunkline.service.d/ "
             "&& systemctl daemon-reload && systemctl restart trunkline")
MOUNT = f"mount -t cifs //127.0.0.1/home {SMB} -o vers=3.1.1,user={USER},password={PASSWORD},uid={USER}"


def run(trial: Trial) -> None:
    """All cases of this subject."""
    machine = trial.machine
    trial.prepare()
    trial.install()
    machine.must(f"printf %s '{PASSWORD}' | {ADD_USER}")
    trial.refuses("a home share is refused while the unit hides /home", CREATE_SHARE, "/home")
    trial.does("the drop-in of the package", OPEN_HOME, 120)
    trial.does("the share", CREATE_SHARE)
    trial.does("its user mounts it", MOUNT)
    trial.does("and writes into the own home", f"su {USER} -c 'echo text >{SMB}/file' && stat -c %U /home/{USER}/file", says=f"^{USER}$")
    machine.run(f"umount {SMB}; useradd --no-create-home bob")
    machine.must(f"printf %s '{PASSWORD}' | {ADD_USER.replace(USER, 'bob')}")
    trial.does("a missing home is made", f"{MOUNT.replace(USER, 'bob')} && stat -c '%U %a' /home/bob && umount {SMB}", says="^bob 700$")
    trial.case("no warning in the journal", trial.complaints())
