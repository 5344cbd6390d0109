"""Agents declare verbs; what they return is checked before kube-scheduler sees it."""

import numpy as np
import pytest

from kube_sched_ext import Agent, Nodes, NoSettings, Pod, Scores, Verdict, predicate, priority
from kube_sched_ext.errors import AgentError
from kube_sched_ext_testkit.ask import ask_predicate, ask_priority, nodes_for
from kube_sched_ext_testkit.builders import make_node, make_pod

NODES = [make_node("n1"), make_node("n2")]


class Base(Agent[NoSettings]):
    """Answers with whatever it is given."""

    name = "base"
    scores: object = None
    mask: object = None

    @predicate("first", preemption_can_help=True)
    def rejects(self, pod: Pod, nodes: Nodes) -> Verdict:
        """Reject by `mask`."""
        return Verdict({"because": self.mask})  # type: ignore[dict-item]

    @priority("second")
    def likes(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score `scores`."""
        return Scores(self.scores)  # type: ignore[arg-type]


class Derived(Base):
    """Adds a priority to what it inherits."""

    @priority("third")
    def likes_more(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score 3."""
        return Scores(np.full(len(nodes), 3))


def test_verbs_are_those_marked_and_those_inherited() -> None:
    """In the order of their definition."""
    agent = Derived()
    assert [(it.name, it.preemption_can_help) for it in agent.predicates] == [("first", True)]
    assert [it.name for it in agent.priorities] == ["second", "third"]


def test_a_marked_method_is_still_called_as_one() -> None:
    """Tests of an agent need no server."""
    agent = Derived()
    assert agent.likes_more(Pod(), nodes_for(agent, NODES)).values.tolist() == [3, 3]


def test_an_agent_without_settings_takes_the_defaults() -> None:
    """As `create_app([MyAgent()])` has it."""
    assert Derived().settings == NoSettings()


def test_an_agent_without_columns_has_none() -> None:
    """Shape (0, n)."""
    agent = Derived()
    assert nodes_for(agent, NODES).columns.shape == (0, 2)


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (np.array([1, 11]), "scores from 1 to 11"),
        (np.array([-1, 5]), "scores from -1 to 5"),
        (np.array([1.0, 2.0]), r"float64\(2,\)"),
        (np.array([1]), r"int64\(1,\)"),
        (np.array([True, False]), "bool"),
    ],
)
def test_scores_that_would_distort_the_sum_are_refused(scores: object, words: str) -> None:
    """kube-scheduler clamps nothing."""
    agent = Base()
    agent.scores = scores
    with pytest.raises(AgentError, match=words):
        ask_priority(agent, "second", make_pod(), NODES)


@pytest.mark.parametrize("mask", [np.array([0, 1]), np.array([True])])
def test_masks_of_another_kind_are_refused(mask: object) -> None:
    """A mask is one boolean for each node."""
    agent = Base()
    agent.mask = mask
    with pytest.raises(AgentError, match="because"):
        ask_predicate(agent, "first", make_pod(), NODES)


def test_scores_at_the_ends_are_taken() -> None:
    """0 and 10 are scores."""
    agent = Base()
    agent.scores = np.array([0, 10], np.int8)
    assert ask_priority(agent, "second", make_pod(), NODES) == [0, 10]
