"""Files and directories with many combinations of owner, group, permission bits and POSIX access lists, from one user's
point of view.

The numbers determine the user's relation to each: `ME` owns the file, is in its group, is named, is in a named group,
or none of these. So one log-on stands for five users.
"""

import itertools
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# A combination.
Case = dict[str, Any]

# The first account of servers/accounts, its own group, a further group (profile `rights`), and a user unrelated to
# these.
ME, MY_GROUP, FURTHER_GROUP, NOT_ME = 61001, 61001, 61003, 70
# The second account.
NAMED = 61002
SEED, MANY = 7, 90
BITS = (0, 4, 5, 6, 7, 2, 3, 1)
INSIDE = ("inside", "to-remove", "to-rename")


def _text(bits: int) -> str:
    return "".join(letter if bits & bit else "-" for letter, bit in (("r", 4), ("w", 2), ("x", 1)))


def _plain() -> Iterator[Case]:
    """Permission bits alone, with each relation of the user."""
    parts = {"owner": (ME, NOT_ME), "member": (NOT_ME, MY_GROUP), "further": (NOT_ME, FURTHER_GROUP), "other": (NOT_ME, NOT_ME)}
    for (part, owners), mine, theirs in itertools.product(parts.items(), BITS, (0, 7)):
        user, group, other = {"owner": (mine, theirs, theirs), "other": (theirs, theirs, mine)}.get(part, (theirs, mine, theirs))
        yield {"part": part, "owners": owners, "mode": user << 6 | group << 3 | other, "list": []}


def _listed() -> Iterator[Case]:
    """Access lists: a sample of all combinations."""
    choice = random.Random(SEED)
    parts = ("owner", "user", "member", "group", "groups", "both", "other")
    for number in range(MANY):
        part = parts[number % len(parts)]
        bits = {name: choice.choice(BITS) for name in ("owner", "group", "other", "named", "more", "mask")}
        bits["mask"] = choice.choice((bits["mask"], 7))
        owners = (ME if part == "owner" else NOT_ME, MY_GROUP if part in ("member", "both") else NOT_ME)
        entries = {"u:71": bits["more"], "g:72": choice.choice(BITS), "m": bits["mask"]}
        if part in ("user", "owner"):
            entries[f"u:{ME}"] = bits["named"]
        if part in ("user", "group", "groups"):
            entries[f"g:{MY_GROUP}"] = bits["more"] if part == "user" else bits["named"]
        if part in ("groups", "both"):
            entries[f"g:{FURTHER_GROUP}"] = bits["more"]
        mode = bits["owner"] << 6 | bits["group"] << 3 | bits["other"]
        yield {"part": part, "owners": owners, "mode": mode, "list": [f"{who}:{_text(of)}" for who, of in entries.items()]}


def cases() -> dict[str, Case]:
    """Return every combination by its name, for a file and a directory each."""
    found = {}
    for kind, (number, case) in itertools.product(("f", "d"), enumerate((*_plain(), *_listed()))):
        found[f"{kind}{number}-{case['part']}"] = {**case, "is_directory": kind == "d"}
    for number, (owner, of) in enumerate(itertools.product((ME, NOT_ME), repeat=2)):
        # A sticky directory, by the owner of the removed file.
        found[f"s{number}-sticky"] = {"part": "sticky", "owners": (owner, NOT_ME), "mode": 0o1777, "list": [], "is_directory": True,
                                      "owner_inside": of}
    return found


def describe(case: Case) -> str:
    """Return a combination in words."""
    owner, group = case["owners"]
    return f"{case['part']}, {owner}:{group} {case['mode']:04o} {','.join(case['list'])}"


def make(base: Path) -> None:
    """Create one of each below a directory."""
    base.mkdir()
    base.chmod(0o755)
    for name, case in cases().items():
        path = base / name
        if case["is_directory"]:
            path.mkdir()
            for inside in INSIDE:
                (path / inside).write_text(inside)
                os.chown(path / inside, case.get("owner_inside", 0), 0)
        else:
            path.write_text("text")
        os.chown(path, *case["owners"])
        path.chmod(case["mode"])
        if case["list"]:
            # The mask comes last, or the bits of the group would become the mask.
            set_list(path, "-n", "-m", ",".join(case["list"]))


# Default lists, and a directory without one.
DEFAULTS = ("", "u::rwx,g::r-x,o::---", "u::rwx,u:61002:rwx,g::r-x,m::rwx,o::---", "u::rwx,u:61002:r-x,g::---,g:72:rwx,m::rwx,o::r-x",
            "u::rw-,u:61002:rwx,g::rwx,m::r-x,o::-w-", "u::r-x,g::rwx,o::rwx")


def make_defaults(base: Path) -> None:
    """Create a directory of the user for each default list."""
    base.mkdir()
    for number, entries in enumerate(DEFAULTS):
        path = base / f"d{number}"
        path.mkdir()
        os.chown(path, ME, MY_GROUP)
        if entries:
            set_list(path, "-d", "-m", entries)


def set_list(path: Path, *words: str) -> None:
    subprocess.run(["setfacl", *words, str(path)], check=True, timeout=10)


def get_list(path: Path) -> list[str]:
    """Return the entries of the host's lists, sorted, without comments."""
    done = subprocess.run(["getfacl", "-n", "-c", "-E", "-p", str(path)], check=True, timeout=10, capture_output=True, text=True)
    return sorted(line for line in done.stdout.split("\n") if line)
