"""The licences and notices of the crates that are linked into the program, which their authors ask to go with it."""

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("LICENSE*", "LICENCE*", "COPYING*", "COPYRIGHT*", "NOTICE*")


def text(triple: str) -> str:
    """One text for all crates; what several have in common is there once."""
    crates_of: dict[str, list[str]] = {}
    for crate in linked(triple):
        name = f"{crate['name']} {crate['version']} ({crate['license']})"
        folder = Path(crate["manifest_path"]).parent
        found = sorted({path for pattern in NAMES for path in folder.glob(pattern) if path.is_file()})
        texts = [path.read_text(errors="replace").strip() for path in found]
        for own in texts or ["These crates have no file with their licence."]:
            crates_of.setdefault(own, []).append(name)
    rule = "\n\n" + "=" * 100 + "\n\n"
    head = "Trunkline has the licence Apache-2.0. These crates are linked into the program, with these licences and notices."
    return rule.join([head, *(f"{chr(10).join(dict.fromkeys(names))}\n\n{own}" for own, names in crates_of.items())]) + "\n"


def linked(triple: str) -> list[dict]:
    """The packages that the program is linked with for a processor, without those of this workspace."""
    words = ["cargo", "metadata", "--locked", "--format-version=1", f"--filter-platform={triple}"]
    known = json.loads(subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in known["packages"]}
    nodes = {node["id"]: node for node in known["resolve"]["nodes"]}
    todo = [package["id"] for package in known["packages"] if package["name"] == "trunkline"]
    seen = set(todo)
    while todo:
        for dependency in nodes[todo.pop()]["deps"]:
            # A kind of None is one that is linked; the others are for building and for tests.
            if dependency["pkg"] not in seen and any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                seen.add(dependency["pkg"])
                todo.append(dependency["pkg"])
    return sorted((packages[one] for one in seen if packages[one]["source"]), key=lambda package: (package["name"], package["version"]))
