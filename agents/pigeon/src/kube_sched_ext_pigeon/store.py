"""What the pods on each node hold, added up."""

from collections.abc import Callable, Sequence

import numpy as np

from kube_sched_ext import BoundPod, FloatArray, FloatColumns, NodeReader
from kube_sched_ext.demand import Demand
from kube_sched_ext.stores import grown
from kube_sched_ext_pigeon.resources import Resource


class PodColumns(FloatColumns):
    """The columns of nodes, and beside them what the pods on each node hold.

    Pods that are done hold nothing: whoever follows the cluster does not put them, or removes them
    once they are.
    """

    def __init__(
        self,
        names: Sequence[str],
        read: Callable[[NodeReader], Sequence[float]],
        resources: Sequence[Resource],
    ) -> None:
        """Keep the columns `names` as `read` returns them, and sums of `resources`."""
        super().__init__(names, read)
        self.held: FloatArray = np.zeros((1, len(resources)))
        """By row and resource, in whole units."""
        self._resources = resources
        self._pods: dict[int, dict[str, Demand]] = {}
        # Python's integers, as floats would drift: what one pod adds, its end must take away.
        self._sums: dict[int, list[int]] = {}

    def put(self, row: int, node: NodeReader) -> None:
        """Read `node` into `row`; its pods stay."""
        super().put(row, node)
        self.held = grown(self.held, row, 0.0)

    def clear(self, row: int) -> None:
        """Forget the node in `row`, and its pods."""
        super().clear(row)
        self.held = grown(self.held, row, 0.0)
        self.held[row] = 0.0
        self._pods.pop(row, None)
        self._sums.pop(row, None)

    def put_pod(self, row: int, pod: BoundPod) -> None:
        """Add what `pod` holds, in place of what it held."""
        self.remove_pod(row, pod)
        self._pods.setdefault(row, {})[pod.uid] = pod.demand
        self._add(row, pod.demand, 1)

    def remove_pod(self, row: int, pod: BoundPod) -> None:
        """Take away what `pod` held."""
        demand = self._pods.get(row, {}).pop(pod.uid, None)
        if demand is not None:
            self._add(row, demand, -1)

    def _add(self, row: int, demand: Demand, sign: int) -> None:
        sums = self._sums.setdefault(row, [0] * len(self._resources))
        for index, resource in enumerate(self._resources):
            sums[index] += sign * resource.held(demand)
            self.held[row, index] = sums[index] // resource.unit
