"""Prometheus followed step by step: what is asked, what comes of it, and how long it holds."""

import io
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from annotate_cluster import make_node
from annotate_prometheus import STEP, Measured
from prometheus_client import CollectorRegistry
from telemetry_fake import FakePrometheus, vector

from kube_sched_ext.health import Health
from kube_sched_ext.logs import new_log
from kube_sched_ext_telemetry.annotate.nodes import AnnotatedNode, nodes_with
from kube_sched_ext_telemetry.annotate.reports import Reports
from kube_sched_ext_telemetry.annotate.settings import AnnotateSettings
from kube_sched_ext_telemetry.annotate.usage import Usage
from kube_sched_ext_telemetry.prometheus import Prometheus
from kube_sched_ext_telemetry.settings import TelemetrySettings

pytestmark = pytest.mark.anyio


class Told:
    """What is reported."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        log, self._writer = new_log("INFO", "json", self._stream)
        self.health = Health()
        self.reports = Reports(log, CollectorRegistry(), self.health)

    def logged(self) -> list[str]:
        """Return the events so far; nothing can be logged any more."""
        self._writer.close()
        return [json.loads(line)["event"] for line in self._stream.getvalue().splitlines()]


@pytest.fixture
def told() -> Iterator[Told]:
    """Reports that are kept."""
    told = Told()
    yield told
    told.logged()


@pytest.fixture
def measured(fake: FakePrometheus) -> Measured:
    """A Prometheus that answers."""
    return Measured(fake)


class Clock:
    """Ours; it need not agree with Prometheus'."""

    def __init__(self) -> None:
        self.now = 5.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def make_usage(fake: FakePrometheus, told: Told, clock: Clock) -> Callable[..., Usage]:
    """Follow the fake."""

    def make(**options: Any) -> Usage:
        chosen = {"cpu_query": "cpu", "memory_query": "memory", "window_seconds": 30 * STEP}
        settings = AnnotateSettings(**chosen | {"horizon_seconds": 0} | options)
        telemetry = TelemetrySettings(url=fake.url, timeout_seconds=5.0)
        prometheus = Prometheus(fake.url, telemetry)
        return Usage(settings, prometheus, telemetry.labels, told.reports, clock)

    return make


def node(name: str) -> AnnotatedNode:
    raw = msgspec.Raw(msgspec.json.encode(make_node(name)))
    return nodes_with("gpu").read(raw)


def values(usage: Usage, name: str = "n") -> Mapping[str, str] | None:
    """Return the annotations of both resources; None where they are to stay as they are."""
    parts = [part.values for part in usage.parts(node(name))]
    return (
        None if None in parts else {key: text for it in parts for key, text in (it or {}).items()}
    )


FULL = {
    "mean-free-cpu": "1000",
    "std-free-cpu": "10",
    "mean-free-memory": "4000",
    "std-free-memory": "0",
}


async def test_a_window_is_asked_for_in_a_few_queries(
    measured: Measured, make_usage: Callable[..., Usage]
) -> None:
    """Mean and deviation of each resource, 24 steps at a time, by Prometheus' clock."""
    usage = make_usage()
    seconds = await usage.refresh()
    assert values(usage) == FULL
    assert [it for it in measured.asked if it[:2] == ("avg", "cpu")] == [
        ("avg", "cpu", 994, 24),
        ("avg", "cpu", 1000, 6),
    ]
    assert len(measured.asked) == 8
    assert seconds == pytest.approx(STEP - 100 + 1)


async def test_only_what_is_new_is_asked_for_later(
    measured: Measured, make_usage: Callable[..., Usage]
) -> None:
    """Nothing before a step is complete; after a gap all that it lacks."""
    usage = make_usage()
    await usage.refresh()
    measured.asked.clear()
    await usage.refresh()
    assert measured.asked == []
    measured.now += 3 * STEP
    await usage.refresh()
    assert {it[2:] for it in measured.asked} == {(1003, 3)}


async def test_a_prometheus_that_refuses_so_much_is_asked_for_less(
    measured: Measured, make_usage: Callable[..., Usage]
) -> None:
    """Until it answers; nothing is lost, and it is not tried again with more."""
    measured.most_steps = 5
    usage = make_usage()
    await usage.refresh()
    assert values(usage) == FULL
    counts = [it[3] for it in measured.asked if it[:2] == ("avg", "cpu")]
    assert counts == [24, 12, 6, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3]


async def test_a_prometheus_that_refuses_a_single_step_is_told_once(
    measured: Measured, make_usage: Callable[..., Usage], told: Told
) -> None:
    """Log and health say what it says."""
    measured.most_steps = 0
    usage = make_usage()
    for _ in range(3):
        await usage.refresh()
    assert "too many samples" in told.health.ready()[1]
    assert told.health.ready()[0]
    assert told.logged() == ["prometheus failed"]


async def test_a_prometheus_without_a_clock_is_no_prometheus(
    fake: FakePrometheus, make_usage: Callable[..., Usage], told: Told
) -> None:
    """Something else answers there."""
    fake.answers(vector())
    await make_usage().refresh()
    assert "vector(time()) has no result" in told.health.ready()[1]


async def test_a_password_that_is_gone_is_told(
    fake: FakePrometheus, told: Told, tmp_path: Path, measured: Measured
) -> None:
    """And tried again."""
    path = tmp_path / "password"
    path.write_text("p")
    telemetry = TelemetrySettings(url=fake.url, user="u", password_file=str(path))
    prometheus = Prometheus(fake.url, telemetry)
    queries = {"cpu_query": "cpu", "memory_query": "memory"}
    settings = AnnotateSettings(window_seconds=10 * STEP, horizon_seconds=0, **queries)
    usage = Usage(settings, prometheus, telemetry.labels, told.reports)
    path.unlink()
    await usage.refresh()
    assert str(path) in told.health.ready()[1]
    path.write_text("p")
    await usage.refresh()
    assert not told.reports.is_failing
    assert len(measured.asked) == 4


async def test_trouble_and_its_end_are_told_once(
    measured: Measured, make_usage: Callable[..., Usage], told: Told
) -> None:
    """Attempts come ever more slowly, and after the last nothing is missing."""
    usage = make_usage()
    measured.status = 503
    waits = [await usage.refresh() for _ in range(6)]
    assert waits[0] < 1.0 < waits[-1] <= 30.0
    assert told.reports.is_failing
    measured.status = 200
    await usage.refresh()
    assert values(usage) == FULL
    assert not told.reports.is_failing
    assert told.logged() == ["prometheus failed", "prometheus is well again"]


@pytest.mark.parametrize(("stale", "after"), [("remove", {}), ("keep", None)])
async def test_what_is_too_old_holds_no_longer(
    measured: Measured,
    make_usage: Callable[..., Usage],
    clock: Clock,
    stale: str,
    after: object,
) -> None:
    """Prometheus does not answer, or has nothing new of a node; a setting says what follows."""
    usage = make_usage(stale=stale, max_age_seconds=900.0)
    await usage.refresh()
    clock.now += 799
    assert values(usage) == FULL
    clock.now += 2
    assert values(usage) == after

    measured.now += 801
    measured.nodes = ["ip-other"]
    await usage.refresh()
    assert values(usage) == after
    assert values(usage, "other") == FULL
    measured.nodes = ["n", "ip-other"]
    measured.now += STEP
    await usage.refresh()
    assert values(usage) == FULL


@pytest.mark.parametrize(("stale", "after"), [("remove", {}), ("keep", None)])
async def test_before_the_first_answer_everything_stays_for_a_while(
    measured: Measured,
    make_usage: Callable[..., Usage],
    clock: Clock,
    stale: str,
    after: object,
) -> None:
    """An earlier life may have written it a moment ago."""
    measured.status = 500
    usage = make_usage(stale=stale, max_age_seconds=900.0)
    await usage.refresh()
    assert values(usage) is None
    clock.now += 901
    assert values(usage) == after


@pytest.mark.usefixtures("measured")
async def test_a_node_that_nobody_measures_has_no_usage(make_usage: Callable[..., Usage]) -> None:
    """Others are found by name or address."""
    usage = make_usage()
    await usage.refresh()
    assert values(usage, "stranger") == {}
    assert values(usage, "other") == FULL


@pytest.mark.usefixtures("measured")
async def test_our_clock_does_not_matter(make_usage: Callable[..., Usage], clock: Clock) -> None:
    """Only Prometheus' own counts, and the time that passes here."""
    clock.now = 1e9
    usage = make_usage()
    await usage.refresh()
    assert values(usage) == FULL


async def test_bad_data_is_told_once_and_costs_nobody_else(
    measured: Measured, make_usage: Callable[..., Usage], told: Told
) -> None:
    """The rest of the answer counts."""
    measured.nodes = ["n", "n", "ip-other"]
    usage = make_usage()
    for _ in range(2):
        measured.now += STEP
        await usage.refresh()
        assert values(usage) == FULL
    assert "of a node that has another one" in told.health.ready()[1]
    assert not told.reports.is_failing
    measured.nodes = ["n"]
    measured.now += STEP
    await usage.refresh()
    assert told.logged() == ["data failed", "data is well again"]


@pytest.mark.usefixtures("measured")
async def test_the_forecast_is_that_of_the_steps(make_usage: Callable[..., Usage]) -> None:
    """Of steps that are all alike it is the same again."""
    usage = make_usage(window_seconds=120 * STEP, horizon_seconds=3600)
    await usage.refresh()
    forecasts = {"forcasted-free-cpu": "1000", "forcasted-free-memory": "4000"}
    assert values(usage) == FULL | forecasts
