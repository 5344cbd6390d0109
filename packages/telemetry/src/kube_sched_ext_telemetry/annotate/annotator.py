"""Rounds: what is known of each node is compared with what is on it, and written if it differs."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from random import sample
from time import monotonic

from kube_sched_ext_cluster.api import Api
from kube_sched_ext_cluster.objects import BoundPod
from kube_sched_ext_cluster.reflector import Reflector
from kube_sched_ext_cluster.reports import WatchReports
from kube_sched_ext_cluster.resources import BOUND_PODS
from kube_sched_ext_telemetry.annotate.allocation import Allocation
from kube_sched_ext_telemetry.annotate.annotations import ALLOCATION, Annotations
from kube_sched_ext_telemetry.annotate.nodes import AnnotatedNode, nodes_with
from kube_sched_ext_telemetry.annotate.plan import Change, Part, plan
from kube_sched_ext_telemetry.annotate.reports import Reports
from kube_sched_ext_telemetry.annotate.settings import AnnotateSettings
from kube_sched_ext_telemetry.annotate.usage import Usage
from kube_sched_ext_telemetry.annotate.writer import Writer


class _Nodes:
    """The nodes as they are; a view for a reflector."""

    def __init__(self) -> None:
        self.known: dict[str, AnnotatedNode] = {}

    def put(self, node: AnnotatedNode, /) -> None:
        self.known[node.name] = node

    def remove(self, name: str, /) -> None:
        self.known.pop(name, None)


class Annotator:
    """Follows nodes, pods and Prometheus, and keeps the annotations true."""

    def __init__(
        self,
        settings: AnnotateSettings,
        api: Api,
        usage: Usage | None,
        reports: Reports,
        watches: WatchReports,
    ) -> None:
        """Write through `api`; without `usage` no usage annotations.

        Args:
            settings: what to write.
            api: the apiserver.
            usage: the usage of nodes.
            reports: who is told of rounds.
            watches: who is told of watches.
        """
        self._settings = settings
        self._api = api
        self._usage = usage
        self._reports = reports
        self._writer = Writer(api, settings)
        self._nodes = _Nodes()
        self._allocation = Allocation(settings.gpu_resource)
        gpu = settings.gpu_resource
        self.nodes = Reflector(nodes_with(gpu), api, self._nodes, watches)
        self.pods: Reflector[BoundPod] | None = None
        if settings.has_allocation:
            self.pods = Reflector(BOUND_PODS, api, self._allocation, watches)

    @property
    def watches(self) -> Mapping[str, Reflector[AnnotatedNode] | Reflector[BoundPod]]:
        """What is watched, by the name of the resource."""
        return {"nodes": self.nodes} | ({"pods": self.pods} if self.pods is not None else {})

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Follow the cluster's nodes and pods meanwhile."""
        async with AsyncExitStack() as stack:
            stack.callback(self._api.close)
            stack.callback(self._writer.close)
            await stack.enter_async_context(self.nodes)
            if self.pods is not None:
                await stack.enter_async_context(self.pods)
            yield

    async def run(self) -> None:
        """Do a round every ANNOTATE_FREQ seconds, until cancelled."""
        async with self.following(), asyncio.TaskGroup() as group:
            if self._usage is not None:
                group.create_task(self._usage.run())
            await self.nodes.synced()
            with suppress(TimeoutError):
                # A first round with less would keep what it misses waiting for the second.
                async with asyncio.timeout(self._settings.freq_seconds):
                    if self.pods is not None:
                        await self.pods.synced()
                    if self._usage is not None:
                        await self._usage.asked.wait()
            while True:
                began_at = monotonic()
                await self.round()
                passed = monotonic() - began_at
                await asyncio.sleep(max(self._settings.freq_seconds - passed, 0.0))

    async def read(self) -> None:
        """Wait for all that a round needs to know, for ANNOTATE_FREQ seconds at most.

        Raises:
            TimeoutError: the cluster could not be read.
        """
        async with asyncio.timeout(self._settings.freq_seconds):
            await self.nodes.synced()
            if self.pods is not None:
                await self.pods.synced()
        if self._usage is not None:
            await self._usage.refresh()

    async def round(self) -> None:
        """Write whatever differs."""
        began_at = monotonic()
        changes, fresh = self.changes()
        # Another order each time: nodes that cannot be written to must not keep others waiting.
        written = await self._writer.write(sample(changes, len(changes)))
        self._reports.ended(len(self._nodes.known), fresh, monotonic() - began_at, written)

    def changes(self) -> tuple[list[Change], int]:
        """Return what is to be written, by name, and how many nodes have all usage statistics."""
        nodes = self._nodes.known
        changes, fresh = [], 0
        for name in sorted(nodes):
            usage = self._usage.parts(nodes[name]) if self._usage else []
            fresh += bool(usage) and all(part.values for part in usage)
            change = plan(nodes[name], [*usage, *self._allocation_parts(nodes[name])])
            if change is not None:
                changes.append(change)
        return changes, fresh

    def _allocation_parts(self, node: AnnotatedNode) -> list[Part]:
        if self.pods is None:
            return []
        state = self.pods.state
        values: Annotations | None = None
        if state.down_seconds > self._settings.max_age_seconds:
            values = {} if self._settings.stale == "remove" else None
        elif state.synced:
            values = self._allocation.of(node)
        return [Part(ALLOCATION, values)]
