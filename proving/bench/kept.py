"""What was measured, case by case.

All cases take most of an hour, and each is a run of its own, in which whatever it compares takes turns. So each is kept as soon as
it is measured, with when and with what, in measured.json beside this file; the page is made of what is kept, and says of which
commits and machines and how many rounds that is. Start reading at `Kept`.
"""

import contextlib
import dataclasses
import datetime
import importlib
import json
from collections.abc import MutableMapping
from pathlib import Path

PATH = Path(__file__).resolve().parent / "measured.json"
# How a value that JSON has no word for is marked: one of our samples, and a mapping whose keys are not all texts.
SAMPLE, MAPPING = "sample of", "keys"


def _plain(value):
    """What JSON can say, of which `_whole` makes the same again; but a tuple becomes a list."""
    if dataclasses.is_dataclass(value):
        return {SAMPLE: type(value).__module__, **vars(value)}
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        return {MAPPING: list(value), "values": [_plain(one) for one in value.values()]}
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def _whole(value):
    if isinstance(value, list):
        return [_whole(one) for one in value]
    if not isinstance(value, dict):
        return value
    if SAMPLE in value:
        return importlib.import_module(value.pop(SAMPLE)).Sample(**value)
    if MAPPING in value:
        return dict(zip(value[MAPPING], map(_whole, value["values"])))
    return {key: _whole(one) for key, one in value.items()}


class Kept:
    """The results of all cases by their whole name, in a file or, without `path`, for this run alone. `stamp` says how those that
    are added from now on are measured."""

    def __init__(self, stamp, path):
        self._stamp, self._path = stamp, path
        self.entries = self._read() if path else {}

    def _read(self):
        entries = {}
        for name, (result, stamp, when) in (json.loads(self._path.read_text()) if self._path.exists() else {}).items():
            # What another version of these scripts kept may not be read any more; it is measured again then.
            with contextlib.suppress(TypeError, ImportError, AttributeError):
                entries[name] = (_whole(result), stamp, datetime.datetime.fromisoformat(when))
        return entries

    def part(self, prefix):
        """The results of one section, by the names of its cases."""
        return Part(self, prefix)

    def add(self, name, result):
        """Keeps a result, over what was there before."""
        now = datetime.datetime.now(datetime.UTC)
        self.entries[name] = (_whole(_plain(result)), self._stamp, now)
        if not self._path:
            return
        lines = (f"{json.dumps(name)}: {json.dumps([_plain(result), stamp, when.isoformat(timespec='seconds')])}"
                 for name, (result, stamp, when) in sorted(self.entries.items()))
        written = self._path.with_suffix(".new")
        written.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        written.replace(self._path)

    def has(self, name):
        """Whether a case was measured just as this run would measure it."""
        return name in self.entries and self.entries[name][1] == self._stamp

    def told(self, names):
        """The part of the page that says when and with what the named cases were measured."""
        by_stamp = {}
        for name in names:
            if name in self.entries:
                _, stamp, when = self.entries[name]
                by_stamp.setdefault(stamp, []).append((when, name))
        lines = []
        for stamp, cases in sorted(by_stamp.items(), key=lambda it: min(it[1])):
            first, last = min(cases)[0], max(cases)[0]
            which = f"{len(cases)} cases" if len(cases) > 6 else "; ".join(f"“{name}”" for _, name in sorted(cases))
            lines.append(f"* {stamp}; ended from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC: {which}\n")
        return (
            "\n## When\n\nEach case is one run, in which all that it compares takes turns; cases may be measured at different times.\n\n" + "".join(lines)
        )


class Part(MutableMapping):
    """The kept results whose names begin with a prefix."""

    def __init__(self, kept, prefix):
        self._kept, self.prefix = kept, prefix
        # What was measured by this run.
        self.fresh = set()

    def __getitem__(self, name):
        return self._kept.entries[self.prefix + name][0]

    def __setitem__(self, name, result):
        self._kept.add(self.prefix + name, result)
        self.fresh.add(name)

    def __delitem__(self, name):
        del self._kept.entries[self.prefix + name]

    def __iter__(self):
        return (name.removeprefix(self.prefix) for name in self._kept.entries if name.startswith(self.prefix))

    def __len__(self):
        return sum(1 for _ in self)
