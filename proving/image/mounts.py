"""A container of the image that is killed, ended and started again while Linux's client has its share mounted over SMB and NFS.

Workers (kernel_client/workload.py) write, and hold byte-range locks, with descriptors that stay open. After each start all of them go
on with these, and at the end the volume holds what was flushed.
"""

import contextlib
import sys
import time
from pathlib import Path
from typing import Any

from proving.harness import server as servers
from proving.image.container import Container
from proving.kernel_client import console, guest, mounted, nfs_mounted

# The image's own ports, since the network is one of its own.
SMB_PORT, NFS_PORT = 4450, 24490
SMB, NFS = "/mnt/smb", "/mnt/nfs"
WORKERS = [[kind, f"{kind}-{Path(base).name}", base] for base in (SMB, NFS) for kind in ("writer", "holder")]
STEP_WITHIN_S = 90
ENDS = ("KILL", "KILL", "TERM")


class MountFailed(Exception):
    """The client cannot mount, or a worker saw something forbidden or stands still."""


def missing() -> str:
    """Why this cannot run here, or nothing."""
    return guest.missing() or nfs_mounted.missing()


def listening() -> dict[str, str]:
    """The variables of a server that the guest reaches, whose SMB handles outlive the process."""
    return {"SERVER_LISTEN": guest.SERVER_ADDRESS, "SERVER_SMB_PORT": str(SMB_PORT), "SERVER_NFS_PORT": str(NFS_PORT),
            "SHARE_DATA_CONTINUOUSLY_AVAILABLE": "on"}


class Client:
    """A guest with both mounts, and workers on them. A context manager."""

    def __init__(self, network: guest.Network, work: Path, user: str, password: str) -> None:
        self._guest = guest.Guest(network, [sys.executable, console.lay(mounted.AGENT, work)])
        self._account = f"user={user},password={password}"

    def __enter__(self) -> "Client":
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._guest)
            self._guest.answer(STEP_WITHIN_S)
            smb = f"port={SMB_PORT},{self._account},{mounted.BASIC},persistenthandles"
            self._mounts("mount", where=SMB, source=f"//{guest.SERVER_ADDRESS}/data", options=smb)
            nfs = f"port={NFS_PORT},proto=tcp,sec=sys,vers=4.2,actimeo=1"
            self._mounts("mount_nfs", where=NFS, source=f"{guest.SERVER_ADDRESS}:/data", options=nfs)
            self.ask("start", base=SMB, workers=WORKERS, seed=1)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *what: Any) -> bool | None:
        return self._stack.__exit__(*what)

    def ask(self, do: str, limit_s: float = 60, **arguments: Any) -> Any:
        """Send the agent a request. Returns its answer."""
        said = self._guest.ask(limit_s, do=do, **arguments)
        if isinstance(said, dict) and "refused" in said:
            raise MountFailed(f"{do}: {said['refused']}")
        return said

    def _mounts(self, do: str, **arguments: Any) -> None:
        if refused := self.ask(do, **arguments):
            raise MountFailed(f"{arguments['where']}: {refused}")

    def steps(self) -> dict[str, int]:
        """The steps of each worker. Raises MountFailed if one saw something forbidden."""
        seen = self.ask("progress")
        if seen["failures"]:
            raise MountFailed("; ".join(seen["failures"]))
        steps: dict[str, int] = seen["steps"]
        return steps

    def go_on(self, before: dict[str, int]) -> float:
        """Wait until each worker has done a step since `before`. Returns the time that took, in s."""
        began = time.monotonic()
        while still := [label for label, count in self.steps().items() if count <= before.get(label, 0)]:
            if time.monotonic() - began > STEP_WITHIN_S:
                raise MountFailed(f"no step of {', '.join(still)} within {STEP_WITHIN_S} s")
            time.sleep(0.2)
        return time.monotonic() - began

    def finish(self, data: Path) -> list[str]:
        """End the workers, unmount, and compare the volume with what was flushed. Returns the failures."""
        seen = self.ask("stop", limit_s=200, within_s=150)
        refused = [text for where in (SMB, NFS) if (text := self.ask("umount", where=where))]
        left = [wrong for label, final in seen["finals"].items() for wrong in mounted.check_left_behind(data, label, final)]
        return [*seen["failures"], *refused, *left]


def survive(bundle: Path, volumes: dict[str, Path], variables: dict[str, str], user: str, password: str) -> list[str]:
    """End the container in each way and start it again. Returns the failures."""
    try:
        with (guest.Network() as network, Container(bundle, volumes, variables, around=network.inside([])) as container):
            if (told := container.health()).returncode != 0:
                return [f"health: {told.stdout}{told.stderr}"]
            with Client(network, bundle.parent, user, password) as client:
                client.go_on({})
                for signal in ENDS:
                    container.end(signal)
                    container.start()
                    took_s = client.go_on(client.steps())
                    print(f"        {signal}: all workers go on {took_s:.1f} s after the next start", flush=True)
                return client.finish(volumes["/data"])
    except (MountFailed, guest.GuestEnded, servers.CannotStart, OSError) as reason:
        return [str(reason)]
