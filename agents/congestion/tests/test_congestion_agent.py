"""The congestion agent, from annotations to scores."""

import json
from pathlib import Path

import numpy as np
import pytest

from kube_sched_ext_congestion.agent import Congestion
from kube_sched_ext_congestion.settings import CongestionSettings
from kube_sched_ext_testkit.ask import Reports, ask_priority, nodes_for, read_pod
from kube_sched_ext_testkit.builders import JSON, make_node, make_pod

RECORDED = Path(__file__).parents[3] / "tests" / "data" / "nodes.json"


def congested(factor: str | None, name: str = "node") -> JSON:
    """Return a node with this annotation."""
    return make_node(name, annotations={} if factor is None else {"congestion-factor": factor})


@pytest.mark.parametrize(
    ("factor", "score"), [("0", 10), ("100", 0), ("150", 0), ("-5", 10), ("abc", 10), (None, 10)]
)
def test_score_is_as_published(factor: str | None, score: int) -> None:
    """The cases verified with the published implementation."""
    assert ask_priority(Congestion(), "congestion", make_pod(), [congested(factor)]) == [score]


@pytest.mark.parametrize("factor", ["20.5", "1e2", " 20", "", "9223372036854775808"])
def test_unparsable_factor_counts_as_missing(factor: str) -> None:
    """The node scores 10, and it is told what could not be read."""
    agent, reports = Congestion(), Reports()
    nodes = nodes_for(agent, [congested(factor)], reports)
    assert agent.congestion(read_pod(make_pod()), nodes).values.tolist() == [10]
    [(name, value)] = reports.values
    assert (name, value.key, value.value) == ("node", "congestion-factor", factor)
    assert value.expected == "a 64-bit decimal integer"


def test_factor_max_sets_where_the_scale_ends() -> None:
    """With CONGESTION_FACTOR_MAX=1000 a factor of 100 is hardly any congestion."""
    agent = Congestion(CongestionSettings(factor_max=1000))
    nodes = [congested("100", "calm"), congested("1000", "busy")]
    assert ask_priority(agent, "congestion", make_pod(), nodes) == [9, 0]


def test_explanation_has_the_factor_and_the_exact_score() -> None:
    """What was read and the score before rounding; NaN where there is no factor."""
    agent = Congestion()
    nodes = nodes_for(agent, [congested("25", "a"), congested(None, "b")])
    explanation = agent.congestion(read_pod(make_pod()), nodes).explanation
    np.testing.assert_array_equal(explanation["congestion-factor"], [25, np.nan])
    np.testing.assert_array_equal(explanation["exact"], [7.5, 10])


def test_recorded_nodes_score_as_the_readme_says() -> None:
    """Factors 10, 80, 25 and none."""
    nodes = json.loads(RECORDED.read_text())["items"]
    assert ask_priority(Congestion(), "congestion", make_pod(), nodes) == [9, 2, 8, 10]
