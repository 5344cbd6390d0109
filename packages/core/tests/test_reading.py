"""Numbers of nodes: what does not parse counts as missing."""

import math

import pytest

from kube_sched_ext.errors import UnparsableError
from kube_sched_ext.reading import decimal, int64
from kube_sched_ext_testkit.ask import read_node
from kube_sched_ext_testkit.builders import make_node


@pytest.mark.parametrize(
    ("text", "number"),
    [("4194304", 4194304), ("0.25", 0.25), ("1e9", 1e9), ("-5", -5), ("+.5", 0.5), ("1E-3", 1e-3)],
)
def test_plain_decimals_are_numbers(text: str, number: float) -> None:
    """Integers, fractions and exponents."""
    assert decimal(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1_000",
        "0x1F",
        "abc",
        "nan",
        "NaN",
        "inf",
        "-Infinity",
        "1e999",
        "1,5",
        "1\n",
    ]
    + ["٣", "1e", "."],
)
def test_anything_else_is_no_number(text: str) -> None:
    """No blanks, underscores or hex; not NaN, not infinite."""
    with pytest.raises(UnparsableError, match="plain decimal"):
        decimal(text)


def test_an_annotation_that_does_not_parse_is_missing_and_told() -> None:
    """Never 0."""
    node = read_node(make_node("a", annotations={"x": "1k", "y": "2"}))
    assert math.isnan(node.annotation("x"))
    assert node.annotation("y") == 2
    assert math.isnan(node.annotation("z"))
    assert [(value.key, value.value) for value in node.unparsable] == [("x", "1k")]


@pytest.mark.parametrize(
    ("resource", "text", "amount"),
    [("cpu", "3900m", 3900), ("memory", "8092Mi", 8092 * 2**20), ("pods", "110", 110)]
    + [("cpu", "0", 0)],
)
def test_allocatable_is_in_millicores_and_units(resource: str, text: str, amount: float) -> None:
    """Zero is a number too: the agent says what it means."""
    assert read_node(make_node("a", allocatable={resource: text})).allocatable(resource) == amount


@pytest.mark.parametrize("text", ["much", "-1"])
def test_an_allocatable_that_does_not_parse_is_missing_and_told(text: str) -> None:
    """The other resources are still read."""
    node = read_node(make_node("a", allocatable={"cpu": text, "memory": "1Gi"}))
    assert math.isnan(node.allocatable("cpu"))
    assert node.allocatable("memory") == 2**30
    assert math.isnan(node.allocatable("pods"))
    assert [(value.key, value.value) for value in node.unparsable] == [("cpu", text)]


def test_a_node_without_anything_has_empty_parts() -> None:
    """Go leaves empty maps out, or writes null."""
    node = read_node({"metadata": {"name": "a", "labels": None, "annotations": None}})
    assert (node.name, node.labels, node.images, node.addresses) == ("a", {}, [], [])
    assert math.isnan(node.annotation("x"))


def test_images_are_read_with_names_and_size() -> None:
    """A node may have images that lost their names."""
    node = read_node(make_node("a", images=[(["x:1", "x@sha256:0"], 5), ([], 7)]))
    assert [(image.names, image.size_bytes) for image in node.images] == [
        (("x:1", "x@sha256:0"), 5),
        ((), 7),
    ]


def test_addresses_are_read_with_their_types() -> None:
    """In the order in which the kubelet reports them."""
    listed = [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "a"}]
    node = read_node(make_node("a") | {"status": {"addresses": listed}})
    addresses = [(it.type, it.address) for it in node.addresses]
    assert addresses == [("InternalIP", "10.0.0.1"), ("Hostname", "a")]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("20", 20),
        ("-5", -5),
        ("+5", 5),
        ("-0", 0),
        ("007", 7),
        ("00000000000000000000000000000042", 42),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
    ],
)
def test_int64_reads_64_bit_decimal_integers(text: str, number: int) -> None:
    """A sign and leading zeros are fine."""
    assert int64(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "abc",
        "20.5",
        "20.0",
        "1e2",
        " 20",
        "20 ",
        "20\n",
        "1_000",
        "0x14",
        "--5",
        "NaN",
        "inf",
        "٢٠",  # 20 in Arabic-Indic digits
        "9223372036854775808",
        "-9223372036854775809",
        "99999999999999999999",
    ],
)
def test_int64_reads_nothing_else(text: str) -> None:
    """Fractions, exponents, blanks, underscores and numbers beyond 64 bits are no integers."""
    assert int64(text) is None
