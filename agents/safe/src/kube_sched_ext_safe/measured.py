"""Statistics straight from Prometheus, by row."""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from kube_sched_ext import MISSING, BoundPod, FloatArray, NodeReader, Rows
from kube_sched_ext.stores import grown
from kube_sched_ext_safe.store import RESOURCES, Loads, NewPods
from kube_sched_ext_telemetry import Feed, MeasuredColumns, Measurements

_COUNT = len(RESOURCES)


class MeasuredStore(MeasuredColumns):
    """Capacities that come with nodes, and statistics that a feed brings.

    The statistics of a resource are as old as the oldest of them, but for a forecast: where that
    is out of date beside the mean, the mean stands alone.
    """

    def __init__(
        self,
        feed: Feed,
        names: Sequence[str],
        read: Callable[[NodeReader], Sequence[float]],
        loads: Loads,
    ) -> None:
        """Keep the columns `names` as `read` returns them, and what `queries` asks for."""
        super().__init__(feed, names, read)
        self._loads = loads
        self._sampled_at: FloatArray = np.full((1, _COUNT), MISSING)

    def put(self, row: int, node: NodeReader) -> None:
        """Read `node` into `row`."""
        super().put(row, node)
        self._loads.changed(row)

    def clear(self, row: int) -> None:
        """Forget the node in `row`."""
        super().clear(row)
        self._loads.changed(row)

    def take(self, measurements: Measurements) -> None:
        """Use `measurements` from here on."""
        super().take(measurements)
        self._loads.all_changed(len(self.values))

    def loads(self) -> Loads:
        """Return what follows from statistics as they are."""
        self._loads.refresh(self._statistics)
        return self._loads

    def lacks(self, rows: Rows) -> NDArray[np.bool_]:
        """Tell which statistics are missing or too old, shape (resources, n)."""
        self._loads.refresh(self._statistics)
        at = self._sampled_at[rows]
        return np.isnan(self.feed.fresh(at, at)).T

    def quantiles(self, rows: Rows) -> FloatArray:
        """Return the quantiles of what is free, shape (quantiles, resources, n)."""
        values = _by_resource(self.measured, rows)[3 if self._loads.has_forecast else 2 :]
        # Each is an answer of its own: one may be a refresh behind the next.
        return np.maximum.accumulate(values, axis=0)

    def _statistics(self, rows: Rows) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        capacity = self.values[rows].T
        (mean, deviation), others = np.split(_by_resource(self.measured, rows), [2])
        times = _by_resource(self.sampled, rows)
        forecast = np.full_like(mean, MISSING)
        if self._loads.has_forecast:
            is_late = times[2] < times[0] - self.feed.max_age_seconds
            forecast = np.where(is_late, MISSING, others[0])
            times = np.delete(times, 2, axis=0)
        sampled_at = np.where(np.isnan(mean), MISSING, np.fmin.reduce(times, axis=0))
        self._sampled_at = grown(self._sampled_at, int(rows.max()), MISSING)
        self._sampled_at[rows] = sampled_at.T
        self._dated(rows, sampled_at)
        return capacity, mean, deviation, forecast

    def _dated(self, rows: Rows, sampled_at: FloatArray) -> None:
        """Learn how old the statistics of `rows` are, shape (resources, n)."""


class MeasuredPodStore(MeasuredStore):
    """Counts new pods, too: those bound after the older of a node's statistics."""

    def __init__(
        self,
        feed: Feed,
        names: Sequence[str],
        read: Callable[[NodeReader], Sequence[float]],
        loads: Loads,
    ) -> None:
        """Keep what `MeasuredStore` keeps, and no pods yet."""
        super().__init__(feed, names, read, loads)
        self._new_pods = NewPods(self._loads)

    def clear(self, row: int) -> None:
        """Forget the node in `row`, and its pods."""
        super().clear(row)
        self._new_pods.clear(row)

    def put_pod(self, row: int, pod: BoundPod) -> None:
        """Count `pod` if the statistics cannot show it yet."""
        self._new_pods.put(row, pod)

    def remove_pod(self, row: int, pod: BoundPod) -> None:
        """Count `pod` no longer."""
        self._new_pods.remove(row, pod)

    def _dated(self, rows: Rows, sampled_at: FloatArray) -> None:
        self._new_pods.all_sampled(rows, np.fmin.reduce(sampled_at, axis=0))


def _by_resource(columns: FloatArray, rows: Rows) -> FloatArray:
    """Return `rows` of columns by query, as (statistics, resources, n)."""
    return columns[rows].T.reshape(-1, _COUNT, len(rows))
