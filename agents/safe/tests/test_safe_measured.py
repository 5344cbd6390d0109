"""Statistics from Prometheus: what is asked, how old it may be, and what stands in for it."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec
import numpy as np
import pytest
from safe_pods import Clock, bound

from kube_sched_ext import Node, Nodes, PodStore, Scores, Verdict
from kube_sched_ext.table import NodeTable
from kube_sched_ext_safe.agent import Safe
from kube_sched_ext_safe.queries import queries
from kube_sched_ext_safe.settings import SafeSettings
from kube_sched_ext_telemetry import Measurements
from kube_sched_ext_testkit.ask import Reports, read_pod
from kube_sched_ext_testkit.builders import make_node, make_pod

NAN = float("nan")
NOW = 100_000.0
AGE = 180.0
MISSING = "node without usage statistics"
NODES = ("a", "b", "c")
QUERIES = ("mean-free", "std-free", "forecast-free")

# Of 1000 millicores and 1000 bytes 600 are free.
IDLE = (600.0, 600.0, 100.0, 100.0, NAN, NAN)
FULL = (50.0, 600.0, 100.0, 100.0, NAN, NAN)


class Measured:
    """An agent that reads Prometheus, its clock at NOW, and nodes of 1000 millicores and bytes."""

    def __init__(self, *, quantiles: str = "0,1", **settings: object) -> None:
        more = {"max_age_seconds": AGE, "quantiles": quantiles, **settings}
        self.agent = Safe(SafeSettings(source="prometheus", **more))  # type: ignore[arg-type]  # each test names what it sets
        self.clock = self.agent.feed.clock = Clock(NOW)
        self.table = NodeTable({"safe": self.agent.new_store()}, Reports())
        self.generation = 0
        for name in NODES:
            self.put(name)

    def put(self, name: str) -> None:
        """Show a node."""
        node = make_node(name, allocatable={"cpu": "1", "memory": "1000"})
        self.table.put(msgspec.json.decode(msgspec.json.encode(node), type=Node))

    def deliver(
        self,
        values: Mapping[str, Sequence[float]],
        times: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        """Refresh: values by node and query, each sampled now unless `times` tell otherwise."""
        self.generation += 1
        blank = [NAN] * len(self.agent.feed.queries)
        columns = np.array([blank, *values.values()]).T
        at = [times[name] if times else [self.clock.now] * len(blank) for name in values]
        places = {name: place for place, name in enumerate(values, start=1)}
        sampled = np.where(np.isnan(columns), NAN, np.array([blank, *at]).T)
        self.agent.feed.deliver(Measurements(self.generation, places, columns, sampled))

    def nodes(self, names: Sequence[str] = NODES) -> Nodes:
        return self.table.nodes("safe", self.table.rows(list(names)))

    def verdict(self, cpu: int = 0) -> Verdict:
        pod = read_pod(make_pod(requests={"cpu": f"{cpu}m"}))
        return self.agent.rejects_overload(pod, self.nodes())

    def reasons(self, cpu: int = 0) -> list[str]:
        """Return why each node is rejected; an empty text where it is not."""
        reasons = [""] * len(NODES)
        for reason, mask in self.verdict(cpu).rejected.items():
            reasons = [
                old or reason * bool(is_so) for old, is_so in zip(reasons, mask, strict=True)
            ]
        return reasons

    def scores(self, name: str = "safe-balance", cpu: int = 0) -> list[int]:
        pod = read_pod(make_pod(requests={"cpu": f"{cpu}m"}))
        verbs = {it.name: it for it in self.agent.priorities}
        scores: Scores = verbs[name].run(pod, self.nodes())
        values: list[int] = scores.values.tolist()
        return values

    def mu(self, resource: str = "cpu") -> list[float]:
        """Return what share of each node counts as used."""
        return [round(float(it), 6) for it in self.verdict().explanation[f"mu_{resource}"]]


def test_statistics_count_as_those_of_annotations_do() -> None:
    """The idle node scores 10 (1 - (0.4 + sqrt(0.1)) / 2) = 6.4, the full one is rejected."""
    measured = Measured()
    measured.deliver({"a": IDLE, "b": FULL, "c": IDLE})
    assert measured.reasons() == ["", "node overload risk", ""]
    assert measured.scores() == [6, 4, 6]
    assert measured.scores("safe-overload") == [9, 0, 9]


def test_forecast_counts_for_its_weight_and_may_be_missing() -> None:
    """0.8 * 600 + 0.2 * 100 are free on a; the mean stands alone on b."""
    measured = Measured()
    measured.deliver({"a": (*IDLE[:4], 100.0, NAN), "b": IDLE})
    assert measured.mu()[:2] == [0.5, 0.4]


def test_forecast_out_of_date_beside_its_mean_is_left_out() -> None:
    """As where its query fails and the others go on."""
    measured = Measured()
    values = (*IDLE[:4], 100.0, 100.0)
    late = [NOW] * 4 + [NOW - AGE - 1, NOW - AGE]
    measured.deliver({"a": values}, {"a": late})
    assert (measured.mu("cpu")[0], measured.mu("memory")[0]) == (0.4, 0.5)


def test_missing_deviation_is_none() -> None:
    """As with annotations."""
    measured = Measured()
    measured.deliver({"a": (600.0, 600.0, NAN, NAN, NAN, NAN)})
    assert measured.scores("safe-overload")[0] == 10


@pytest.mark.parametrize(
    ("age", "is_there"), [(0, True), (AGE, True), (AGE + 1, False), (-30, True), (-600, False)]
)
def test_statistics_are_used_up_to_their_maximum_age(age: float, *, is_there: bool) -> None:
    """Judged at each call, whether or not there was a refresh; the future is not trusted."""
    measured = Measured(without_statistics="reject")
    measured.deliver(dict.fromkeys(NODES, FULL))
    measured.clock.now = NOW + age
    assert set(measured.reasons()) == {"node overload risk" if is_there else MISSING}


@pytest.mark.parametrize("late", [0, 2], ids=["mean", "deviation"])
def test_resource_is_as_old_as_its_oldest_statistic(late: int) -> None:
    """A mean of now says little with a deviation of long ago; the other resource decides."""
    measured = Measured()
    times = [NOW] * 6
    times[late] = NOW - AGE - 1
    measured.deliver({"a": FULL}, {"a": times})
    assert np.isnan(measured.mu("cpu")[0])
    assert measured.reasons()[0] == ""
    assert measured.scores()[0] == 6


@pytest.mark.parametrize(
    ("policy", "expected"), [("neutral", [6, 5, 4]), ("best", [6, 10, 4]), ("worst", [6, 0, 4])]
)
def test_nodes_without_fresh_statistics_score_as_told(
    policy: Literal["neutral", "best", "worst"], expected: list[int]
) -> None:
    """Neutral is the mean of the others: 5 of 6 and 4."""
    measured = Measured(missing_scores=policy)
    measured.deliver({"a": IDLE, "c": FULL})
    assert measured.scores() == expected


@pytest.mark.parametrize(("policy", "score"), [("neutral", 5), ("best", 10), ("worst", 0)])
@pytest.mark.parametrize("priority", ["safe-balance", "safe-overload"])
def test_without_any_statistics_all_nodes_score_alike(
    policy: Literal["neutral", "best", "worst"], score: int, priority: str
) -> None:
    """Before the first answer, and for as long as there is none."""
    assert Measured(missing_scores=policy).scores(priority) == [score] * 3


@pytest.mark.parametrize(("policy", "reason"), [("accept", ""), ("reject", MISSING)])
def test_predicate_treats_missing_statistics_as_told(
    policy: Literal["accept", "reject"], reason: str
) -> None:
    """With a reason of its own."""
    measured = Measured(without_statistics=policy)
    measured.deliver({"a": IDLE, "c": FULL})
    assert measured.reasons() == ["", reason, "node overload risk"]


def test_statistics_come_back_with_the_next_answer() -> None:
    """Stale for a while, then fresh; and what was remembered of before does not count."""
    measured = Measured(without_statistics="reject")
    measured.deliver(dict.fromkeys(NODES, IDLE))
    assert measured.reasons() == [""] * 3
    measured.clock.now += AGE + 1
    assert measured.reasons() == [MISSING] * 3
    measured.deliver(dict.fromkeys(NODES, FULL))
    assert measured.reasons() == ["node overload risk"] * 3


def test_node_that_comes_later_finds_what_is_measured_of_it() -> None:
    """The measurements may be there before the node is."""
    measured = Measured()
    measured.table.remove("a")
    measured.deliver({"a": FULL})
    measured.put("a")
    assert measured.reasons()[0] == "node overload risk"


def test_cluster_may_grow_between_two_answers() -> None:
    """Node by node, each asked about before the next answer."""
    measured = Measured()
    pod = read_pod(make_pod())
    names = [f"node-{number}" for number in range(40)]
    for number, name in enumerate(names, start=1):
        measured.put(name)
        measured.deliver(dict.fromkeys(names[:number], IDLE))
        assert measured.agent.balances(pod, measured.nodes([name])).values.tolist() == [6]


class TestNewPods:
    """The demand of pods bound after their node's sample, by the sample's own time."""

    def test_count_until_a_sample_is_newer(self) -> None:
        """Seen at NOW, but taken 20 s before: what matters is the latter."""
        measured = Measured()
        taken = [NOW - 20] * 6
        measured.deliver({"a": IDLE}, {"a": taken})
        measured.table.put_pod(bound("old", at=NOW - 21, node="a"))
        measured.table.put_pod(bound("new", at=NOW - 10, node="a"))
        assert measured.mu()[0] == 0.5
        measured.deliver({"a": IDLE}, {"a": taken})
        assert measured.mu()[0] == 0.5
        measured.deliver({"a": IDLE}, {"a": [NOW - 9] * 6})
        assert measured.mu()[0] == 0.4
        measured.table.put_pod(bound("late", at=NOW - 9, node="a", cpu=10))
        assert measured.mu()[0] == 0.41

    def test_the_older_of_two_resources_counts(self) -> None:
        """Memory was sampled after the pod, cpu before."""
        measured = Measured()
        times = [NOW - 20, NOW] * 3
        measured.deliver({"a": IDLE}, {"a": times})
        measured.table.put_pod(bound(at=NOW - 10, node="a", memory=50))
        assert (measured.mu("cpu")[0], measured.mu("memory")[0]) == (0.5, 0.45)

    def test_that_were_there_before_any_sample_count_once_it_is_known(self) -> None:
        """The watch is there sooner than the first answer."""
        measured = Measured()
        measured.table.put_pod(bound("old", at=NOW - 99, node="a"))
        measured.table.put_pod(bound("new", at=NOW - 1, node="a", cpu=10))
        measured.deliver({"a": IDLE}, {"a": [NOW - 20] * 6})
        assert measured.mu()[0] == 0.41

    def test_that_end_or_whose_node_goes_count_no_longer(self) -> None:
        """Also where another node takes the row."""
        measured = Measured()
        measured.deliver(dict.fromkeys((*NODES, "d"), IDLE))
        measured.table.put_pod(bound("p", at=NOW, node="a"))
        measured.table.put_pod(bound("q", at=NOW, node="b"))
        measured.table.remove_pod("p")
        assert measured.mu() == [0.4, 0.5, 0.4]
        measured.table.remove("b")
        measured.put("d")
        pod = read_pod(make_pod())
        made_of = measured.agent.balances(pod, measured.nodes(["d"])).explanation
        assert made_of["mu_cpu"].tolist() == [0.4]

    def test_setting_turns_it_off(self) -> None:
        """Then nobody need watch pods."""
        assert isinstance(Measured().agent.new_store(), PodStore)
        assert not isinstance(Measured(counts_new_pods=False).agent.new_store(), PodStore)


class TestEmpirical:
    """The risk from quantiles over time."""

    def test_risk_is_the_share_of_time(self) -> None:
        """0 to 1000 free, evenly: 100 and the pod's demand are missing that share of time."""
        measured = Measured(is_empirical=True)
        measured.deliver({"a": (*IDLE, 0.0, 600.0, 1000.0, 600.0)})
        for demand, risk in ((0, 0.1), (200, 0.3), (201, 0.301)):
            verdict = measured.verdict(demand)
            assert verdict.explanation["risk_cpu"][0] == pytest.approx(risk)
            assert bool(verdict.rejected["node overload risk"][0]) == (risk > 0.3)
        assert verdict.explanation["risk_memory"][0] == 0

    def test_new_pods_count_there_too(self) -> None:
        """100 of them as 100 of the pod."""
        measured = Measured(is_empirical=True)
        measured.deliver({"a": (*IDLE, 0.0, 600.0, 1000.0, 600.0)})
        measured.table.put_pod(bound(at=NOW, node="a", cpu=100))
        assert measured.verdict(100).explanation["risk_cpu"][0] == pytest.approx(0.3)

    def test_no_quantiles_no_risk(self) -> None:
        """The predicate knows nothing then; balance goes on with mean and deviation."""
        measured = Measured(is_empirical=True, without_statistics="reject")
        measured.deliver({"a": (*IDLE, NAN, 600.0, 1000.0, NAN)})
        assert measured.reasons()[0] == MISSING
        assert measured.scores()[0] == 6

    def test_quantiles_that_cross_are_put_in_order(self) -> None:
        """Each is an answer of its own, and one may be of the refresh before."""
        measured = Measured(is_empirical=True, quantiles="0,0.5,1")
        measured.deliver({"a": (*IDLE, 0.0, 600.0, 700.0, 600.0, 600.0, 600.0)})
        assert measured.verdict().explanation["risk_cpu"][0] == pytest.approx(0.5 / 7)

    def test_quantiles_are_as_old_as_the_oldest(self) -> None:
        """As every statistic of the resource."""
        measured = Measured(is_empirical=True)
        times = [NOW] * 10
        times[6] = NOW - AGE - 1
        measured.deliver({"a": (*IDLE, 0.0, 600.0, 1000.0, 600.0)}, {"a": times})
        assert np.isnan(measured.mu("cpu")[0])
        assert measured.mu("memory")[0] == 0.4


class TestQueries:
    """What is asked."""

    def test_windows_are_filled_in(self) -> None:
        """In the places of their names; the README shows the queries before that."""
        settings = SafeSettings(window="2h", resolution="30s", rate_window="3m", horizon_seconds=60)
        texts = {it.column: it.promql for it in queries(settings)}
        idle = '1000 * sum without (cpu, mode) (rate(node_cpu_seconds_total{mode="idle"}[3m]))'
        memory = "node_memory_MemAvailable_bytes[2h]"
        assert texts == {
            "mean-free-cpu": f"avg_over_time(({idle})[2h:30s])",
            "mean-free-memory": f"avg_over_time({memory})",
            "std-free-cpu": f"stddev_over_time(({idle})[2h:30s])",
            "std-free-memory": f"stddev_over_time({memory})",
            "forecast-free-cpu": f"clamp_min(predict_linear(({idle})[2h:30s], 60), 0)",
            "forecast-free-memory": f"clamp_min(predict_linear({memory}, 60), 0)",
        }

    def test_each_is_replaced_as_a_whole(self) -> None:
        """And dollar signs that are no names of ours stay."""
        settings = SafeSettings(mean_cpu='mine{node=~"a.$"}[$window]', sample_cpu="theirs")
        query = queries(settings)[0]
        assert (query.promql, query.sampled) == ('mine{node=~"a.$"}[24h]', "theirs")

    def test_no_weight_no_forecast(self) -> None:
        """What does not count is not asked for."""
        columns = [it.column for it in queries(SafeSettings(forecast_weight=0.0))]
        assert columns == [
            "mean-free-cpu",
            "mean-free-memory",
            "std-free-cpu",
            "std-free-memory",
        ]

    def test_quantiles_are_asked_for_in_empirical_mode(self) -> None:
        """One query each, of each resource."""
        settings = SafeSettings(
            source="prometheus", is_empirical=True, quantiles="0, 0.05,1", forecast_weight=0.0
        )
        asked = [(it.column, it.promql) for it in queries(settings)[4:]]
        assert [column for column, _ in asked] == [
            f"quantile-{quantile}-free-{resource}"
            for quantile in ("0", "0.05", "1")
            for resource in ("cpu", "memory")
        ]
        memory = "quantile_over_time(0.05, node_memory_MemAvailable_bytes[24h])"
        assert asked[3][1] == memory

    @pytest.mark.parametrize(
        "quantiles",
        ["", "0", "0.1,1", "0,0.9", "0,0.5,0.5,1", "0,0.6,0.5,1", "0,half,1", "0,nan,1"],
    )
    def test_wrong_quantiles_are_told(self, quantiles: str) -> None:
        """At the start, with the value."""
        with pytest.raises(ValueError, match=r"SAFE_QUANTILES: .* is not ascending numbers"):
            SafeSettings(quantiles=quantiles)

    def test_empirical_mode_needs_prometheus(self) -> None:
        """Annotations have no quantiles."""
        with pytest.raises(ValueError, match="SAFE_EMPIRICAL: needs SAFE_SOURCE=prometheus"):
            SafeSettings(is_empirical=True)


def test_annotations_need_nothing_of_prometheus() -> None:
    """Neither imported nor asked."""
    script = (
        "import sys; from kube_sched_ext_safe.agent import Safe; agent = Safe(); "
        "agent.new_store(); "
        "print([it for it in sys.modules if 'telemetry' in it or 'prometheus_api' in it], "
        "hasattr(agent, 'feed'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[] False\n"
