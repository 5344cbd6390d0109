"""Pods and nodes as the apiserver has them: plain JSON objects, of the parts that a test names."""

from collections.abc import Mapping, Sequence

JSON = dict[str, object]


def make_node(
    name: str,
    *,
    allocatable: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    images: Sequence[tuple[Sequence[str], int]] = (),
) -> JSON:
    """Return a node.

    Args:
        name: its name.
        allocatable: quantities by resource.
        annotations: texts by key.
        labels: texts by key.
        images: the names of each image, and its size in bytes.
    """
    return {
        "metadata": {
            "name": name,
            "annotations": dict(annotations or {}),
            "labels": dict(labels or {}),
        },
        "status": {
            "allocatable": dict(allocatable or {}),
            "images": [{"names": list(names), "sizeBytes": size} for names, size in images],
        },
    }


def make_container(
    image: str = "registry.example/app:1",
    *,
    requests: Mapping[str, str] | None = None,
    is_sidecar: bool = False,
) -> JSON:
    """Return a container; a sidecar is an init container that restarts always."""
    container: JSON = {"name": "c", "image": image, "resources": {"requests": dict(requests or {})}}
    if is_sidecar:
        container["restartPolicy"] = "Always"
    return container


def make_pod(  # noqa: PLR0913  # a pod has as many parts
    name: str = "pod",
    *,
    namespace: str = "default",
    uid: str = "",
    requests: Mapping[str, str] | None = None,
    images: Sequence[str] = ("registry.example/app:1",),
    init_containers: Sequence[JSON] = (),
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    spec: Mapping[str, object] | None = None,
) -> JSON:
    """Return a pod.

    Args:
        name: its name.
        namespace: its namespace.
        uid: its UID; made from namespace and name where left out.
        requests: quantities by resource, of the first container.
        images: one container each.
        init_containers: from `make_container`, in order.
        annotations: texts by key.
        labels: texts by key.
        spec: anything more, by its key.
    """
    containers = [
        make_container(image, requests=None if index else requests)
        for index, image in enumerate(images)
    ]
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": uid or f"uid-of-{namespace}-{name}",
            "annotations": dict(annotations or {}),
            "labels": dict(labels or {}),
        },
        "spec": {
            "containers": containers,
            "initContainers": list(init_containers),
            **(spec or {}),
        },
    }
