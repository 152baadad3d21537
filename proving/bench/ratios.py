"""Our server against its peers: ratios within rounds, how they are told, and whether they come to what is wanted.

`columns` of a row are label -> (CPU µs for an operation, operations for a second), each with a value for every round. Above 1 our
server is ahead in each ratio. What is wanted counts against the best of the peers. Start reading at `values` and `cells`.
"""

from collections.abc import Mapping, Sequence

from proving.bench import spread
from proving.bench.spread import Values

CPU, RATE = 0, 1
Columns = Mapping[str, tuple[Sequence[float], Sequence[float]]]


def _costs(columns: Columns, ours: str, peer: str) -> list[float]:
    """The peer's processor time for an operation over ours, in each round."""
    return [other / own for own, other in zip(columns[ours][CPU], columns[peer][CPU], strict=True) if own and other]


def _rates(columns: Columns, ours: str, peer: str) -> list[float]:
    """Our operations for a second over the peer's, in each round."""
    return [own / other for own, other in zip(columns[ours][RATE], columns[peer][RATE], strict=True) if own and other]


def values(columns: Columns, ours: str, peers: Sequence[str], row: str = "") -> Values:
    """The numbers of one row; `row` tells it from others of the same case."""
    found = {"cost": columns[ours][CPU], "rate": columns[ours][RATE]}
    for peer in peers:
        found |= {f"cost × {peer}": _costs(columns, ours, peer), f"rate × {peer}": _rates(columns, ours, peer)}
    return {row + name: spread.of(rounds) for name, rounds in found.items() if rounds}


def cells(of: Values, peers: Sequence[str], cost: float | None, rate: float | None, row: str = "") -> list[str]:
    """The columns behind the name: our cost and rate, each peer's ratios, and what is wanted of them."""
    shown = [f"{spread.told(of, f'{row}cost', 1)} µs", f"{of[f'{row}rate'].median:,.0f}/s"]
    for peer in peers:
        shown += [spread.told(of, f"{row}cost × {peer}"), spread.told(of, f"{row}rate × {peer}")]
    return [*shown, verdict(of, peers, row, cost=cost, rate=rate)]


def verdict(of: Values, peers: Sequence[str], row: str, **wanted: float | None) -> str:
    """By the name of a measure what the least of the peers' ratios must come to, if anything."""
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
