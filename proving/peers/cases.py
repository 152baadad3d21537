"""The cases of the Python peers, and the code that runs and reports them."""

import hashlib
import random
import sys
from collections.abc import Callable
from typing import Any, NoReturn

# Empty, one byte, around the credit and the multi-credit boundaries, and more than one request can hold.
SIZES = (0, 1, 65535, 65537, (1 << 20) + 3, (9 << 20) + 1)


def content(size: int) -> bytes:
    """Return the same bytes for the same size, in every run."""
    return random.Random(size).randbytes(size)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


class Report:
    """Runs cases one after the other. A case fails by an exception."""

    def __init__(self) -> None:
        self.failures = 0

    def case(self, name: str, function: Callable[..., Any], *arguments: Any) -> None:
        try:
            function(*arguments)
            print(f"PASS {name}", flush=True)
        except Exception as error:  # any exception of a foreign library is one failed case
            self.failures += 1
            text = " ".join(f"{type(error).__name__} {error}".split())
            print(f"FAIL {name}: {text[:400]}", flush=True)

    def close(self) -> NoReturn:
        sys.exit(1 if self.failures else 0)


def same(found: object, wanted: object, what: str) -> None:
    """Raise unless the two are equal."""
    if found != wanted:
        raise AssertionError(f"{what}: wanted {wanted!r}, found {found!r}"[:300])
