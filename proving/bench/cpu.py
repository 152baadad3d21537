"""CPU time of a server: its process, the processes that it started, and those of them that have ended."""

import os
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def _stat(pid: int | str) -> tuple[int, int]:
    """Return (parent, ticks) of a process. The ticks include those of children that it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    # proc(5): fields 4 ppid; 14 to 17 utime, stime, cutime, cstime. `fields` begins with field 3.
    return int(fields[1]), sum(int(field) for field in fields[11:15])


def seconds(root: int) -> float:
    """Return the user and system seconds of the process tree below `root` so far."""
    parents, ticks = {}, {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                parents[int(entry)], ticks[int(entry)] = _stat(entry)
            except OSError:
                continue  # it has ended, and its parent has its time
    tree, grown = {root}, True
    while grown:
        more = {pid for pid, parent in parents.items() if parent in tree} - tree
        tree |= more
        grown = bool(more)
    return sum(ticks.get(pid, 0) for pid in tree) * TICK_S
