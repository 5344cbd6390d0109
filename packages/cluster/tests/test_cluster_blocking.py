"""How long a list of 5000 large nodes holds up the event loop: printed, for times vary."""

import asyncio
import sys
import time
from collections.abc import Sequence

import msgspec
import pytest
from cluster_controlplane import make_node
from cluster_told import Told

from kube_sched_ext.demand import Unparsable
from kube_sched_ext.reading import NodeReader
from kube_sched_ext.stores import FloatColumns
from kube_sched_ext.table import NodeTable
from kube_sched_ext_cluster.api import Collection, Stream
from kube_sched_ext_cluster.errors import ApiError
from kube_sched_ext_cluster.reflector import Reflector, Timing
from kube_sched_ext_cluster.resources import NODES

pytestmark = pytest.mark.anyio

COUNT = 5000


class Lists:
    """Lists of the same nodes, each time in another version, and watches that never begin."""

    def __init__(self, page: int) -> None:
        """Write all pages beforehand."""
        nodes = [make_node(f"node-{number:04d}", 50) for number in range(COUNT)]
        self._pages: list[bytes] = []
        for version in ("1", "2"):
            for node in nodes:
                node["metadata"]["resourceVersion"] = version
            for start in range(0, COUNT, page):
                end = start + page
                meta = {"resourceVersion": version, "continue": "more" if end < COUNT else ""}
                content = {"metadata": meta, "items": nodes[start:end]}
                self._pages.append(msgspec.json.encode(content))
        self._asked = 0

    def list_page(self, collection: Collection, *, limit: int, next_token: str = "") -> bytes:
        """Return the next page."""
        self._asked += 1
        return self._pages[(self._asked - 1) % len(self._pages)]

    def watch(self, collection: Collection, **_: object) -> Stream:
        """Refuse: too old."""
        raise ApiError(410, "Expired", "too old", 410)


class NoReports:
    """Tells nobody."""

    def unparsable(self, agent: str, node: str, value: Unparsable) -> None:
        """Nothing is expected."""

    def unreadable(self, agent: str, node: str, error: Exception) -> None:
        """Nothing is expected."""


def read(node: NodeReader) -> Sequence[float]:
    """Read what the most expensive agents do."""
    return node.allocatable("cpu"), node.allocatable("memory"), float(len(node.images))


async def test_lists_of_many_nodes_let_the_loop_breathe(
    told: Told, capsys: pytest.CaptureFixture[str]
) -> None:
    """Prints the longest gap between two turns of the loop; 50 ms is the aim."""
    table = NodeTable({"test": FloatColumns(("cpu", "memory", "images"), read)}, NoReports())
    source = Lists(Timing().page)
    reflector = Reflector(NODES, source, table, told.reports, wait=lambda _: None)
    gaps: list[float] = []
    began = time.perf_counter()
    reflector.start()
    while reflector.state.lists < 4:
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        gaps.append(time.perf_counter() - before)
    seconds = (time.perf_counter() - began) / 4
    await reflector.stop(10)
    assert len(table) == COUNT
    gaps.sort()
    with capsys.disabled():
        sys.stdout.write(
            f"\n{COUNT} nodes with 50 images, listed in {seconds:.2f} s; the loop was held up "
            f"for {gaps[-1] * 1000:.1f} ms at most, {gaps[len(gaps) // 2] * 1000:.1f} ms at "
            f"the median\n"
        )
