"""The cluster as columns: each node has a row, each agent its own store by row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Final, Protocol

import numpy as np

from kube_sched_ext.demand import Unparsable
from kube_sched_ext.nodes import Changes, Known, Memos, Nodes
from kube_sched_ext.objects import Node
from kube_sched_ext.reading import NodeReader
from kube_sched_ext.stores import BoundPod, FedStore, NodeStore, PodStore, Rows

BLANK_ROW: Final = 0
"""The row of every node that is not known: no agent has data there."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A state of a table."""

    change_count: int
    generations: Sequence[int]
    """Of what did not come with nodes and pods."""


class Reports(Protocol):
    """Who is told what could not be read."""

    def unparsable(self, agent: str, node: str, value: Unparsable) -> None:
        """`value` of `node` counts as missing for `agent`."""

    def unreadable(self, agent: str, node: str, error: Exception) -> None:
        """`agent` raised `error` while it read `node`; it has no data of the node."""


class NodeTable:
    """Nodes by name, in the stores of agents. Not thread-safe: one event loop owns it."""

    def __init__(self, stores: Mapping[str, NodeStore], reports: Reports) -> None:
        """Start empty; `stores` is by agent name."""
        self._stores = stores
        self._pod_stores = {
            agent: store for agent, store in stores.items() if isinstance(store, PodStore)
        }
        self._fed_stores = [store for store in stores.values() if isinstance(store, FedStore)]
        self._memos = {agent: Memos() for agent in stores}
        self._reports = reports
        self._rows: dict[str, int] = {}
        self._free: list[int] = []
        self._pods: dict[str, BoundPod] = {}
        self._pods_by_node: dict[str, dict[str, BoundPod]] = {}
        self._changes = Changes()
        self._known = Known(np.empty(0, np.intp), self._changes)
        self._known_is_stale = False
        self.generation = 0
        """Grows when a node comes or goes, and so gives or takes a name its row."""

    def __len__(self) -> int:
        """Return the number of known nodes."""
        return len(self._rows)

    def __contains__(self, name: str) -> bool:
        """Tell whether the node is known."""
        return name in self._rows

    @property
    def moment(self) -> Moment:
        """What is kept of nodes as of now, to be compared with later."""
        return Moment(self._changes.count, [store.generation for store in self._fed_stores])

    def has_changed(self, since: Moment, rows: Rows | None = None) -> bool:
        """Tell whether anything kept of nodes, or only of `rows`, has changed since a moment."""
        now = self.moment
        if rows is not None and now.generations == since.generations:
            return not self._changes.are_none(rows, since.change_count)
        return now != since

    @property
    def keeps_pods(self) -> bool:
        """Whether any agent wants to know the pods on nodes."""
        return bool(self._pod_stores)

    def put(self, node: Node) -> None:
        """Add `node`, or take over its changes."""
        name = node.metadata.name
        row = self._rows.get(name)
        without_pods = set(self._pod_stores) if row is None else set()
        if row is None:
            row = self._free.pop() if self._free else len(self._rows) + 1
            self._rows[name] = row
            self._known.row_count = max(self._known.row_count, row + 1)
            self._known_is_stale = True
            self.generation += 1
        self._changes.note(row)
        for agent, store in self._stores.items():
            reader = NodeReader(node)
            try:
                store.put(row, reader)
            except Exception as error:  # noqa: BLE001  # one agent's fault must not reach the others
                store.clear(row)
                without_pods.add(agent)
                self._reports.unreadable(agent, name, error)
            for value in reader.unparsable:
                self._reports.unparsable(agent, name, value)
        for agent in without_pods & self._pod_stores.keys():
            for pod in self._pods_by_node.get(name, {}).values():
                self._pod_stores[agent].put_pod(row, pod)

    def remove(self, name: str) -> None:
        """Forget the node, if it is known."""
        row = self._rows.pop(name, None)
        if row is None:
            return
        self._known_is_stale = True
        self._changes.note(row)
        self.generation += 1
        self._free.append(row)
        for store in self._stores.values():
            store.clear(row)

    def expect_pods(self) -> None:
        """Note that all pods with a node will be put, so that agents may count on them."""
        self._known.has_pods = True

    def put_pod(self, pod: BoundPod) -> None:
        """Add a pod to its node, which may become known later, or take over its changes."""
        if not self._pod_stores:
            return
        self.remove_pod(pod.uid)
        self._pods[pod.uid] = pod
        self._pods_by_node.setdefault(pod.node, {})[pod.uid] = pod
        row = self._rows.get(pod.node)
        if row is not None:
            self._put_pod(row, pod)

    def remove_pod(self, uid: str) -> None:
        """Forget the pod, if it is known."""
        pod = self._pods.pop(uid, None)
        if pod is None:
            return
        pods = self._pods_by_node[pod.node]
        del pods[uid]
        if not pods:
            del self._pods_by_node[pod.node]
        row = self._rows.get(pod.node)
        if row is not None:
            self._changes.note(row)
            for store in self._pod_stores.values():
                store.remove_pod(row, pod)

    def _put_pod(self, row: int, pod: BoundPod) -> None:
        self._changes.note(row)
        for store in self._pod_stores.values():
            store.put_pod(row, pod)

    def rows(self, names: Sequence[str]) -> Rows:
        """Return the row of each name, `BLANK_ROW` for names that are not known."""
        found = map(self._rows.get, names, repeat(BLANK_ROW))
        return np.fromiter(found, np.intp, len(names))

    def nodes(self, agent: str, rows: Rows) -> Nodes:
        """Return these rows as `agent` sees them."""
        if self._known_is_stale:
            self._known.rows = np.fromiter(self._rows.values(), np.intp, len(self._rows))
            self._known.rows.sort()
            self._known_is_stale = False
        return Nodes(rows, self._stores[agent], self._memos[agent], self._known)
