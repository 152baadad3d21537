"""The guest's end of its console: requests come in and answers go out, a line of JSON each (guest.py, `Guest`).

An agent is a script that is laid with this one where the guest sees it (`lay`, on the host), and that answers requests (`serve`, in
the guest).
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
    """Copy an agent's scripts, the first of which is run, with this one to `directory`; gives the path of the first. There they lie as
    in the package, from which they import each other."""
    for script in (Path(__file__), *agent):
        copy = directory / script.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(script, copy)
    return directory / agent[0].relative_to(ROOT)


def serve(answer: Callable[[str, dict[str, Any]], Any]) -> None:
    """Say that the agent is ready, and answer until nobody asks any more: with what `answer` makes of the request's `do` and its
    other words."""
    settings = termios.tcgetattr(0)
    settings[3] &= ~termios.ECHO
    termios.tcsetattr(0, termios.TCSANOW, settings)
    print(MARK + json.dumps("ready"), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        print(MARK + json.dumps(answer(request.pop("do"), request)), flush=True)
