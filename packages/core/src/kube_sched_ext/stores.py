"""What agents keep of nodes, by row."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from kube_sched_ext.demand import Demand
from kube_sched_ext.reading import MISSING, NodeReader

FloatArray = NDArray[np.float64]
Rows = NDArray[np.intp]


class NodeStore(Protocol):
    """What an agent keeps of nodes. Row 0 is never put."""

    def put(self, row: int, node: NodeReader) -> None:
        """Read `node` into `row`, which may lie beyond all rows so far."""

    def clear(self, row: int) -> None:
        """Forget the node in `row`."""


class BoundPod(Protocol):
    """A pod that has a node."""

    @property
    def uid(self) -> str:
        """Its UID."""

    @property
    def node(self) -> str:
        """The name of its node."""

    @property
    def demand(self) -> Demand:
        """What it holds there."""

    @property
    def images(self) -> Sequence[str]:
        """The references of its images, as written."""

    @property
    def bound_at(self) -> float:
        """When it got its node, in seconds since the epoch."""


@runtime_checkable
class PodStore(NodeStore, Protocol):
    """A store that keeps something of the pods on its nodes, too; `clear` forgets them."""

    def put_pod(self, row: int, pod: BoundPod) -> None:
        """Take `pod` over into `row`, whose node is there; it may come again, changed."""

    def remove_pod(self, row: int, pod: BoundPod) -> None:
        """Forget `pod`, as it was put."""


@runtime_checkable
class FedStore(NodeStore, Protocol):
    """A store that something beside nodes and pods changes."""

    @property
    def generation(self) -> int:
        """Differs where what came from there does."""


class FloatColumns:
    """The store that most agents use: one float64 column per number."""

    def __init__(self, names: Sequence[str], read: Callable[[NodeReader], Sequence[float]]) -> None:
        """Keep the columns `names`, in the order in which `read` returns them."""
        self.names = tuple(names)
        self.values: FloatArray = np.full((1, len(self.names)), MISSING)
        self._read = read

    def put(self, row: int, node: NodeReader) -> None:
        """Read `node` into `row`."""
        self.values = grown(self.values, row, MISSING)
        self.values[row] = self._read(node)

    def clear(self, row: int) -> None:
        """Set all of `row` to MISSING."""
        self.values = grown(self.values, row, MISSING)
        self.values[row] = MISSING


def grown(array: FloatArray, row: int, fill: float) -> FloatArray:
    """Return `array`, or a copy that has `row`: at least twice as long, filled up with `fill`."""
    if row < len(array):
        return array
    larger = np.full((max(row + 1, 2 * len(array)), *array.shape[1:]), fill, array.dtype)
    larger[: len(array)] = array
    return larger
