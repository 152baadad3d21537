"""What several rounds gave for one number."""

import statistics
from collections.abc import Iterable
from typing import NamedTuple


class Spread(NamedTuple):
    """The median of all rounds, with the least and the most that came."""

    median: float
    least: float
    most: float

    def told(self, digits: int = 2) -> str:
        """The median, and in brackets what the rounds lie between, where they differ."""
        middle = f"{self.median:,.{digits}f}"
        return middle if self.least == self.most else f"{middle} ({self.least:,.{digits}f}–{self.most:,.{digits}f})"


# The numbers of a case by their names.
Values = dict[str, Spread]


def of(rounds: Iterable[float]) -> Spread:
    """What these rounds gave."""
    numbers = list(rounds)
    return Spread(statistics.median(numbers), min(numbers), max(numbers))


def told(values: Values, name: str, digits: int = 2) -> str:
    """One of these numbers; a dash where it was not measured."""
    return values[name].told(digits) if name in values else "–"
