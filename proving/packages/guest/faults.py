"""A killed server, a wrong configuration, a reboot, and a state that a newer program wrote."""

import json

from proving.packages.guest.trial import MOUNTS, SCRIPTS, SERVED, SMB, USER, Trial

CONFIGURATION = "/etc/trunkline/trunkline.toml"
VERSION = "/var/lib/trunkline/version"
# After this time a unit that systemd starts again and again would have been started many times.
SETTLED_S = 15
# What connects.py has counted, and how many connects are enough to have met each death.
CONNECTS, CONNECTS_MADE = "/var/tmp/connects", 100


def run(trial: Trial) -> None:
    """All cases of this subject."""
    trial.set_up()
    _killed(trial)
    _wrong_configuration(trial)
    _port_in_use(trial)
    _reboot(trial)
    _newer_state(trial)


def _killed(trial: Trial) -> None:
    """The listening sockets outlive the process at systemd, so a client that connects meanwhile is not refused."""
    trial.start_loads()
    trial.machine.must(f"systemd-run --quiet --collect --unit=connects python3 {SCRIPTS}/connects.py {CONNECTS} 445 2049")
    for kill in range(1, 4):
        trial.machine.must("systemctl kill --signal=KILL trunkline")
        trial.machine.until(f"systemctl is-active trunkline && test $(systemctl show --value -p NRestarts trunkline) = {kill}")
        for name in ("smb", "nfs"):
            trial.written(name, 10)
    trial.end_loads("three times kill -9")
    trial.machine.must("systemctl kill --signal=TERM connects")
    said = json.loads(trial.machine.until(f"cat {CONNECTS}"))
    trial.show(f"connects beside three times kill -9: {said}")
    sound = said["made"] > CONNECTS_MADE and not said["refused"] and not said["other"]
    trial.case("no connect is refused meanwhile", "" if sound else str(said))
    trial.does("systemd has stored the sockets", "systemctl show --value -p NFileDescriptorStore trunkline", says=r"^[24]$")


def _wrong_configuration(trial: Trial) -> None:
    trial.unmount()
    machine = trial.machine
    machine.must(f"cp {CONFIGURATION} /var/tmp/sound; echo 'nosuch = 1' >>{CONFIGURATION}")
    before = trial.property("MainPID")
    trial.refuses("a reload with a mistake says so",
                  "systemctl reload trunkline || { journalctl -b --no-pager -u trunkline | tail -3; false; }", "nosuch")
    trial.case("and the server goes on", "" if trial.property("MainPID") == before else "it was restarted")
    machine.run("systemctl restart trunkline")
    machine.must(f"sleep {SETTLED_S}")
    trial.case("exit status 2", "" if trial.property("ExecMainStatus") == "2" or "status=2" in trial.log() else trial.property("ExecMainStatus"))
    _not_tried_again(trial)
    trial.does("the journal names the mistake", f"journalctl -b --no-pager -u trunkline | grep -F '{CONFIGURATION}:' | grep nosuch")
    trial.does("and a corrected one starts", f"cp /var/tmp/sound {CONFIGURATION} && systemctl start trunkline", 120)


def _port_in_use(trial: Trial) -> None:
    """Another server has the port."""
    listen = "import socket, time; s = socket.create_server(('0.0.0.0', 445)); time.sleep(600)"
    trial.machine.must(f'systemctl stop trunkline && systemd-run --quiet --collect --unit=other python3 -c "{listen}"')
    trial.machine.until("ss -lntH | grep -q ':445 '")
    trial.machine.run("systemctl start trunkline")
    trial.machine.must(f"sleep {SETTLED_S}")
    trial.does("a port in use is told", "journalctl -b --no-pager -u trunkline | tail -20 | grep 445", says="in use")
    _not_tried_again(trial)
    trial.machine.must("systemctl stop other && systemctl restart trunkline", 120)


def _reboot(trial: Trial) -> None:
    trial.machine.must(f"su {USER} -c 'true'; echo text >{SERVED}/before")
    seconds = trial.machine.reboot()
    trial.show(f"booted in {seconds:.0f} s")
    trial.does("it starts after a reboot", "timeout 60 systemctl is-system-running --wait; systemctl is-active trunkline", 90)
    trial.does("after the network is there", "systemctl show --value -p After trunkline", says="network-online.target")
    trial.does("its addresses include the network's", "journalctl -b --no-pager -u trunkline", says=r"10\.77\.0\.2")
    trial.does("the share is there", f"{MOUNTS[SMB]} && cat {SMB}/before && umount {SMB}", says="text")
    trial.case("no warning in the journal after a reboot", trial.complaints())


def _newer_state(trial: Trial) -> None:
    """A downgrade: the older program finds the state of a newer one."""
    machine = trial.machine
    machine.must(f"systemctl stop trunkline && cp {VERSION} /var/tmp/version && echo 'trunkline state 99' >{VERSION}")
    machine.run("systemctl start trunkline")
    machine.must(f"sleep {SETTLED_S}")
    trial.does("a newer state is refused with one line", "journalctl -b --no-pager -u trunkline | grep -F 'version is 99'",
               says="state directory /var/lib/trunkline")
    _not_tried_again(trial)
    trial.install(trial.debs.newer, "apt goes on with a server that does not start")
    trial.install(trial.debs.proven, "and back to the older package")
    trial.does("dpkg is content", "test -z \"$(dpkg --audit)\" && dpkg -s trunkline", says="Status: install ok installed")
    machine.must(f"cp /var/tmp/version {VERSION}")
    trial.does("the way back", f"systemctl restart trunkline && {MOUNTS[SMB]} && cat {SMB}/before && umount {SMB}", 120, "text")


def _not_tried_again(trial: Trial) -> None:
    state, restarts = trial.property("ActiveState"), trial.property("NRestarts")
    trial.case("it is not started again and again", "" if (state, restarts) == ("failed", "0") else f"{state}, {restarts} restarts")
