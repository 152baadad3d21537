"""A time of day that is off, for one program: libfaketime, loaded into it. Time that is measured stays as it is.

The wrapper `faketime` is not used: it ends when a process with its number left a semaphore in /dev/shm, and a killed one does.
"""

from pathlib import Path

LIBRARY = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
_ONLY_TIME_OF_DAY = {"FAKETIME_DONT_FAKE_MONOTONIC": "1"}


def missing() -> list[str]:
    """Return Debian's package of the library, if the host lacks it."""
    return [] if Path(LIBRARY).exists() else ["faketime"]


def off_by(offset: str, preloaded: str = "") -> dict[str, str]:
    """Return the variables by which a program's clock is off, such as by `+10m`: none without an offset. `preloaded` is
    another library for the program."""
    if not offset:
        return {}
    return {"LD_PRELOAD": f"{preloaded}:{LIBRARY}".lstrip(":"), "FAKETIME": offset, **_ONLY_TIME_OF_DAY}


def read_from(file: str) -> dict[str, str]:
    """Return the variables by which a program's clock is off by what `file` says, now and a second after each change."""
    return {"LD_PRELOAD": LIBRARY, "FAKETIME_TIMESTAMP_FILE": file, "FAKETIME_CACHE_DURATION": "1", **_ONLY_TIME_OF_DAY}
