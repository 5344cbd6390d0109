"""Statistics from the real Prometheus, beside annotations written from the same history.

The history is a day of 500 nodes of two cpus, at a step of 5 minutes.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import numpy as np
import pytest

from kube_sched_ext import FloatArray, Node, Nodes, Pod
from kube_sched_ext.table import NodeTable
from kube_sched_ext_safe.agent import Safe
from kube_sched_ext_safe.settings import SafeSettings
from kube_sched_ext_telemetry.collect import collect
from kube_sched_ext_telemetry.prometheus import Prometheus as Source
from kube_sched_ext_telemetry.settings import TelemetrySettings
from kube_sched_ext_testkit.ask import Reports, read_pod
from kube_sched_ext_testkit.builders import JSON, make_node, make_pod
from kube_sched_ext_testkit.prometheus import Prometheus, write_history

STEP = 300
DAY = 86_400
NODES = 500
MEMORY = 8 * 2**30
NAMES = [f"node-{number:03d}" for number in range(NODES)]


@dataclass(frozen=True)
class History:
    """What was free, at `times`: an hour more than a day, and a little of what is to come."""

    times: FloatArray
    idle: FloatArray
    """Of each of two cpus, as a share of the step before, shape (nodes, 2, times)."""
    free_memory: FloatArray
    """In bytes, shape (nodes, times)."""

    def free(self, now: float) -> tuple[FloatArray, FloatArray]:
        """Return free millicores and bytes of the day before `now`, each of shape (nodes, k)."""
        is_in = (self.times >= now - DAY) & (self.times <= now)
        # The idle rate over ten minutes is the mean of two steps.
        rate = (self.idle[:, :, 1:] + self.idle[:, :, :-1]) / 2
        cpu = 1000 * rate.sum(axis=1)[:, is_in[1:]]
        return cpu, self.free_memory[:, is_in]


def make_history(now: float) -> History:
    """Return nodes from idle to full, and from steady to restless."""
    generator = np.random.default_rng(3)
    last = int(now // STEP) + 4
    times = np.arange(last - (DAY + 3600) // STEP, last + 1) * float(STEP)

    def walk() -> FloatArray:
        level = generator.uniform(0.02, 0.9, (NODES, 1))
        noise = generator.standard_normal((NODES, len(times)))
        for place in range(1, len(times)):
            noise[:, place] += 0.8 * noise[:, place - 1]
        return np.clip(level + generator.uniform(0.003, 0.08, (NODES, 1)) * noise, 0, 1)

    idle = np.stack([walk(), walk()], axis=1)
    return History(times, idle, np.floor(walk() * MEMORY))


def samples(history: History) -> Iterator[tuple[str, float, float]]:
    """Yield what node_exporter would have told."""
    times = history.times.tolist()
    for name, idle, memory in zip(NAMES, history.idle, history.free_memory, strict=True):
        for cpu, shares in enumerate(idle):
            series = f'node_cpu_seconds_total{{instance="{name}",cpu="{cpu}",mode="idle"}}'
            seconds = np.cumsum(shares * STEP).tolist()
            yield from ((series, value, at) for value, at in zip(seconds, times, strict=True))
        series = f'node_memory_MemAvailable_bytes{{instance="{name}"}}'
        yield from ((series, value, at) for value, at in zip(memory.tolist(), times, strict=True))


@pytest.fixture(scope="module")
def history() -> History:
    """Return the history."""
    return make_history(time.time())


@pytest.fixture(scope="module")
def prometheus(history: History, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Run a Prometheus that has seen it."""
    prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"))
    write_history(prometheus.data, samples(history))
    with prometheus:
        yield prometheus


def view(agent: Safe, annotations: dict[str, dict[str, str]] | None = None) -> Nodes:
    """Return the nodes as `agent` sees them."""
    table = NodeTable({"safe": agent.new_store()}, Reports())
    for name in NAMES:
        allocatable = {"cpu": "2", "memory": str(MEMORY)}
        node: JSON = make_node(
            name, allocatable=allocatable, annotations=(annotations or {}).get(name)
        )
        table.put(msgspec.json.decode(msgspec.json.encode(node), type=Node))
    return table.nodes("safe", table.rows(NAMES))


def measured(prometheus: Prometheus, **settings: object) -> tuple[Safe, Nodes]:
    """Return an agent that has just asked Prometheus, and its view."""
    own = {"resolution": f"{STEP}s", "rate_window": f"{2 * STEP}s", "max_age_seconds": 2.0 * STEP}
    agent = Safe(SafeSettings(source="prometheus", **own, **settings))  # type: ignore[arg-type]  # each test names what it sets
    nodes = view(agent)
    way = TelemetrySettings(url=prometheus.url, timeout_seconds=60.0)
    feed = agent.feed
    with Source(prometheus.url, way).connection() as connection:
        collected = collect(connection.ask, feed.queries, way.labels, feed.measurements, feed.clock)
    assert collected.errors == []
    feed.deliver(collected.measurements)
    return agent, nodes


def annotated(history: History, now: float) -> dict[str, dict[str, str]]:
    """Return what an annotator writes: whole numbers."""
    return {
        name: {
            "mean-free-cpu": f"{cpu.mean():.0f}",
            "std-free-cpu": f"{cpu.std():.0f}",
            "mean-free-memory": f"{memory.mean():.0f}",
            "std-free-memory": f"{memory.std():.0f}",
        }
        for name, cpu, memory in zip(NAMES, *history.free(now), strict=True)
    }


def pod_of(cpu: int, memory: int) -> Pod:
    return read_pod(make_pod(requests={"cpu": f"{cpu}m", "memory": str(memory)}))


def test_prometheus_decides_as_annotations_written_from_the_same_history(
    history: History, prometheus: Prometheus
) -> None:
    """Without a forecast 95 % of the scores are the same, and none is more than 1 apart."""
    agent, nodes = measured(prometheus, forecast_weight=0.0)
    by_annotations = Safe(SafeSettings(forecast_weight=0.0))
    other_nodes = view(by_annotations, annotated(history, time.time()))
    for pod in (pod_of(0, 0), pod_of(250, 2**29), pod_of(700, 2**30)):
        for one, other in zip(agent.priorities, by_annotations.priorities, strict=True):
            scores = one.run(pod, nodes).values
            apart = np.abs(scores - other.run(pod, other_nodes).values)
            same = float((apart == 0).mean())
            assert len(set(scores.tolist())) >= 4
            assert same >= 0.95
            assert apart.max() <= 1
        verdict, expected = (
            it.rejects_overload(pod, seen).rejected["node overload risk"]
            for it, seen in ((agent, nodes), (by_annotations, other_nodes))
        )
        assert 0 < expected.sum() < NODES
        assert (verdict == expected).mean() >= 0.95


def test_forecast_goes_where_the_trend_goes(history: History, prometheus: Prometheus) -> None:
    """As a line through the day says, an hour from now."""
    agent, nodes = measured(prometheus, forecast_weight=100.0)
    made_of = agent.balances(pod_of(0, 0), nodes).explanation
    now = time.time()
    times = history.times[(history.times >= now - DAY) & (history.times <= now)]
    for values, capacity, key in zip(
        history.free(now), (2000, MEMORY), ("mu_cpu", "mu_memory"), strict=True
    ):
        slope, level = np.polyfit(times - now, values.T, 1)
        expected = 1 - np.clip((level + 3600 * slope) / capacity, 0, 1)
        np.testing.assert_allclose(made_of[key], expected, atol=0.02)


def test_empirical_risk_is_the_share_of_time(history: History, prometheus: Prometheus) -> None:
    """Counted over the history itself; quantiles are 1 to 25 % apart."""
    agent, nodes = measured(prometheus, forecast_weight=0.0, is_empirical=True)
    made_of = agent.rejects_overload(pod_of(200, 2**29), nodes).explanation
    cpu, memory = history.free(time.time())
    for key, used, capacity in (
        ("risk_cpu", 2000 - cpu + 200, 2000),
        ("risk_memory", MEMORY - memory + 2**29, MEMORY),
    ):
        share = (used > 0.9 * capacity).mean(axis=1)
        error = np.abs(made_of[key] - share)
        assert error.max() < 0.15
        assert error[share < 0.3].max() < 0.05
        assert error.mean() < 0.01
        assert (share > 0).mean() > 0.2


def test_nodes_that_are_not_scraped_any_more_count_as_missing(prometheus: Prometheus) -> None:
    """Windows of a day show them for a day; the age of their newest sample does not."""
    agent, nodes = measured(prometheus, forecast_weight=0.0, without_statistics="reject")
    clock = agent.feed.clock
    missing = "node without usage statistics"
    assert not agent.rejects_overload(pod_of(0, 0), nodes).rejected[missing].any()
    agent.feed.clock = lambda: clock() + 3 * STEP
    assert agent.rejects_overload(pod_of(0, 0), nodes).rejected[missing].all()
    assert set(agent.balances(pod_of(0, 0), nodes).values.tolist()) == {5}
