"""What the pods on each node hold together."""

from kube_sched_ext_cluster.objects import BoundPod
from kube_sched_ext_telemetry.annotate.annotations import ALLOCATED, Annotations
from kube_sched_ext_telemetry.annotate.nodes import AnnotatedNode

_OPTIONAL = ("gpu", "ephemeral-storage")
"""A node that has none of it does not mention it, and gets no annotation of it."""


class Allocation:
    """The sums over the pods bound to each node; a view for a reflector."""

    def __init__(self, gpu: str) -> None:
        """Start without pods; `gpu` is the resource that counts as gpu."""
        self._keys = ("cpu", "memory", "", gpu, "ephemeral-storage")
        self._pods: dict[str, tuple[str, tuple[int, ...]]] = {}
        self._sums: dict[str, list[int]] = {}

    def put(self, pod: BoundPod, /) -> None:
        """Count `pod` with what it holds now."""
        self.remove(pod.uid)
        held = tuple(pod.demand[key] if key else 1 for key in self._keys)
        self._pods[pod.uid] = pod.node, held
        sums = self._sums.setdefault(pod.node, [0] * len(held))
        for place, amount in enumerate(held):
            sums[place] += amount

    def remove(self, uid: str, /) -> None:
        """Count the pod no longer."""
        node, held = self._pods.pop(uid, ("", ()))
        for place, amount in enumerate(held):
            self._sums[node][place] -= amount
        if held and not any(self._sums[node]):
            del self._sums[node]

    def of(self, node: AnnotatedNode) -> Annotations:
        """Return the allocation annotations of `node`: what is requested, and what is left."""
        annotations = {}
        sums = self._sums.get(node.name, [0] * len(ALLOCATED))
        for resource, requested in zip(ALLOCATED, sums, strict=True):
            capacity = node.allocatable.get(resource)
            if resource in _OPTIONAL and not capacity and not requested:
                continue
            annotations[f"requested-{resource}"] = str(requested)
            if capacity is not None:
                annotations[f"free-{resource}"] = str(max(int(capacity) - requested, 0))
        return annotations
