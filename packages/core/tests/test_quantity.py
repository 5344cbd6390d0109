"""Kubernetes quantities are read exactly."""

from decimal import Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.utils.quantity import parse_quantity as reference

from kube_sched_ext.errors import UnparsableError
from kube_sched_ext.quantity import MAX_WHOLE, parse_amount, parse_quantity, whole

SUFFIXES = ["", *"numkMGTPE", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("250m", Fraction(1, 4)),
        ("0.1", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("1.5Gi", 3 * 2**29),
        ("129M", 129_000_000),
        ("1e9", 10**9),
        ("12E6", 12 * 10**6),
        ("1E", 10**18),
        ("1Ei", 2**60),
        ("1e-3", Fraction(1, 1000)),
        ("1n", Fraction(1, 10**9)),
        ("3u", Fraction(3, 10**6)),
        ("+2k", 2000),
        ("-1", -1),
        (2, 2),
        (0.25, Fraction(1, 4)),
        (1e22, 10**22),
    ],
)
def test_every_notation_has_its_exact_value(text: str | float, value: Fraction) -> None:
    """Decimal and binary suffixes, exponents, fractions, and bare JSON numbers."""
    assert parse_quantity(text) == value


@pytest.mark.parametrize(
    "text",
    ["", " 1", "1 ", "1_000", "0x10", "1KB", "1ki", "1K", "abc", ".", "m", "1e", "1e1.5", "--1"]
    + ["1,5", "nan", "inf", "1Gi2", "٣", "1\n", "9" * 257, "1e513", "1e-99999999999999999"],
)
def test_what_is_no_quantity_is_refused_with_what_is_allowed(text: str) -> None:
    """Nothing is guessed, and nothing is too costly to refuse."""
    with pytest.raises(UnparsableError, match="is not"):
        parse_quantity(text)


@given(
    st.integers(-(10**12), 10**12),
    st.integers(0, 9),
    st.sampled_from([*SUFFIXES, "e3", "E-2", "e+4"]),
)
def test_values_are_those_of_the_kubernetes_client(digits: int, places: int, suffix: str) -> None:
    """Equal to kubernetes.utils.quantity for every suffix."""
    text = f"{Decimal(digits).scaleb(-places):f}{suffix}"
    with localcontext(prec=60):
        expected = Fraction(reference(text))
    assert parse_quantity(text) == expected
    if digits >= 0:
        assert parse_amount(text) == expected * 10**9


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [
        ("cpu", "250m", 250),
        ("cpu", "0.1", 100),
        ("cpu", "1n", 1),
        ("cpu", "1.0001", 1001),
        ("memory", "1.5Gi", 1610612736),
        ("memory", "100m", 1),
        ("pods", "110", 110),
        ("memory", "1e30", MAX_WHOLE),
        ("memory", "1e-12", 1),
        ("cpu", "0", 0),
    ],
)
def test_amounts_are_whole_and_rounded_up(resource: str, text: str, amount: int) -> None:
    """Cpu counts in millicores, the rest in units; beyond int64 Kubernetes' largest stands."""
    assert whole(resource, parse_amount(text)) == amount


def test_an_amount_is_not_negative() -> None:
    """A capacity or a request below 0 is no amount."""
    with pytest.raises(UnparsableError, match="0 or more"):
        parse_amount("-1Gi")
