"""Lengths of time as Go writes them."""

import re
from decimal import Decimal
from typing import Final

from kube_sched_ext.errors import UnparsableError

NANOSECONDS: Final = {
    "h": 3_600_000_000_000,
    "m": 60_000_000_000,
    "s": 1_000_000_000,
    "ms": 1_000_000,
    "us": 1_000,
    "\N{MICRO SIGN}s": 1_000,
    "\N{GREEK SMALL LETTER MU}s": 1_000,
    "ns": 1,
}
EXPECTED: Final = "a duration such as 5s, 500ms or 1m30s"

_PART: Final = re.compile(
    r"(\d+(?:\.\d*)?|\.\d+)(h|ms|m|s|us|\N{MICRO SIGN}s|\N{GREEK SMALL LETTER MU}s|ns)", re.ASCII
)
_LONGEST: Final = 2**63 - 1


def nanoseconds_of(text: str) -> int:
    """Return the length of `text`, such as 1m30s.

    Raises:
        UnparsableError: it is no duration of Go's, is below 0, or too long for one.
    """
    if text == "0":
        return 0
    parts = _PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise UnparsableError(text, EXPECTED)
    total = int(sum(Decimal(number) * NANOSECONDS[unit] for number, unit in parts))
    if total > _LONGEST:
        raise UnparsableError(text, EXPECTED)
    return total


def duration_text(nanoseconds: int) -> str:
    """Return `nanoseconds` in the largest unit up to seconds that takes no fraction."""
    unit = next(it for it in ("s", "ms", "us", "ns") if nanoseconds % NANOSECONDS[it] == 0)
    return f"{nanoseconds // NANOSECONDS[unit]}{unit}"
