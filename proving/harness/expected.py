"""The lists of tests that Trunkline is expected not to pass, and their rules (proving/expected/README.md)."""

import tomllib


class BadList(Exception):
    """The list breaks its own rules."""


def listed(path):
    """The list in the file `path`: name -> (result, reason). Each entry must give a reason and the section it rests on."""
    entries = {}
    for entry in tomllib.loads(path.read_text()).get("expect", []):
        names = entry.get("tests", [])
        known = entry.get("result") in ("fail", "skip", "either")
        if not known or not names or not entry.get("reason") or not entry.get("section"):
            raise BadList(f"an entry of {path.name} lacks tests, result (fail, skip or either), reason or section: {entry}")
        for name in names:
            if name in entries:
                raise BadList(f"{name} stands twice in {path.name}")
            entries[name] = (entry["result"], entry["reason"])
    return entries


def judge(tally, name, result, detail, entry, listing):
    """Count one result that the list named `listing` has `entry` for, (result, reason)."""
    wanted, reason = entry
    if wanted == "either":
        tally.add("skip", name, f"{result}, now one and now the other: {reason}")
    elif result == wanted:
        tally.add("skip", name, f"expected to {wanted}: {reason}")
    else:
        tally.add("fail", name, f"listed as {wanted} but {result}: correct {listing}. {detail}")
