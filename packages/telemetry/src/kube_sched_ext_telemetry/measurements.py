"""What was measured: one column per query, one place per name that a series gave its node."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from kube_sched_ext import MISSING, FloatArray

BLANK: Final = 0
"""The place of every name that no series has: nothing is measured there."""


@dataclass(frozen=True, slots=True)
class Measurements:
    """The newest answers to an agent's q queries, never changed once they are delivered.

    A name is what a series calls its node: a node's name, or one of its addresses.
    """

    generation: int
    """How many refreshes there have been; measurements differ where this does."""
    places: Mapping[str, int]
    """Where each name stands in `values` and `times`; the same object while no name is new."""
    values: FloatArray
    """Shape (q, m), NaN where there is none."""
    times: FloatArray
    """When each was sampled, in seconds since the epoch by Prometheus' clock; shape (q, m)."""


def nothing(query_count: int) -> Measurements:
    """Return what is known before the first answer."""
    blank = np.full((query_count, 1), MISSING)
    return Measurements(0, {}, blank, blank)


def measured(
    values: Mapping[str, Sequence[float]], time: float, generation: int = 1
) -> Measurements:
    """Return measurements by name, all sampled at `time`."""
    columns = np.array([[MISSING] * len(next(iter(values.values()))), *values.values()]).T
    places = {name: place for place, name in enumerate(values, start=1)}
    return Measurements(generation, places, columns, np.where(np.isnan(columns), MISSING, time))
