"""Our server against its peers: the ratios within rounds, their presentation, and whether they reach the goals.

`columns` of a row are label -> (CPU µs for each operation, operations per second), each with a value for every round.
Our server is ahead where a ratio is above 1. The goal counts against the best of the peers. Start reading at `values`
and `cells`.
"""

from collections.abc import Mapping, Sequence

from proving.bench import spread
from proving.bench.spread import Values

CPU, RATE = 0, 1
Columns = Mapping[str, tuple[Sequence[float], Sequence[float]]]


def _costs(columns: Columns, ours: str, peer: str) -> list[float]:
    """Return the peer's processor time for each operation over ours, in each round."""
    return [other / own for own, other in zip(columns[ours][CPU], columns[peer][CPU], strict=True) if own and other]


def _rates(columns: Columns, ours: str, peer: str) -> list[float]:
    """Return our operations per second over the peer's, in each round."""
    return [own / other for own, other in zip(columns[ours][RATE], columns[peer][RATE], strict=True) if own and other]


def values(columns: Columns, ours: str, peers: Sequence[str], row: str = "") -> Values:
    """Return the numbers of one row. `row` distinguishes it from other rows of the same case."""
    found = {"cost": columns[ours][CPU], "rate": columns[ours][RATE]}
    for peer in peers:
        found |= {f"cost × {peer}": _costs(columns, ours, peer), f"rate × {peer}": _rates(columns, ours, peer)}
    return {row + name: spread.of(rounds) for name, rounds in found.items() if rounds}


def cells(of: Values, peers: Sequence[str], cost: float | None, rate: float | None, row: str = "") -> list[str]:
    """Return the columns behind the name: our cost and rate, each peer's ratios, and the verdict on them."""
    shown = [f"{spread.told(of, f'{row}cost', 1)} µs", f"{of[f'{row}rate'].median:,.0f}/s"]
    for peer in peers:
        shown += [spread.told(of, f"{row}cost × {peer}"), spread.told(of, f"{row}rate × {peer}")]
    return [*shown, verdict(of, peers, row, cost=cost, rate=rate)]


def verdict(of: Values, peers: Sequence[str], row: str, **wanted: float | None) -> str:
    """Compare the smallest ratio of the peers with the goal. `wanted` maps a measure to its goal, or to None."""
    parts = []
    for measure, least in wanted.items():
        if least is None:
            continue
        ratios = [of[name].median for peer in peers if (name := f"{row}{measure} × {peer}") in of]
        if len(ratios) < len(peers):
            parts.append(f"{measure} wanted ≥ {least:g}: not measured")
            continue
        parts.append(f"{measure} wanted ≥ {least:g}: {'met' if min(ratios) >= least else '**not met**'}")
    return "; ".join(parts) or "–"
