"""What `scripts/foreign` unpacked of newer releases of Debian: it lies outside the checkout and is installed nowhere."""

import os
from pathlib import Path


def root(folder):
    """The directory into which the packages of this name were unpacked; it may be missing."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "trunkline-proving" / folder
