"""The guest's end of its console, with requests and answers of one line of JSON each (guest.py, `Guest`).

An agent is a script that answers requests (`serve`, in the guest). The host copies it, together with this one, to a
directory that the guest sees (`lay`).
"""

import json
import shutil
import sys
import termios
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

MARK = "@answer "
ROOT = Path(__file__).resolve().parents[2]


def lay(agent: Sequence[Path], directory: Path) -> Path:
    """Copy an agent's scripts and this one to `directory`. The first script is the one that runs; returns its path.
    They lie there as in the package, so that they can import each other."""
    for script in (Path(__file__), *agent):
        copy = directory / script.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(script, copy)
    return directory / agent[0].relative_to(ROOT)


def serve(answer: Callable[[str, dict[str, Any]], Any]) -> None:
    """Report that the agent is ready, and answer requests until the input ends. `answer` gets the request's `do` and
    its other fields."""
    settings = termios.tcgetattr(0)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(0, termios.TCSANOW, settings)
    print(MARK + json.dumps("ready"), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(MARK + json.dumps(answer(request.pop("do"), request)), flush=True)
