"""Compare smbtorture's results with the list of expected failures and with Samba's own results."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from proving.harness import expected
from proving.harness.tally import Tally
from proving.smbtorture import torture

EXPECTED = Path(__file__).resolve().parent.parent / "expected"
OURS = EXPECTED / "smbtorture.toml"


class Book:
    """The expected results of one version of the suite: our list, by the names of tests, and Samba's own results with
    the same suite.

    If there is no record of Samba's for a version, the latest earlier one is used. A test that neither that record nor
    the list names is new.
    """

    def __init__(self, version: str) -> None:
        self.version = version
        self.listed = expected.listed(OURS, version)
        recorded = [_read(path) for path in EXPECTED.glob("samba-*.json")]

        def of(record: dict[str, Any]) -> tuple[int, ...]:
            return expected.numbers(record["suite"].split()[1])

        fitting = [record for record in recorded if of(record) <= expected.numbers(version)] or recorded
        self._record: dict[str, Any] = max(fitting, key=of, default={"server": "no Samba", "tests": {}})
        self.server = self._record["server"]

    def samba(self) -> dict[str, str]:
        """Return Samba's recorded results: name -> pass, fail, skip or timeout. Empty without a record."""
        return {name: entry[0] for name, entry in self._record["tests"].items()}

    def recorded_seconds(self) -> dict[str, float]:
        """Return the duration of each test against Samba. The longest tests start first."""
        return {name: entry[1] for name, entry in self._record["tests"].items()}

    def knows(self, name: str) -> bool:
        """Return whether the test existed when the list was written."""
        return name in self.listed or name in self._record["tests"]

    def wanted(self, kind: str) -> Callable[[str, str], bool]:
        """Return a function of (name, result) that tells whether the test ended as expected. Other tests get a second try."""
        reference = self.samba()
        if kind == "samba":
            return lambda name, result: result in ("pass", "skip")

        def ends_as_expected(name: str, result: str) -> bool:
            if name in self.listed:
                return self.listed[name][0] in (_kind(result), "either")
            return result == "pass" or (result == "skip" and reference.get(name) != "pass")

        return ends_as_expected


def _read(path: Path) -> Any:
    return json.loads(path.read_text())


def record(report: dict[str, Any]) -> None:
    """Write Samba's results with this version of the suite, one line for each test, so that a later run shows as a
    small difference.

    A run of some of the tests replaces only their results.
    """
    head = {key: report[key] for key in ("suite", "server")}
    path = EXPECTED / ("samba-" + ".".join(map(str, expected.numbers(head["suite"].split()[1]))) + ".json")
    tests = _read(path)["tests"] if path.exists() else {}
    tests |= {name: [test["result"], test["seconds"]] for name, test in report["tests"].items()}
    lines = [f"  {json.dumps(name)}: {json.dumps(tests[name])}" for name in sorted(tests)]
    path.write_text(json.dumps(head, indent=1)[:-2] + ',\n "tests": {\n' + ",\n".join(lines) + "\n }\n}\n")


def judge(tally: Tally, results: Mapping[str, torture.Outcome], book: Book, kind: str) -> None:
    """Count the results into `tally` and print the table. Samba is compared with its own record, Trunkline with our list."""
    reference = book.samba()
    kinds = {name: _kind(outcome.result) for name, outcome in results.items()}
    for name in sorted(kinds):
        detail = results[name].detail
        if not book.knows(name):
            _count_new(tally, name, kinds[name], detail)
        elif kind == "samba":
            _judge_samba(tally, name, kinds[name], detail, _kind(reference.get(name, "fail")))
        else:
            _judge_ours(tally, name, kinds[name], detail, book.listed.get(name), reference.get(name))
    _print_table(kinds, book, kind)


def _kind(result: str) -> str:
    return "fail" if result == "timeout" else result


def _count_new(tally: Tally, name: str, result: str, detail: str) -> None:
    tally.add("pass" if result == "pass" else "skip", name, f"new, and judged by nothing yet: {result}. {detail}")


def _judge_samba(tally: Tally, name: str, result: str, detail: str, recorded: str) -> None:
    if result == "fail" and recorded == "fail":
        tally.add("skip", name, "Samba fails it, as recorded")
    else:
        tally.add(result, name, detail)


def _judge_ours(tally: Tally, name: str, result: str, detail: str, listed: tuple[str, str] | None, reference: str | None) -> None:
    if listed is not None:
        expected.judge(tally, name, result, detail, listed, OURS.name)
    elif result == "skip" and reference == "pass":
        tally.add("fail", name, f"skipped, but Samba passes it, and it is not listed. {detail}")
    else:
        tally.add(result, name, detail)


def _print_table(kinds: dict[str, str], book: Book, kind: str) -> None:
    reference = book.samba()

    def count(table: dict[str, str], result: str) -> int:
        return sum(1 for name in kinds if _kind(table.get(name, "none")) == result)

    print(f"\n{'':28}{'pass':>7}{'fail':>7}{'skip':>7}")
    rows = [("this run", kinds)] + ([(book.server, reference)] if reference else [])
    for label, table in rows:
        print(f"{label:28}" + "".join(f"{count(table, result):7}" for result in ("pass", "fail", "skip")))
    behind = sorted(n for n in kinds if reference.get(n) == "pass" and kinds[n] != "pass")
    ahead = sorted(n for n in kinds if reference.get(n, "pass") != "pass" and kinds[n] == "pass")
    new = sorted(n for n in kinds if not book.knows(n))
    if new:
        print(f"\n{len(new)} tests that neither the list nor Samba's record names:")
        print(*(f"  {kinds[name]:7} {name}" for name in new), sep="\n")
    if kind != "samba" and reference:
        print(f"\nSamba passes, {kind} does not: {len(behind)}; {kind} passes, Samba does not: {len(ahead)}")
        for label, names in (("behind", behind), ("ahead", ahead)):
            for name in names:
                print(f"  {label:7} {name} ({kinds[name]}, Samba: {reference[name]})")
