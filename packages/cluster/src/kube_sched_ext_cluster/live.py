"""What is done with a live cluster: nodes and pods into the table, bind, nudge."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from functools import partial

from kube_sched_ext import wire
from kube_sched_ext.calls import Answer, Call
from kube_sched_ext.extension import Host
from kube_sched_ext.objects import Node
from kube_sched_ext.table import NodeTable
from kube_sched_ext_cluster.access import find_access
from kube_sched_ext_cluster.api import Api
from kube_sched_ext_cluster.binding import Binder
from kube_sched_ext_cluster.nudge import Nudger
from kube_sched_ext_cluster.objects import BoundPod
from kube_sched_ext_cluster.reflector import Reflector
from kube_sched_ext_cluster.reports import WatchReports
from kube_sched_ext_cluster.resources import BOUND_PODS, NODES
from kube_sched_ext_cluster.settings import ClusterSettings


class LiveCluster:
    """A cluster that can be reached."""

    def __init__(self, settings: ClusterSettings, host: Host) -> None:
        """Prepare what `settings` ask for; `run` begins.

        Raises:
            ConfigurationError: the cluster cannot be reached as told.
        """
        self._settings = settings
        self._host = host
        self._api = Api(find_access(settings.kubeconfig, settings.context))
        self._binder = Binder(self._api) if settings.is_binding else None
        self._nudger: Nudger | None = None
        self._reflectors: list[Reflector[Node] | Reflector[BoundPod]] = []
        if settings.node_cache:
            self._prepare_watches()

    def _prepare_watches(self) -> None:
        api, host = self._api, self._host
        instruments, table, verbs = host.instruments, host.table, host.verbs
        registry = instruments.metrics.registry
        if self._settings.is_nudging:
            seconds = self._settings.nudge_seconds
            self._nudger = Nudger(verbs, api, instruments.log, registry, seconds=seconds)
            verbs.on_rejected = self._nudger.rejected
        max_down_seconds = self._settings.watch_down_seconds
        reports = WatchReports(instruments.log, registry, max_down_seconds)
        nodes = Reflector(NODES, api, _Nodes(table, self._nudger), reports)
        self._reflectors.append(nodes)
        host.health.add("watch/nodes", partial(nodes.state.condition, max_down_seconds))
        if table.keeps_pods or self._nudger is not None:
            table.expect_pods()
            pods = Reflector(BOUND_PODS, api, _Pods(table, self._nudger), reports)
            self._reflectors.append(pods)
            host.health.add("watch/pods", partial(pods.state.condition, max_down_seconds))

    def calls(self) -> Sequence[Call]:
        """Return the bind verb, where it is asked for."""
        if self._binder is None:
            return ()
        path = f"{self._host.settings.path_prefix}/{self._settings.bind_word}"
        return [Call("bind", path, "", "", partial(_bind, self._binder))]

    async def run(self) -> None:
        """Keep the table up to date, and nudge."""
        async with AsyncExitStack() as stack:
            stack.callback(self._api.close)
            if self._binder is not None:
                stack.callback(self._binder.close)
            for reflector in self._reflectors:
                await stack.enter_async_context(reflector)
            if self._nudger is not None:
                await self._nudger.run()
            await asyncio.Event().wait()


class _Nodes:
    """Nodes into the table, and to the nudger."""

    def __init__(self, table: NodeTable, nudger: Nudger | None) -> None:
        self._table = table
        self._nudger = nudger

    def put(self, node: Node, /) -> None:
        self._table.put(node)
        if self._nudger is not None:
            self._nudger.seen(node)

    def remove(self, name: str, /) -> None:
        self._table.remove(name)
        if self._nudger is not None:
            self._nudger.gone(name)


class _Pods:
    """Bound pods into the table, and to the nudger, who need not care for them any more."""

    def __init__(self, table: NodeTable, nudger: Nudger | None) -> None:
        self._table = table
        self._nudger = nudger

    def put(self, pod: BoundPod, /) -> None:
        self._table.put_pod(pod)
        if self._nudger is not None:
            self._nudger.forget(pod.uid)

    def remove(self, uid: str, /) -> None:
        self._table.remove_pod(uid)


async def _bind(binder: Binder, body: bytes | bytearray) -> Answer:
    args = wire.decode_binding_args(body)
    result = await binder.bind(args)
    pod = f"{args.pod_namespace}/{args.pod_name}"
    return Answer(result, pod, 1, 0 if result.error else 1)
