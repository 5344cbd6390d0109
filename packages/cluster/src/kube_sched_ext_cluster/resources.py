"""What is watched, and how it is read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

import msgspec

from kube_sched_ext.objects import Node
from kube_sched_ext_cluster.events import ObjectMeta
from kube_sched_ext_cluster.objects import BoundPod, read_bound_pod

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Resource(Generic[T]):
    """A kind of objects to watch."""

    name: str
    """As RBAC calls it."""
    path: str
    read: Callable[[msgspec.Raw], T]
    """Reads one object; raises one of `wire.UNDECODABLE` for what it cannot read."""
    key: Callable[[ObjectMeta], str]
    """What tells the objects apart in a view."""
    field_selector: str = ""


NODES: Final[Resource[Node]] = Resource(
    name="nodes",
    path="/api/v1/nodes",
    read=msgspec.json.Decoder(Node).decode,
    key=lambda meta: meta.name,
)
"""All nodes, by name."""

BOUND_PODS: Final[Resource[BoundPod]] = Resource(
    name="pods",
    path="/api/v1/pods",
    read=read_bound_pod,
    key=lambda meta: meta.uid,
    field_selector="spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed",
)
"""The pods that hold resources of a node, by UID: a new pod may take the name of an old one."""
