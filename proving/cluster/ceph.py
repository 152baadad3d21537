"""A small Ceph 18.2: one monitor, one OSD and one MDS in the store's namespace, with cephx and no manager.

The nodes' keys have the least that a node needs (`NODE_CAPABILITIES`).
"""

import json
import secrets
import signal
import subprocess
import uuid
from pathlib import Path
from typing import Any

from proving.cluster import network, unpacked
from proving.cluster.daemon import Daemon, wait_until
from proving.cluster.machine import Machine, Process

FILE_SYSTEM = "fs"
# What a node may do: mount the file system, find the active MDS, put a client into the list of those shut out, and take
# it out again. The MDS ends the sessions of such clients by itself.
NODE_CAPABILITIES = {
    "mon": f'allow r fsname={FILE_SYSTEM}, allow command "osd blocklist"',
    "mds": f"allow rw fsname={FILE_SYSTEM}",
    "osd": f"allow rw tag cephfs data={FILE_SYSTEM}",
}
UP_WITHIN_S = 60
MON_PORT = 3300
_SETTINGS = """\
[global]
fsid = {fsid}
mon_host = [v2:{address}:{port}]
public_addr = {address}
ms_bind_port_min = 26800
ms_bind_port_max = 27100
auth_cluster_required = cephx
auth_service_required = cephx
auth_client_required = cephx
keyring = {work}/$name.keyring
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 8
osd_pool_default_pg_autoscale_mode = off
osd_crush_chooseleaf_type = 0
mon_allow_pool_size_one = true
mon_warn_on_pool_no_redundancy = false
mon_data = {work}/mon
mds_data = {work}/mds
osd_data = {work}/osd
admin_socket = {work}/$name.$pid.asok
log_file = {work}/$name.log
run_dir = {work}
pid_file =
osd_memory_target = 939524096
bluestore_block_size = 10737418240
bluestore_cache_autotune = false
bluestore_cache_size = 33554432
osd_max_pg_log_entries = 200
osd_min_pg_log_entries = 50
mds_cache_memory_limit = 67108864
# As docs/two-nodes.md asks for it: it decides how long the files of a dead machine keep the next owner waiting.
mds_max_file_recover = 1024
rocksdb_cache_size = 8388608
mon_rocksdb_options = write_buffer_size=4194304,compression=kNoCompression
"""


class Ceph:
    """A Ceph in a directory, run at the end of a cable. A context manager; leaving it kills the daemons."""

    def __init__(self, cable: network.Cable, work: Path) -> None:
        self._cable, self.work = cable, work
        self.settings = work / "ceph.conf"
        self._mounts: dict[str, Process] = {}
        self.daemons = {name: self._daemon(program, name) for program, name in (("ceph-mon", "mon.a"), ("ceph-osd", "osd.0"), ("ceph-mds", "mds.m"))}

    def __enter__(self) -> "Ceph":
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in reversed(self.daemons.values()):
            daemon.kill()

    def run(self, program: str, *words: object, limit_s: float = 30) -> str:
        """Run a program of Ceph as its administrator. Returns its output."""
        command = self._cable.inside(unpacked.with_ceph(program, "-c", self.settings, *words))
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise OSError(f"{program} {' '.join(map(str, words))}: {done.stderr.strip()[-400:]}")
        return done.stdout

    def client_key(self, name: str) -> Path:
        """Create the key of a node, and return the file that holds it."""
        keyring = self.work / f"client.{name}.keyring"
        words = [word for kind, what in NODE_CAPABILITIES.items() for word in (kind, what)]
        self.run("ceph", "auth", "get-or-create", f"client.{name}", *words, "-o", keyring)
        return keyring

    def sessions(self) -> list[dict[str, Any]]:
        """Return the MDS's sessions."""
        found: list[dict[str, Any]] = json.loads(self.run("ceph", "tell", "mds.m", "client", "ls"))
        return found

    def boot(self, machine: Machine) -> None:
        """Mount the whole of CephFS on a machine, with its own key. Its programs find a `ceph` with that key."""
        client = f"node-{machine.name}"
        who = ["-c", self.settings, "--id", client, "--keyring", self.client_key(client)]
        unpacked.write_program(machine.programs / "ceph", unpacked.with_ceph("ceph", *who))
        words = unpacked.with_ceph("ceph-fuse", *who, "--admin-socket", machine.sockets / "$pid.asok", "-f", "--client_mountpoint=/", machine.directory)
        self._mounts[machine.name] = mount = Process(machine, words, self.work / f"{client}.out")
        wait_until(f"{machine.name}: CephFS", lambda: machine.mounted() == "fuse.ceph-fuse", UP_WITHIN_S, mount.log)

    def repair(self, machine: Machine) -> None:
        """Mount it again if the machine's client was shut out: such a mount never comes back by itself."""
        done = subprocess.run(machine.inside(["stat", str(machine.directory / "virtual")]), capture_output=True, timeout=30)
        if done.returncode != 0:
            self._mounts[machine.name].signal(signal.SIGKILL)
            self._mounts[machine.name].wait(UP_WITHIN_S)
            machine.run("umount", "--lazy", machine.directory)
            for socket in machine.sockets.iterdir():
                socket.unlink()
            self.boot(machine)

    def fence(self, machine: Machine) -> None:
        """Shut out every client of a machine: evict its sessions, by which they are blocklisted too."""
        for session in self.sessions():
            if session["entity"]["addr"]["addr"].partition(":")[0] == machine.address:
                self.run("ceph", "tell", "mds.m", "client", "evict", f"id={session['id']}")

    def take(self, machine: Machine) -> None:
        """Nothing is to be done: every machine has its mount."""

    def release(self, machine: Machine) -> None:
        """Nothing is to be done."""

    def fail(self, machine: Machine) -> None:
        """Nothing is to be done: what lies in ceph-fuse goes with the machine."""

    def _daemon(self, program: str, name: str) -> Daemon:
        words = unpacked.with_ceph(program, "-c", self.settings, "-f", "-i", name.partition(".")[2])
        return Daemon(self._cable.inside(words), self.work / f"{program}.out")

    def _make(self) -> None:
        self.work.mkdir()
        fsid = str(uuid.uuid4())
        self.settings.write_text(_SETTINGS.format(fsid=fsid, address=network.STORE, port=MON_PORT, work=self.work))
        self._make_monitor(fsid)
        self._make_osd()
        (self.work / "mds").mkdir()
        self._key_of("mds.m", "mon", "allow profile mds", "mds", "allow *", "osd", "allow *")
        self.daemons["mds.m"].start()
        for pool in ("meta", "data"):
            self.run("ceph", "osd", "pool", "create", pool, "8")
        self.run("ceph", "fs", "new", FILE_SYSTEM, "meta", "data")
        self.wait_for_mds()

    def wait_for_mds(self) -> None:
        """Wait until the MDS is active."""
        wait_until("the MDS", lambda: "up:active" in self.run("ceph", "mds", "stat"), UP_WITHIN_S, self.daemons["mds.m"].log)

    def _make_monitor(self, fsid: str) -> None:
        own, admin = self.work / "mon.a.keyring", self.work / "client.admin.keyring"
        self.run("ceph-authtool", "--create-keyring", own, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        everything = [word for kind in ("mon", "osd", "mds") for word in ("--cap", kind, "allow *")]
        self.run("ceph-authtool", "--create-keyring", admin, "--gen-key", "-n", "client.admin", *everything)
        self.run("ceph-authtool", own, "--import-keyring", admin)
        monmap = self.work / "monmap"
        self.run("monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:{network.STORE}:{MON_PORT}]", monmap)
        self.run("ceph-mon", "--mkfs", "-i", "a", "--monmap", monmap, "--keyring", own)
        self.daemons["mon.a"].start()
        wait_until("the monitor", self._answers, UP_WITHIN_S, self.daemons["mon.a"].log)

    def _answers(self) -> bool:
        try:
            self.run("ceph", "--connect-timeout", "5", "mon", "stat")
        except (OSError, subprocess.TimeoutExpired):
            return False
        return True

    def _make_osd(self) -> None:
        (self.work / "osd").mkdir()
        identity = str(uuid.uuid4())
        self.run("ceph", "osd", "new", identity, "0")
        self._key_of("osd.0", "mon", "allow profile osd", "osd", "allow *")
        self.run("ceph-osd", "--mkfs", "-i", "0", "--osd-uuid", identity, "--osd-data", self.work / "osd")
        self.daemons["osd.0"].start()

    def _key_of(self, name: str, *capabilities: str) -> None:
        self.run("ceph", "auth", "get-or-create", name, *capabilities, "-o", self.work / f"{name}.keyring")


def directory() -> Path:
    """Return a new name of a directory for a store: in memory, where that has the room."""
    parent = Path("/dev/shm")
    return (parent if parent.is_dir() else Path("/tmp")) / f"cluster-{secrets.token_hex(4)}"
