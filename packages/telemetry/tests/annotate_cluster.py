"""A cluster in memory: it lists, watches and applies as the apiserver does, and counts writes."""

import queue
from collections.abc import Iterator, Mapping
from typing import Any, Self

import msgspec

from kube_sched_ext_cluster.api import Collection
from kube_sched_ext_cluster.errors import ClusterError

JSON = dict[str, Any]

MANAGER = "kube-sched-ext-annotate"


def make_node(name: str, annotations: Mapping[str, str] | None = None, **allocatable: str) -> JSON:
    """Return a node of 4 cores, 8Gi and 110 pods, at an address of its own."""
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"} | allocatable
    meta = {"name": name, "uid": f"uid-{name}", "annotations": dict(annotations or {})}
    status = {
        "allocatable": amounts,
        "addresses": [{"type": "InternalIP", "address": f"ip-{name}"}],
    }
    return {"metadata": meta, "status": status}


def make_pod(uid: str, node: str, **requests: str) -> JSON:
    """Return a bound pod."""
    container = {"name": "c", "resources": {"requests": requests}}
    return {
        "metadata": {"uid": uid, "name": uid},
        "spec": {"nodeName": node, "containers": [container]},
    }


class _Stream:
    """A watch: what `Stream` of the real client does."""

    def __init__(self) -> None:
        self.lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __iter__(self) -> Iterator[list[bytes]]:
        while (line := self.lines.get()) is not None:
            yield [line]

    def shut_down(self) -> None:
        self.lines.put(None)


class FakeCluster:
    """Nodes and pods; stands in for `Api`."""

    def __init__(self, *nodes: JSON, pods: tuple[JSON, ...] = ()) -> None:
        """Start with these."""
        self.nodes = {node["metadata"]["name"]: node for node in nodes}
        self.pods = list(pods)
        self.writes: list[tuple[str, Mapping[str, str]]] = []
        """The node and the annotations of each write that was tried."""
        self.failures: dict[str, ClusterError] = {}
        """What to raise for a write, by node, or by "" for all."""
        self.unreadable: dict[str, ClusterError] = {}
        """What to raise for a list, by resource."""
        self.forced: list[bool] = []
        self._version = 1
        self._streams: dict[str, list[_Stream]] = {"nodes": [], "pods": []}

    def list_page(self, collection: Collection, *, limit: int, next_token: str = "") -> bytes:
        resource = collection.path.rpartition("/")[2]
        if error := self.unreadable.get(resource):
            raise error
        items = list(self.nodes.values()) if resource == "nodes" else self.pods
        for item in items:
            item["metadata"]["resourceVersion"] = str(self._version)
        meta = {"resourceVersion": str(self._version)}
        return msgspec.json.encode({"metadata": meta, "items": items})

    def watch(self, collection: Collection, **_: object) -> _Stream:
        stream = _Stream()
        self._streams[collection.path.rpartition("/")[2]].append(stream)
        return stream

    def tell(self, kind: str, node: JSON) -> None:
        """Let the watches on nodes know."""
        self._version += 1
        node["metadata"]["resourceVersion"] = str(self._version)
        line = msgspec.json.encode({"type": kind, "object": node})
        for stream in self._streams["nodes"]:
            stream.lines.put(line)

    def apply_annotations(
        self, name: str, annotations: Mapping[str, str], *, uid: str, manager: str, force: bool
    ) -> None:
        self.writes.append((name, dict(annotations)))
        self.forced.append(force)
        if error := self.failures.get(name) or self.failures.get(""):
            raise error
        meta = self.nodes[name]["metadata"]
        assert (meta["uid"], manager) == (uid, MANAGER)
        fields = meta.get("managedFields") or [{}]
        owned = fields[0].get("fieldsV1", {}).get("f:metadata", {}).get("f:annotations", {})
        kept = {key: text for key, text in meta["annotations"].items() if f"f:{key}" not in owned}
        meta["annotations"] = kept | dict(annotations)
        meta["managedFields"] = [managed(*annotations)]
        self.tell("MODIFIED", self.nodes[name])

    def annotations(self, name: str) -> Mapping[str, str]:
        """Return what is on a node."""
        found: Mapping[str, str] = self.nodes[name]["metadata"]["annotations"]
        return found

    def close(self) -> None:
        pass


def managed(*names: str, manager: str = MANAGER, operation: str = "Apply") -> JSON:
    """Return the entry of managedFields for annotations of these names."""
    fields: JSON = {
        "f:metadata": {"f:annotations": {".": {}} | {f"f:{name}": {} for name in names}}
    }
    return {"manager": manager, "operation": operation, "fieldsV1": fields}
