"""What a pod asks of a node, counted as the scheduler counts it.

The rule is `PodRequests` of k8s.io/component-helpers/resource: containers run together with
sidecars; init containers run one after the other, each beside the sidecars declared before it.
"""

from collections.abc import Iterable, Mapping

import msgspec

from kube_sched_ext.errors import UnparsableError
from kube_sched_ext.quantity import Amount, Quantity, parse_amount, whole

Quantities = dict[str, Quantity | None]

_Amounts = dict[str, Amount]


class Unparsable(msgspec.Struct, frozen=True):
    """A value that counts as missing because it does not parse."""

    key: str
    value: str
    expected: str


class Demand(msgspec.Struct, frozen=True):
    """A pod's demand by resource name: cpu in millicores, all others in whole units."""

    amounts: Mapping[str, int]
    unparsable: tuple[Unparsable, ...] = ()

    def __getitem__(self, resource: str) -> int:
        """Return the demand for `resource`, 0 where the pod asks for none."""
        return self.amounts.get(resource, 0)

    @property
    def cpu(self) -> int:
        """Millicores."""
        return self["cpu"]

    @property
    def memory(self) -> int:
        """Bytes."""
        return self["memory"]


def demand_of(
    *,
    containers: Iterable[Quantities],
    init_containers: Iterable[tuple[Quantities, bool]],
    pod_level: Quantities,
    overhead: Quantities,
) -> Demand:
    """Return the demand of a pod with these requests.

    Args:
        containers: the requests of each container.
        init_containers: the requests of each init container, in order, and whether it is a
            sidecar (restartPolicy Always).
        pod_level: `spec.resources.requests`; it replaces the containers' sum.
        overhead: `spec.overhead`, on top of all.
    """
    unparsable: dict[str, Unparsable] = {}

    def read(quantities: Quantities) -> _Amounts:
        amounts = {}
        for resource, quantity in quantities.items():
            if quantity is None:
                continue
            try:
                amounts[resource] = parse_amount(quantity)
            except UnparsableError as error:
                unparsable[resource] = Unparsable(resource, str(quantity), error.expected)
        return amounts

    running = _sum(map(read, containers))
    sidecars: _Amounts = {}
    peak: _Amounts = {}
    for quantities, is_sidecar in init_containers:
        amounts = read(quantities)
        if is_sidecar:
            sidecars = _sum((sidecars, amounts))
            running = _sum((running, amounts))
            starting = sidecars
        else:
            starting = _sum((sidecars, amounts))
        peak = _larger(peak, starting)
    total = _larger(running, peak)
    total |= {
        resource: amount
        for resource, amount in read(pod_level).items()
        if resource in ("cpu", "memory") or resource.startswith("hugepages-")
    }
    total = _sum((total, read(overhead)))
    for resource in unparsable:
        total.pop(resource, None)
    return Demand(
        {resource: whole(resource, amount) for resource, amount in total.items()},
        tuple(unparsable.values()),
    )


def _sum(parts: Iterable[_Amounts]) -> _Amounts:
    total: _Amounts = {}
    for part in parts:
        for resource, amount in part.items():
            total[resource] = total.get(resource, 0) + amount
    return total


def _larger(left: _Amounts, right: _Amounts) -> _Amounts:
    return left | {
        resource: amount
        for resource, amount in right.items()
        if resource not in left or amount > left[resource]
    }
