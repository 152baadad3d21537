"""A share mounted by Linux's client in a guest, with workers on it (agent.py, workload.py), for the runs of this folder."""

import contextlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from proving.harness import server as servers
from proving.harness.tally import Tally
from proving.kernel_client import console, faults, guest, kernels, tickets, workload

HERE = Path(__file__).resolve().parent
CHANNELS = 4
# Every look-up reaches the server, the client notices silence after three echoes, and no other mount uses the
# connection.
BASIC = "vers=3.1.1,sec=ntlmsspi,noperm,nosharesock,actimeo=0,echo_interval=2"
MULTICHANNEL = f"{BASIC},multichannel,max_channels={CHANNELS}"
# Linux keeps a file open for a second after a program closes it, in case it is opened again.
CLOSED_WITHIN_S = 30
# NICs and further mount options, in turns.
MOUNTS = [(1, ""), (2, ""), (1, ",seal"), (2, ",seal")]
STORM = [[kind, f"{kind}-{n}"] for kind, count in (("writer", 4), ("reader", 4), ("names", 2)) for n in range(count)]
# More than a new connection's first messages (negotiation, session set-up). A channel that received this carries
# requests.
WORKING_BYTES = 8192


class RunFailed(Exception):
    """The run on this mount cannot go on."""


# The scripts of the agent in the guest.
AGENT = [HERE / script for script in ("agent.py", "workload.py", "dual_workload.py")]


def describe(nics: int, options: str) -> str:
    """Return a mount of `MOUNTS` in words."""
    return f"{nics} NIC{'s' if nics > 1 else ''}, {'sealed' if 'seal' in options else 'signed'}"


class Mounted:
    """A server, a guest and its mount of the share `files` at /mnt/a. A context manager; entering boots and mounts."""

    def __init__(self, kind: str, profile: str, nics: int, options: str) -> None:
        self.kind, self._profile, self.nics, self._options = kind, profile, nics, options
        self.errors: Counter[str] = Counter()
        self.steps: dict[str, int] = {}
        # Set after a cut channel or a killed server: the client may then have missed some of the server's answers.
        self.answers_were_lost = False
        self._workers: list[list[str]] = []

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            self.network = stack.enter_context(guest.Network(self.nics))
            self.server = servers.Server(self.kind, self._profile, self.network)
            realm = stack.enter_context(tickets.TicketRealm(self.network, self.server.directory)) if tickets.Security.kind else None
            if realm:
                self.server.variables = realm.variables()
            stack.enter_context(self.server)
            agent = console.lay(AGENT, self.server.directory)
            self.cutter = faults.Cutter(self.network, self.server.port)
            self.guest = stack.enter_context(guest.Guest(self.network, [sys.executable, agent]))
            self.guest.answer(60)
            if realm:
                self.ask("get_tickets", **realm.for_guest())
            self.mount("/mnt/a", self._options)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *what: Any) -> bool | None:
        return self._stack.__exit__(*what)

    def ask(self, do: str, limit_s: float = 60, **arguments: Any) -> Any:
        """Send the agent a request. Returns its answer."""
        said = self.guest.ask(limit_s, do=do, **arguments)
        if isinstance(said, dict) and "refused" in said:
            raise RunFailed(f"{do}: {said['refused']}")
        return said

    def mount(self, where: str, options: str) -> None:
        """Mount the share once more, as the first account."""
        user, password = servers.accounts()[0]
        host, secret = (tickets.HOST, "") if tickets.Security.kind else (guest.SERVER_ADDRESS, f",password={password}")
        words = f"port={self.server.port},user={user}{secret},{tickets.options(options)}"
        if refused := self.ask("mount", where=where, source=f"//{host}/files", options=words):
            raise RunFailed(f"mount: {refused}")

    def start(self, workers: list[list[str]], seed: int) -> None:
        """Start workers on /mnt/a, each a list of kind and label, and a base directory of its own if it has one."""
        self._workers += workers
        self.ask("start", base="/mnt/a", workers=workers, seed=seed)

    def carrying(self) -> faults.Carrying:
        """Return the connections that both ends consider established, with the bytes that the server received and sent."""
        ports = {int(end.rpartition(":")[2]) for end in self.ask("channels")["ports"]}
        return {client: counts for client, counts in self.cutter.connections().items() if client[1] in ports}

    def wait_for_channels(self, since: float, before: faults.Carrying, limit_s: float) -> float:
        """Wait until four channels are established at both ends and each has carried requests since `before`. Returns
        the seconds since `since`."""
        while True:
            connected = self.ask("channels")["connected"]
            now = self.carrying()
            working = [c for c, (received, _) in now.items() if received - before.get(c, (0, 0))[0] > WORKING_BYTES]
            took = time.monotonic() - since
            if connected == [True] * CHANNELS and len(working) >= CHANNELS:
                return took
            if took > limit_s:
                raise RunFailed(f"after {took:.0f} s the client holds {sum(connected)} of {len(connected)} channels for connected, "
                             f"{len(now)} connections stand, {len(working)} of them carry requests")
            time.sleep(0.2)

    def progress(self) -> dict[str, Any]:
        """Return the workers' progress. Raises RunFailed when one of them saw a forbidden state."""
        seen = self._note(self.ask("progress"))
        if seen["failures"]:
            raise RunFailed("; ".join(seen["failures"]))
        return seen

    def wait_for_steps(self, before: dict[str, int], limit_s: float) -> float:
        """Wait until each worker has done a step since `before`. Returns the time that took."""
        began = time.monotonic()
        while True:
            steps = self.progress()["steps"]
            still = [label for label, count in steps.items() if count <= before.get(label, 0)]
            if not still:
                return time.monotonic() - began
            if time.monotonic() - began > limit_s:
                raise RunFailed(f"no step of {', '.join(still)} within {limit_s} s")
            time.sleep(0.2)

    def finish(self, more_mounts: Sequence[str] = ()) -> list[str]:
        """Stop the workers, unmount, and compare the server's own files with their expected state. Returns the failures."""
        seen = self._note(self.ask("stop", limit_s=200, within_s=150))
        failures = list(seen["failures"]) + self._check_orphans(seen["orphans"]) + self._check_late(self.errors["fsync EIO"])
        failures += self._check_away(self.errors[workload.OWNER_AWAY])
        if not self.answers_were_lost:
            failures += [f"{error}, and no channel was lost" for error in self.errors if error.endswith(workload.LATE_CLOSE)]
        for where in (*more_mounts, "/mnt/a"):
            if refused := self.ask("umount", where=where):
                failures.append(f"umount: {refused}")
        share = self.server.share_directory("files")
        failures += [f"{path} was unlinked, and its last open is gone" for path in seen["pending"] if (share / path).exists()]
        for label, final in seen["finals"].items():
            failures += check_left_behind(share, label, final)
        strange = sorted({path.name for path in share.iterdir()} - {worker[1] for worker in self._workers})
        if strange:
            failures.append(f"the share holds names that no worker created: {strange}")
        if not self.server.alive():
            failures.append("the server ended")
        return failures

    def _check_orphans(self, claimed: list[str]) -> list[str]:
        """Check the files that the server has open and the client does not, by the workers' claims. Returns the wrong
        claims."""
        if not claimed:
            return []
        # Linux closes files late.
        end = time.monotonic() + CLOSED_WITHIN_S
        while self.ask("open_files") and time.monotonic() < end:
            time.sleep(0.2)
        share = self.server.share_directory("files")
        held, known = self.server.opens(), self.ask("open_files")
        wrong = {path: "the client has it open" if Path(path).name in known else "neither side has it open"
                 for path in claimed if str(share / path) not in held or Path(path).name in known}
        if not self.answers_were_lost:
            wrong = dict.fromkeys(claimed, "no answer was lost")
        return [f"{path} stays as if it were open: {why}" for path, why in wrong.items()]

    def _check_late(self, errors: int) -> list[str]:
        """Compare EIO from fsync with the server's refusals. Linux renumbers its requests when a channel is lost, while
        others are in flight on the remaining channels. A WRITE that then comes late must be refused (MS-SMB2
        3.3.5.2.10), and fsync returns EIO. Returns the failure when fsync did that more often than our server refused
        one. Newer kernels write pages through a library that sometimes also turns the loss of a connection into EIO
        (6.12.113, with four channels; the server had refused no WRITE). A process that reads it flushes again."""
        if kernels.GuestKernel.series != kernels.OWN:
            return [f"fsync gave EIO {errors} times, and no channel was lost"] if errors and not self.answers_were_lost else []
        refused = self.server.log_count("command=Write status=STATUS_FILE_NOT_AVAILABLE")
        if self.kind == "trunkline" and errors > refused:
            return [f"fsync gave EIO {errors} times, and {refused} late WRITEs were refused"]
        return []

    def _check_away(self, errors: int) -> list[str]:
        """Compare EIO from open with the server's refusals. While a persistent handle waits for its client, the CREATE
        of another client must be refused (MS-SMB2 3.3.5.9), and open returns EIO. This happens when the second client is
        back first. Returns the failure when open did that more often than our server refused one."""
        refused = self.server.log_count("command=Create status=STATUS_FILE_NOT_AVAILABLE")
        if self.kind == "trunkline" and errors > refused:
            return [f"open gave EIO {errors} times, and {refused} CREATEs of a file whose client is away were refused"]
        return []

    def explain(self) -> None:
        """Print information that helps to find a cause."""
        print("        server: " + self.server.log(400).replace("\n", "\n                "))
        print(f"        the server {'runs' if self.server.alive() else 'has ended'}")
        print(f"        connections at the server: {self.cutter.connections()}")
        print(f"        open at the server: {self.opens_in_words()}")
        for request in ("channels", "debug", "kernel_log"):
            try:
                said = self.guest.ask(20, do=request)
            except guest.GuestEnded:
                return
            lines = said if isinstance(said, list) else str(said).splitlines()
            print("        " + "\n        ".join(lines), flush=True)

    def opens_in_words(self) -> dict[str, int] | str:
        """Return the files that the server has open, or the reason why it does not report them."""
        try:
            share = str(self.server.share_directory("files"))
            return {path.removeprefix(share): opens for path, opens in self.server.opens().items()}
        except servers.CannotStart as reason:
            return str(reason)

    def _note(self, seen: dict[str, Any]) -> dict[str, Any]:
        self.errors, self.steps = Counter(seen["errors"]), seen["steps"]
        return seen


def run_case(tally: Tally, name: str, mount: Mounted, check: Callable[[Any], list[str]]) -> None:
    """Count one case: `mount` (a `Mounted` not yet entered), and `check(mount)`, which returns the failures."""
    try:
        with mount:
            try:
                failures = check(mount)
            except (RunFailed, guest.GuestEnded, OSError, KeyError) as reason:
                failures = [f"{type(reason).__name__} {reason}"]
            if failures:
                mount.explain()
    except (RunFailed, guest.GuestEnded, OSError) as reason:
        failures = [str(reason)]
    except servers.CannotStart as reason:
        tally.add(reason.result, name, str(reason))
        return
    tally.add("fail" if failures else "pass", name, "; ".join(failures))


def check_left_behind(share: Path, label: str, final: dict[str, Any]) -> list[str]:
    """Compare a worker's files on the server's own disk with the content that it reports as flushed. Returns the failures."""
    if "blocks" in final:
        if (share / label).read_bytes() != workload.expected_blocks(label, final["blocks"]):
            return [f"{label}: the server's file does not hold what was flushed"]
    if "names" in final:
        found = {path.name: path.read_text(errors="replace") for path in (share / label / final["directory"]).iterdir()}
        if found != final["names"]:
            return [f"{label}: the server's directory holds {found}, and must hold {final['names']}"]
    return []
