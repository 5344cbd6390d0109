"""Rounds against a cluster in memory: what is written, what stays, and what goes."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from annotate_cluster import FakeCluster, make_node, make_pod, managed
from cluster_fake import until
from prometheus_client import CollectorRegistry

from kube_sched_ext.health import Health
from kube_sched_ext.logs import new_log
from kube_sched_ext_cluster.errors import ApiError, NoAnswerError
from kube_sched_ext_cluster.reports import WatchReports
from kube_sched_ext_telemetry.annotate.annotations import ALLOCATION, USAGE
from kube_sched_ext_telemetry.annotate.annotator import Annotator
from kube_sched_ext_telemetry.annotate.nodes import AnnotatedNode
from kube_sched_ext_telemetry.annotate.plan import Part
from kube_sched_ext_telemetry.annotate.reports import Reports
from kube_sched_ext_telemetry.annotate.settings import AnnotateSettings

pytestmark = pytest.mark.anyio

MEASURED = {"mean-free-cpu": "3000", "std-free-cpu": "100"}


class Known:
    """Usage that a test sets; what nobody set is to stay as it is."""

    def __init__(self) -> None:
        self.values: dict[str, Mapping[str, str] | None] = {}
        self.refreshed = 0
        self.asked = asyncio.Event()

    def parts(self, node: AnnotatedNode) -> list[Part]:
        return [Part(USAGE, self.values.get(node.name), 0.01)]

    async def refresh(self) -> float:
        self.refreshed += 1
        return 60.0

    async def run(self) -> None:
        self.values = {"a": MEASURED}
        self.asked.set()
        await asyncio.Event().wait()


class Rounds:
    """An annotator, and what it tells."""

    def __init__(self, cluster: FakeCluster, **settings: Any) -> None:
        self._stream = io.StringIO()
        log, self._writer = new_log("INFO", "json", self._stream)
        self.cluster = cluster
        self.usage = Known()
        self.health = Health()
        self.registry = CollectorRegistry()
        self.reports = Reports(log, self.registry, self.health)
        chosen = AnnotateSettings(**{"writes_per_second": 1e6, "writers": 4} | settings)
        usage: Any = self.usage if chosen.has_usage else None
        api: Any = cluster
        watches = WatchReports(log, CollectorRegistry())
        self.annotator = Annotator(chosen, api, usage, self.reports, watches)

    async def round(self) -> list[str]:
        """Do a round; return the nodes that were written to, when the watch has told of it."""
        before = len(self.cluster.writes)
        await self.annotator.round()
        names = [name for name, _ in self.cluster.writes[before:]]
        await self.settle()
        return sorted(names)

    async def settle(self) -> None:
        """Wait until the view is as the cluster."""
        ours = {*USAGE, *ALLOCATION}
        there = {
            name: {key: text for key, text in self.cluster.annotations(name).items() if key in ours}
            for name in self.cluster.nodes
        }
        view = self.annotator._nodes.known
        await until(lambda: {name: dict(it.annotations) for name, it in view.items()} == there)

    def count(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"kube_sched_ext_annotate_{name}", labels)

    def logged(self) -> list[str]:
        """Return the events but those of ordinary rounds and watches."""
        self._writer.close()
        events = [json.loads(line)["event"] for line in self._stream.getvalue().splitlines()]
        return [event for event in events if event not in ("round", "listed")]


Following = Callable[..., AbstractAsyncContextManager[Rounds]]


@pytest.fixture
def following() -> Following:
    """Follow a cluster; takes what Rounds takes."""

    @asynccontextmanager
    async def follow(cluster: FakeCluster, **settings: Any) -> AsyncIterator[Rounds]:
        rounds = Rounds(cluster, **settings)
        async with rounds.annotator.following():
            async with asyncio.timeout(10):
                await rounds.annotator.nodes.synced()
                if rounds.annotator.pods is not None:
                    await rounds.annotator.pods.synced()
            yield rounds
        rounds._writer.close()

    return follow


async def test_a_round_writes_what_differs_and_the_next_one_nothing(following: Following) -> None:
    """Both kinds in one write, beside what others have written."""
    cluster = FakeCluster(
        make_node("a", {"theirs": "1"}), make_node("b"), pods=(make_pod("p", "a", cpu="1"),)
    )
    async with following(cluster) as rounds:
        rounds.usage.values = {"a": MEASURED, "b": MEASURED}
        assert await rounds.round() == ["a", "b"]
        assert cluster.annotations("a") == MEASURED | {
            "theirs": "1",
            "requested-cpu": "1000",
            "free-cpu": "3000",
            "requested-memory": "0",
            "free-memory": str(2**33),
            "requested-pods": "1",
            "free-pods": "109",
        }
        assert await rounds.round() == []
        rounds.usage.values["b"] = {"mean-free-cpu": "3030", "std-free-cpu": "101"}
        assert await rounds.round() == []
        rounds.usage.values["b"] = {"mean-free-cpu": "3031", "std-free-cpu": "101"}
        assert await rounds.round() == ["b"]
        assert cluster.annotations("b")["mean-free-cpu"] == "3031"
        assert rounds.count("writes_total", outcome="written") == 3
        assert rounds.count("nodes", state="fresh") == 2


async def test_what_somebody_changed_is_put_right(following: Following) -> None:
    """Node by node; what somebody adds stays."""
    cluster = FakeCluster(make_node("a"))
    async with following(cluster, has_usage=False) as rounds:
        await rounds.round()
        annotations = cluster.nodes["a"]["metadata"]["annotations"]
        annotations |= {"requested-cpu": "7", "theirs": "1"}
        cluster.tell("MODIFIED", cluster.nodes["a"])
        await rounds.settle()
        assert await rounds.round() == ["a"]
        assert cluster.annotations("a")["requested-cpu"] == "0"
        assert cluster.annotations("a")["theirs"] == "1"


async def test_what_is_no_longer_true_is_removed(following: Following) -> None:
    """And what is not known for now is kept."""
    cluster = FakeCluster(make_node("a"))
    async with following(cluster) as rounds:
        rounds.usage.values["a"] = MEASURED
        await rounds.round()
        rounds.usage.values["a"] = None
        assert await rounds.round() == []
        rounds.usage.values["a"] = {}
        assert await rounds.round() == ["a"]
        assert "mean-free-cpu" not in cluster.annotations("a")
        assert "requested-cpu" in cluster.annotations("a")
        assert await rounds.round() == []


@pytest.mark.parametrize(
    ("settings", "kept"),
    [({"has_usage": False}, "requested-cpu"), ({"has_allocation": False}, "mean-free-cpu")],
)
async def test_a_kind_that_is_off_is_not_written_and_goes_where_it_was(
    following: Following, settings: Mapping[str, bool], kept: str
) -> None:
    """An earlier life may have had it on; the same names of others stay."""
    ours = make_node("ours", {"requested-cpu": "1", "mean-free-cpu": "1"})
    ours["metadata"]["managedFields"] = [managed("requested-cpu", "mean-free-cpu")]
    cluster = FakeCluster(
        ours, make_node("theirs", {"mean-free-memory": "5", "requested-gpu": "5"})
    )
    async with following(cluster, **settings) as rounds:
        rounds.usage.values = {"ours": MEASURED, "theirs": MEASURED}
        await rounds.round()
        other = "mean-free-cpu" if kept == "requested-cpu" else "requested-cpu"
        assert kept in cluster.annotations("ours")
        assert other not in cluster.annotations("ours")
        assert cluster.annotations("theirs")["mean-free-memory"] == "5"
        assert cluster.annotations("theirs")["requested-gpu"] == "5"


async def test_nodes_that_come_and_go_disturb_nothing(following: Following) -> None:
    """One that vanishes during a round is told by nobody."""
    cluster = FakeCluster(make_node("a"), make_node("b"))
    async with following(cluster, has_usage=False) as rounds:
        cluster.failures["b"] = ApiError(409, "Conflict", "uid mismatch", 409)
        await rounds.annotator.round()
        assert rounds.count("writes_total", outcome="gone") == 1
        cluster.tell("DELETED", cluster.nodes.pop("b"))
        cluster.nodes["c"] = make_node("c")
        cluster.tell("ADDED", cluster.nodes["c"])
        await rounds.settle()
        assert await rounds.round() == ["c"]
        assert rounds.logged() == []


async def test_an_apiserver_that_is_down_is_told_once_and_nothing_is_lost(
    following: Following,
) -> None:
    """The next round that finds it goes on."""
    cluster = FakeCluster(*(make_node(f"n{number}") for number in range(5)))
    async with following(cluster, has_usage=False, batch=2) as rounds:
        cluster.failures[""] = NoAnswerError("Unreachable", "no route")
        for _ in range(3):
            assert len(await rounds.round()) == 2
        assert rounds.reports.is_failing
        assert "no route" in rounds.health.ready()[1]
        cluster.failures.clear()
        assert len(await rounds.round()) == 5
        assert not rounds.reports.is_failing
        assert rounds.logged() == ["writes failed", "writes is well again"]


async def test_conflicts_are_told_once(following: Following) -> None:
    """Where ANNOTATE_FORCE is off."""
    cluster = FakeCluster(make_node("a"), make_node("b"))
    taken = ApiError(409, "Conflict", "conflict with x", 409, causes=("FieldManagerConflict",))
    cluster.failures["a"] = taken
    async with following(cluster, has_usage=False, force=False) as rounds:
        await rounds.round()
        assert await rounds.round() == ["a"]
        assert "1 of 1 writes, such as to a" in rounds.health.ready()[1]
        assert rounds.logged() == ["conflicts failed"]


@pytest.mark.parametrize(("stale", "is_there"), [("remove", False), ("keep", True)])
async def test_pods_that_cannot_be_watched_make_allocations_untrue(
    following: Following, stale: str, *, is_there: bool
) -> None:
    """After ANNOTATE_MAX_AGE_SECONDS, as with usage."""
    cluster = FakeCluster(make_node("a"))
    async with following(cluster, has_usage=False, stale=stale) as rounds:
        await rounds.round()
        assert rounds.annotator.pods is not None
        state = rounds.annotator.pods.state
        state.connected, state.changed_at = False, state.clock() - 899
        assert await rounds.round() == []
        state.changed_at -= 2
        await rounds.round()
        assert ("requested-cpu" in cluster.annotations("a")) is is_there


async def test_pods_that_were_never_listed_leave_allocations_as_they_are() -> None:
    """An empty node would attract everything."""
    node = make_node("a", {"requested-cpu": "700"})
    node["metadata"]["managedFields"] = [managed("requested-cpu")]
    cluster = FakeCluster(node)
    cluster.unreadable["pods"] = ApiError(403, "Forbidden", 'cannot list resource "pods"', 403)
    rounds = Rounds(cluster, freq_seconds=1.0)
    async with rounds.annotator.following():
        with pytest.raises(TimeoutError):
            await rounds.annotator.read()
        assert rounds.usage.refreshed == 0
        rounds.usage.values["a"] = MEASURED
        assert await rounds.round() == ["a"]
        assert cluster.annotations("a") == MEASURED | {"requested-cpu": "700"}
    rounds._writer.close()


async def test_rounds_follow_each_other_until_cancelled() -> None:
    """Each ANNOTATE_FREQ after the last began."""
    cluster = FakeCluster(make_node("a"))
    rounds = Rounds(cluster, freq_seconds=0.05)
    task = asyncio.create_task(rounds.annotator.run())
    await until(lambda: (rounds.count("rounds_total") or 0) >= 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cluster.annotations("a").keys() >= {"mean-free-cpu", "requested-cpu"}
    assert cluster.annotations("a") == cluster.writes[0][1]
    rounds._writer.close()
