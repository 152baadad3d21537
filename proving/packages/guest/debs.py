"""The .deb under proof, and others made from it: a newer build, one of an older version."""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from proving.harness import server as servers

LIMIT_S = 300
CONFIGURATION = "etc/trunkline/trunkline.toml"


def built() -> Path | None:
    """Return the newest .deb that `make package` has built, or None."""
    folder = Path(servers.program()).parent
    found = [path for base in (folder, folder.parent) for path in (base / "packages").glob("trunkline_*.deb")]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def field(deb: Path, name: str) -> str:
    """Return a field of the package."""
    return _do("dpkg-deb", "--field", deb, name).strip()


def files(deb: Path) -> list[str]:
    """Return the paths of the package's files, without directories."""
    lines = _do("dpkg-deb", "--contents", deb).splitlines()
    return [line.split()[5].removeprefix(".") for line in lines if not line.startswith("d")]


def changed(deb: Path, out: Path, version: str, change: Callable[[Path], None] = lambda root: None) -> Path:
    """Make a package of another version at `out`. `change` gets the directory of its files."""
    with tempfile.TemporaryDirectory(prefix="proof-deb-") as work:
        root = Path(work) / "root"
        _do("dpkg-deb", "--raw-extract", deb, root)
        control = root / "DEBIAN/control"
        lines = [f"Version: {version}" if line.startswith("Version:") else line for line in control.read_text().splitlines()]
        control.write_text("\n".join(lines) + "\n")
        change(root)
        # Little compression: this is thrown away.
        _do("dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", root, out)
    return out


def with_further_line(root: Path) -> None:
    """Add a line to the package's configuration, so that an upgrade brings another one."""
    with open(root / CONFIGURATION, "a", encoding="utf-8") as file:
        file.write("# A line of a newer package.\n")


def _do(*words: object) -> str:
    return subprocess.run([str(word) for word in words], check=True, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S).stdout
