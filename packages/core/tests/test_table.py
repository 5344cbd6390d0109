"""The table gives each agent its columns for the names asked about."""

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kube_sched_ext import FloatArray, FloatColumns, NodeReader, Nodes
from kube_sched_ext.demand import Demand, Unparsable
from kube_sched_ext.objects import Node, NodeMeta
from kube_sched_ext.table import BLANK_ROW, BoundPod, NodeTable


class Reports:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def unparsable(self, agent: str, node: str, value: Unparsable) -> None:
        self.told.append((agent, node))

    def unreadable(self, agent: str, node: str, error: Exception) -> None:
        self.told.append((agent, node))


def read(node: NodeReader) -> tuple[float, float]:
    return node.annotation("x"), node.annotation("y")


def make_table(reports: Reports | None = None) -> NodeTable:
    return NodeTable({"a": FloatColumns(("x", "y"), read)}, reports or Reports())


def make(name: str, **annotations: object) -> Node:
    texts = {key: str(value) for key, value in annotations.items()}
    return Node(metadata=NodeMeta(name=name, annotations=texts))


def columns(table: NodeTable, *names: str) -> list[list[float]]:
    return table.nodes("a", table.rows(names)).columns.tolist()


def test_columns_follow_the_order_of_the_names() -> None:
    """Shape (k, n), in the order asked."""
    table = make_table()
    for name, x in (("n1", 1), ("n2", 2), ("n3", 3)):
        table.put(make(name, x=x, y=10 * x))
    assert columns(table, "n3", "n1") == [[3, 1], [30, 10]]
    assert len(table) == 3
    assert "n1" in table


def test_a_name_that_is_not_known_has_the_blank_row() -> None:
    """All of it is missing."""
    table = make_table()
    table.put(make("n1", x=1, y=1))
    assert table.rows(["n1", "zz"]).tolist() == [1, BLANK_ROW]
    assert np.isnan(columns(table, "zz")).all()


def test_a_changed_node_replaces_its_numbers() -> None:
    """What the node lost is missing."""
    table = make_table()
    table.put(make("n1", x=1, y=1))
    table.put(make("n1", x=2))
    [[x], [y]] = columns(table, "n1")
    assert x == 2
    assert math.isnan(y)
    assert len(table) == 1


def test_a_removed_node_is_not_known_and_its_row_is_used_again() -> None:
    """Memory does not grow with the nodes that ever were."""
    table = make_table()
    table.put(make("n1", x=1, y=1))
    table.remove("n1")
    table.remove("n1")
    assert "n1" not in table
    table.put(make("n2", x=2, y=2))
    assert table.rows(["n1", "n2"]).tolist() == [BLANK_ROW, 1]


def test_an_agent_that_fails_to_read_a_node_has_no_data_of_it_and_stops_nobody() -> None:
    """The other agents read the node."""

    def fail(node: NodeReader) -> tuple[float]:
        if node.name == "bad":
            raise ZeroDivisionError
        return (1.0,)

    reports = Reports()
    table = NodeTable(
        {"broken": FloatColumns(("z",), fail), "a": FloatColumns(("x", "y"), read)}, reports
    )
    table.put(make("good", x=1, y=1))
    table.put(make("bad", x=2, y=2))
    rows = table.rows(["good", "bad"])
    [z] = table.nodes("broken", rows).columns.tolist()
    assert z[0] == 1
    assert math.isnan(z[1])
    assert columns(table, "bad") == [[2], [2]]
    assert reports.told == [("broken", "bad")]


def test_what_does_not_parse_is_reported_with_its_agent_and_node() -> None:
    """Once for each value."""
    reports = Reports()
    make_table(reports).put(make("n1", x="?", y="!"))
    assert reports.told == [("a", "n1"), ("a", "n1")]


def test_an_agent_asks_for_the_store_it_has() -> None:
    """Another kind is the agent's mistake."""
    table = make_table()
    nodes = table.nodes("a", table.rows([]))
    assert nodes.store(FloatColumns).names == ("x", "y")

    class Other(FloatColumns):
        pass

    with pytest.raises(TypeError, match="keeps its nodes in"):
        nodes.store(Other)


class Memos(RuleBasedStateMachine):
    """A memo is never told from computing anew, and computes no more than it must."""

    def __init__(self) -> None:
        super().__init__()
        self.table = make_table()
        self.truth: dict[str, int] = {}
        self.computed = 0
        self.asked: list[str] = []
        self.nodes = self.table.nodes("a", self.table.rows([]))
        self.generation = 0

    names = st.sampled_from([f"n{index}" for index in range(6)])

    @rule(name=names, x=st.integers(0, 9))
    def put(self, name: str, x: int) -> None:
        self.table.put(make(name, x=x, y=x))
        self.truth[name] = x

    @rule(name=names)
    def remove(self, name: str) -> None:
        self.table.remove(name)
        self.truth.pop(name, None)

    @rule(asked=st.lists(names, max_size=8), factor=st.integers(1, 40))
    def ask(self, asked: list[str], factor: int) -> None:
        self.asked, self.generation = asked, self.table.generation
        self.nodes = self.table.nodes("a", self.table.rows(asked))
        self._check(factor)

    @rule(factor=st.integers(1, 40))
    def ask_again(self, factor: int) -> None:
        # As the verbs do, where no name has another row by now.
        if self.generation == self.table.generation:
            self._check(factor)

    def _check(self, factor: int) -> None:
        nodes = self.nodes

        def compute(part: Nodes) -> FloatArray:
            self.computed += len(part)
            return part.columns * factor

        first = nodes.memo(factor, compute)
        expected = [self.truth.get(name, math.nan) * factor for name in self.asked]
        np.testing.assert_array_equal(first, [expected, expected])
        before = self.computed
        np.testing.assert_array_equal(nodes.memo(factor, compute), first)
        assert self.computed == before

    @invariant()
    def knows_what_is_there(self) -> None:
        assert len(self.table) == len(self.truth)


TestMemos = Memos.TestCase
TestMemos.settings = settings(max_examples=120, deadline=None)


def test_a_memo_computes_only_the_nodes_that_changed() -> None:
    """One node changed of three: one is computed."""
    table = make_table()
    for name in ("n1", "n2", "n3"):
        table.put(make(name, x=1, y=1))
    nodes = table.nodes("a", table.rows(["n1", "n2", "n3"]))
    asked: list[int] = []

    def compute(part: Nodes) -> FloatArray:
        asked.append(len(part))
        return part.columns

    nodes.memo("key", compute)
    table.put(make("n2", x=5, y=5))
    assert nodes.memo("key", compute)[0].tolist() == [1, 5, 1]
    assert asked == [3, 1]


@dataclass(frozen=True)
class Bound:
    """A pod on a node."""

    uid: str
    node: str
    bound_at: float = 0.0
    demand: Demand = field(default_factory=lambda: Demand({}))
    images: tuple[str, ...] = ()


class PodCounts:
    """A store that keeps the UIDs of pods by row."""

    def __init__(self) -> None:
        self.uids: dict[int, set[str]] = {}
        self.unreadable = ""

    def put(self, row: int, node: NodeReader) -> None:
        if node.name == self.unreadable:
            raise ZeroDivisionError
        self.uids.setdefault(row, set())

    def clear(self, row: int) -> None:
        self.uids.pop(row, None)

    def put_pod(self, row: int, pod: BoundPod) -> None:
        pods = self.uids.setdefault(row, set())
        assert pod.uid not in pods, "put twice"
        pods.add(pod.uid)

    def remove_pod(self, row: int, pod: BoundPod) -> None:
        self.uids[row].remove(pod.uid)


class Pods(RuleBasedStateMachine):
    """Nodes and pods come, change and go in any order; stores see each pod on its node."""

    nodes = st.sampled_from(["n1", "n2", "n3"])
    uids = st.sampled_from(["p1", "p2", "p3", "p4"])

    def __init__(self) -> None:
        super().__init__()
        self.store = PodCounts()
        self.table = NodeTable(
            {"pods": self.store, "none": FloatColumns((), lambda _: ())}, Reports()
        )
        self.known: set[str] = set()
        self.bound: dict[str, str] = {}

    @rule(name=nodes)
    def put(self, name: str) -> None:
        self.table.put(make(name))
        self.known.add(name)

    @rule(name=nodes)
    def remove(self, name: str) -> None:
        self.table.remove(name)
        self.known.discard(name)

    @rule(uid=uids, node=nodes)
    def bind(self, uid: str, node: str) -> None:
        self.table.put_pod(Bound(uid, node))
        self.bound[uid] = node

    @rule(uid=uids)
    def unbind(self, uid: str) -> None:
        self.table.remove_pod(uid)
        self.bound.pop(uid, None)

    @invariant()
    def each_known_node_has_its_pods(self) -> None:
        for name in self.known:
            [row] = self.table.rows([name]).tolist()
            expected = {uid for uid, node in self.bound.items() if node == name}
            assert self.store.uids[row] == expected
        assert len(self.store.uids) == len(self.known)


TestPods = Pods.TestCase
TestPods.settings = settings(max_examples=60, deadline=None)


def test_pods_are_kept_only_where_an_agent_wants_them() -> None:
    """The others must not pay for them."""
    table = make_table()
    assert not table.keeps_pods
    table.put_pod(Bound("p1", "n1"))
    table.remove_pod("p1")
    assert NodeTable({"pods": PodCounts()}, Reports()).keeps_pods


def test_a_node_that_can_no_longer_be_read_keeps_its_pods() -> None:
    """No other agent is told of them again."""
    failing, other = PodCounts(), PodCounts()
    table = NodeTable({"failing": failing, "other": other}, Reports())
    table.put(make("n1"))
    table.put_pod(Bound("p1", "n1"))
    failing.unreadable = "n1"
    table.put(make("n1"))
    [row] = table.rows(["n1"]).tolist()
    assert failing.uids[row] == other.uids[row] == {"p1"}
    table.remove_pod("p1")
    assert failing.uids[row] == other.uids[row] == set()


def test_a_pod_forgets_what_was_computed_of_its_node() -> None:
    """The node is another one now."""
    table = NodeTable({"pods": PodCounts()}, Reports())
    table.put(make("n1"))
    nodes = table.nodes("pods", table.rows(["n1"]))
    computed: list[int] = []

    def compute(part: Nodes) -> FloatArray:
        computed.append(len(part))
        return np.zeros((1, len(part)))

    for change in (lambda: None, lambda: table.put_pod(Bound("p1", "n1"))):
        change()
        nodes.memo("key", compute)
    table.remove_pod("p1")
    nodes.memo("key", compute)
    assert computed == [1, 1, 1]


def test_a_view_shows_the_whole_cluster() -> None:
    """Known nodes only, each once, whatever is asked about."""
    table = make_table()
    for name, x in (("n1", 1), ("n2", 2), ("n3", 3)):
        table.put(make(name, x=x))
    table.remove("n2")
    nodes = table.nodes("a", table.rows(["n3", "n3", "zz"]))
    assert nodes.cluster.columns[0].tolist() == [1, 3]
    assert not nodes.has_pods
    table.expect_pods()
    assert nodes.has_pods
