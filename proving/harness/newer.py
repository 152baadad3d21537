"""The packages of newer Debian releases that `scripts/foreign` unpacked. They lie outside the checkout and are not
installed."""

import os
from pathlib import Path

COMMON = Path(__file__).resolve().parent.parent / "servers" / "common.sh"


def root(folder: str) -> Path:
    """Return the directory of the unpacked packages with this name; it may be missing."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "trunkline-proving" / folder


def command(folder: str, program: str) -> tuple[str, ...]:
    """Return the words that run `program` from the unpacked packages of this name, with its own libraries
    (servers/common.sh). Arguments follow."""
    return ("bash", "-c", '. "$1"; shift; from_root "$@"', "from_root", str(COMMON), str(root(folder)), program)
