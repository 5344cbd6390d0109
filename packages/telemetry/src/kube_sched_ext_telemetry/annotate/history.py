"""A day of each node, step by step, and what it comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kube_sched_ext import MISSING, FloatArray
from kube_sched_ext_telemetry.annotate.annotations import (
    RESOURCES,
    STATISTICS,
    Annotations,
    as_text,
)
from kube_sched_ext_telemetry.annotate.forecast import forecast

Found = tuple[Sequence[str], FloatArray]
"""What one query found: names of nodes, and a row of values for each."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """What the window comes to, of m names."""

    places: Mapping[str, int]
    """Where each name stands: a node's name, or one of its addresses."""
    values: FloatArray
    """Shape (resources, statistics, m); NaN where there is none."""
    newest: NDArray[np.int64]
    """The number of the newest step that was measured, of shape (resources, m); -1: none."""

    def of(self, resource: int, place: int) -> Annotations:
        """Return the usage annotations of one resource in one place."""
        texts = map(as_text, self.values[resource, :, place].tolist())
        return {
            f"{statistic}-{RESOURCES[resource]}": text
            for statistic, text in zip(STATISTICS, texts, strict=True)
            if text is not None
        }


class History:
    """Mean and deviation of each step in a window, by resource and name.

    The mean and the deviation of the whole window follow from them, exactly where each step has as
    many samples as the others.
    """

    def __init__(self, steps: int) -> None:
        """Keep the last `steps` steps."""
        self.newest: int | None = None
        """The number of the newest step."""
        self._places: dict[str, int] = {}
        # Mean and deviation, by resource, place and step; a step's column is its number modulo the
        # number of columns.
        self._kept = np.full((2, len(RESOURCES), 0, steps), MISSING)

    @property
    def steps(self) -> int:
        """How many steps are kept."""
        return self._kept.shape[-1]

    def add(self, first: int, count: int, found: Sequence[tuple[Found, Found]]) -> None:
        """Add `count` steps from number `first` on, later than all before.

        Args:
            first: the number of the earliest.
            count: how many.
            found: mean and deviation, for each resource in turn; values of shape (names, count).
        """
        last = first + count - 1
        oldest = last - self.steps + 1
        cleared = first if self.newest is None else self.newest + 1
        for step in range(max(cleared, oldest), last + 1):
            self._kept[..., step % self.steps] = MISSING
        columns = np.arange(first, first + count) % self.steps
        for resource, pair in enumerate(found):
            for kind, (names, values) in enumerate(pair):
                found_at = (self._places.setdefault(name, len(self._places)) for name in names)
                rows = np.fromiter(found_at, np.intp, len(names))
                lacking = len(self._places) - self._kept.shape[2]
                if lacking:
                    more = ((0, 0), (0, 0), (0, lacking), (0, 0))
                    self._kept = np.pad(self._kept, more, constant_values=MISSING)
                self._kept[kind, resource][rows[:, np.newaxis], columns] = values
        self.newest = last

    def statistics(self, horizon: int) -> Statistics:
        """Return what the window comes to, with a forecast of `horizon` steps where that is not 0.

        What was not measured in the whole window is forgotten.
        """
        self._forget()
        newest = -1 if self.newest is None else self.newest
        means, deviations = np.roll(self._kept, -(newest + 1), axis=-1)
        is_known = ~np.isnan(means)
        is_any = is_known.any(axis=-1)
        count = np.where(is_any, is_known.sum(axis=-1), MISSING)
        mean = np.where(is_known, means, 0.0).sum(axis=-1) / count
        # Of the samples around their step's mean, and of that around the window's.
        squares = np.nan_to_num(deviations) ** 2 + (means - mean[..., np.newaxis]) ** 2
        variance = np.where(is_known, squares, 0.0).sum(axis=-1) / count
        coming = np.full_like(mean, MISSING)
        if horizon:
            coming = np.array([forecast(series, horizon) for series in means])
        age = np.argmax(is_known[..., ::-1], axis=-1)
        return Statistics(
            dict(self._places),
            np.stack([mean, np.sqrt(variance), coming], axis=1),
            np.where(is_any, newest - age, -1),
        )

    def _forget(self) -> None:
        is_known = ~np.isnan(self._kept[0]).all(axis=(0, 2))
        if is_known.all():
            return
        names = [name for name, place in self._places.items() if is_known[place]]
        self._kept = self._kept[:, :, is_known]
        self._places = {name: place for place, name in enumerate(names)}
