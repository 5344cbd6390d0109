"""From the body of an answer to a column."""

import json
import math

import pytest
from telemetry_fake import JSON, sample_time, series, vector

from kube_sched_ext_telemetry.answer import Column, read_answer
from kube_sched_ext_telemetry.errors import PrometheusError
from kube_sched_ext_telemetry.queries import Query

LABELS = ("kubernetes_node", "node", "instance")
QUERY = Query("load", "node_load1", lowest=0.0, highest=100.0)
SAMPLED = Query("load", "node_load1", lowest=0.0, highest=100.0, sampled="up")


def read(*result: JSON, query: Query = QUERY) -> Column:
    return read_answer(vector(*result), query, LABELS, pause=lambda: None)


def pairs(column: Column) -> dict[str, tuple[float, float]]:
    """Return value and time by name."""
    at = zip(column.values.tolist(), column.times.tolist(), strict=True)
    return dict(zip(column.names, at, strict=True))


def test_values_come_with_their_times() -> None:
    """Prometheus stamps what it computes with the time at which it did."""
    column = read(series(1.5, 1000.25, node="a"), series("2e1", 1000.25, node="b"))
    assert pairs(column) == {"a": (1.5, 1000.25), "b": (20.0, 1000.25)}
    assert column.evaluated_at == 1000.25
    assert column.problems == {}


@pytest.mark.parametrize("result", [[], [sample_time(1, node="a")]])
def test_an_empty_answer_is_an_answer_that_is_told(result: list[JSON]) -> None:
    """No node has a value: perhaps the metric has another name."""
    column = read(*result)
    assert column.problems == {"Empty": "no series at all: node_load1"}
    assert pairs(column) == {}
    assert column.evaluated_at == (1000.0 if result else -math.inf)


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"kubernetes_node": "k", "node": "n", "instance": "i:1"}, "k"),
        ({"node": "n", "instance": "i:1"}, "n"),
        ({"instance": "10.0.0.1:9100", "job": "x"}, "10.0.0.1"),
        ({"kubernetes_node": "", "node": "n"}, "n"),
    ],
)
def test_the_first_label_that_is_there_names_the_node(labels: dict[str, str], name: str) -> None:
    """In the order of the setting; an empty one counts as none, as everywhere in Prometheus."""
    assert read(series(1, **labels)).names == [name]


def test_other_labels_can_be_asked_for() -> None:
    """Whatever they are called."""
    body = vector({"metric": {"k8s.node.name": "a", "node": "b"}, "value": [1, "2"]})
    column = read_answer(body, QUERY, ["k8s.node.name"], pause=lambda: None)
    assert column.names == ["a"]


def test_series_without_a_label_are_left_out_and_told() -> None:
    """With an example, in which the labels they do have can be seen."""
    column = read(series(1, node="a"), series(2, host="b"), series(3, host="c"))
    assert column.names == ["a"]
    assert column.left_out == {"Unnamed": 2}
    assert column.problems["Unnamed"].startswith(
        "2 series without any of the labels kubernetes_node, node, instance, such as {"
    )
    assert '"host": "b"' in column.problems["Unnamed"]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf", "-0.5", "100.5", "1e308", "what"])
def test_unusable_values_count_as_missing(value: str) -> None:
    """NaN, infinity, below the lowest or above the highest that there can be."""
    column = read(series(value, node="a"), series(7, node="b"))
    assert pairs(column) == {"b": (7.0, 1000.0)}
    assert column.left_out == {"Unusable": 1}
    assert column.problems["Unusable"].startswith("1 series not within 0 to 100, such as ")
    assert column.problems["Unusable"].endswith(" of a")


@pytest.mark.parametrize("value", ["0", "100", "-0"])
def test_the_bounds_themselves_count(value: str) -> None:
    """A node without traffic is a good one."""
    assert read(series(value, node="a")).names == ["a"]


def test_of_duplicates_the_newest_counts_and_of_equally_new_ones_the_largest() -> None:
    """In whatever order they come; it is told how many there are."""
    column = read(
        series(9, 1000.0, node="a"),
        series(5, 1001.0, node="a", job="y"),
        series(4, 1001.0, node="a", job="x"),
        series(1, 1000.0, node="b"),
    )
    assert pairs(column) == {"a": (5.0, 1001.0), "b": (1.0, 1000.0)}
    assert column.left_out == {"Duplicate": 2}
    text = "2 series of a node that has another one, such as 3 of a"
    assert column.problems["Duplicate"] == text


def test_an_unusable_value_is_no_duplicate() -> None:
    """The other one counts."""
    assert pairs(read(series("NaN", node="a"), series(2, node="a"))) == {"a": (2.0, 1000.0)}


def test_the_time_of_a_sample_comes_with_the_value() -> None:
    """The newest, where a node has several; its labels may differ from those of the value."""
    column = read(
        series(3, 1000.0, node="a"),
        sample_time(990.5, 1000.0, node="a"),
        sample_time(980.5, 1000.0, node="a", cpu="1"),
        query=SAMPLED,
    )
    assert pairs(column) == {"a": (3.0, 990.5)}
    assert column.evaluated_at == 1000.0


def test_a_value_of_a_node_that_is_not_sampled_is_missing() -> None:
    """A rate goes on for minutes after the last scrape."""
    column = read(
        series(3, node="a"), series(4, node="b"), sample_time(999, node="b"), query=SAMPLED
    )
    assert pairs(column) == {"b": (4.0, 999.0)}
    assert column.problems["Unsampled"] == "1 series without a sample of up, such as 3 of a"


def test_warnings_are_told() -> None:
    """Thanos tells of a partial answer in this way; what is there counts."""
    body = vector(series(1, node="a"), warnings=["store gone", "and another"])
    column = read_answer(body, QUERY, LABELS, pause=lambda: None)
    assert column.names == ["a"]
    assert column.problems == {"Warning": "store gone; and another"}


def test_native_histograms_count_as_missing() -> None:
    """They have no value."""
    body = vector({"metric": {"node": "a"}, "histogram": [1, {"count": "1"}]})
    column = read_answer(body, QUERY, LABELS, pause=lambda: None)
    assert column.names == []
    assert column.left_out == {"Unusable": 1}


SCALAR = {"resultType": "scalar", "result": [1, "2"]}
MATRIX = {"resultType": "matrix", "result": [{"metric": {}, "values": [[1, "2"]]}]}


@pytest.mark.parametrize(
    ("body", "reason", "words"),
    [
        (b"", "Unreadable", "not as Prometheus writes it"),
        (b"<html>", "Unreadable", "not as Prometheus writes it"),
        (b'{"status":"success","data":{"resultType":"vector","result":[{', "Unreadable", "trunc"),
        (b'{"status":"success","data":{"resultType":"vector","result":{}}}', "Unreadable", "array"),
        (vector({"metric": {"node": 1}, "value": [1, "2"]}), "Unreadable", "str"),
        (vector({"metric": {"node": "a"}, "value": 5}), "Unreadable", "array"),
        (b'{"status":"\xff"}', "Unreadable", "not as Prometheus writes it"),
        (json.dumps({"status": "success", "data": SCALAR}).encode(), "NotAVector", "a scalar"),
        (json.dumps({"status": "success", "data": MATRIX}).encode(), "NotAVector", "a matrix"),
        (b'{"status":"error","errorType":"x","error":"query timed out"}', "Refused", "timed out"),
        (b"{}", "Unreadable", "status"),
    ],
)
def test_what_is_no_vector_is_an_error(body: bytes, reason: str, words: str) -> None:
    """Of that query only."""
    with pytest.raises(PrometheusError, match=words) as caught:
        read_answer(body, QUERY, LABELS, pause=lambda: None)
    assert (caught.value.reason, caught.value.is_about_query) == (reason, True)


def test_a_long_answer_is_read_with_pauses() -> None:
    """So that verbs are not held up: around each part of 250 series, and each step."""
    pauses: list[None] = []
    body = vector(*(series(1, node=f"n{number}") for number in range(1001)))
    column = read_answer(body, QUERY, LABELS, pause=lambda: pauses.append(None))
    assert len(column.names) == 1001
    assert len(pauses) == 7
