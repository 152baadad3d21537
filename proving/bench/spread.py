"""How a number that was measured several times is told: its median, with the least and the most that came."""

import statistics


def told(values, digits=2):
    """The median of `values`, and in brackets what they lie between, where there are several."""
    values = list(values)
    middle = f"{statistics.median(values):,.{digits}f}"
    return middle if len(values) == 1 else f"{middle} ({min(values):,.{digits}f}–{max(values):,.{digits}f})"
