"""Containers of the image, run by crun as an engine would: a read-only root, no capabilities, no new privileges, a user of the
caller's choice, one volume for the state and one for the files.

No engine runs here, so the network is the caller's (or that of a namespace), and no cgroup is set up.
"""

import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Self

LIMIT_S = 60
# crun does without cgroups here, but it reads their mounts, and refuses those of both versions at once.
CRUN = ["unshare", "--mount", "sh", "-c", 'mount -t cgroup2 cgroup2 /sys/fs/cgroup && exec crun "$@"', "crun"]


def unpack(archive: Path, into: Path) -> Path:
    """Unpack an image; gives its bundle."""
    _run(["skopeo", "copy", "-q", f"oci-archive:{archive}", f"oci:{into}/layout:image"])
    _run(["umoci", "unpack", "--image", f"{into}/layout:image", f"{into}/bundle"])
    return into / "bundle"


class Container:
    """A container of a bundle; a context manager that ends it. `volumes` are the host's folders by their places inside."""

    def __init__(self, bundle: Path, volumes: dict[str, Path], environment: dict[str, str], user: tuple[int, int] = (65532, 65532),
                 around: list[str] | None = None) -> None:
        self._bundle, self._user, self._around = bundle, user, around or []
        self._name = f"proof-{os.getpid()}-{time.monotonic_ns()}"
        self._root = bundle.parent / "crun"
        self._process: subprocess.Popen[bytes] | None = None
        self.log = bundle.parent / f"{self._name}.log"
        kept = bundle / "config.made"
        if not kept.exists():
            shutil.copyfile(bundle / "config.json", kept)
        self._config = _locked_down(json.loads(kept.read_text()), volumes, environment, user)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end("KILL")

    def start(self) -> None:
        """Start the program of the image."""
        (self._bundle / "config.json").write_text(json.dumps(self._config))
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen([*self._around, *CRUN, *self._words("run", "--bundle", str(self._bundle), self._name)],
                                             stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def end(self, signal: str) -> int | None:
        """Send a signal to the first process, and wait for its end; gives its exit status."""
        process, self._process = self._process, None
        if process is None:
            return None
        if process.poll() is None:
            subprocess.run([*CRUN, *self._words("kill", self._name, signal)], check=False, capture_output=True, timeout=LIMIT_S)
        try:
            return process.wait(LIMIT_S)
        finally:
            subprocess.run([*CRUN, *self._words("delete", "--force", self._name)], check=False, capture_output=True, timeout=LIMIT_S)

    def wait(self) -> int:
        """Wait for a program that ends by itself; gives its exit status."""
        assert self._process is not None
        return self._process.wait(LIMIT_S)

    def execute(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the image inside, as an engine's `exec` does."""
        uid, gid = self._user
        line = self._words("exec", "--user", f"{uid}:{gid}", self._name, "/usr/bin/trunkline", *words)
        return subprocess.run([*CRUN, *line], check=False, capture_output=True, text=True, timeout=LIMIT_S)

    def health(self, within_s: float = 20) -> subprocess.CompletedProcess[str]:
        """Ask for the health until it is good or the time is over."""
        until = time.monotonic() + within_s
        while True:
            told = self.execute("health")
            if told.returncode == 0 or time.monotonic() > until or (self._process is not None and self._process.poll() is not None):
                return told
            time.sleep(0.05)

    def first_process(self) -> int:
        """The first process of the container, by its number here."""
        told = subprocess.run([*CRUN, *self._words("state", self._name)], check=True, capture_output=True, text=True, timeout=LIMIT_S)
        return int(json.loads(told.stdout)["pid"])

    def _words(self, *words: str) -> list[str]:
        return ["--root", str(self._root), "--cgroup-manager=disabled", *words]


def _locked_down(config: dict[str, Any], volumes: dict[str, Path], environment: dict[str, str], user: tuple[int, int]) -> dict[str, Any]:
    """The configuration that umoci made of the image, with what an engine is told on its command line."""
    process, places = config["process"], ("/sys/fs/cgroup", "/var/lib/trunkline")
    process |= {"terminal": False, "noNewPrivileges": True, "user": {"uid": user[0], "gid": user[1]}}
    process["capabilities"] = dict.fromkeys(("bounding", "effective", "inheritable", "permitted", "ambient"), [])
    process["env"] += [f"{name}={value}" for name, value in environment.items()]
    config["root"]["readonly"] = True
    mounts = [mount for mount in config["mounts"] if mount["destination"] not in places]
    bound = [{"destination": place, "type": "bind", "source": str(folder), "options": ["bind", "rw"]} for place, folder in volumes.items()]
    config["mounts"] = mounts + bound
    config["linux"]["namespaces"] = [one for one in config["linux"]["namespaces"] if one["type"] not in ("network", "cgroup")]
    return config


def _run(words: list[str]) -> None:
    subprocess.run(words, check=True, timeout=LIMIT_S, stdout=subprocess.DEVNULL)
