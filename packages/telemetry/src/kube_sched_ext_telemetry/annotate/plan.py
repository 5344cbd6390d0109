"""Which nodes are to be written to, and what is to be on them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kube_sched_ext_telemetry.annotate.annotations import Annotations, is_near
from kube_sched_ext_telemetry.annotate.nodes import AnnotatedNode


@dataclass(frozen=True, slots=True)
class Part:
    """The annotations of one kind that a node is to have."""

    names: Sequence[str]
    """All that there are of this kind."""
    values: Annotations | None
    """What the node is to have of them; None: whatever the writer has put there before."""
    tolerance: float = 0.0
    """By which share of itself what is there may be off."""


@dataclass(frozen=True, slots=True)
class Change:
    """One write."""

    node: AnnotatedNode
    annotations: Annotations
    """All that the node is to have from the writer; what else is there of it goes."""


def plan(node: AnnotatedNode, parts: Sequence[Part]) -> Change | None:
    """Return how `node` is to be changed, or None where it may stay as it is."""
    wanted: dict[str, str] = {}
    is_off = False
    for part in parts:
        if part.values is None:
            wanted |= _kept(node, part.names)
            continue
        wanted |= part.values
        is_off = is_off or any(
            name not in node.annotations
            or not is_near(node.annotations[name], value, part.tolerance)
            for name, value in part.values.items()
        )
    return Change(node, wanted) if is_off or node.owned - wanted.keys() else None


def _kept(node: AnnotatedNode, names: Sequence[str]) -> Mapping[str, str]:
    return {
        name: node.annotations[name]
        for name in names
        if name in node.owned and name in node.annotations
    }
