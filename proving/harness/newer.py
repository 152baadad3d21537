"""What `scripts/foreign` unpacked of newer releases of Debian: it lies outside the checkout and is installed nowhere."""

import os
from pathlib import Path

COMMON = Path(__file__).resolve().parent.parent / "servers" / "common.sh"


def root(folder: str) -> Path:
    """The directory into which the packages of this name were unpacked; it may be missing."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "trunkline-proving" / folder


def command(folder: str, program: str) -> tuple[str, ...]:
    """The words that run `program` of what was unpacked under this name, with its own libraries (servers/common.sh); arguments follow."""
    return ("bash", "-c", '. "$1"; shift; from_root "$@"', "from_root", str(COMMON), str(root(folder)), program)
