"""The pigeon agent."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from kube_sched_ext import (
    MISSING,
    Agent,
    FloatArray,
    FloatColumns,
    NodeReader,
    Nodes,
    NodeStore,
    Pod,
    Scores,
    Verdict,
    predicate,
    priority,
)
from kube_sched_ext.health import Condition
from kube_sched_ext_pigeon import model
from kube_sched_ext_pigeon.history import MAX_COUNT, DemandHistory
from kube_sched_ext_pigeon.history_file import HistoryFile
from kube_sched_ext_pigeon.resources import NAMES, resources
from kube_sched_ext_pigeon.settings import PigeonSettings
from kube_sched_ext_pigeon.store import PodColumns


class Pigeon(Agent[PigeonSettings]):
    """Places each pod by what it makes of the whole cluster."""

    name = "pigeon"
    settings_type = PigeonSettings
    columns = (*(f"capacity-{name}" for name in NAMES), *(f"usage-{name}" for name in NAMES))

    def __init__(self, settings: PigeonSettings | None = None) -> None:
        """Start with the demand history of the file, if there is one."""
        super().__init__(settings)
        count, path = self.settings.resource_count, self.settings.history_file
        self._resources = resources(self.settings.gpu_resource)[:count]
        # The other objectives do not look at what pods asked for.
        self._has_history = self.settings.objective == "A_BINPACK"
        self._file = HistoryFile(Path(path), count) if path and self._has_history else None
        self._history = self._file.history if self._file else DemandHistory(count)

    def row(self, node: NodeReader) -> list[float]:
        """Read capacities and annotated usage of the resources that count, in whole units."""
        capacity = [resource.capacity(node) for resource in self._resources]
        usage = [MISSING] * len(capacity)
        if self.settings.usage != "pods":
            usage = [
                resource.usage(node, available)
                for resource, available in zip(self._resources, capacity, strict=True)
            ]
        rest = [MISSING] * (len(NAMES) - len(capacity))
        return [*capacity, *rest, *usage, *rest]

    def new_store(self) -> NodeStore:
        """Keep what the pods on nodes hold, too, unless nobody looks at it."""
        if self.settings.usage == "annotations":
            return super().new_store()
        return PodColumns(self.columns, self.row, self._resources)

    def conditions(self) -> Mapping[str, Callable[[], Condition]]:
        """Tell how many pods the history has counted, and whether its file is in order."""
        return {"history": self._history_condition} if self._has_history else {}

    @predicate("pigeon-fits", preemption_can_help=True)
    def fits(self, pod: Pod, nodes: Nodes) -> Verdict:
        """Reject nodes with less free than the pod asks for, of any resource that counts."""
        capacity, usage = self._capacity_and_usage(nodes)
        free = capacity - usage
        lacking = ~model.fits(capacity, usage, self._demand(pod)) & ~np.isnan(free)
        return Verdict(
            {it.reason: row for it, row in zip(self._resources, lacking, strict=True)},
            {f"free_{it.name}": row for it, row in zip(self._resources, free, strict=True)},
        )

    @priority("pigeon-holing", depends_on="calls")
    def pigeon_holing(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score what POLICY_OBJECTIVE makes of the cluster with the pod on each node."""
        demand = self._demand(pod)
        self._count(pod, demand)
        v, fit = self._placements(nodes, demand)
        return Scores(model.scores(v, fit), {"fits": fit, "v": v})

    def _placements(self, nodes: Nodes, demand: FloatArray) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Return the objective with the pod on each of `nodes`, and whether it fits there."""
        cluster = nodes.cluster
        capacity, usage = self._capacity_and_usage(cluster)
        is_known = ~np.isnan(capacity + usage).any(axis=0)
        capacity, usage, rows = capacity[:, is_known], usage[:, is_known], cluster.rows[is_known]
        # By row, as the nodes asked about are some of the cluster, in any order.
        row_count = len(nodes.store(FloatColumns).values)
        v, fit = np.full(row_count, MISSING), np.zeros(row_count, np.bool_)
        if len(rows):
            v[rows] = self._objective(capacity, usage, demand)
            fit[rows] = np.logical_and.reduce(model.fits(capacity, usage, demand))
        return v[nodes.rows], fit[nodes.rows]

    def _objective(self, capacity: FloatArray, usage: FloatArray, demand: FloatArray) -> FloatArray:
        settings = self.settings
        if settings.objective == "LOAD_BALANCE":
            return model.load_balance(capacity, usage, demand, settings.prime)
        if settings.objective == "CONSOLIDATE":
            return model.consolidate(capacity, usage, demand, settings.prime)
        moments = self._history.moments
        return model.bin_pack(capacity, usage, demand, moments.mean, moments.covariance)

    def _capacity_and_usage(self, nodes: Nodes) -> tuple[FloatArray, FloatArray]:
        """Return what nodes have and what is used of it, each of shape (resources, n)."""
        store, count = nodes.store(FloatColumns), len(self._resources)
        capacity = store.values[nodes.rows, :count].T
        if nodes.has_pods and isinstance(store, PodColumns):
            return capacity, store.held[nodes.rows].T
        return capacity, store.values[nodes.rows, len(NAMES) : len(NAMES) + count].T

    def _demand(self, pod: Pod) -> FloatArray:
        wanted = [resource.wanted(pod.demand) for resource in self._resources]
        return np.array(wanted, np.float64)

    def _count(self, pod: Pod, demand: FloatArray) -> None:
        if self._has_history and self._history.add(pod.metadata.uid, demand) and self._file:
            self._file.changed()

    def _history_condition(self) -> Condition:
        count = self._history.moments.count
        pods = f"pods counted: {count}" + " or more" * (count == MAX_COUNT)
        problem = self._file.problem if self._file else ""
        return Condition(not problem, f"{pods}; {problem}" if problem else pods, required=False)
