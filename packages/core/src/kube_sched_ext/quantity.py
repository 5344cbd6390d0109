"""Kubernetes quantities, exactly.

The notation is that of k8s.io/apimachinery/pkg/api/resource: a signed decimal number with a
decimal suffix (n u m k M G T P E), a binary suffix (Ki Mi Gi Ti Pi Ei) or an exponent (e3, E3).
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import Final

from kube_sched_ext.errors import UnparsableError

MAX_WHOLE: Final = 2**63 - 1
"""The largest amount Kubernetes stores; it caps larger ones to this, and so do we."""

_NOTATION: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<part>[0-9]*))?"
    r"(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,18})?",
    re.ASCII,
)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
# Beyond these a number is certainly over MAX_WHOLE or under a nanounit, whatever its digits, and
# computing it exactly would only cost memory.
_MAX_DIGITS: Final = 256
_MAX_EXPONENT: Final = 512

_NANO: Final = 10**9
_WHOLE: Final = re.compile(r"([0-9]{1,18})([numkMGTPE]|[KMGTPE]i|)", re.ASCII)
_SCALES: Final[dict[str, int]] = (
    {"": _NANO}
    | {suffix: 10 ** (9 + exponent) for suffix, exponent in _DECIMAL.items()}
    | {suffix: _NANO * 2**exponent for suffix, exponent in _BINARY.items()}
)
"""Billionths in one of each suffix."""

Quantity = str | int | float
"""A quantity as JSON may carry it: text, or a bare number."""

Amount = int | Fraction
"""How much of something, exactly, in billionths; an int where it can be, as ints add up faster."""


def parse_quantity(quantity: Quantity) -> Fraction:
    """Return the exact value of `quantity`, in units (cores, bytes, pieces).

    Raises:
        UnparsableError: `quantity` is not in Kubernetes' notation, or has more than 256 digits or
            an exponent beyond 512.
    """
    text = quantity if isinstance(quantity, str) else repr(quantity)
    match = _NOTATION.fullmatch(text)
    if match is None or not (match["whole"] or match["part"]) or len(text) > _MAX_DIGITS:
        raise UnparsableError(quantity, "a Kubernetes quantity such as 250m, 1.5Gi or 1e9")
    part = match["part"] or ""
    value = Fraction(int((match["whole"] or "") + part), 10 ** len(part))
    if match["sign"] == "-":
        value = -value
    suffix = match["suffix"] or ""
    if suffix in _BINARY:
        return value * Fraction(2 ** _BINARY[suffix])
    exponent = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:] or 0)
    if abs(exponent) > _MAX_EXPONENT:
        raise UnparsableError(quantity, f"an exponent from -{_MAX_EXPONENT} to {_MAX_EXPONENT}")
    scale = Fraction(10 ** abs(exponent))
    return value * scale if exponent >= 0 else value / scale


@lru_cache(maxsize=8192)
def parse_amount(quantity: Quantity) -> Amount:
    """Return how much `quantity` is, which counts something and so is not negative.

    Raises:
        UnparsableError: `quantity` is negative, or as `parse_quantity` raises it.
    """
    # Nearly all are whole numbers, and a first pod of its kind should not wait for fractions.
    if isinstance(quantity, str) and (match := _WHOLE.fullmatch(quantity)):
        return int(match[1]) * _SCALES[match[2]]
    amount = parse_quantity(quantity) * _NANO
    if amount < 0:
        raise UnparsableError(quantity, "a quantity of 0 or more")
    return amount.numerator if amount.denominator == 1 else amount


def whole(resource: str, amount: Amount) -> int:
    """Return `amount` in the unit that `resource` is counted in, rounded up; at most `MAX_WHOLE`.

    That is millicores for cpu; bytes or pieces for all others.
    """
    return min(-(-amount // (_NANO // 1000 if resource == "cpu" else _NANO)), MAX_WHOLE)
