"""What was measured, a line for each case.

All cases take most of an hour, and each is a run of its own, in which whatever it compares takes turns. So each is kept as soon as
it is measured, in measured.json beside this file: of each of its numbers the median, the least and the most of all rounds, and at
which commit, how and when they were measured. A case that is measured again replaces its own line alone. The page is made of what is
kept, and says of which commits and machines and how many rounds that is. Start reading at `ResultStore`.
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
# How many digits of a number are kept: more than any page shows.
DIGITS = 10


@dataclass(frozen=True)
class StoredResult:
    """What is kept of one case. `how` is what differs in no two measurements that are the same, but for the commit; `versions` are
    those of the servers, where the page names them."""

    values: Values
    commit: str
    how: str
    when: datetime.datetime
    versions: Sequence[str] = ()

    def text(self) -> str:
        """As a line of JSON."""
        told = dataclasses.asdict(self)
        told["values"] = {name: [float(f"{number:.{DIGITS}g}") for number in value] for name, value in self.values.items()}
        told["when"] = self.when.isoformat(timespec="seconds")
        return json.dumps({key: value for key, value in told.items() if value != ()})


def _line(told: dict[str, Any]) -> StoredResult:
    values = {name: Spread(*value) for name, value in told.pop("values").items()}
    return StoredResult(values, when=datetime.datetime.fromisoformat(told.pop("when")), **told)


class ResultStore:
    """The lines of all cases by their whole name, in a file or, without `path`, for this run alone. `commit` and `how` are those of what
    is added from now on."""

    def __init__(self, commit: str, how: str, path: Path | None) -> None:
        self._commit, self._how, self._path = commit, how, path
        there = json.loads(path.read_text()) if path and path.exists() else {}
        self.lines = {name: _line(told) for name, told in there.items()}

    def part(self, prefix: str) -> "Part":
        """The lines of one section, by the names of its cases."""
        return Part(self, prefix)

    def add(self, name: str, values: Values, versions: Sequence[str]) -> None:
        """Keeps a case, over what was there before."""
        self.lines[name] = StoredResult(values, self._commit, self._how, datetime.datetime.now(datetime.UTC), versions)
        if self._path:
            write(self.lines, self._path)

    def has(self, name: str) -> bool:
        """Whether a case was measured just as this run would measure it."""
        return name in self.lines and (self.lines[name].commit, self.lines[name].how) == (self._commit, self._how)

    def told(self, names: Iterable[str]) -> str:
        """The part of the page that says when and with what the named cases were measured."""
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
    """Writes all lines to a file, which is whole at any time."""
    written = path.with_suffix(".new")
    written.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {line.text()}" for name, line in sorted(lines.items())) + "\n}\n")
    written.replace(path)


class Part(Mapping[str, Values]):
    """The lines whose names begin with a prefix."""

    def __init__(self, kept: ResultStore, prefix: str) -> None:
        self._kept, self.prefix = kept, prefix
        # What was measured by this run.
        self.fresh: set[str] = set()

    def __getitem__(self, name: str) -> Values:
        return self._kept.lines[self.prefix + name].values

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self.prefix) for name in self._kept.lines if name.startswith(self.prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def add(self, name: str, values: Values, versions: Sequence[str] = ()) -> Values:
        """Keeps what this run has measured of a case."""
        self._kept.add(self.prefix + name, values, versions)
        self.fresh.add(name)
        return values

    def versions(self, name: str) -> Sequence[str]:
        """Those of the servers that a case was measured with."""
        return self._kept.lines[self.prefix + name].versions


# Whether a case of a section is to be measured.
Chooses = Callable[[Any, Part], bool]
