"""A whole cluster: network, stores, two machines with the virtual server, a prober and a guest with Linux's own clients."""

import contextlib
import itertools
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from proving.cluster import ceph, disk, etcd, ganesha, guest_machine, kernel_ceph, neighbour, network, node, programs, unpacked
from proving.cluster.daemon import wait_until
from proving.cluster.machine import Machine
from proving.cluster.store import Store
from proving.kernel_client import console, guest

HERE = Path(__file__).resolve().parent
GUEST_BOOTS_WITHIN_S = 60
ASKED_WITHIN_S = 120
OPENED_WITHIN_S = 900
# The prober asks at most fifty times a second.
ANSWERS_READ = 20_000
SMB = f"vers=3.1.1,sec=ntlmsspi,username={node.USER},password={node.PASSWORD},noperm,persistenthandles,nosharesock,actimeo=0,echo_interval=2"
NFS = "vers=4.2,nconnect=2,sec=sys,nosharecache,actimeo=1,timeo=20,retrans=2"
OTHER_NFS = "vers=4.1,sec=sys,nosharecache,actimeo=1,timeo=20,retrans=2"
# Kind, label, and the path in the guest.
HOLDERS = [("held", "smb-held", "/mnt/smb/held-smb"), ("held", "nfs-held", "/mnt/nfs/held-nfs")]
OTHERS = [("new", "smb-new", "/mnt/smb/new-smb"), ("new", "nfs-new", "/mnt/nfs/new-nfs"),
          ("intruder", "intruder-of-smb", "/mnt/other/held-smb"), ("intruder", "intruder-of-nfs", "/mnt/other/held-nfs")]
PROTOCOLS = ("smb", "nfs")


class Cluster:
    """Everything, up and under load. A context manager; leaving it removes all."""

    def __init__(self, kind: str = "ceph", server: str = "trunkline", by_hand: bool = False, own_clock: bool = False, has_clients: bool = True,
                 has_guests: bool = False, family: int = 4) -> None:
        self._server, self._has_guests = server, has_guests
        # The address by which clients reach the virtual server, and all of its addresses.
        self.family = family
        self.served = network.SERVED_BY_FAMILY[family]
        self.addresses = [network.SERVED] if by_hand else list(network.SERVED_BY_FAMILY.values())
        self._kind, self._by_hand, self._own_clock, self.has_clients = kind, by_hand, own_clock, has_clients
        self._stack = contextlib.ExitStack()
        self.machines: dict[str, Machine] = {}
        self.nodes: dict[str, node.Node] = {}
        self.up_s: dict[str, float] = {}

    def __enter__(self) -> Self:
        self._begun = time.monotonic()
        try:
            self._make()
        except BaseException:
            for name, found in self.nodes.items():
                print(f"        {name}: " + found.said(30).replace("\n", "\n           "), flush=True)
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _at(self, what: str) -> None:
        self.up_s[what] = round(time.monotonic() - self._begun, 1)

    def _make(self) -> None:
        self.switch = self._stack.enter_context(network.ClusterNetwork())
        self.work = ceph.directory()
        self.work.mkdir()
        self._stack.callback(shutil.rmtree, self.work, ignore_errors=True)
        directory = self.work / "store"
        directory.mkdir()
        self._make_store(self.switch.plug("store", network.STORE))
        self._at("store")
        for name in network.MACHINES:
            machine = (guest_machine.GuestMachine if self._has_guests else Machine)(self.switch, name, directory, self.work)
            self._stack.callback(machine.die)
            self.machines[name] = machine
            machine.boot()
            self.store.boot(machine)
            self.nodes[name] = node.Node(machine, self.work, "" if self._by_hand else node.TENURES["kernel" if self._has_guests else self._kind])
            if self._own_clock:
                self.nodes[name].environment += machine.sees_clock()
        node.make_directories(self.machines["a"], self.store)
        self._at("machines")
        self.service = self._make_service()
        self._start_prober()
        self.neighbour = self._stack.enter_context(neighbour.Neighbour(self.switch, self.addresses))
        self.service.begin(self.nodes["a"])
        self.wait_for_answer(time.monotonic())
        self._at("serving")
        if self.has_clients:
            self._start_clients()
            self._at("under load")

    def _make_store(self, cable: network.Cable) -> None:
        self.store: Store
        if self._kind == "disk":
            self.store = disk.Disk(self.work)
            return
        self.store = self._stack.enter_context((kernel_ceph.KernelCeph if self._has_guests else ceph.Ceph)(cable, self.work / "ceph"))
        self.etcd = self._stack.enter_context(etcd.Etcd(cable, self.work))

    def _make_service(self) -> node.ByHand | node.Nodes:
        if self._server == "ganesha":
            assert isinstance(self.store, ceph.Ceph)
            return ganesha.Ganesha(self.nodes, self.store)
        if self._by_hand:
            return node.ByHand(self.nodes, self.store)
        return node.Decided(self.nodes, self.store) if self._kind == "disk" else node.Nodes(self.nodes)

    def _start_prober(self) -> None:
        cable = self.switch.plug("prober", network.PROBER)
        self._answers = self.work / "answers"
        with self._answers.open("wb") as out:
            prober = subprocess.Popen(cable.inside([sys.executable, str(HERE / "prober.py"), self.served, str(node.NFS_PORT)]), stdout=out,
                                      start_new_session=True)
        self._stack.callback(prober.wait)
        self._stack.callback(prober.kill)

    def _asked_and_answered(self) -> list[tuple[float, float]]:
        """Return the moments at which the prober asked and was answered (monotonic seconds)."""
        lines = self._answers.read_text().splitlines()
        pairs = (line.split() for line in lines[-ANSWERS_READ:])
        return [(float(pair[0]), float(pair[1])) for pair in pairs if len(pair) == 2]

    def wait_for_answer(self, after: float) -> None:
        """Wait for the answer to a question that is asked after this moment."""
        wait_until("an answer of the virtual server", lambda: any(asked > after for asked, _ in self._asked_and_answered()), node.SERVE_WITHIN_S)

    def silence(self, since: float) -> float:
        """Return the longest time between two answers since this moment, in seconds."""
        answered = [since, *(when for _, when in self._asked_and_answered() if when > since)]
        return max((later - earlier for earlier, later in itertools.pairwise(answered)), default=0.0)

    def _start_clients(self) -> None:
        # The guest has a /dev/shm of its own.
        laid = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="cluster-agent-"))
        agent = console.lay([HERE / "programs.py"], Path(laid))
        self.guest = self._stack.enter_context(guest.Guest(self.switch, [sys.executable, agent], 512))
        self.guest.answer(GUEST_BOOTS_WITHIN_S)
        self._at("guest")
        protocols = ("nfs",) if self._server == "ganesha" else PROTOCOLS
        exported, transport = f"{self.served}:/{node.SHARE}", "tcp"
        if self.family == 6:
            self.ask("add_address", address=f"{network.ipv6_of(network.CLIENTS)}/64")
            exported, transport = f"[{self.served}]:/{node.SHARE}", "tcp6"
        if "smb" in protocols:
            self.ask("mount", kind="cifs", source=f"//{self.served}/{node.SHARE}", where="/mnt/smb", options=SMB)
        self.ask("mount", kind="nfs4", source=exported, where="/mnt/nfs", options=f"{NFS},proto={transport}")
        self.ask("mount", kind="nfs4", source=exported, where="/mnt/other", options=f"{OTHER_NFS},proto={transport}")
        for kind, label, path in HOLDERS + OTHERS:
            if any(protocol in label for protocol in protocols):
                self.ask("start", kind=kind, label=label, path=path)
        # From the first refusal on the server has the locks, also that of SMB.
        wait_until("the intruder is refused", lambda: all(told["refused"] for label, told in self.told().items() if "intruder" in label), 60, every_s=0.2)

    def open_many(self, count: int) -> None:
        """Keep so many more files open over each protocol."""
        if not count:
            return
        for protocol in PROTOCOLS:
            self.guest.ask(OPENED_WITHIN_S, do="open_many", where=f"/mnt/{protocol}/many-{protocol}", count=count)
        self._at("many files open")

    def ask(self, do: str, **words: Any) -> Any:
        """Ask the guest. Raises OSError if it refuses."""
        said = self.guest.ask(ASKED_WITHIN_S, do=do, **words)
        if do in ("mount", "start", "mark", "add_address") and said:
            raise OSError(f"{do} {words}: {said}")
        if isinstance(said, dict) and "refused" in said and isinstance(said["refused"], str):
            raise OSError(f"{do}: {said['refused']}")
        return said

    def told(self) -> dict[str, dict[str, Any]]:
        """Return what the programs have counted since the last mark."""
        found: dict[str, dict[str, Any]] = self.ask("told")
        return found

    def wait_for_steps(self, since: dict[str, int], steps: int, limit_s: float) -> None:
        """Wait until each program has done so many steps more than `since`."""
        def all_on() -> bool:
            return all(told["steps"] >= since.get(label, 0) + steps for label, told in self.told().items())
        try:
            wait_until("every program goes on", all_on, limit_s, every_s=0.25)
        except RuntimeError as late:
            raise RuntimeError(f"{late}; {self.told()}") from None

    def other(self, owner: node.Node) -> node.Node:
        """Return the other node."""
        return next(found for found in self.nodes.values() if found is not owner)

    def reboot(self, back: node.Node) -> None:
        """Boot a dead machine again; it mounts the store and waits for its turn."""
        back.machine.boot()
        self.store.boot(back.machine)
        self.service.join(back)

    def check_held_files(self, synced: dict[str, dict[str, int]], owner: node.Node) -> list[str]:
        """Compare the held files in the store with what was synced last. Returns the differences."""
        wrong = []
        for _, label, path in HOLDERS:
            if label not in synced:
                continue
            data = owner.machine.read(owner.machine.directory / "virtual" / "share" / Path(path).name)
            promised = {int(slot): number for slot, number in synced[label].items()}
            wrong += programs.compare(label, data, promised, max(promised.values(), default=0) + programs.SLOTS)
        return [f"in the store: {one}" for one in wrong]


def missing(kind: str) -> str:
    """Return the reason why a cluster on this kind of store cannot run here, as one line; empty if it can."""
    return (disk.missing() if kind == "disk" else unpacked.missing()) or guest.missing() or guest.missing(("mount.nfs", "nfs-common"))

