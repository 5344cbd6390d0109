"""The nodes that a verb is asked about, and what was computed of them before."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from kube_sched_ext.stores import FloatArray, FloatColumns, NodeStore, Rows

_MEMOS: Final = 64

StoreT = TypeVar("StoreT", bound=NodeStore)


@dataclass(slots=True)
class _Memo:
    values: FloatArray
    known: NDArray[np.bool_]


class Memos:
    """Results by key and row; a changed row loses its own, the least used key its all."""

    def __init__(self) -> None:
        self._memos: OrderedDict[Hashable, _Memo] = OrderedDict()

    def forget(self, row: int) -> None:
        """Forget what was computed of the node in `row`."""
        for memo in self._memos.values():
            if row < len(memo.known):
                memo.known[row] = False

    def get(
        self, key: Hashable, nodes: "Nodes", compute: Callable[["Nodes"], FloatArray]
    ) -> FloatArray:
        """Return what `compute` returns for `nodes`, as `Nodes.memo` promises."""
        memo = self._memos.get(key)
        row_count = nodes.row_count
        if memo is None or row_count > len(memo.known):
            values = compute(nodes)
            memo = _Memo(np.empty((row_count, len(values))), np.zeros(row_count, np.bool_))
            memo.values[nodes.rows] = values.T
            memo.known[nodes.rows] = True
            self._memos[key] = memo
            if len(self._memos) > _MEMOS:
                self._memos.popitem(last=False)
            return values
        self._memos.move_to_end(key)
        unknown = nodes.rows[~memo.known[nodes.rows]]
        if len(unknown):
            memo.values[unknown] = compute(nodes.at(unknown)).T
            memo.known[unknown] = True
        return memo.values[nodes.rows].T


@dataclass(slots=True)
class Known:
    """What a table knows, seen from the views on it."""

    rows: Rows
    row_count: int = 1
    has_pods: bool = False


class Nodes:
    """The nodes that a verb is asked about, as one agent sees them; n = len(nodes)."""

    __slots__ = ("_known", "_memos", "_store", "rows")

    def __init__(self, rows: Rows, store: NodeStore, memos: Memos, known: Known) -> None:
        """Look at `rows` of `store`."""
        self.rows = rows
        self._store = store
        self._memos = memos
        self._known = known

    def __len__(self) -> int:
        """Return the number of nodes asked about."""
        return len(self.rows)

    def at(self, rows: Rows) -> "Nodes":
        """Return the same view of other rows."""
        return Nodes(rows, self._store, self._memos, self._known)

    @property
    def row_count(self) -> int:
        """One more than the highest row that any known node has had."""
        return self._known.row_count

    @property
    def cluster(self) -> "Nodes":
        """All known nodes, whether asked about or not, in the order of their rows.

        Of a whole-node request those are the nodes in it.
        """
        return self.at(self._known.rows)

    @property
    def has_pods(self) -> bool:
        """Whether the pods on the nodes are known, as from a live cluster."""
        return self._known.has_pods

    @property
    def columns(self) -> FloatArray:
        """The agent's columns, shape (k, n), in the order in which it declares them."""
        return self.store(FloatColumns).values[self.rows].T

    def store(self, kind: type[StoreT]) -> StoreT:
        """Return the agent's store, for agents that keep more than floats."""
        if not isinstance(self._store, kind):
            raise TypeError(f"the agent keeps its nodes in {type(self._store)}, not in {kind}")
        return self._store

    def memo(self, key: Hashable, compute: Callable[["Nodes"], FloatArray]) -> FloatArray:
        """Return `compute(self)`, of shape (k, n), computed once per key and unchanged node.

        `compute` must treat each node by itself: it is asked for the nodes that are new or have
        changed since `key` was last used. The 64 keys used last are kept.
        """
        return self._memos.get(key, self, compute)
