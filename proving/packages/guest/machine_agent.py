"""The agent in the machine (machine.py): it runs the scripts that the host sends, one after the other.

What is to go on beside it is started with systemd-run.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from proving.kernel_client import console

TIMED_OUT = 124
REST_WITHIN_S = 5


def run(do: str, request: dict[str, Any]) -> dict[str, Any]:
    """Run the request's `script` with bash. Returns its status and output; the status is 124 when it is not over within
    `within_s`."""
    process = subprocess.Popen(["bash", "-c", request["script"]], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, start_new_session=True)
    try:
        output = process.communicate(timeout=request["within_s"])[0]
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, status = _rest(process), TIMED_OUT
    return {"status": status, "output": output.decode("utf-8", "replace")}


def _rest(process: subprocess.Popen[bytes]) -> bytes:
    """Return what a killed script has printed, unless a process of another session still has its pipe."""
    try:
        return process.communicate(timeout=REST_WITHIN_S)[0]
    except subprocess.TimeoutExpired as reason:
        return reason.output or b""


if __name__ == "__main__":
    console.serve(run)
