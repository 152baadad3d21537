"""Our server against its peers: ratios within rounds, how they are told, and whether they come to what is wanted.

`columns` of a row are label -> (CPU µs for an operation, operations for a second), each with a value for every round. Above 1 our
server is ahead in each ratio. What is wanted counts against the best of the peers. Start reading at `row` and `verdict`.
"""

import statistics

from proving.bench import spread

CPU, RATE = 0, 1


def costs(columns, ours, peer):
    """The peer's processor time for an operation over ours, in each round."""
    return [other / own for own, other in zip(columns[ours][CPU], columns[peer][CPU]) if own and other]


def rates(columns, ours, peer):
    """Our operations for a second over the peer's, in each round."""
    return [own / other for own, other in zip(columns[ours][RATE], columns[peer][RATE]) if own and other]


def told(values, digits=2):
    """The median with the least and the most; a dash where there is nothing to tell."""
    return spread.told(values, digits) if values else "–"


def row(columns, ours, peers, cost, rate):
    """The columns behind the name: our cost and rate, each peer's ratios, and what is wanted of them."""
    cpu, per_second = columns[ours]
    shown = [f"{told(cpu, 1)} µs", f"{statistics.median(per_second):,.0f}/s"]
    for peer in peers:
        shown += [told(costs(columns, ours, peer)), told(rates(columns, ours, peer))]
    return [*shown, verdict(cost=([costs(columns, ours, peer) for peer in peers], cost), rate=([rates(columns, ours, peer) for peer in peers], rate))]


def verdict(**measures):
    """By the name of a measure the ratios of each peer, and what the least of their medians must come to, if anything."""
    parts = []
    for name, (of_peers, wanted) in measures.items():
        if wanted is None:
            continue
        if not all(of_peers):
            parts.append(f"{name} wanted ≥ {wanted:g}: not measured")
            continue
        least = min(statistics.median(ratios) for ratios in of_peers)
        parts.append(f"{name} wanted ≥ {wanted:g}: {'met' if least >= wanted else '**not met**'}")
    return "; ".join(parts) or "–"
