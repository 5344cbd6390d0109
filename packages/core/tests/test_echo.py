"""What is echoed is what would have been encoded."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_sched_ext import echo, wire

NAMES = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=12), max_size=8)


def hosts(names: list[str], scores: list[int]) -> bytes:
    return wire.encode(list(map(wire.HostPriority, names, scores)))


@given(NAMES, st.data())
def test_scores_are_written_as_ever_or_not_at_all(names: list[str], data: st.DataObject) -> None:
    """Whatever is in a name, as kube-scheduler writes it and as others do."""
    scores = data.draw(st.lists(st.integers(0, 10), min_size=len(names), max_size=len(names)))
    for written in (
        msgspec.json.encode(names),
        json.dumps(names, ensure_ascii=True).encode(),
        json.dumps(names, ensure_ascii=False, separators=(",", ":")).encode(),
    ):
        reply = echo.scored(written, scores)
        if reply is not None:
            assert json.loads(bytes(reply)) == json.loads(hosts(names, scores))


@given(st.lists(st.from_regex(r"[a-z0-9.-]{1,20}", fullmatch=True), min_size=1), st.data())
def test_names_of_nodes_are_echoed(names: list[str], data: st.DataObject) -> None:
    """To the byte."""
    scores = data.draw(st.lists(st.integers(0, 10), min_size=len(names), max_size=len(names)))
    written = msgspec.json.encode(names)
    assert bytes(echo.scored(written, scores) or b"") == hosts(names, scores)
    kept = wire.encode(wire.ExtenderFilterResult(node_names=names))
    assert bytes(echo.all_kept(written)) == kept


@pytest.mark.parametrize(
    ("written", "scores"),
    [
        (b"", []),
        (b"[]", []),
        (b'["a", "b"]', [1, 2]),
        (b'[ "a","b" ]', [1, 2]),
        (b'["a","b"]', [1]),
        (b'["a\\u0062"]', [1]),
        (b'["a\\",","b"]', [1, 2]),
    ],
)
def test_what_is_not_plain_is_not_echoed(written: bytes, scores: list[int]) -> None:
    """Blanks, escapes, and numbers that do not match."""
    assert echo.scored(written, scores) is None
