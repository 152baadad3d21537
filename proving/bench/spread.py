"""The results of several rounds for one number."""

import statistics
from collections.abc import Iterable
from typing import NamedTuple


class Spread(NamedTuple):
    """The median of all rounds, with the smallest and largest value."""

    median: float
    least: float
    most: float

    def told(self, digits: int = 2) -> str:
        """Return the median, and in brackets the range of the rounds if they differ."""
        middle = f"{self.median:,.{digits}f}"
        return middle if self.least == self.most else f"{middle} ({self.least:,.{digits}f}–{self.most:,.{digits}f})"


# The numbers of a case by their names.
Values = dict[str, Spread]


def of(rounds: Iterable[float]) -> Spread:
    """Return the spread of these rounds."""
    numbers = list(rounds)
    return Spread(statistics.median(numbers), min(numbers), max(numbers))


def told(values: Values, name: str, digits: int = 2) -> str:
    """Return one of these numbers as text; a dash without a measurement."""
    return values[name].told(digits) if name in values else "–"
