"""Measurements by row."""

import gc
from collections.abc import Callable

import msgspec
import numpy as np
import pytest
from telemetry_host import LOAD, Loaded, Process, node_at

from kube_sched_ext import FloatColumns, NodeReader
from kube_sched_ext.wire import ExtenderArgs, decode_args
from kube_sched_ext_telemetry import Feed, MeasuredColumns, Measurements, Query
from kube_sched_ext_telemetry.measurements import measured
from kube_sched_ext_testkit.ask import read_node, read_pod
from kube_sched_ext_testkit.builders import make_node, make_pod

NAN = np.nan
NOW = 10_000.0
NewProcess = Callable[..., Process]


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> float:
        return self.now


def equal(values: list[list[float]], expected: list[list[float]]) -> bool:
    return np.array_equal(np.array(values), np.array(expected), equal_nan=True)


def test_nodes_have_what_was_measured(new_process: NewProcess) -> None:
    """Whichever comes first, the node or its measurement; NaN where there is none."""
    agent = Loaded(clock=Clock())
    process = new_process(agent, nodes=[make_node("a"), make_node("b")])
    assert equal(process.fresh(agent, "a", "b"), [[NAN, NAN]])
    agent.feed.deliver(measured({"a": [1.0], "c": [3.0]}, NOW))
    process.put(make_node("c"))
    assert equal(process.fresh(agent, "c", "b", "a", "no such node"), [[3.0, NAN, 1.0, NAN]])
    agent.feed.deliver(measured({"b": [2.0], "c": [4.0]}, NOW))
    assert equal(process.fresh(agent, "a", "b", "c"), [[NAN, 2.0, 4.0]])


def test_a_row_of_another_node_has_nothing_of_the_last_one(new_process: NewProcess) -> None:
    """Rows are used again."""
    agent = Loaded(clock=Clock())
    process = new_process(agent, nodes=[make_node("a"), make_node("b")])
    agent.feed.deliver(measured({"a": [1.0], "b": [2.0]}, NOW))
    process.table.remove("a")
    process.put(make_node("x"))
    assert equal(process.fresh(agent, "x", "b", "a"), [[NAN, 2.0, NAN]])


def test_a_node_is_found_by_an_address_too(new_process: NewProcess) -> None:
    """By its name first; by the next where a query has nothing under the first."""
    agent = Loaded(LOAD, Query("free", "free"), clock=Clock())
    nodes = [node_at("a", "10.0.0.1"), node_at("b", "fd00:0::2")]
    process = new_process(agent, nodes=nodes)
    found = {"a": [1.0, NAN], "10.0.0.1": [7.0, 8.0], "fd00::2": [3.0, 4.0]}
    agent.feed.deliver(measured(found, NOW))
    assert equal(process.fresh(agent, "a", "b"), [[1.0, 3.0], [8.0, 4.0]])
    for node in nodes:
        process.put(node)
    assert equal(process.fresh(agent, "a", "b"), [[1.0, 3.0], [8.0, 4.0]])


def test_a_node_that_gets_an_address_is_found_by_it(new_process: NewProcess) -> None:
    """As soon as the node changes; nobody asks Prometheus again."""
    agent = Loaded(clock=Clock())
    process = new_process(agent, nodes=[make_node("a")])
    agent.feed.deliver(measured({"10.0.0.1": [7.0]}, NOW))
    process.put(node_at("a", "10.0.0.1"))
    assert equal(process.fresh(agent, "a"), [[7.0]])


@pytest.mark.parametrize(
    ("age", "is_fresh"), [(0, True), (180, True), (180.1, False), (-60, True), (-60.1, False)]
)
def test_freshness_is_judged_when_a_verb_asks(
    new_process: NewProcess, age: float, *, is_fresh: bool
) -> None:
    """An answer grows old by itself; one from a future beyond 60 s is not trusted."""
    clock = Clock()
    agent = Loaded(clock=clock)
    process = new_process(agent, nodes=[make_node("a"), make_node("b")])
    measurements = measured({"a": [1.0], "b": [2.0]}, NOW)
    measurements.times[0, 2] = NOW + age
    agent.feed.deliver(measurements)
    clock.now = NOW + age
    assert equal(process.fresh(agent, "a", "b"), [[1.0 if is_fresh else NAN, 2.0]])


def test_whole_nodes_have_what_was_measured_too(new_process: NewProcess) -> None:
    """In the table that their request makes for itself; by name and by address."""
    agent = Loaded(clock=Clock())
    process = new_process(agent)
    agent.feed.deliver(measured({"a": [1.0], "10.0.0.2": [3.0]}, NOW))
    nodes = [make_node("a"), node_at("b", "10.0.0.2"), make_node("c")]
    args = {"Pod": make_pod(), "Nodes": {"items": nodes}, "NodeNames": None}

    scores = process.verbs.prioritize(agent.priorities, decode_args(msgspec.json.encode(args)))
    assert [(it.host, it.score) for it in scores] == [("a", 1), ("b", 3), ("c", 2)]


def test_stores_that_nobody_keeps_are_forgotten() -> None:
    """A request's table lives as long as the request."""
    feed = Feed([LOAD])
    store = MeasuredColumns(feed)
    taken: list[Measurements] = []
    store.take = taken.append  # type: ignore[method-assign]
    feed.deliver(measured({"a": [1.0]}, NOW))
    assert len(taken) == 1
    del store
    gc.collect()
    feed.deliver(measured({"a": [1.0]}, NOW))
    assert len(taken) == 1


def test_columns_of_the_node_stand_beside_the_measurements() -> None:
    """Both by row; each row put for itself, or not at all."""

    def read(node: NodeReader) -> tuple[float]:
        return (node.allocatable("cpu"),)

    feed = Feed([LOAD], clock=Clock())
    feed.deliver(measured({"a": [1.0], "b": [2.0]}, NOW, generation=7))
    store = MeasuredColumns(feed, ["cpu"], read)
    store.put(5, read_node(make_node("b", allocatable={"cpu": "2"})))
    store.put(1, read_node(make_node("a", allocatable={"cpu": "1"})))
    assert isinstance(store, FloatColumns)
    assert store.values[[1, 5], 0].tolist() == [1000.0, 2000.0]
    assert equal(store.fresh(np.array([0, 1, 5, 2])).tolist(), [[NAN, 1.0, 2.0, NAN]])
    assert store.sampled[5].tolist() == [NOW]
    assert (store.name(5), store.name(2), store.generation) == ("b", "", 7)
    store.clear(5)
    assert np.isnan(store.measured[5]).all()
    assert np.isnan(store.values[5]).all()


def test_a_verb_scores_by_what_is_fresh(new_process: NewProcess) -> None:
    """Through the core, by names."""
    clock = Clock()
    agent = Loaded(clock=clock)
    process = new_process(agent, nodes=[make_node(name) for name in "abc"])
    agent.feed.deliver(measured({"a": [4.0], "b": [9.0]}, NOW))
    args = ExtenderArgs(pod=read_pod(make_pod()), node_names=["a", "b", "c"])
    assert [it.score for it in process.verbs.prioritize(agent.priorities, args)] == [4, 9, 7]
    clock.now += 181
    assert [it.score for it in process.verbs.prioritize(agent.priorities, args)] == [5, 5, 5]
