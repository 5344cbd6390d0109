"""Writes: how many, how fast, and what follows from each answer."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from time import monotonic, sleep
from typing import Any

import msgspec
import pytest
from annotate_cluster import FakeCluster, make_node

from kube_sched_ext_cluster.errors import ApiError, ClusterError, NoAnswerError
from kube_sched_ext_telemetry.annotate.nodes import nodes_with
from kube_sched_ext_telemetry.annotate.plan import Change
from kube_sched_ext_telemetry.annotate.settings import AnnotateSettings
from kube_sched_ext_telemetry.annotate.writer import Writer, Written

pytestmark = pytest.mark.anyio

DOWN = NoAnswerError("Unreachable", "no route")
FORBIDDEN = ApiError(403, "Forbidden", 'cannot patch resource "nodes"', 403)


def names(count: int) -> list[str]:
    return [f"n{number}" for number in range(count)]


def changes(cluster: FakeCluster) -> list[Change]:
    read = nodes_with("gpu").read
    return [
        Change(read(msgspec.Raw(msgspec.json.encode(node))), {"requested-cpu": "1"})
        for node in cluster.nodes.values()
    ]


@contextmanager
def writing(cluster: FakeCluster, **settings: Any) -> Iterator[Writer]:
    writer = Writer(cluster, AnnotateSettings(**{"writes_per_second": 1e6} | settings))
    yield writer
    writer.close()


async def write(cluster: FakeCluster, **settings: Any) -> Written:
    with writing(cluster, **settings) as writer:
        return await writer.write(changes(cluster))


def make_cluster(count: int) -> FakeCluster:
    return FakeCluster(*map(make_node, names(count)))


@pytest.fixture
def anyio_backend() -> str:
    """The plain loop."""
    return "asyncio"


async def test_every_node_is_written_once() -> None:
    """With the manager, its UID, and force as the settings say."""
    cluster = make_cluster(7)
    written = await write(cluster, batch=3)
    assert sorted(name for name, _ in cluster.writes) == names(7)
    assert (written.counts, written.left) == (Counter(written=7), 0)
    assert set(cluster.forced) == {True}
    cluster = make_cluster(1)
    await write(cluster, force=False)
    assert cluster.forced == [False]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (ApiError(404, "NotFound", 'nodes "n0" not found', 404), "gone"),
        (ApiError(409, "Conflict", "uid mismatch: no existing object was found", 409), "gone"),
        (ApiError(422, "Invalid", "metadata.uid: Invalid value: field is immutable", 422), "gone"),
        (ApiError(422, "Invalid", "metadata.annotations: Too long", 422), "failed"),
        (ApiError(409, "Conflict", "x", 409, causes=("FieldManagerConflict",)), "conflict"),
        (FORBIDDEN, "failed"),
        (ApiError(500, "InternalError", "etcd is ill", 500), "failed"),
        (DOWN, "failed"),
    ],
)
async def test_an_answer_about_one_node_leaves_the_others(
    error: ClusterError, outcome: str
) -> None:
    """Each is counted, and the first of a kind kept with its node."""
    cluster = make_cluster(4)
    cluster.failures["n0"] = error
    written = await write(cluster, batch=2)
    assert written.counts == Counter({"written": 3, outcome: 1})
    assert written.errors == {outcome: ("n0", error)}
    assert written.left == 0


@pytest.mark.parametrize("error", [DOWN, FORBIDDEN])
async def test_a_round_that_leads_nowhere_ends_with_its_batch(error: ClusterError) -> None:
    """An apiserver that is down is not asked 5000 times; the rest is left for the next round."""
    cluster = make_cluster(10)
    cluster.failures[""] = error
    written = await write(cluster, batch=4)
    assert len(cluster.writes) == 4
    assert (written.counts, written.left) == (Counter(failed=4), 6)


async def test_nodes_that_vanish_end_no_round() -> None:
    """A batch of them is no sign of anything."""
    cluster = make_cluster(6)
    cluster.failures[""] = ApiError(404, "NotFound", "gone", 404)
    written = await write(cluster, batch=2)
    assert (written.counts, written.left) == (Counter(gone=6), 0)


async def test_no_more_are_under_way_than_allowed() -> None:
    """And as many as that."""
    cluster, lock = make_cluster(20), Lock()
    running, most = 0, 0

    def slow(*_: object, **__: object) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        sleep(0.01)
        with lock:
            running -= 1

    cluster.apply_annotations = slow  # type: ignore[method-assign]
    await write(cluster, writers=3)
    assert most == 3


async def test_no_more_begin_in_a_second_than_allowed() -> None:
    """Over several batches."""
    began = monotonic()
    await write(make_cluster(11), writes_per_second=50.0, batch=4)
    assert 0.2 <= monotonic() - began < 2.0


async def test_an_apiserver_that_asks_to_wait_is_left_alone() -> None:
    """No write begins meanwhile, and what was refused is left for the next round."""
    cluster = make_cluster(3)
    refused = ApiError(429, "TooManyRequests", "later", 429, retry_after=7.0)
    cluster.failures["n0"] = refused
    now, waits = 0.0, []

    async def wait(seconds: float) -> None:
        nonlocal now
        waits.append(seconds)
        now += seconds

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("kube_sched_ext_telemetry.annotate.writer.asyncio.sleep", wait)
        writer = Writer(cluster, AnnotateSettings(batch=1, writes_per_second=1000.0), lambda: now)
        del cluster.nodes["n1"], cluster.nodes["n2"]
        await writer.write(changes(cluster))
        cluster.nodes |= make_cluster(2).nodes
        cluster.failures.clear()
        written = await writer.write(changes(cluster))
        writer.close()
    assert written.counts == Counter(written=2)
    assert sum(waits) == pytest.approx(7.0, abs=0.1)


async def test_the_loop_is_free_while_writes_are_under_way() -> None:
    """So health and watches go on."""
    cluster = make_cluster(1)
    cluster.apply_annotations = lambda *_, **__: sleep(0.3)  # type: ignore[method-assign]
    task = asyncio.create_task(write(cluster))
    ticks = 0
    while not task.done():
        await asyncio.sleep(0.01)
        ticks += 1
    assert ticks > 5
