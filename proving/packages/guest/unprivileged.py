"""The second way to run: as the user `trunkline`, without capabilities, by a drop-in that docs/install.md has."""

import re
from pathlib import Path

from proving.packages.guest.machine import Failed
from proving.packages.guest.trial import ADD_USER, NFS, PASSWORD, SERVED, SMB, USER, Trial

PAGE = Path(__file__).resolve().parents[3] / "docs" / "install.md"
DROP_IN = "/etc/systemd/system/trunkline.service.d/unprivileged.conf"
# Without CAP_NET_BIND_SERVICE the server takes a port of its own for SMB. That of NFS is above 1023.
SMB_PORT = 4450
# The page's line for the configuration: root's commands and the service find the same state.
STATE_DIR = "sed -i '/^.server.$/a state_dir = \"/var/lib/trunkline\"' /etc/trunkline/trunkline.toml;"


def drop_in() -> str:
    """Return the drop-in of the page: the block of an ini file that names the user."""
    blocks = re.findall(r"```ini\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return next((block for block in blocks if re.search(r"^User=trunkline$", block, re.MULTILINE)), "")


def run(trial: Trial) -> None:
    """All cases of this subject."""
    machine, text = trial.machine, drop_in()
    if not text:
        raise Failed(f"{PAGE} has no block of an ini file with User=trunkline")
    trial.prepare()
    trial.install()
    machine.must(f"chown trunkline: {SERVED}; mkdir -p $(dirname {DROP_IN}); cat >{DROP_IN} <<'END'\n{text}END\n"
                 f"{STATE_DIR} systemctl daemon-reload")
    trial.does("it runs", "systemctl restart trunkline && ps -o user= -C trunkline", 120, "^trunkline$")
    trial.does("without capabilities", "grep -E '^Cap(Prm|Eff|Bnd)' /proc/$(systemctl show --value -p MainPID trunkline)/status",
               says=r"^(Cap...:\s+0{16}\s*){3}$")
    trial.does("a user and a share", f"printf %s '{PASSWORD}' | {ADD_USER} && trunkline share create docs path={SERVED} "
               f"users={USER}=full protocols=smb,nfs && systemctl restart trunkline", 120)
    options = f"vers=3.1.1,port={SMB_PORT},user={USER},password={PASSWORD},uid={USER}"
    trial.does("a mount over SMB", f"mount -t cifs //127.0.0.1/docs {SMB} -o {options}")
    trial.does("a mount over NFS", f"mount -t nfs4 127.0.0.1:/docs {NFS} -o vers=4.2")
    trial.does("files belong to the service's user", f"su {USER} -c 'echo text >{SMB}/file' && cat {NFS}/file && stat -c %U {SERVED}/file",
               says="text\ntrunkline$")
    # The client's uid counts over NFS, and is not the directory's owner.
    machine.must(f"chmod 1777 {SERVED}")
    trial.does("a file over NFS", f"su {USER} -c 'echo text >{NFS}/other' && stat -c %U {SERVED}/other", says="^trunkline$")
    trial.unmount()
    trial.case("no error in the journal", "; ".join(line for line in trial.log().splitlines() if " ERROR " in line))
