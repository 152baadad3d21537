"""smbtorture's single tests: their names, one run of one of them, and the meaning of its output.

There are two releases: the installed one, and this year's (harness/newer.py).
"""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

from proving.harness import newer

# The folder of scripts/foreign for this year's Samba, which contains the suite.
NEWEST_FOLDER = "samba-newer"


@dataclass(frozen=True)
class Release:
    """One smbtorture: the words of its command line."""

    command: tuple[str, ...]

    def all_tests(self) -> list[str]:
        """Return its single tests, as it accepts them on its command line.

        `--list` repeats the last part of each name (`smb2.lock.rw-none.rw-none`): it is the test inside a case of the
        same name. A name without the repetition selects exactly that test.
        """
        names = []
        for line in self._says("--list").splitlines():
            if not line.startswith("smb2."):
                continue
            head, _, last = line.rpartition(".")
            names.append(head if head.endswith("." + last) else line)
        return names

    def version(self) -> str:
        """Return its version, such as `4.17.12-Debian`."""
        words = self._says("--version").split()
        return words[words.index("smbtorture") + 1] if "smbtorture" in words else words[-1]

    def _says(self, question: str) -> str:
        command = [*self.command, question]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment()).stdout


def installed() -> Release | None:
    """Return the release installed on this machine, or None."""
    return Release(("smbtorture",)) if shutil.which("smbtorture") else None


def newest() -> Release | None:
    """Return this year's release, or None if it is not available."""
    program = newer.root(NEWEST_FOLDER) / "usr" / "bin" / "smbtorture"
    return Release(newer.command(NEWEST_FOLDER, "smbtorture")) if program.exists() else None


def environment() -> dict[str, str]:
    """Return the environment of the programs. Only names in UTF-8 depend on it."""
    return dict(os.environ, LC_ALL="C.UTF-8")


@dataclass(frozen=True)
class Target:
    """The target of a test: one share of one server, and the directory on this machine that the share serves."""

    address: str
    port: int
    share: str
    local_dir: str
    account: tuple[str, str]
    second_account: tuple[str, str]


@dataclass(frozen=True)
class Outcome:
    """`result` is pass, fail, skip or timeout; `detail` is the end of the test's own output."""

    result: str
    seconds: float
    detail: str


def run(release: Release, test: str, target: Target, time_limit_s: float, options: Sequence[str] = ()) -> Outcome:
    """Run one single test in its own process and classify its end."""
    name, password = target.account
    second_name, second_password = target.second_account
    settings = {
        "progress": "no",
        "timelimit": "3",
        "localdir": target.local_dir,
        "user2name": second_name,
        "user2password": second_password,
    }
    command = [*release.command, f"//{target.address}/{target.share}", "-p", str(target.port), "-U", f"{name}%{password}"]
    command += [f"--option=torture:{key}={value}" for key, value in settings.items()]
    command += [f"--option={option}" for option in options]
    command.append(test)
    began = time.monotonic()
    # A separate working directory: some tests leave files in theirs.
    with tempfile.TemporaryDirectory(prefix="torture-") as directory:
        process = subprocess.Popen(
            command, cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True, env=environment(),
        )
        try:
            output, _ = process.communicate(timeout=time_limit_s)
            over_time = False
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            over_time = True
    text = output.decode("utf-8", "replace")
    return Outcome(*_classify(text, process.returncode, over_time, time.monotonic() - began))


_VERDICT = re.compile(r"^(success|failure|error|skip): ([^\n]*?)(?: \[\n(.*?)\n?\])?$", re.MULTILINE | re.DOTALL)


def _classify(text: str, status: int, over_time: bool, seconds: float) -> tuple[str, float, str]:
    seconds = round(seconds, 2)
    verdicts = _VERDICT.findall(text)
    if over_time:
        return "timeout", seconds, _last_lines(text)
    bad = [detail for word, _, detail in verdicts if word in ("failure", "error")]
    if bad:
        return "fail", seconds, bad[0].strip()[:600]
    if status != 0 or not verdicts:
        return "fail", seconds, f"ended with status {status} without a verdict: {_last_lines(text)}"
    if all(word == "skip" for word, _, _ in verdicts):
        return "skip", seconds, verdicts[-1][2].strip()[:600]
    return "pass", seconds, ""


def _last_lines(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("time: ")]
    return " | ".join(lines[-3:])[:600]
