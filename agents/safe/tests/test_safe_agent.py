"""The safe agent, from annotations to verdicts and scores."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from kube_sched_ext import FloatArray
from kube_sched_ext_safe import model
from kube_sched_ext_safe.agent import Safe
from kube_sched_ext_safe.settings import SafeSettings
from kube_sched_ext_testkit.ask import (
    Reports,
    ask_predicate,
    ask_priority,
    nodes_for,
    read_pod,
)
from kube_sched_ext_testkit.builders import JSON, make_node, make_pod

RECORDED = Path(__file__).parents[3] / "tests" / "data" / "nodes.json"
OVERLOAD = "node overload risk"
NO_STATISTICS = "node without usage statistics"

# Of 1000 millicores and 1000 bytes, 400 are used, give or take 10 %.
IDLE = {
    "mean-free-cpu": "600",
    "std-free-cpu": "100",
    "mean-free-memory": "600",
    "std-free-memory": "100",
}


def node_with(
    annotations: Mapping[str, str], *, name: str = "node", cpu: str = "1", memory: str = "1000"
) -> JSON:
    """Return a node of 1000 millicores and 1000 bytes, unless said otherwise."""
    return make_node(name, allocatable={"cpu": cpu, "memory": memory}, annotations=annotations)


def overload_reason(node: JSON, pod: JSON | None = None, **settings: object) -> str | None:
    """Ask predicate safe-overload about one node."""
    agent = Safe(SafeSettings(**settings))  # type: ignore[arg-type]  # each test names what it sets
    [reason] = ask_predicate(agent, "safe-overload", pod or make_pod(), [node])
    return reason


def score(priority: str, node: JSON, pod: JSON | None = None, **settings: object) -> int:
    """Ask a priority about one node."""
    agent = Safe(SafeSettings(**settings))  # type: ignore[arg-type]  # each test names what it sets
    [value] = ask_priority(agent, priority, pod or make_pod(), [node])
    return value


def test_idle_node_is_accepted_and_scores_well() -> None:
    """40 % used, give or take 10 %: hardly any risk, (0.4 + sqrt(0.1)) / 2 = 0.36."""
    assert overload_reason(node_with(IDLE)) is None
    assert score("safe-overload", node_with(IDLE)) == 9
    assert score("safe-balance", node_with(IDLE)) == 6


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_full_resource_rejects_the_node(resource: str) -> None:
    """Either resource is enough."""
    node = node_with({**IDLE, f"mean-free-{resource}": "0"})
    assert overload_reason(node) == OVERLOAD
    assert score("safe-overload", node) == 0
    assert score("safe-balance", node) == 3  # 10 (1 - (1 + 0.316) / 2) = 3.42


@pytest.mark.parametrize("resource", ["cpu", "memory"])
def test_demand_counts_as_used(resource: str) -> None:
    """The pod's demand of 600 fills what is free, a larger one as well."""
    for demand in ("600", "60000"):
        quantity = f"{demand}m" if resource == "cpu" else demand
        pod = make_pod(requests={resource: quantity})
        assert overload_reason(node_with(IDLE), pod) == OVERLOAD
        assert score("safe-overload", node_with(IDLE), pod) == 0
        assert score("safe-balance", node_with(IDLE), pod) == 3


def test_statistics_are_in_millicores_and_bytes() -> None:
    """2000m free of 8 cores, 1 GiB free of 4 GiB: both are 75 % used."""
    node = node_with(
        {"mean-free-cpu": "2000", "mean-free-memory": "1073741824"}, cpu="8", memory="4Gi"
    )
    agent = Safe()
    explanation = agent.balances(read_pod(make_pod()), nodes_for(agent, [node])).explanation
    assert explanation["mu_cpu"].tolist() == [0.75]
    assert explanation["mu_memory"].tolist() == [0.75]


@pytest.mark.parametrize(("weight", "mu"), [(0.0, 0.4), (20.0, 0.48), (100.0, 0.8)])
def test_forecast_weight_is_a_percentage(weight: float, mu: float) -> None:
    """A mean of 600 free, forecast to fall to 200."""
    node = node_with({**IDLE, "forcasted-free-cpu": "200", "forcasted-free-memory": "200"})
    agent = Safe(SafeSettings(forecast_weight=weight))
    explanation = agent.balances(read_pod(make_pod()), nodes_for(agent, [node])).explanation
    assert explanation["mu_cpu"].tolist() == pytest.approx([mu])
    assert explanation["mu_memory"].tolist() == pytest.approx([mu])


def test_utilisation_setting_is_where_overload_begins() -> None:
    """40 % used, give or take 10 %: half the time above 40 %, hardly ever above 90 %."""
    assert overload_reason(node_with(IDLE), utilisation=90.0) is None
    assert overload_reason(node_with(IDLE), utilisation=40.0) == OVERLOAD
    assert overload_reason(node_with(IDLE), utilisation=0.0) == OVERLOAD
    full = node_with({**IDLE, "mean-free-cpu": "0"})
    assert overload_reason(full, utilisation=100.0) is None


def test_percentile_setting_is_the_risk_taken() -> None:
    """The risk of more than 40 % is about a half."""
    assert overload_reason(node_with(IDLE), utilisation=40.0, percentile=45.0) == OVERLOAD
    assert overload_reason(node_with(IDLE), utilisation=40.0, percentile=55.0) is None
    assert score("safe-overload", node_with(IDLE), utilisation=40.0, percentile=45.0) == 0
    assert score("safe-overload", node_with(IDLE), utilisation=40.0, percentile=100.0) == 3


def test_percentile_zero_takes_no_risk_at_all() -> None:
    """The score is 10 or 0, and the verdict goes with it."""
    risky, steady = node_with(IDLE), node_with({"mean-free-cpu": "600"})
    assert overload_reason(risky, percentile=0.0) == OVERLOAD
    assert overload_reason(steady, percentile=0.0) is None
    assert score("safe-overload", risky, percentile=0.0) == 0
    assert score("safe-overload", steady, percentile=0.0) == 10


@pytest.mark.parametrize(
    "node",
    [
        node_with({}),
        node_with({"std-free-cpu": "100", "forcasted-free-memory": "600"}),
        make_node("node", annotations=IDLE),
        node_with(IDLE, cpu="0", memory="0"),
    ],
    ids=["no annotations", "no mean", "no allocatable", "allocatable of 0"],
)
def test_node_without_statistics_is_accepted_and_scores_zero(node: JSON) -> None:
    """As published; a setting has the predicate reject it, with a reason of its own."""
    assert overload_reason(node) is None
    assert overload_reason(node, without_statistics="reject") == NO_STATISTICS
    assert score("safe-overload", node) == 0
    assert score("safe-balance", node) == 0


def test_one_resource_with_statistics_is_enough() -> None:
    """The other has no part in verdict and score."""
    node = node_with({"mean-free-cpu": "600"})
    assert overload_reason(node, without_statistics="reject") is None
    assert score("safe-overload", node) == 10
    assert score("safe-balance", node) == 8  # 10 (1 - 0.4 / 2)


def test_missing_deviation_is_none() -> None:
    """All that is known is the mean, so it is taken as steady."""
    assert score("safe-overload", node_with({"mean-free-memory": "101"})) == 10
    assert overload_reason(node_with({"mean-free-memory": "99"})) == OVERLOAD


@pytest.mark.parametrize(
    "text", ["", "abc", "1,000", " 600", "6_00", "0x258", "NaN", "inf", "1e999"]
)
def test_unparsable_statistics_count_as_missing(text: str) -> None:
    """Never as 0, which would be a full node; and what could not be read is told."""
    node = node_with({**IDLE, "mean-free-cpu": text})
    reports = Reports()
    agent = Safe()
    scores = agent.balances(read_pod(make_pod()), nodes_for(agent, [node], reports))
    assert np.isnan(scores.explanation["mu_cpu"]).all()
    assert scores.explanation["mu_memory"].tolist() == [0.4]
    [(_, value)] = reports.values
    assert (value.key, value.value) == ("mean-free-cpu", text)


def test_verdict_explains_utilisation_and_risk() -> None:
    """Of both resources, NaN where there are no statistics."""
    agent = Safe()
    nodes = [node_with(IDLE, name="idle"), node_with({"mean-free-cpu": "600"}, name="half-known")]
    explanation = agent.rejects_overload(read_pod(make_pod()), nodes_for(agent, nodes)).explanation
    # nu = 0.4 * 0.6 / 0.1^2 - 1 = 23
    risk = stats.beta(0.4 * 23, 0.6 * 23).sf(0.9)
    expected = {
        "mu_cpu": [0.4, 0.4],
        "mu_memory": [0.4, np.nan],
        "sigma_cpu": [0.1, 0.0],
        "sigma_memory": [0.1, np.nan],
        "risk_cpu": [risk, 0.0],
        "risk_memory": [risk, np.nan],
    }
    assert explanation.keys() == expected.keys()
    for key, values in expected.items():
        np.testing.assert_allclose(explanation[key], values, atol=1e-12, err_msg=key)


def test_scores_explain_themselves_exactly() -> None:
    """The score before rounding beside what it was made of."""
    agent = Safe(SafeSettings(utilisation=40.0, percentile=100.0))
    nodes = nodes_for(agent, [node_with(IDLE)])
    overload = agent.avoids_overload(read_pod(make_pod()), nodes)
    balance = agent.balances(read_pod(make_pod()), nodes)
    [risk] = overload.explanation["risk_cpu"]
    assert overload.explanation["exact"] == pytest.approx(10 * (1 - np.sqrt(risk)))
    assert overload.values == np.floor(overload.explanation["exact"])
    assert balance.explanation["exact"] == pytest.approx(10 * (1 - (0.4 + np.sqrt(0.1)) / 2))
    assert set(overload.explanation) - set(balance.explanation) == {"risk_cpu", "risk_memory"}


def test_risk_is_computed_once_per_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Predicate and priority share it; another demand has its own, and the first is kept."""
    computed = []

    def overload_risk(
        mu: model.FloatArray, sigma: model.FloatArray, threshold: float
    ) -> model.FloatArray:
        computed.append(threshold)
        return compute(mu, sigma, threshold)

    compute = model.overload_risk
    monkeypatch.setattr(model, "overload_risk", overload_risk)
    agent = Safe()
    nodes = nodes_for(agent, [node_with(IDLE)])
    small, large = make_pod(requests={"cpu": "100m"}), make_pod(requests={"cpu": "450m"})
    for pod in map(read_pod, (small, large, small)):
        risk = agent.rejects_overload(pod, nodes).explanation["risk_cpu"]
        assert agent.avoids_overload(pod, nodes).explanation["risk_cpu"] == risk
    assert len(computed) == 2


shares = st.floats(0, 1) | st.none()
statistics = st.tuples(shares, st.floats(0, 0.2) | st.just(0.0), shares, st.floats(0, 0.2))


@given(
    nodes=st.lists(st.just((0.8, 0.01, 0.7, 0.02)) | statistics, min_size=1, max_size=5),
    cpu=st.integers(0, 1200),
    percentile=st.sampled_from([0.0, 30.0, 100.0]),
    without=st.sampled_from(["accept", "reject"]),
)
def test_what_is_known_to_have_no_risk_is_judged_as_all_others_are(
    nodes: list[tuple[float | None, ...]], cpu: int, percentile: float, without: str
) -> None:
    """The same reasons, scores and explanations as without that knowledge."""
    names = ("mean-free-cpu", "std-free-cpu", "mean-free-memory", "std-free-memory")
    whole = [
        node_with(
            {
                name: str(1000 * value)
                for name, value in zip(names, values, strict=True)
                if value is not None
            },
            name=f"n{number}",
        )
        for number, values in enumerate(nodes)
    ]
    pod = read_pod(make_pod(requests={"cpu": f"{cpu}m"}))

    def answers() -> list[object]:
        agent = Safe(SafeSettings(percentile=percentile, without_statistics=without))  # type: ignore[arg-type]  # one of its words
        asked = nodes_for(agent, whole)
        verdict, scores = agent.rejects_overload(pod, asked), agent.avoids_overload(pod, asked)
        rejected = {key: mask.tolist() for key, mask in verdict.rejected.items() if mask.any()}
        made_of = {key: str(values.tolist()) for key, values in scores.explanation.items()}
        return [rejected, scores.values.tolist(), made_of]

    def unknown(capacity: FloatArray, *_: object) -> FloatArray:
        return np.full_like(capacity, -np.inf)

    as_it_is = answers()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "riskless_demand", unknown)
        assert answers() == as_it_is


@pytest.mark.parametrize(("print_table", "level"), [(False, "TRACE"), (True, "INFO")])
def test_print_table_setting_logs_explanations_at_info(level: str, *, print_table: bool) -> None:
    """Otherwise they are for the most detailed log only."""
    assert Safe(SafeSettings(print_table=print_table)).explanation_level == level


@pytest.mark.parametrize("priority", ["safe-overload", "safe-balance"])
def test_no_nodes_have_no_scores_of_safe(priority: str) -> None:
    """kube-scheduler may ask about an empty list."""
    assert ask_priority(Safe(), priority, make_pod(), []) == []


def test_recorded_nodes_are_judged_as_the_readme_says() -> None:
    """A pod of 250m and 512Mi on the four recorded nodes, the last of them without statistics."""
    nodes = json.loads(RECORDED.read_text())["items"]
    pod = make_pod(requests={"cpu": "250m", "memory": "512Mi"})
    assert ask_predicate(Safe(), "safe-overload", pod, nodes) == [None, OVERLOAD, None, None]
    assert ask_priority(Safe(), "safe-overload", pod, nodes) == [9, 0, 10, 0]
    assert ask_priority(Safe(), "safe-balance", pod, nodes) == [5, 4, 7, 0]
