"""etcd 3.5 with one member, in the store's namespace."""

import subprocess
from pathlib import Path

from proving.cluster import network, unpacked
from proving.cluster.daemon import Daemon, wait_until

URL = f"http://{network.STORE}:2379"
UP_WITHIN_S = 20


class Etcd:
    """A running etcd. A context manager."""

    def __init__(self, cable: network.Cable, work: Path) -> None:
        self._cable = cable
        peer = f"http://{network.STORE}:2380"
        words = unpacked.etcd("etcd", "--name", "store", "--data-dir", work / "etcd", "--log-level", "error",
                              "--listen-client-urls", URL, "--advertise-client-urls", URL,
                              "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"store={peer}")
        self.daemon = Daemon(cable.inside(words), work / "etcd.out")

    def __enter__(self) -> "Etcd":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.daemon.kill()

    def start(self) -> None:
        """Start it, also after a kill, and wait until it answers."""
        self.daemon.start()
        wait_until("etcd", self._answers, UP_WITHIN_S, self.daemon.log)

    def keys(self) -> str:
        """Return all keys with their values, as etcdctl prints them."""
        return self._ctl("get", "", "--prefix").stdout

    def _answers(self) -> bool:
        return self._ctl("endpoint", "health").returncode == 0

    def _ctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self._cable.inside(unpacked.etcd("etcdctl", "--endpoints", URL, *words)), capture_output=True, text=True, timeout=30)
