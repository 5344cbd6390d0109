"""Nodes, as far as the writer needs them: what they have, and who wrote what is on them."""

from collections.abc import Iterable, Mapping
from math import isnan
from typing import Final

import msgspec

from kube_sched_ext import NodeReader
from kube_sched_ext.objects import Node, NodeMeta, Slim
from kube_sched_ext_cluster.resources import Resource
from kube_sched_ext_telemetry.annotate.annotations import ALLOCATION, MANAGER, USAGE
from kube_sched_ext_telemetry.names import names_of

_OURS: Final = frozenset((*USAGE, *ALLOCATION))


class AnnotatedNode(msgspec.Struct, frozen=True, gc=False):
    """A node, without the bytes that it came in."""

    name: str
    uid: str
    aliases: tuple[str, ...]
    """What a series may call it, best first; its name is the first."""
    allocatable: Mapping[str, float]
    """What pods may use by resource, of those that are known; millicores and whole units."""
    annotations: Mapping[str, str]
    """Those of our names that it has, whoever wrote them."""
    owned: frozenset[str]
    """The names of annotations that the writer applied, here or in an earlier life."""


class _Metadata(Slim, frozen=True):
    annotations: dict[str, msgspec.Raw] = msgspec.field(default={}, name="f:annotations")


class _Fields(Slim, frozen=True):
    metadata: _Metadata = msgspec.field(default=_Metadata(), name="f:metadata")


class _Managed(Slim, frozen=True):
    manager: str = ""
    operation: str = ""
    fields_v1: msgspec.Raw = msgspec.Raw(b"{}")


class _Meta(NodeMeta, frozen=True):
    managed_fields: list[_Managed] | None = None


class _Node(Node, frozen=True):
    metadata: _Meta


_NODE: Final = msgspec.json.Decoder(_Node)
_FIELDS: Final = msgspec.json.Decoder(_Fields)


def nodes_with(gpu: str) -> Resource[AnnotatedNode]:
    """Return what to watch; `gpu` is the resource that counts as gpu."""
    keys = {"cpu": "cpu", "memory": "memory", "pods": "pods", "gpu": gpu}
    keys["ephemeral-storage"] = "ephemeral-storage"

    def read(item: msgspec.Raw) -> AnnotatedNode:
        return _read(item, keys)

    return Resource("nodes", "/api/v1/nodes", read, lambda meta: meta.name)


def _read(item: msgspec.Raw, keys: Mapping[str, str]) -> AnnotatedNode:
    node = _NODE.decode(item)
    meta, reader = node.metadata, NodeReader(node)
    amounts = {resource: reader.allocatable(key) for resource, key in keys.items()}
    annotations = meta.annotations or {}
    return AnnotatedNode(
        name=meta.name,
        uid=meta.uid,
        aliases=tuple(filter(None, names_of(reader))),
        allocatable={resource: it for resource, it in amounts.items() if not isnan(it)},
        annotations={key: annotations[key] for key in _OURS if key in annotations},
        owned=_owned(meta.managed_fields or ()),
    )


def _owned(entries: Iterable[_Managed]) -> frozenset[str]:
    return frozenset(
        key.removeprefix("f:")
        for entry in entries
        if entry.manager == MANAGER and entry.operation == "Apply"
        for key in _FIELDS.decode(entry.fields_v1).metadata.annotations
        if key != "."
    )
