"""The foo agent: it accepts and likes all nodes alike."""

import pytest

from kube_sched_ext_foo.agent import Foo
from kube_sched_ext_testkit.ask import ask_predicate, ask_priority
from kube_sched_ext_testkit.builders import make_node, make_pod
from kube_sched_ext_testkit.contract import check_agent

AGENT = Foo()
NAME = "foo"
NODES = [
    make_node("idle", allocatable={"cpu": "4", "memory": "8Gi"}),
    make_node("bare"),
    make_node("annotated", annotations={"congestion-factor": "100"}),
]


def test_foo_is_an_agent() -> None:
    """It does what the core and kube-scheduler expect of every agent."""
    check_agent(AGENT, NODES)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_foo_accepts_every_node(count: int) -> None:
    """No node is rejected, whatever it has."""
    assert ask_predicate(AGENT, NAME, make_pod(), NODES[:count]) == [None] * count


@pytest.mark.parametrize("count", [0, 1, 3])
def test_foo_scores_every_node_one(count: int) -> None:
    """Each node scores 1, so that foo never changes an order."""
    assert ask_priority(AGENT, NAME, make_pod(), NODES[:count]) == [1] * count
