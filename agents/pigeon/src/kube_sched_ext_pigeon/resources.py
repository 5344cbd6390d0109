"""The five resources: where their numbers are found, and the units in which they count."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Final

from kube_sched_ext import NodeReader, UnparsableError, int64
from kube_sched_ext.demand import Demand

NAMES: Final = ("cpu", "memory", "pods", "gpu", "storage")

_MI: Final = 2**20
_GI: Final = 2**30


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource. Fractions of its unit are cut off, those of a sum after adding up."""

    name: str
    key: str
    """What Kubernetes calls it."""
    annotation: str
    reason: str
    """Why a pod does not fit."""
    unit: int = 1
    """In what Kubernetes counts it in: millicores, bytes, pieces."""
    minimum: int = 0
    """What a pod counts as that is to be placed and asks for less than one unit."""
    is_optional: bool = False
    """Whether nodes may have none of it, and then do not mention it."""

    def held(self, demand: Demand) -> int:
        """Return what a pod on a node holds, in what Kubernetes counts it in."""
        return 1 if self.key == "pods" else demand[self.key]

    def wanted(self, demand: Demand) -> int:
        """Return what a pod to be placed needs, in whole units."""
        return self.held(demand) // self.unit or self.minimum

    def capacity(self, node: NodeReader) -> float:
        """Return what there is for pods on a node, in whole units, or MISSING."""
        amount = node.allocatable(self.key)
        if isnan(amount) and self.is_optional and not _is_unparsable(node, self.key):
            return 0.0
        return amount // self.unit

    def usage(self, node: NodeReader, capacity: float) -> float:
        """Return what is used of `capacity`, as annotated, in whole units, or MISSING."""
        amount = node.annotation(self.annotation, _count)
        may_be_absent = self.is_optional and capacity == 0
        if isnan(amount) and may_be_absent and not _is_unparsable(node, self.annotation):
            return 0.0
        return amount // self.unit


def resources(gpu: str) -> Sequence[Resource]:
    """Return all five, in the order in which NUM_RESOURCES counts them; `gpu` is a key."""
    return (
        Resource("cpu", "cpu", "requested-cpu", "not enough cpu", minimum=10),
        Resource("memory", "memory", "requested-memory", "not enough memory", _MI, minimum=16),
        Resource("pods", "pods", "requested-pods", "no room for another pod"),
        Resource("gpu", gpu, "requested-gpu", "not enough gpu", is_optional=True),
        Resource(
            "storage",
            "ephemeral-storage",
            "requested-ephemeral-storage",
            "not enough ephemeral storage",
            _GI,
            is_optional=True,
        ),
    )


def _is_unparsable(node: NodeReader, key: str) -> bool:
    return any(value.key == key for value in node.unparsable)


def _count(text: str) -> float:
    number = int64(text)
    if number is None or number < 0:
        raise UnparsableError(text, "a 64-bit decimal integer of 0 or more")
    return float(number)
