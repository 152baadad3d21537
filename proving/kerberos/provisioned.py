"""New domains of Samba, copied from an earlier one that was made in the same way.

To make a domain and its users takes seconds of the processor, and the result depends only on the words, on the users
and on Samba. It is kept for a day beside what `scripts/foreign` unpacks: passwords of accounts end after weeks.
Start reading at `provision`.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from proving.harness import newer

MOST_AGE_S = 24 * 3600
COPY_LIMIT_S = 60
# The file with the paths of the directory in which a domain was made, and the one that names that directory.
SETTINGS, ORIGIN = "etc/smb.conf", "made-in"


def provision(how: Sequence[object], samba: Path, target: Path, make: Callable[[], object]) -> None:
    """Have the directory `target` hold what `make` makes there. `how` tells it from others, and `samba` is a file of the
    package that makes it."""
    package = samba.stat()
    named = [*map(str, how), str(samba), str(package.st_size), str(package.st_mtime_ns)]
    cache = newer.root("provisioned")
    kept = cache / hashlib.sha256("\0".join(named).encode()).hexdigest()[:32]
    _forget_old(cache)
    if kept.exists():
        _copy(kept, target)
        settings, origin = target / SETTINGS, (target / ORIGIN).read_text()
        settings.write_text(settings.read_text().replace(origin, str(target)))
        return
    make()
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="new-", ignore_cleanup_errors=True) as work:
        new = Path(work) / "domain"
        (target / ORIGIN).write_text(str(target))
        _copy(target, new)
        os.utime(new)
        # Another suite may have been faster.
        if not kept.exists():
            new.rename(kept)


def _copy(source: Path, target: Path) -> None:
    """Copy a directory into one that may exist. Its databases are mostly holes."""
    target.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cp", "--archive", "--sparse=always", f"{source}/.", str(target)], check=True, timeout=COPY_LIMIT_S)


def _forget_old(cache: Path) -> None:
    for kept in cache.glob("*") if cache.exists() else ():
        if time.time() - kept.stat().st_mtime > MOST_AGE_S:
            shutil.rmtree(kept, ignore_errors=True)
