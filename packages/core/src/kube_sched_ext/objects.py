"""Pods and nodes, as slim as what agents read of them.

Keys nobody reads are skipped while decoding; that is what makes whole nodes affordable. Go writes
its nil maps and slices as null, so every optional field takes None too.
"""

from functools import cached_property

import msgspec

from kube_sched_ext.demand import Demand, Quantities, demand_of


class Slim(msgspec.Struct, frozen=True, gc=False, rename="camel", kw_only=True):
    """A part of a Kubernetes object: unknown keys are skipped."""


class NodeMeta(Slim, frozen=True):
    """What names and describes a node."""

    name: str
    uid: str = ""
    resource_version: str = ""
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class ContainerImage(Slim, frozen=True):
    """One image on a node, under each of its names, with its size in bytes."""

    names: tuple[str, ...] | None = None
    size_bytes: int = 0


class NodeAddress(Slim, frozen=True):
    """One of a node's addresses, such as its InternalIP or its Hostname."""

    type: str = ""
    address: str = ""


class NodeStatus(Slim, frozen=True):
    """What the kubelet reports.

    The images are most of a node's bytes and few agents read them, so they stay undecoded; so do
    the addresses.
    """

    allocatable: Quantities | None = None
    images: msgspec.Raw = msgspec.Raw(b"null")
    addresses: msgspec.Raw = msgspec.Raw(b"null")


class Node(Slim, frozen=True):
    """A node, as far as agents read it."""

    metadata: NodeMeta
    status: NodeStatus = NodeStatus()


class PodMeta(Slim, frozen=True):
    """What names and describes a pod."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class Resources(Slim, frozen=True):
    """A container's or a pod's `resources`."""

    requests: Quantities | None = None


class Container(Slim, frozen=True):
    """A container, an init container or, with `restart_policy` Always, a sidecar."""

    image: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None


class ImageVolumeSource(Slim, frozen=True):
    """The image that an image volume mounts."""

    reference: str = ""


class Volume(Slim, frozen=True):
    """A volume, of which only an image is read."""

    image: ImageVolumeSource | None = None


class PodSpec(Slim, frozen=True):
    """What a pod asks for."""

    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    ephemeral_containers: list[Container] | None = None
    overhead: Quantities | None = None
    resources: Resources | None = None
    volumes: list[Volume] | None = None
    scheduler_name: str | None = None


class Pod(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """A pod, as far as agents read it."""

    metadata: PodMeta = PodMeta()
    spec: PodSpec = PodSpec()

    def __str__(self) -> str:
        """Name the pod as kubectl does: namespace/name."""
        return f"{self.metadata.namespace or 'default'}/{self.metadata.name}"

    @cached_property
    def demand(self) -> Demand:
        """What the scheduler counts this pod as."""
        spec = self.spec
        return demand_of(
            containers=[requests_of(container.resources) for container in spec.containers or ()],
            init_containers=[
                (requests_of(container.resources), container.restart_policy == "Always")
                for container in spec.init_containers or ()
            ],
            pod_level=requests_of(spec.resources),
            overhead=spec.overhead or {},
        )

    @property
    def container_images(self) -> list[str]:
        """The image references of containers, init containers and ephemeral ones, as written."""
        spec = self.spec
        groups = (spec.containers, spec.init_containers, spec.ephemeral_containers)
        return [container.image for group in groups for container in group or ()]

    @property
    def volume_images(self) -> list[str]:
        """The references of image volumes, as written."""
        return [volume.image.reference for volume in self.spec.volumes or () if volume.image]


def requests_of(resources: Resources | None) -> Quantities:
    """Return what `resources` request; nothing where there are none."""
    return (resources.requests if resources else None) or {}
