"""The measured results, a line for each case.

All cases take most of an hour. Each case is a run of its own, in which the compared servers take turns. So each result
is stored as soon as it is measured, in measured.json beside this file: for each of its numbers the median, the smallest
and the largest of all rounds, and the commit, the method and the time of the measurement. A repeated case replaces only
its own line. The page is made from the stored results, and names their commits, machines and numbers of rounds. Start
reading at `ResultStore`.
"""

import dataclasses
import datetime
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from proving.bench.spread import Spread, Values

PATH = Path(__file__).resolve().parent / "measured.json"
# The stored digits of a number: more than any page shows.
DIGITS = 10


@dataclass(frozen=True)
class StoredResult:
    """The stored result of one case. Two measurements have the same `how` if they differ in nothing but the commit.
    `versions` are those of the servers, where the page names them."""

    values: Values
    commit: str
    how: str
    when: datetime.datetime
    versions: Sequence[str] = ()

    def text(self) -> str:
        """Return it as a line of JSON."""
        told = dataclasses.asdict(self)
        told["values"] = {name: [float(f"{number:.{DIGITS}g}") for number in value] for name, value in self.values.items()}
        told["when"] = self.when.isoformat(timespec="seconds")
        return json.dumps({key: value for key, value in told.items() if value != ()})


def _line(told: dict[str, Any]) -> StoredResult:
    values = {name: Spread(*value) for name, value in told.pop("values").items()}
    return StoredResult(values, when=datetime.datetime.fromisoformat(told.pop("when")), **told)


class ResultStore:
    """The results of all cases by their full name, in a file or, without `path`, for this run alone. New results get
    `commit` and `how`."""

    def __init__(self, commit: str, how: str, path: Path | None) -> None:
        self._commit, self._how, self._path = commit, how, path
        there = json.loads(path.read_text()) if path and path.exists() else {}
        self.lines = {name: _line(told) for name, told in there.items()}

    def part(self, prefix: str) -> "Part":
        """Return the results of one section, by the names of its cases."""
        return Part(self, prefix)

    def add(self, name: str, values: Values, versions: Sequence[str]) -> None:
        """Store a case, in place of its former result."""
        self.lines[name] = StoredResult(values, self._commit, self._how, datetime.datetime.now(datetime.UTC), versions)
        if self._path:
            write(self.lines, self._path)

    def has(self, name: str) -> bool:
        """Return whether a case was measured just as this run would measure it."""
        return name in self.lines and (self.lines[name].commit, self.lines[name].how) == (self._commit, self._how)

    def told(self, names: Iterable[str]) -> str:
        """Return the part of the page that tells the time and the method of the measurement of the named cases."""
        alike: dict[str, list[tuple[datetime.datetime, str]]] = {}
        for name in names:
            if line := self.lines.get(name):
                alike.setdefault(f"commit {line.commit}, {line.how}", []).append((line.when, name))
        shown = []
        for how, cases in sorted(alike.items(), key=lambda it: min(it[1])):
            first, last = min(cases)[0], max(cases)[0]
            which = f"{len(cases)} cases" if len(cases) > 6 else "; ".join(f"“{name}”" for _, name in sorted(cases))
            shown.append(f"* {how}; ended from {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC: {which}\n")
        return (
            "\n## When\n\nEach case is one run, in which all that it compares takes turns; cases may be measured at different times.\n\n" + "".join(shown)
        )


def write(lines: Mapping[str, StoredResult], path: Path) -> None:
    """Write all results to a file, which is complete at any time."""
    written = path.with_suffix(".new")
    written.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {line.text()}" for name, line in sorted(lines.items())) + "\n}\n")
    written.replace(path)


class Part(Mapping[str, Values]):
    """The results whose names begin with a prefix."""

    def __init__(self, kept: ResultStore, prefix: str) -> None:
        self._kept, self.prefix = kept, prefix
        # The names that this run has measured.
        self.fresh: set[str] = set()

    def __getitem__(self, name: str) -> Values:
        return self._kept.lines[self.prefix + name].values

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self.prefix) for name in self._kept.lines if name.startswith(self.prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def add(self, name: str, values: Values, versions: Sequence[str] = ()) -> Values:
        """Store this run's result of a case."""
        self._kept.add(self.prefix + name, values, versions)
        self.fresh.add(name)
        return values

    def versions(self, name: str) -> Sequence[str]:
        """Return the versions of the servers with which a case was measured."""
        return self._kept.lines[self.prefix + name].versions


# Decides whether to measure a case of a section.
Chooses = Callable[[Any, Part], bool]
