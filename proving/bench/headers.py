"""The bytes that connections carry beside the payload. A rate limit of a connection counts all of them."""


def carried(operations: float, channels: list[dict[str, int]]) -> float:
    """Return the bytes per second of the connections in the fuller direction, for this many operations per second with
    a request each. `channels` come from the generator's report of a session. The bytes that opened the session are
    negligible."""
    requests = sum(channel["requests"] for channel in channels)
    return operations * max(sum(channel[way] for channel in channels) for way in ("sent", "received")) / requests
