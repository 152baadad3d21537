#!/usr/bin/env python3
"""axe-core, which finds what keeps people from using a page: fetched once from the npm registry, outside the checkout.

    axe.py          fetches it if it is not there, and says where it is
"""

import base64
import hashlib
import io
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from proving.harness import newer

VERSION = "4.10.3"
# As the registry names the package of this version.
SHA512 = "Xm7bpRXnDSX2YE2YFfBk2FnF0ep6tmG7xPh8iHee8MIcrgq762Nkce856dYtJYLkuIoYZvGfTs/PbZhideTcEg=="
FETCH_S = 60


def source() -> str | None:
    """The script; none where it cannot be had."""
    place = newer.root(f"axe-core-{VERSION}") / "axe.min.js"
    if not place.exists():
        script = _fetch()
        if script is None:
            return None
        place.parent.mkdir(parents=True, exist_ok=True)
        part = place.with_suffix(".part")
        part.write_bytes(script)
        part.rename(place)
    return place.read_text(encoding="utf-8")


def _fetch() -> bytes | None:
    npm = shutil.which("npm")
    if npm is None:
        return None
    with tempfile.TemporaryDirectory(prefix="proof-axe-") as directory:
        try:
            subprocess.run([npm, "pack", "--silent", f"axe-core@{VERSION}"], cwd=directory, check=True, timeout=FETCH_S,
                           stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            package = (Path(directory) / f"axe-core-{VERSION}.tgz").read_bytes()
        except (OSError, subprocess.SubprocessError):
            return None
    if base64.b64encode(hashlib.sha512(package).digest()).decode() != SHA512:
        raise ValueError(f"axe-core {VERSION} is not what it was when this was written")
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        script = archive.extractfile("package/axe.min.js")
        return None if script is None else script.read()


if __name__ == "__main__":
    if source() is None:
        sys.exit(f"axe-core {VERSION} cannot be had (npm, or the registry): the admin page is not looked at with it")
    print(newer.root(f"axe-core-{VERSION}"))
