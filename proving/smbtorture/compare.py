"""Hold smbtorture's results against the list of expected failures and against Samba's own results."""

import json
from pathlib import Path

from harness import expected

EXPECTED = Path(__file__).resolve().parent.parent / "expected"


class Book:
    """What is expected of one release of the suite: our list, and Samba's own results, where they are recorded."""

    def __init__(self, ours, samba=None):
        self.ours, self._samba = EXPECTED / ours, EXPECTED / samba if samba else None

    def samba(self):
        """Samba's recorded results: name -> pass, fail, skip or timeout. Empty when none are recorded."""
        return {name: entry[0] for name, entry in self._recorded().items()}

    def recorded_seconds(self):
        """How long each test took against Samba: the longest are started first."""
        return {name: entry[1] for name, entry in self._recorded().items()}

    def _recorded(self):
        return json.loads(self._samba.read_text())["tests"] if self._samba and self._samba.exists() else {}

    def record(self, report):
        """Write Samba's results, one line for a test so that a later run shows as a small difference.

        A run of some of the tests replaces the results of those.
        """
        head = {key: report[key] for key in ("suite", "server")}
        tests = self._recorded() | {name: [test["result"], test["seconds"]] for name, test in report["tests"].items()}
        lines = [f"  {json.dumps(name)}: {json.dumps(tests[name])}" for name in sorted(tests)]
        text = json.dumps(head, indent=1)[:-2] + ',\n "tests": {\n' + ",\n".join(lines) + "\n }\n}\n"
        self._samba.write_text(text)

    def expected(self):
        """Our list: name -> (result, reason)."""
        return expected.listed(self.ours)


INSTALLED = Book("smbtorture.toml", "samba-4.17.json")
NEWER = Book("smbtorture-newer.toml")


def wanted(book, kind):
    """A function of (name, result) that says whether the test ended as expected: others are worth a second try."""
    if kind == "samba":
        return lambda name, result: result in ("pass", "skip")
    listed, reference = book.expected(), book.samba()

    def ends_as_expected(name, result):
        if name in listed:
            return listed[name][0] in (_kind(result), "either")
        return result == "pass" or (result == "skip" and reference.get(name) != "pass")

    return ends_as_expected


def judge(tally, results, book, kind):
    """Count the results into `tally` and print the table. Samba is judged by its own record, Trunkline by our list."""
    reference = book.samba()
    kinds = {name: _kind(outcome.result) for name, outcome in results.items()}
    if kind == "samba":
        for name in sorted(kinds):
            _judge_samba(tally, name, kinds[name], results[name].detail, _kind(reference.get(name, "fail")))
    else:
        listed = book.expected()
        for name in sorted(kinds):
            _judge_ours(tally, name, kinds[name], results[name].detail, listed.get(name), reference.get(name), book.ours.name)
    _print_table(kinds, reference, kind)


def _kind(result):
    return "fail" if result == "timeout" else result


def _judge_samba(tally, name, result, detail, recorded):
    if result == "fail" and recorded == "fail":
        tally.add("skip", name, "Samba fails it, as recorded")
    else:
        tally.add(result, name, detail)


def _judge_ours(tally, name, result, detail, listed, reference, listing):
    if listed is not None:
        expected.judge(tally, name, result, detail, listed, listing)
    elif result == "skip" and reference == "pass":
        tally.add("fail", name, f"skipped, but Samba passes it, and it is not listed. {detail}")
    else:
        tally.add(result, name, detail)


def _print_table(kinds, reference, kind):
    count = lambda table, result: sum(1 for name in kinds if _kind(table.get(name, "none")) == result)  # noqa: E731
    print(f"\n{'':12}{'pass':>7}{'fail':>7}{'skip':>7}")
    rows = [("this run", kinds)] + ([("Samba 4.17", reference)] if reference else [])
    for label, table in rows:
        print(f"{label:12}" + "".join(f"{count(table, result):7}" for result in ("pass", "fail", "skip")))
    behind = sorted(n for n in kinds if reference.get(n) == "pass" and kinds[n] != "pass")
    ahead = sorted(n for n in kinds if reference.get(n, "pass") != "pass" and kinds[n] == "pass")
    if kind != "samba" and reference:
        print(f"\nSamba passes, {kind} does not: {len(behind)}; {kind} passes, Samba does not: {len(ahead)}")
        for label, names in (("behind", behind), ("ahead", ahead)):
            for name in names:
                print(f"  {label:7} {name} ({kinds[name]}, Samba: {reference[name]})")
