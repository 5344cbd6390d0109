"""A rejected pod is tried again when a node would take it, no more often than need be."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager

import numpy as np
import pytest

from kube_sched_ext import Agent, Nodes, NoSettings, Pod, Verdict, predicate
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.instruments import Instruments
from kube_sched_ext.logs import Level, new_log
from kube_sched_ext.metrics import Metrics
from kube_sched_ext.objects import Node, NodeMeta, PodMeta
from kube_sched_ext.problems import Problems
from kube_sched_ext.verbs import Verbs, new_table
from kube_sched_ext_cluster.errors import ApiError, ClusterError, NoAnswerError
from kube_sched_ext_cluster.nudge import ANNOTATION, Nudger

pytestmark = pytest.mark.anyio

SECONDS = 0.02
NODES = ("a", "b", "c")


class Moody(Agent[NoSettings]):
    """Rejects all nodes but those it is told of: what it knows does not come from nodes."""

    name = "moody"
    columns = ("number",)

    def __init__(self) -> None:
        """Like no node."""
        super().__init__()
        self.liked: set[int] = set()
        self.is_broken = False
        self._count = 0

    def row(self, node: object) -> tuple[float]:
        """Number nodes in their order."""
        self._count += 1
        return (self._count,)

    @predicate("moody")
    def rejects(self, pod: Pod, nodes: Nodes) -> Verdict:
        """Reject what is not liked."""
        if self.is_broken:
            raise RuntimeError("broken")
        return Verdict({"mood": ~np.isin(nodes.columns[0], list(self.liked))})


class House:
    """A nudger with all that it needs, and what it wrote."""

    def __init__(self, level: Level = "INFO") -> None:
        self.stream = io.StringIO()
        log, self.writer = new_log(level, "json", self.stream)
        metrics = Metrics()
        instruments = Instruments(log, self.writer, metrics, Problems(log, metrics))
        self.agent = Moody()
        self.table = new_table([self.agent], instruments.problems)
        self.registry = metrics.registry
        self.now = 0.0
        self.written: list[tuple[str, Mapping[str, str | None], str]] = []
        self.errors: list[ClusterError] = []
        verbs = Verbs([self.agent], self.table, CoreSettings(), instruments)
        self.nudger = Nudger(
            verbs, self, log, metrics.registry, seconds=SECONDS, clock=lambda: self.now
        )
        for name in NODES:
            self.see(name, version=f"{name}1")

    def see(self, name: str, version: str = "", nudge: str = "") -> None:
        meta = NodeMeta(
            name=name,
            resource_version=version,
            annotations={ANNOTATION: nudge} if nudge else None,
        )
        node = Node(metadata=meta)
        if name not in self.table:
            self.table.put(node)
        self.nudger.seen(node)

    def reject(self, uid: str = "uid-1", nodes: tuple[str, ...] = NODES) -> None:
        pod = Pod(metadata=PodMeta(name=f"pod-{uid}", uid=uid))
        self.nudger.rejected(pod, self.agent.predicates, nodes)

    def annotate_node(
        self, name: str, annotations: Mapping[str, str | None], *, resource_version: str = ""
    ) -> None:
        if self.errors:
            raise self.errors.pop()
        self.written.append((name, annotations, resource_version))

    def count(self, outcome: str) -> float:
        labels = {"outcome": outcome}
        return self.registry.get_sample_value("kube_sched_ext_nudges_total", labels) or 0.0

    @asynccontextmanager
    async def running(self, seconds: float = 8 * SECONDS) -> AsyncIterator[None]:
        """Run the nudger in the block, and some rounds longer."""
        task = asyncio.create_task(self.nudger.run())
        try:
            yield
            await asyncio.sleep(seconds)
            assert not task.done(), task.result()
        finally:
            task.cancel()

    def logged(self) -> list[dict[str, object]]:
        self.writer.close()
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def house() -> Iterator[House]:
    """A nudger that waits for nothing but its rounds."""
    house = House()
    yield house
    house.writer.close()


async def test_a_node_that_would_now_pass_is_annotated_once(house: House) -> None:
    """Although no node has changed; at the version known, so that one replica is enough."""
    house.reject()
    async with house.running():
        await asyncio.sleep(4 * SECONDS)
        assert house.written == []
        house.agent.liked = {2, 3}
    [(node, annotations, version)] = house.written
    assert (node, list(annotations), version) == ("b", [ANNOTATION], "b1")
    assert house.count("written") == 1


async def test_a_pod_that_is_rejected_again_is_nudged_again(house: House) -> None:
    """One nudge brings one attempt; the next waits for its time."""
    house.agent.liked = {1}
    house.reject()
    async with house.running():
        await asyncio.sleep(4 * SECONDS)
        house.reject()
        await asyncio.sleep(4 * SECONDS)
        assert len(house.written) == 1
        house.now += 2 * SECONDS
    assert [node for node, *_ in house.written] == ["a", "a"]


async def test_only_nodes_that_were_rejected_count(house: House) -> None:
    """kube-scheduler has its own reasons not to ask about the others."""
    house.agent.liked = {1}
    house.reject(nodes=("b", "c"))
    async with house.running():
        pass
    assert house.written == []


async def test_a_pod_that_has_a_node_is_forgotten(house: House) -> None:
    """So is one that was rejected so long ago that it must be gone, and one without a UID."""
    house.agent.liked = {1}
    house.reject("bound")
    house.nudger.forget("bound")
    house.reject("")
    house.reject("old")
    house.now += 601
    async with house.running():
        pass
    assert house.written == []
    assert house.nudger._rejected == {}


async def test_a_node_that_is_gone_is_not_annotated(house: House) -> None:
    """Another one is."""
    house.agent.liked = {1, 3}
    house.table.remove("a")
    house.nudger.gone("a")
    house.reject()
    async with house.running():
        pass
    assert [node for node, *_ in house.written] == ["c"]


async def test_the_nudge_of_another_replica_counts_as_ones_own(house: House) -> None:
    """Whatever time it carries: clocks differ."""
    house.agent.liked = {1}
    house.reject()
    house.now = 100.0
    house.see("c", version="c2", nudge="1999-01-01T00:00:00+00:00")
    async with house.running():
        await asyncio.sleep(8 * SECONDS)
        assert house.written == []
        # The same nudge seen again is no news.
        house.now += 2 * SECONDS
        house.see("c", version="c3", nudge="1999-01-01T00:00:00+00:00")
    assert [node for node, *_ in house.written] == ["a"]


async def test_a_node_that_has_changed_meanwhile_is_tried_again(house: House) -> None:
    """A conflict is what becomes of two replicas that choose the same; it is no error."""
    house.errors = [ApiError(409, "Conflict", "the object has been modified", 409)]
    house.agent.liked = {1}
    house.reject()
    async with house.running():
        await asyncio.sleep(4 * SECONDS)
        assert house.count("conflict") == 1
        assert house.written == []
        house.see("a", version="a2")
        house.now += 2 * SECONDS
    assert [(node, version) for node, _, version in house.written] == [("a", "a2")]
    assert [it["event"] for it in house.logged()] == ["nudged"]


async def test_a_failure_is_told_and_tried_again(house: House) -> None:
    """The apiserver may be away, or refuse."""
    house.errors = [NoAnswerError("Unreachable", "no route")]
    house.agent.liked = {1}
    house.reject()
    async with house.running():
        await asyncio.sleep(4 * SECONDS)
        assert house.count("failed") == 1
        house.now += 2 * SECONDS
    assert house.count("written") == 1
    [line] = [it for it in house.logged() if it["event"] == "nudge failed"]
    assert (line["level"], line["node"]) == ("ERROR", "a")


async def test_an_agent_that_breaks_does_not_end_the_rounds(house: House) -> None:
    """Its pod is not looked at again; others are."""
    house.agent.is_broken = True
    house.reject("first")
    async with house.running():
        await asyncio.sleep(4 * SECONDS)
        house.agent.is_broken = False
        house.agent.liked = {1}
        house.reject("second")
    assert len(house.written) == 1
    assert [it["event"] for it in house.logged()] == ["agent failed", "nudged"]


async def test_many_pods_take_many_rounds(house: House) -> None:
    """The last of them gets its turn, and of more than a thousand the oldest are dropped."""
    for number in range(1100):
        house.reject(f"uid-{number}", nodes=("a",))
    assert len(house.nudger._rejected) == 1000
    house.reject("last", nodes=("b",))
    house.agent.liked = {2}
    async with house.running(25 * SECONDS):
        pass
    assert [node for node, *_ in house.written] == ["b"]
