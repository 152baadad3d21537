"""The guest's side of the runs that cut channels and kill servers. It acts on requests from the console (guest.py, `Guest`).

A request is one line of JSON with `do` and that action's arguments; the answer is one line too. The value of `do` is
the name of a method of `Agent`.
"""

import json
import multiprocessing
import multiprocessing.pool
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.kernel_client import console, dual_workload, workload

REPORTS = Path("/run/scratch")
KINDS = workload.KINDS | dual_workload.KINDS


def parse_channels(text: str) -> list[bool]:
    """Return whether the client considers each channel of the oldest mount connected, from /proc/fs/cifs/DebugData."""
    first = re.split(r"\n\d+\) ConnectionId", text)[-1]
    return [int(status) == 1 for status in re.findall(r"TCP status: (\d+)", first)]


class Agent:
    """The actions, and the running workers."""

    def __init__(self) -> None:
        self._stop = multiprocessing.Event()
        self._workers: dict[str, tuple[multiprocessing.Process, Path]] = {}

    def mount(self, where: str, source: str, options: str, kind: str = "cifs") -> str:
        """Mount. Returns the error, or an empty string."""
        os.makedirs(where, exist_ok=True)
        done = subprocess.run([f"mount.{kind}", source, where, "-o", options], capture_output=True, text=True)
        if done.returncode == 0:
            return ""
        kernel = subprocess.run(["dmesg"], capture_output=True, text=True).stdout.splitlines()
        return " | ".join(done.stderr.strip().splitlines()[:1] + kernel[-4:])

    def mount_nfs(self, where: str, source: str, options: str) -> str:
        """Mount with Linux's NFS client. Returns the error, or an empty string."""
        os.makedirs(where, exist_ok=True)
        done = subprocess.run(["mount", "-t", "nfs4", "-o", options, source, where], capture_output=True, text=True)
        return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"

    def transports(self, where: str) -> list[dict[str, int]]:
        """Return the number of requests that each connection of an NFS mount has sent and received, by the client's own
        statistics."""
        text = Path("/proc/self/mountstats").read_text()
        block = next(part for part in text.split("\ndevice ") if f" mounted on {where} " in part)
        found = [line.split() for line in block.splitlines() if line.strip().startswith("xprt:")]
        return [{"port": int(words[2]), "sends": int(words[7]), "receives": int(words[8])} for words in found]

    def ports(self) -> list[list[str]]:
        """Return the client's ends of the established connections: its port, and the server's address and port."""
        sockets = subprocess.run(["ss", "-Htn", "state", "established"], capture_output=True, text=True).stdout
        return [line.split()[2:4] for line in sockets.splitlines()]

    def exercise(self, where: str, files: int) -> list[str]:
        """Write files and read them back, eight at a time. Returns the differences."""
        def one(number: int) -> str:
            path, data = f"{where}/exercise-{number}", bytes([number % 251]) * 100_000
            with open(path, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            found = os.read(descriptor, len(data) + 1)
            os.close(descriptor)
            os.unlink(path)
            return "" if found == data else f"{path} holds {len(found)} bytes that differ"
        with multiprocessing.pool.ThreadPool(8) as pool:
            return [wrong for wrong in pool.map(one, range(files)) if wrong]

    def last_words(self) -> list[str]:
        """Return the last lines of the guest's kernel log."""
        return subprocess.run(["dmesg"], capture_output=True, text=True).stdout.splitlines()[-30:]

    def examine(self, program: str, where: str, arguments: list[str]) -> Any:
        """Return the report of the machine's `trunkline doctor` on a mount."""
        done = subprocess.run([program, "doctor", where, "--json", *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if not done.stdout:
            raise OSError(f"the doctor ended with {done.returncode}: {done.stderr.strip()[-300:]}")
        return json.loads(done.stdout)

    def get_tickets(self, settings: str, user: str, password: str, life_s: int) -> str:
        """Lay the realm's settings over the machine's and get a ticket for root. A new one follows before each has ended."""
        for name in ("krb5.conf", "hosts"):
            subprocess.run(["mount", "--bind", f"{settings}/{name}", f"/etc/{name}"], check=True)
        os.makedirs("/run/tickets")

        def renew(check: bool) -> None:
            # cifs.upcall must never find half of a cache.
            command = ["kinit", "-c", "FILE:/run/tickets/new", "-l", f"{life_s}s", user]
            done = subprocess.run(command, input=password, text=True, check=check, capture_output=True)
            if done.returncode == 0:
                os.replace("/run/tickets/new", "/run/tickets/0")

        def renew_always() -> None:
            while True:
                time.sleep(life_s / 3)
                renew(check=False)

        renew(check=True)
        threading.Thread(target=renew_always, daemon=True).start()
        return ""

    def umount(self, where: str) -> str:
        """Unmount. Returns the error, or an empty string."""
        return subprocess.run(["umount", where], capture_output=True, text=True).stderr.strip()

    def channels(self) -> dict[str, Any]:
        """Return whether each channel of the oldest mount is connected, and the client's own ports of established
        connections."""
        sockets = subprocess.run(["ss", "-Htn", "state", "established"], capture_output=True, text=True).stdout
        mine = [line.split()[2] for line in sockets.splitlines()]
        return {"connected": parse_channels(self.debug()), "ports": mine}

    def debug(self) -> str:
        """Return the client's own report of its connections."""
        return Path("/proc/fs/cifs/DebugData").read_text()

    def open_files(self, workers: list[str] | None = None) -> dict[str, list[str]]:
        """Return the persistent parts of the ids of the client's open files, by file name; with `workers` only those
        that these have opened."""
        openers = None if workers is None else {str(self._workers[label][0].pid) for label in workers}
        found: dict[str, list[str]] = {}
        for line in Path("/proc/fs/cifs/open_files").read_text().splitlines():
            words = line.split()
            if not line.startswith("#") and len(words) >= 8 and (openers is None or words[5] in openers):
                found.setdefault(words[7], []).append(words[2])
        return {name: sorted(ids) for name, ids in found.items()}

    def look_names_up(self) -> str:
        """Make the SMB client look up every name at the server, even one that it has just not found."""
        Path("/proc/fs/cifs/LookupCacheEnabled").write_text("0")
        return ""

    def look(self, where: str, paths: list[str]) -> dict[str, workload.Facts]:
        """Return the state of each path below `where`."""
        return {path: workload.facts(os.path.join(where, path)) for path in paths}

    def kernel_log(self) -> list[str]:
        """Return the lines that the guest's kernel has logged since the mount."""
        lines = subprocess.run(["dmesg"], capture_output=True, text=True).stdout.splitlines()
        since = max((n for n, line in enumerate(lines) if "Attempting to mount" in line), default=0)
        return lines[since:][-30:]

    def stacks(self) -> dict[str, str]:
        """Return the place in the kernel where each worker waits."""
        return {label: _stack(process.pid) for label, (process, _) in self._workers.items()}

    def flap(self, nic: int) -> str:
        """Take a NIC down and up, as its driver does when the cable comes back. This also frees user-mode-linux's
        transmit queue, which stops permanently once a write to the tap device has failed."""
        for state in ("down", "up"):
            subprocess.run(["ip", "link", "set", f"vec{nic}", state], check=True)
        return ""

    def start(self, base: str, workers: list[list[str]], seed: int) -> str:
        """Start workers: a list of [kind, label, base]. The default is the common base."""
        for kind, label, *own in workers:
            report = REPORTS / f"{label}.report"
            process = multiprocessing.Process(
                target=workload.run, args=(KINDS[kind], own[0] if own else base, label, seed, report, self._stop))
            process.start()
            self._workers[label] = (process, report)
        return ""

    def progress(self) -> dict[str, Any]:
        """Return for each worker its steps, its failures and the files that it must have left behind. Also returns all
        transient errors, counted, and all orphans."""
        steps: dict[str, int] = {}
        errors: dict[str, int] = {}
        finals: dict[str, Any] = {}
        failures: list[str] = []
        orphans: list[str] = []
        pending: list[str] = []
        for label, (process, report) in self._workers.items():
            steps[label] = 0
            for line in report.read_text().splitlines() if report.exists() else ():
                try:
                    said = json.loads(line)
                except ValueError:
                    continue  # an incomplete line
                steps[label] = said.get("step", steps[label])
                if "error" in said:
                    errors[said["error"]] = errors.get(said["error"], 0) + 1
                failures += [said["failure"]] if "failure" in said else []
                orphans += [said["orphan"]] if "orphan" in said else []
                pending += [said["orphan"]] if said.get("pending") else []
                if "final" in said:
                    finals[label] = said["final"]
            if not process.is_alive() and label not in finals and not any(f.startswith(f"{label}:") for f in failures):
                failures.append(f"{label}: ended with {process.exitcode}")
        return {"steps": steps, "errors": errors, "failures": failures, "finals": finals, "orphans": orphans, "pending": pending}

    def stop(self, within_s: float) -> dict[str, Any]:
        """Tell the workers to finish and wait for them. Returns the same as `progress`."""
        self._stop.set()
        end = time.monotonic() + within_s
        for label, (process, report) in self._workers.items():
            process.join(timeout=max(0.1, end - time.monotonic()))
            if process.is_alive():
                with open(report, "a", encoding="utf-8") as out:
                    out.write(json.dumps({"failure": f"{label}: did not end within {within_s} s: {_stack(process.pid)}"}) + "\n")
        return self.progress()


def _stack(pid: int | None) -> str:
    """Return the place in the kernel where a process waits."""
    try:
        return " < ".join(line.split()[-1].split("+")[0] for line in Path(f"/proc/{pid}/stack").read_text().splitlines()[:6])
    except OSError as reason:
        return str(reason)


def main() -> None:
    agent = Agent()

    def answer(do: str, arguments: dict[str, Any]) -> Any:
        try:
            return getattr(agent, do)(**arguments)
        except Exception as error:  # the host decides whether a failed action is a failure
            return {"refused": f"{type(error).__name__} {error}"}

    console.serve(answer)


if __name__ == "__main__":
    main()
