"""What connections carry beside payload: a rate that holds them back counts every byte of them."""


def carried(operations: float, channels: list[dict[str, int]]) -> float:
    """Bytes in a second of the connections in the fuller direction, at so many operations in a second, each a request of its own, by
    the generator's report of a session. What beside them opened the session is nothing to speak of."""
    requests = sum(channel["requests"] for channel in channels)
    return operations * max(sum(channel[way] for channel in channels) for way in ("sent", "received")) / requests
