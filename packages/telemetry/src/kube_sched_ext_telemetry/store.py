"""Measurements by row, beside what an agent reads from nodes."""

from collections.abc import Callable, Sequence
from itertools import repeat

import numpy as np

from kube_sched_ext import MISSING, FloatArray, FloatColumns, NodeReader, Rows
from kube_sched_ext.stores import grown
from kube_sched_ext_telemetry.feed import Feed
from kube_sched_ext_telemetry.measurements import BLANK, Measurements
from kube_sched_ext_telemetry.names import NAMES, names_of


def _read_nothing(_: NodeReader) -> Sequence[float]:
    return ()


class MeasuredColumns(FloatColumns):
    """The columns of nodes, and beside them what a feed has measured of each.

    A node is found in the measurements by its name or one of its addresses, also in the table that
    a whole-node request makes for itself.
    """

    def __init__(
        self,
        feed: Feed,
        names: Sequence[str] = (),
        read: Callable[[NodeReader], Sequence[float]] = _read_nothing,
    ) -> None:
        """Keep the columns `names` as `read` returns them, and those of `feed`."""
        super().__init__(names, read)
        self.feed = feed
        self.measured: FloatArray = np.full((1, len(feed.queries)), MISSING)
        """By row and query; NaN where there is none. Not all of it need be fresh."""
        self.sampled: FloatArray = self.measured.copy()
        """When each was sampled, in seconds since the epoch."""
        self._names: list[list[str]] = [[""] for _ in range(NAMES)]
        self._places: Rows = np.zeros((NAMES, 1), np.intp)
        self._found_in = feed.measurements.places
        feed.attach(self)

    @property
    def generation(self) -> int:
        """The generation of the measurements: part of a memo's key, if they are part of it."""
        return self.feed.measurements.generation

    def fresh(self, rows: Rows) -> FloatArray:
        """Return what is measured of the nodes in `rows`, NaN where none is fresh; (q, n)."""
        return self.feed.fresh(self.measured[rows], self.sampled[rows]).T

    def name(self, row: int) -> str:
        """Return the name of the node in `row`, empty where there is none."""
        return self._names[0][row]

    def put(self, row: int, node: NodeReader) -> None:
        """Read `node` into `row`, and find what is measured of it."""
        super().put(row, node)
        self._name(row, names_of(node))

    def clear(self, row: int) -> None:
        """Forget the node in `row`."""
        super().clear(row)
        self._name(row, [""] * NAMES)

    def take(self, measurements: Measurements) -> None:
        """Use `measurements` from here on."""
        if measurements.places is not self._found_in:
            self._found_in = measurements.places
            for places, names in zip(self._places, self._names, strict=True):
                found = map(measurements.places.get, names, repeat(BLANK))
                places[:] = np.fromiter(found, np.intp, len(names))
        self._look_up(measurements, slice(None))

    def _name(self, row: int, names: Sequence[str]) -> None:
        self.measured = grown(self.measured, row, MISSING)
        self.sampled = grown(self.sampled, row, MISSING)
        lacking = len(self.measured) - self._places.shape[1]
        if lacking > 0:
            self._places = np.pad(self._places, ((0, 0), (0, lacking)))
            for own in self._names:
                own.extend(repeat("", lacking))
        measurements = self.feed.measurements
        found = [measurements.places.get(name, BLANK) for name in names]
        self._places[:, row] = found
        for number, name in enumerate(names):
            self._names[number][row] = name
        known = [place for place in found if place != BLANK]
        if len(known) > 1:
            self._look_up(measurements, slice(row, row + 1))
            return
        # Nearly always, and thousands of times in a whole-node request.
        place = known[0] if known else BLANK
        self.measured[row] = measurements.values[:, place]
        self.sampled[row] = measurements.times[:, place]

    def _look_up(self, measurements: Measurements, rows: slice) -> None:
        values = measurements.values[:, self._places[0, rows]]
        times = measurements.times[:, self._places[0, rows]]
        for places in self._places[1:, rows]:
            if places.any():
                # What no series has under one name of the node may be there under the next.
                is_missing = np.isnan(values)
                values = np.where(is_missing, measurements.values[:, places], values)
                times = np.where(is_missing, measurements.times[:, places], times)
        self.measured[rows] = values.T
        self.sampled[rows] = times.T
