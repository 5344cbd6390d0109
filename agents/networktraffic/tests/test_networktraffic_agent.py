"""The networktraffic agent, from measurements to scores."""

import math

import numpy as np
import pytest

from kube_sched_ext_networktraffic.agent import NetworkTraffic
from kube_sched_ext_networktraffic.settings import NetworkTrafficSettings
from kube_sched_ext_telemetry.measurements import measured
from kube_sched_ext_testkit.ask import ask_priority, nodes_for, read_pod
from kube_sched_ext_testkit.builders import make_node, make_pod
from kube_sched_ext_testkit.contract import check_agent

NOW = 1_000_000.0
ARTICLE = {"a": 1_000_000.0, "b": 1_200_000.0, "c": 1_400_000.0}


def agent_with(traffic: dict[str, float], age: float = 0.0, **settings: object) -> NetworkTraffic:
    """Return an agent for whose nodes traffic was measured `age` seconds ago."""
    agent = NetworkTraffic(NetworkTrafficSettings(**settings))  # type: ignore[arg-type]  # as named
    agent.feed.clock = lambda: NOW
    agent.feed.deliver(measured({name: [it] for name, it in traffic.items()}, NOW - age))
    return agent


def scores(agent: NetworkTraffic, names: str) -> list[int]:
    nodes = [make_node(name) for name in names]
    return ask_priority(agent, "networktraffic", make_pod(), nodes)


def test_scores_are_those_of_the_article() -> None:
    """28.57, 14.29 and 0, of ten."""
    agent = agent_with(ARTICLE)
    assert scores(agent, "abc") == [3, 1, 0]
    nodes = nodes_for(agent, [make_node(name) for name in "abc"])
    explanation = agent.networktraffic(read_pod(make_pod()), nodes).explanation
    assert explanation["traffic"].tolist() == [*ARTICLE.values()]
    np.testing.assert_allclose(explanation["exact"], [28.57, 14.29, 0], atol=0.005)


def test_the_most_traffic_is_that_of_the_nodes_asked_about() -> None:
    """Whoever else is busier."""
    assert scores(agent_with({**ARTICLE, "z": 9e9}), "abc") == [3, 1, 0]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [("neutral", [3, 1, 0, 1]), ("best", [3, 1, 0, 10]), ("worst", [3, 1, 0, 0])],
)
def test_a_node_without_data_scores_by_the_policy(policy: str, expected: list[int]) -> None:
    """neutral: the rounded mean of the others, 1.33."""
    assert scores(agent_with(ARTICLE, missing=policy), "abcx") == expected


@pytest.mark.parametrize(("policy", "score"), [("neutral", 5), ("best", 10), ("worst", 0)])
def test_where_no_node_has_data_all_score_alike(policy: str, score: int) -> None:
    """As before the first answer, and long after the last."""
    assert scores(agent_with({"x": 1.0}, missing=policy), "ab") == [score, score]
    assert scores(agent_with(ARTICLE, age=181, missing=policy), "ab") == [score, score]


@pytest.mark.parametrize(("age", "expected"), [(60, [3, 1, 0]), (60.5, [5, 5, 5])])
def test_the_maximum_age_is_a_setting(age: float, expected: list[int]) -> None:
    """NETWORKTRAFFIC_MAX_AGE_SECONDS."""
    assert scores(agent_with(ARTICLE, age=age, max_age_seconds=60.0), "abc") == expected


def test_idle_nodes_are_best() -> None:
    """Also when all are."""
    assert scores(agent_with({"a": 0.0, "b": 0.0}), "ab") == [10, 10]
    assert scores(agent_with({"a": 0.0, "b": 7.0}), "ab") == [10, 0]


def test_networktraffic_keeps_the_contract() -> None:
    """What the core expects of every agent."""
    check_agent(agent_with({"a": 1.0, "b": math.nan}), [make_node("a"), make_node("b")])
