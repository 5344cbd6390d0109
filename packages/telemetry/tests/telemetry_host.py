"""A process with an agent that reads Prometheus, as far as the telemetry needs one."""

import asyncio
import io
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import numpy as np

from kube_sched_ext import Agent, Node, Nodes, NodeStore, NoSettings, Pod, Scores, priority
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.extension import Host
from kube_sched_ext.health import Health
from kube_sched_ext.instruments import Instruments
from kube_sched_ext.logs import new_log
from kube_sched_ext.metrics import Metrics
from kube_sched_ext.problems import Problems
from kube_sched_ext.verbs import Verbs, new_table
from kube_sched_ext.wire import ExtenderArgs
from kube_sched_ext_telemetry import Feed, MeasuredColumns, Query, fill_in
from kube_sched_ext_telemetry.extension import Telemetry
from kube_sched_ext_telemetry.settings import TelemetrySettings
from kube_sched_ext_testkit.ask import read_pod
from kube_sched_ext_testkit.builders import JSON, make_node, make_pod

LOAD = Query("load", "node_load1", lowest=0.0, highest=1000.0)


class Loaded(Agent[NoSettings]):
    """Scores a node by its load, 10 at most."""

    name = "loaded"

    def __init__(self, *queries: Query, **options: Any) -> None:
        """Read `queries`."""
        super().__init__()
        self.feed = Feed(queries or [LOAD], **options)

    def new_store(self) -> NodeStore:
        """Keep what is measured."""
        return MeasuredColumns(self.feed)

    @priority("loaded")
    def loaded(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score the load as it is."""
        load = nodes.store(MeasuredColumns).fresh(nodes.rows)[0]
        scores = np.nan_to_num(load).astype(np.int64)
        return Scores(fill_in(scores, np.isnan(load), "neutral"), {"load": load})


def node_at(name: str, *addresses: str, kind: str = "InternalIP") -> JSON:
    """Return a node with addresses."""
    node = make_node(name)
    listed = [{"type": kind, "address": it} for it in addresses]
    return node | {"status": {"addresses": listed}}


class Process:
    """A host, and what it logs."""

    def __init__(self, *agents: Agent[Any], nodes: Sequence[JSON] = ()) -> None:
        self._stream = io.StringIO()
        log, self._writer = new_log("DEBUG", "json", self._stream)
        metrics = Metrics()
        instruments = Instruments(log, self._writer, metrics, Problems(log, metrics))
        core = CoreSettings()
        self.table = new_table(agents, instruments.problems)
        self.verbs = Verbs(agents, self.table, core, instruments)
        self.host = Host(core, self.table, self.verbs, instruments, Health())
        for node in nodes:
            self.put(node)

    def put(self, node: JSON) -> None:
        """Add a node, or change it."""
        self.table.put(msgspec.json.decode(msgspec.json.encode(node), type=Node))

    def nodes(self, agent: Agent[Any], *names: str) -> Nodes:
        """Return nodes as `agent` sees them."""
        return self.table.nodes(agent.name, self.table.rows(names))

    def fresh(self, agent: Agent[Any], *names: str) -> list[list[float]]:
        """Return what is measured of nodes and fresh, by query."""
        nodes = self.nodes(agent, *names)
        values: list[list[float]] = nodes.store(MeasuredColumns).fresh(nodes.rows).tolist()
        return values

    def metric(self, name: str, **labels: str) -> float | None:
        """Return a metric of the telemetry."""
        registry = self.host.instruments.metrics.registry
        return registry.get_sample_value(f"kube_sched_ext_telemetry_{name}", labels)

    def ready(self) -> str:
        """Return what /readyz?verbose shows of the telemetry."""
        lines = self.host.health.ready()[1].splitlines()
        return "\n".join(line for line in lines if "telemetry/" in line)

    def close(self) -> list[dict[str, Any]]:
        """Return all that was logged."""
        self._writer.close()
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]


def telemetry_of(process: Process, url: str = "", **settings: Any) -> Telemetry:
    """Return the extension, refreshing many times in a second unless told otherwise."""
    options: dict[str, Any] = {"url": url, "refresh_seconds": 0.02, "timeout_seconds": 10.0}
    return Telemetry(TelemetrySettings(**{**options, **settings}), process.host)


@asynccontextmanager
async def running(telemetry: Telemetry) -> AsyncIterator[None]:
    """Run the extension in the block."""
    task = asyncio.create_task(telemetry.run())
    try:
        yield
        assert not task.done(), task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(is_so: Callable[[], object]) -> None:
    """Wait until it is so, for 20 s at most."""
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110  # nothing tells of what is asked
            await asyncio.sleep(0.005)


def refreshes(process: Process, outcome: str) -> float:
    """Return how many refreshes have ended in this way."""
    return process.metric("refreshes_total", agent="loaded", outcome=outcome) or 0.0


async def some_more(process: Process, outcome: str, count: int = 4) -> None:
    """Wait for a few more refreshes that end in this way."""
    before = refreshes(process, outcome)
    await until(lambda: refreshes(process, outcome) >= before + count)


def scores(process: Process, *names: str) -> list[int]:
    """Ask the one agent of `process` for the scores of nodes."""
    args = ExtenderArgs(pod=read_pod(make_pod()), node_names=list(names))
    [agent] = process.verbs.agents
    return [it.score for it in process.verbs.prioritize(agent.priorities, args)]


def told(log: list[dict[str, Any]], event: str = "telemetry problem") -> Counter[str]:
    """Return how often each problem was told."""
    return Counter(line["problem"] for line in log if line["event"] == event)
