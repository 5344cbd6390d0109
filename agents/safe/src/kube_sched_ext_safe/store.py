"""What safe keeps of nodes: how loaded they are, and what their statistics do not show yet."""

import math
from collections.abc import Callable, Sequence
from time import time
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from kube_sched_ext import BoundPod, FloatArray, FloatColumns, NodeReader, NodeStore, Rows
from kube_sched_ext_safe import model

RESOURCES = ("cpu", "memory")
_COUNT = len(RESOURCES)

Statistics = Callable[[Rows], tuple[FloatArray, FloatArray, FloatArray, FloatArray]]
"""Returns capacities, means, deviations and forecasts of rows; each of shape (resources, n)."""


class Loads:
    """What follows from the statistics of nodes whatever a pod asks for, by row."""

    def __init__(self, forecast_weight: float, threshold: float) -> None:
        """Start with row 0, of which nothing is known; both are shares."""
        self._forecast_weight = forecast_weight
        self._threshold = threshold
        # Riskless demand, the demand that no statistics show, capacity, use and spread; each of all
        # resources. Nodes lie side by side, as arithmetic on many is fastest.
        self._columns: FloatArray = np.zeros((5 * _COUNT, 1))
        self._stale = {0}

    @property
    def has_forecast(self) -> bool:
        """Whether forecasts count at all."""
        return self._forecast_weight > 0.0

    def changed(self, row: int) -> None:
        """Note that the statistics of the node in `row` have changed."""
        self._stale.add(row)

    def all_changed(self, row_count: int) -> None:
        """Note that the statistics in all rows have changed."""
        self._stale.update(range(row_count))

    def of(self, rows: Rows) -> FloatArray:
        """Return unmeasured demand, capacity, use and spread, shape (4, resources, n)."""
        return self._columns[_COUNT:].take(rows, axis=1).reshape(4, _COUNT, len(rows))

    def riskless_demand(self, rows: Rows) -> FloatArray:
        """Return demands of a pod up to which it is no risk at all, shape (resources, n)."""
        limit, unmeasured = self._columns[: 2 * _COUNT].take(rows, axis=1).reshape(2, _COUNT, -1)
        return limit - unmeasured

    def set_unmeasured(self, row: int, demand: Sequence[float]) -> None:
        """Have `demand`, by resource, count on top of what was measured."""
        self._grow(row)
        self._columns[_COUNT : 2 * _COUNT, row] = demand

    def refresh(self, statistics: Statistics) -> None:
        """Work out from `statistics` all that has changed, at once: nodes come by the thousand."""
        if not self._stale:
            return
        rows = np.fromiter(self._stale, np.intp, len(self._stale))
        self._stale.clear()
        self._grow(int(rows.max()))
        load = model.load(*statistics(rows), self._forecast_weight)
        self._columns[:_COUNT, rows] = model.riskless_demand(*load, self._threshold)
        self._columns[2 * _COUNT :, rows] = np.concatenate(load)

    def _grow(self, row: int) -> None:
        length = self._columns.shape[1]
        if row >= length:
            missing = max(row + 1, 2 * length) - length
            self._columns = np.pad(self._columns, ((0, 0), (0, missing)))


class NewPods:
    """The pods bound to nodes after those were sampled, by row; their demand goes into loads."""

    def __init__(self, loads: Loads) -> None:
        """Start without pods and samples."""
        self._loads = loads
        self._sampled_at: dict[int, float] = {}
        self._pods: dict[int, dict[str, BoundPod]] = {}

    def sampled(self, row: int, at: float) -> None:
        """Note when the node in `row` was sampled; the pods it had by then are measured."""
        # Kubernetes tells whole seconds: within one it is not known what came first.
        self._sampled_at[row] = math.floor(at)
        if row in self._pods:
            self._drop_measured(row)

    def all_sampled(self, rows: Rows, at: FloatArray) -> None:
        """Note the same of many, NaN where there is no new sample."""
        is_new = ~np.isnan(at)
        times = np.floor(at[is_new]).tolist()
        self._sampled_at.update(zip(rows[is_new].tolist(), times, strict=True))
        for row in list(self._pods):
            self._drop_measured(row)

    def put(self, row: int, pod: BoundPod) -> None:
        """Count `pod`, in place of what it was, unless it is measured."""
        self.remove(row, pod)
        if not self._is_measured(row, pod):
            self._pods.setdefault(row, {})[pod.uid] = pod
            self._count(row)

    def remove(self, row: int, pod: BoundPod) -> None:
        """Count `pod` no longer."""
        if self._pods.get(row, {}).pop(pod.uid, None) is not None:
            self._count(row)

    def clear(self, row: int) -> None:
        """Forget the node in `row`, and its pods."""
        self._sampled_at.pop(row, None)
        if self._pods.pop(row, None):
            self._count(row)

    def _drop_measured(self, row: int) -> None:
        pods = self._pods[row]
        measured = [uid for uid, pod in pods.items() if self._is_measured(row, pod)]
        for uid in measured:
            del pods[uid]
        if measured:
            self._count(row)

    def _is_measured(self, row: int, pod: BoundPod) -> bool:
        return pod.bound_at < self._sampled_at.get(row, -math.inf)

    def _count(self, row: int) -> None:
        pods = self._pods.get(row, {})
        demand = [float(sum(pod.demand[it] for pod in pods.values())) for it in RESOURCES]
        self._loads.set_unmeasured(row, demand)
        if not pods:
            self._pods.pop(row, None)


class LoadStore(NodeStore, Protocol):
    """The store of safe, wherever statistics come from."""

    def loads(self) -> Loads:
        """Return what follows from statistics as they are."""

    @property
    def generation(self) -> int:
        """Differs where statistics do that did not come with their node."""

    def lacks(self, rows: Rows) -> NDArray[np.bool_] | None:
        """Tell which statistics are missing or too old, shape (resources, n).

        None where loads tell it: what is missing there has NaN.
        """


class AnnotationStore(FloatColumns):
    """Statistics that come with their node."""

    def __init__(
        self,
        names: Sequence[str],
        read: Callable[[NodeReader], Sequence[float]],
        loads: Loads,
    ) -> None:
        """Keep the columns `names` as `read` returns them, and in `loads` what follows.

        Those are capacities, means, deviations and forecasts, each of all RESOURCES.
        """
        super().__init__(names, read)
        self.generation = 0
        self._loads = loads

    def put(self, row: int, node: NodeReader) -> None:
        """Read `node` into `row`."""
        super().put(row, node)
        self._loads.changed(row)

    def clear(self, row: int) -> None:
        """Forget the node in `row`."""
        super().clear(row)
        self._loads.changed(row)

    def loads(self) -> Loads:
        """Return what follows from statistics as they are."""
        self._loads.refresh(self._statistics)
        return self._loads

    def lacks(self, rows: Rows) -> None:
        """Leave it to loads: annotations do not age."""

    def _statistics(self, rows: Rows) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        capacity, mean, deviation, forecast = self.values[rows].T.reshape(4, _COUNT, len(rows))
        return capacity, mean, deviation, forecast


class AnnotationPodStore(AnnotationStore):
    """Counts new pods, too. Nodes do not tell when they were sampled: when that is seen counts."""

    def __init__(
        self,
        names: Sequence[str],
        read: Callable[[NodeReader], Sequence[float]],
        loads: Loads,
        clock: Callable[[], float] = time,
    ) -> None:
        """Keep what `AnnotationStore` keeps; `clock` tells seconds since the epoch."""
        super().__init__(names, read, loads)
        self._new_pods = NewPods(self._loads)
        self._clock = clock
        self._seen: dict[int, bytes] = {}

    def put(self, row: int, node: NodeReader) -> None:
        """Read `node` into `row`; where its statistics have changed, it was sampled just now."""
        super().put(row, node)
        # As bytes, so that a missing number equals itself.
        statistics = self.values[row, _COUNT:].tobytes()
        if statistics != self._seen.get(row):
            self._seen[row] = statistics
            self._new_pods.sampled(row, self._clock())

    def clear(self, row: int) -> None:
        """Forget the node in `row`, and its pods."""
        super().clear(row)
        self._seen.pop(row, None)
        self._new_pods.clear(row)

    def put_pod(self, row: int, pod: BoundPod) -> None:
        """Count `pod` if the statistics cannot show it yet."""
        self._new_pods.put(row, pod)

    def remove_pod(self, row: int, pod: BoundPod) -> None:
        """Count `pod` no longer."""
        self._new_pods.remove(row, pod)
