"""Pods that have a node, as slim as a view of the cluster needs them.

A bound pod may be larger than its spec says: while it is resized, its node still holds what was
allocated and what is in use. kube-scheduler counts the larger of all; so do we.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import lru_cache
from sys import intern
from typing import Final

import msgspec

from kube_sched_ext.demand import Demand, Quantities, Unparsable, demand_of
from kube_sched_ext.errors import UnparsableError
from kube_sched_ext.objects import Container, Resources, Slim, requests_of
from kube_sched_ext.quantity import Amount, Quantity, parse_amount

_RESIZE: Final = "PodResizePending"
_INFEASIBLE: Final = "Infeasible"


class BoundPod(msgspec.Struct, frozen=True, gc=False):
    """A pod on a node, and what it holds there."""

    uid: str
    namespace: str
    name: str
    node: str
    phase: str
    """Pending, Running, Succeeded, Failed or Unknown; empty where nobody has set one."""
    is_deleting: bool
    """Whether it has been asked to end; it holds its resources until it does."""
    demand: Demand
    images: tuple[str, ...]
    """The references of its containers, init containers and ephemeral containers, as written."""
    bound_at: float
    """When it got its node, in seconds since the epoch; when it was made, where nobody told."""

    def __str__(self) -> str:
        """Name the pod as kubectl does: namespace/name."""
        return f"{self.namespace}/{self.name}"


class _Meta(Slim, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: str | None = None


class _Container(Container, frozen=True):
    name: str = ""


class _Spec(Slim, frozen=True):
    node_name: str = ""
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    ephemeral_containers: list[_Container] | None = None
    overhead: Quantities | None = None
    resources: Resources | None = None


class _ContainerStatus(Slim, frozen=True):
    name: str = ""
    resources: Resources | None = None
    allocated_resources: Quantities | None = None


class _PodCondition(Slim, frozen=True):
    type: str = ""
    status: str = ""
    reason: str | None = None
    last_transition_time: datetime | None = None


class _Status(Slim, frozen=True):
    phase: str | None = None
    conditions: list[_PodCondition] | None = None
    container_statuses: list[_ContainerStatus] | None = None
    init_container_statuses: list[_ContainerStatus] | None = None
    resources: Resources | None = None
    allocated_resources: Quantities | None = None


class _Pod(Slim, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status = _Status()


_POD: Final = msgspec.json.Decoder(_Pod)


def read_bound_pod(item: msgspec.Raw | bytes) -> BoundPod:
    """Return the pod in `item`.

    Raises:
        msgspec.ValidationError: it is none.
    """
    pod = _POD.decode(item)
    meta, spec = pod.metadata, pod.spec
    demand = _demand(spec, pod.status)
    groups = (spec.containers, spec.init_containers, spec.ephemeral_containers)
    # Thousands of pods share a few nodes, images and demands: one copy of each is enough.
    return BoundPod(
        uid=meta.uid,
        namespace=intern(meta.namespace),
        name=meta.name,
        node=intern(spec.node_name),
        phase=intern(pod.status.phase or ""),
        is_deleting=meta.deletion_timestamp is not None,
        demand=_shared(tuple(demand.amounts.items()), demand.unparsable),
        images=tuple(intern(it.image) for group in groups for it in group or ()),
        bound_at=_bound_at(pod),
    )


def _bound_at(pod: _Pod) -> float:
    times = [
        it.last_transition_time
        for it in pod.status.conditions or ()
        if it.type == "PodScheduled" and it.status == "True"
    ]
    # A pod that was made with its node, as a DaemonSet's once were, has no such condition at first.
    known = [time for time in (*times, pod.metadata.creation_timestamp) if time is not None]
    return known[0].timestamp() if known else 0.0


def _demand(spec: _Spec, status: _Status) -> Demand:
    is_infeasible = _is_infeasible(status.conditions or ())
    held = {it.name: it for it in status.container_statuses or ()}
    held |= {it.name: it for it in status.init_container_statuses or ()}

    def largest(wanted: Quantities, actual: Resources, allocated: Quantities | None) -> Quantities:
        held_there = (requests_of(actual), allocated or {})
        return _largest(held_there if is_infeasible else (wanted, *held_there))

    def requests(container: _Container) -> Quantities:
        wanted = requests_of(container.resources)
        found = held.get(container.name)
        if found is None or found.resources is None:
            return wanted
        return largest(wanted, found.resources, found.allocated_resources)

    init_containers = []
    for container in spec.init_containers or ():
        is_sidecar = container.restart_policy == "Always"
        # Only containers that go on running can be resized.
        wanted = requests(container) if is_sidecar else requests_of(container.resources)
        init_containers.append((wanted, is_sidecar))
    pod_level = requests_of(spec.resources)
    if status.resources is not None:
        effective = largest(pod_level, status.resources, status.allocated_resources)
        pod_level = {resource: effective.get(resource, 0) for resource in pod_level}
    return demand_of(
        containers=[requests(container) for container in spec.containers or ()],
        init_containers=init_containers,
        pod_level=pod_level,
        overhead=spec.overhead or {},
    )


def _is_infeasible(conditions: Iterable[_PodCondition]) -> bool:
    """Whether the node has said that it can never grant the resize that is asked for."""
    pending = next((it for it in conditions if it.type == _RESIZE), None)
    return pending is not None and pending.reason == _INFEASIBLE


def _largest(parts: Iterable[Quantities]) -> Quantities:
    largest: Quantities = {}
    for part in parts:
        for resource, quantity in part.items():
            known = largest.get(resource)
            if known is None or _exceeds(quantity, known):
                largest[resource] = quantity
    return largest


def _exceeds(quantity: Quantity | None, known: Quantity) -> bool:
    """Whether `quantity` is more than `known`, or does not parse: `demand_of` then tells it."""
    return quantity is not None and _amount(quantity) > _amount(known)


@lru_cache(maxsize=4096)
def _amount(quantity: Quantity) -> Amount | float:
    try:
        return parse_amount(quantity)
    except UnparsableError:
        return float("inf")


@lru_cache(maxsize=4096)
def _shared(amounts: tuple[tuple[str, int], ...], unparsable: tuple[Unparsable, ...]) -> Demand:
    return Demand(dict(amounts), unparsable)
