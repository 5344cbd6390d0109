"""The foo agent: it accepts and likes all nodes alike."""

import pytest

from kube_sched_ext_foo.agent import Foo
from kube_sched_ext_testkit.ask import ask_predicate, ask_priority
from kube_sched_ext_testkit.builders import make_node, make_pod

NODES = [
    make_node("idle", allocatable={"cpu": "4", "memory": "8Gi"}),
    make_node("bare"),
    make_node("annotated", annotations={"congestion-factor": "100"}),
]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_foo_accepts_every_node(count: int) -> None:
    """No node is rejected, whatever it has."""
    nodes = NODES[:count]
    assert ask_predicate(Foo(), "foo", make_pod(), nodes) == [None] * count


@pytest.mark.parametrize("count", [0, 1, 3])
def test_foo_scores_every_node_one(count: int) -> None:
    """Each node scores 1, so that foo never changes an order."""
    nodes = NODES[:count]
    assert ask_priority(Foo(), "foo", make_pod(), nodes) == [1] * count
