"""NFS-Ganesha on the same Ceph, as the reference: FSAL_CEPH and `rados_ng`, taken over by the harness."""

from pathlib import Path

from proving.cluster import network, node, unpacked
from proving.cluster.ceph import Ceph
from proving.cluster.daemon import wait_until
from proving.cluster.machine import Process

# The lease is that of Trunkline in node.py. The grace period is the shortest that Ganesha recommends for it.
_SETTINGS = """\
NFS_CORE_PARAM {{ allow_set_io_flusher_fail = true; Protocols = 4; Bind_addr = {served}; Enable_NLM = false; Enable_RQUOTA = false;
  NFS_Port = {port}; }}
NFSv4 {{ RecoveryBackend = rados_ng; Minor_Versions = 1, 2; Lease_Lifetime = 20; Grace_Period = 30; Delegations = false; }}
RADOS_KV {{ ceph_conf = "{ceph}"; userid = "admin"; pool = "meta"; namespace = "ganesha"; nodeid = "files"; }}
CEPH {{ Ceph_Conf = "{ceph}"; }}
EXPORT {{ Export_Id = 100; Path = /virtual/share; Pseudo = /{share}; Access_Type = RW; Protocols = 4; Transports = TCP;
  Squash = No_Root_Squash; SecType = sys; FSAL {{ Name = CEPH; User_Id = "admin"; }} }}
"""


def missing() -> str:
    """Return the reason why Ganesha cannot run here, as one line; empty if it can."""
    program = unpacked.CEPH / "usr/bin/ganesha.nfsd"
    return "" if program.exists() else f"{program} is missing: scripts/foreign"


class Ganesha(node.ByHand):
    """Take-overs of Ganesha by the harness."""

    name = "ganesha"

    def __init__(self, nodes: dict[str, node.Node], store: Ceph) -> None:
        super().__init__(nodes, store)
        self._settings = store.work / "ganesha.conf"
        self._settings.write_text(_SETTINGS.format(served=network.SERVED, port=node.NFS_PORT, ceph=store.settings, share=node.SHARE))

    def start_again(self, node: node.Node) -> None:
        """Start the program again on the machine where it was killed."""
        assert node.process is not None
        node.process.wait(30)
        self._start(node)

    def _start(self, found: node.Node) -> None:
        log = found.log
        words = unpacked.with_ceph("ganesha.nfsd", "-F", "-f", self._settings, "-L", log, "-p", Path(f"{log}.pid"))
        # By the host's name it asks Ceph to end the session of its former self.
        same_host = ["unshare", "--uts", "sh", "-c", 'hostname files && exec "$@"', "sh"]
        found.process = Process(found.machine, [*same_host, *words], log)
        listens = ["ss", "-Hltn", "sport", "=", f":{node.NFS_PORT}"]
        wait_until(f"{found.machine.name} listens", lambda: bool(found.machine.run(*listens)), node.SERVE_WITHIN_S, log, every_s=0.01)
