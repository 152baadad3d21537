"""An upgrade to a newer build while clients have files open and write."""

import re

from proving.packages.guest.trial import Trial

MARK = "# a line of the administrator."
CONFIGURATION = "/etc/trunkline/trunkline.toml"


def run(trial: Trial) -> None:
    """All cases of an upgrade."""
    machine = trial.machine
    trial.set_up()
    machine.must(f"echo '{MARK}' >>{CONFIGURATION}")
    identity = _identity(trial)
    before = trial.property("MainPID")
    trial.start_loads()
    said = trial.install(trial.debs.newer, "apt upgrades it")
    trial.case("nobody is asked", "; ".join(re.findall(r"(?im)^.*(?:error|failed|What would you like).*$", said)))
    trial.case("the service runs the newer program", "" if trial.property("MainPID") not in ("0", before) else "it was not restarted")
    for name in ("smb", "nfs"):
        trial.written(name, 20)
    trial.end_loads("upgrade")
    trial.does("the administrator's configuration stays", f"grep -F '{MARK}' {CONFIGURATION} && ! grep -F 'newer package' {CONFIGURATION}")
    trial.does("the package's own lies beside it", f"grep -F 'newer package' {CONFIGURATION}.dpkg-dist")
    trial.case("users and identity stay", "" if _identity(trial) == identity else f"{identity} became {_identity(trial)}")
    trial.does("the unit is as in the package", "systemctl is-enabled trunkline && systemctl show -p NeedDaemonReload trunkline", says="NeedDaemonReload=no")
    trial.unmount()
    trial.case("no warning in the journal", trial.complaints(but="only after the next start"))
    _unchanged_configuration(trial)


def _unchanged_configuration(trial: Trial) -> None:
    """Whoever changed nothing gets the configuration of the newer package."""
    machine = trial.machine
    machine.must("systemctl stop trunkline; apt-get purge -y trunkline", 120)
    trial.install()
    trial.install(trial.debs.newer)
    trial.does("a configuration that nobody changed is replaced", f"grep -F 'newer package' {CONFIGURATION} && test ! -e {CONFIGURATION}.dpkg-dist")


def _identity(trial: Trial) -> str:
    return trial.machine.must("trunkline user list; trunkline share list; trunkline status --json | grep -o '\"guid\": *\"[^\"]*\"' || true")
