"""One refresh of an agent's measurements, in a thread beside the event loop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter, time
from typing import Final

import numpy as np

from kube_sched_ext import MISSING
from kube_sched_ext_telemetry.answer import Column, read_answer
from kube_sched_ext_telemetry.errors import PrometheusError
from kube_sched_ext_telemetry.measurements import Measurements
from kube_sched_ext_telemetry.queries import Query

_SPARE: Final = 1000
"""Names beyond twice those in use from which on names that are gone are forgotten."""


@dataclass(slots=True)
class Collected:
    """What one refresh found."""

    measurements: Measurements
    columns: list[Column | None]
    """One per query; None where it failed, or was not asked because another one did."""
    errors: list[PrometheusError] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    """How long Prometheus took for each query that it answered."""
    ahead_seconds: float = MISSING
    """How far Prometheus' clock is ahead of ours."""


def collect(
    ask: Callable[[str], bytes],
    queries: Sequence[Query],
    labels: Sequence[str],
    known: Measurements,
    clock: Callable[[], float] = time,
) -> Collected:
    """Ask all `queries` and return what is measured by now.

    A query that fails keeps the column in `known`, which grows old. If the error is not about that
    query, the others are not asked.
    """
    collected = Collected(known, [None] * len(queries))
    for number, query in enumerate(queries):
        began = perf_counter()
        try:
            body = ask(query.text)
            collected.seconds.append(perf_counter() - began)
            answered_at = clock()
            column = read_answer(body, query, labels)
        except PrometheusError as error:
            collected.errors.append(error)
            if not error.is_about_query:
                break
            continue
        collected.columns[number] = column
        if np.isfinite(column.evaluated_at):
            collected.ahead_seconds = column.evaluated_at - answered_at
    if any(column is not None for column in collected.columns):
        collected.measurements = merged(known, collected.columns)
    return collected


def merged(known: Measurements, columns: Sequence[Column | None]) -> Measurements:
    """Return the measurements in `columns`, and those in `known` where there is no column."""
    keeps_some = any(column is None for column in columns)
    in_use = set(known.places) if keeps_some else set()
    in_use = in_use.union(*(column.names for column in columns if column is not None))
    places = known.places
    if not in_use <= places.keys() or len(places) > 2 * len(in_use) + _SPARE:
        places = {name: place for place, name in enumerate(in_use, start=1)}
    values = np.full((len(columns), len(places) + 1), MISSING)
    times = values.copy()
    kept = np.fromiter(map(known.places.get, in_use & known.places.keys()), np.intp)
    moved = np.fromiter(map(places.get, in_use & known.places.keys()), np.intp)
    for row, column in enumerate(columns):
        if column is None:
            values[row, moved] = known.values[row, kept]
            times[row, moved] = known.times[row, kept]
        else:
            at = np.fromiter(map(places.get, column.names), np.intp, len(column.names))
            values[row, at] = column.values
            times[row, at] = column.times
    return Measurements(known.generation + 1, places, values, times)
