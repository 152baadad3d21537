"""The lists of tests that Trunkline is expected to fail, and their rules (proving/expected/README.md)."""

import tomllib
from pathlib import Path
from typing import Any

from proving.harness.tally import Tally


class BadList(Exception):
    """The list breaks its own rules."""


def listed(path: Path, version: str | None = None) -> dict[str, tuple[str, str]]:
    """Read the list in the file `path`: name -> (result, reason). Each entry must give a reason and the section of the
    specification.

    Entries for other versions of the suite than `version`, by their `since` and `until`, are left out.
    """
    entries = {}
    for entry in tomllib.loads(path.read_text()).get("expect", []):
        names = entry.get("tests", [])
        known = entry.get("result") in ("fail", "skip", "either")
        if not known or not names or not entry.get("reason") or not entry.get("section"):
            raise BadList(f"an entry of {path.name} lacks tests, result (fail, skip or either), reason or section: {entry}")
        if not _is_for(entry, version):
            continue
        for name in names:
            if name in entries:
                raise BadList(f"{name} stands twice in {path.name}")
            entries[name] = (entry["result"], entry["reason"])
    return entries


def numbers(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version, which identify it: 4.17.12-Debian is (4, 17)."""
    return tuple(int(part) for part in version.split("-")[0].split(".")[:2])


def _is_for(entry: dict[str, Any], version: str | None) -> bool:
    if version is None:
        return True
    since, until = entry.get("since"), entry.get("until")
    at = numbers(version)
    return (since is None or numbers(since) <= at) and (until is None or at <= numbers(until))


def judge(tally: Tally, name: str, result: str, detail: str, entry: tuple[str, str], listing: str) -> None:
    """Count one result for which the list named `listing` has the entry `entry`, (result, reason)."""
    wanted, reason = entry
    if wanted == "either":
        tally.add("skip", name, f"{result}, now one and now the other: {reason}")
    elif result == wanted:
        tally.add("skip", name, f"expected to {wanted}: {reason}")
    else:
        tally.add("fail", name, f"listed as {wanted} but {result}: correct {listing}. {detail}")
