"""Pods on nodes, and a clock, for tests of what was bound between two samples."""

from collections.abc import Sequence
from dataclasses import dataclass

from kube_sched_ext.demand import Demand


@dataclass(frozen=True)
class Bound:
    """A pod on a node."""

    uid: str
    node: str
    bound_at: float
    demand: Demand
    images: Sequence[str] = ()


def bound(
    uid: str = "pod", *, at: float, cpu: int = 100, memory: int = 0, node: str = "node"
) -> Bound:
    """Return a pod that got its node at a time."""
    return Bound(uid, node, at, Demand({"cpu": cpu, "memory": memory}))


class Clock:
    """A clock that stands until it is set."""

    def __init__(self, now: float) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now
