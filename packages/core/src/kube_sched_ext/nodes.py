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


class Changes:
    """When each row changed last, by the number of changes that there were."""

    def __init__(self) -> None:
        """Start with row 0, which never changes."""
        self.count = 0
        self._last: NDArray[np.int64] = np.zeros(1, np.int64)

    def note(self, row: int) -> None:
        """Count a change of `row`, which may lie beyond all rows so far."""
        self.count += 1
        length = len(self._last)
        if row >= length:
            self._last = np.pad(self._last, (0, max(row + 1, 2 * length) - length))
        self._last[row] = self.count

    def last(self, rows: Rows) -> NDArray[np.int64]:
        """Return the number of the last change of each of `rows`, 0 where there was none."""
        return self._last[rows]

    def are_none(self, rows: Rows, count: int) -> bool:
        """Tell whether none of `rows` has changed since there were `count` changes."""
        return count == self.count or not (self._last[rows] > count).any()


class _Memo:
    """The results of one key: for the nodes asked about last, and by row once others are."""

    __slots__ = ("_as_of", "_by_row", "_by_row_as_of", "_rows", "_values")

    def __init__(self, rows: Rows, values: FloatArray, as_of: int) -> None:
        self._rows = rows
        self._values = values
        self._as_of = as_of
        # Most keys are asked about the same nodes twice and then no more.
        self._by_row: FloatArray | None = None
        self._by_row_as_of: NDArray[np.int64] = np.empty(0, np.int64)

    def get(self, nodes: "Nodes", compute: Callable[["Nodes"], FloatArray]) -> FloatArray:
        rows, changes = nodes.rows, nodes.changes
        if rows is self._rows and changes.are_none(rows, self._as_of):
            return self._values
        by_row, as_of = self._spread(nodes.row_count)
        stale = rows[as_of[rows] < changes.last(rows)]
        if len(stale):
            by_row[stale] = compute(nodes.at(stale)).T
            as_of[stale] = changes.count
        self._rows, self._values, self._as_of = rows, _fixed(by_row[rows].T), changes.count
        return self._values

    def _spread(self, row_count: int) -> tuple[FloatArray, NDArray[np.int64]]:
        """Return results by row, and as of which change each stands; -1 where there is none."""
        if self._by_row is None or row_count > len(self._by_row):
            self._by_row = np.empty((row_count, len(self._values)))
            self._by_row_as_of = np.full(row_count, -1)
            self._by_row[self._rows] = self._values.T
            self._by_row_as_of[self._rows] = self._as_of
        return self._by_row, self._by_row_as_of


class Memos:
    """Results by key and row; a changed row loses its own, the least used key its all."""

    def __init__(self) -> None:
        self._memos: OrderedDict[Hashable, _Memo] = OrderedDict()

    def get(
        self, key: Hashable, nodes: "Nodes", compute: Callable[["Nodes"], FloatArray]
    ) -> FloatArray:
        """Return what `compute` returns for `nodes`, as `Nodes.memo` promises."""
        memo = self._memos.get(key)
        if memo is not None:
            self._memos.move_to_end(key)
            return memo.get(nodes, compute)
        values = _fixed(compute(nodes))
        self._memos[key] = _Memo(nodes.rows, values, nodes.changes.count)
        if len(self._memos) > _MEMOS:
            self._memos.popitem(last=False)
        return values


def _fixed(values: FloatArray) -> FloatArray:
    """Return `values`, which several callers are given, so that none can change them."""
    values.flags.writeable = False
    return values


@dataclass(slots=True)
class Known:
    """What a table knows, seen from the views on it."""

    rows: Rows
    changes: Changes
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
    def changes(self) -> Changes:
        """The changes of all rows."""
        return self._known.changes

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
        changed since `key` was last used. The 64 keys used last are kept. What is returned is not
        writeable.
        """
        return self._memos.get(key, self, compute)
