"""One agent's part of Prometheus: what it asks, and the answers."""

from collections.abc import Callable, Sequence
from time import time
from typing import Final, Protocol, runtime_checkable
from weakref import WeakSet

import numpy as np

from kube_sched_ext import MISSING, FloatArray
from kube_sched_ext_telemetry.measurements import Measurements, nothing
from kube_sched_ext_telemetry.queries import Query

AHEAD_SECONDS: Final = 60.0
"""How far Prometheus' clock may be ahead of ours: a sample from later than that is not trusted."""


class Store(Protocol):
    """Whoever wants each new generation of measurements."""

    def take(self, measurements: Measurements) -> None:
        """Use `measurements` from here on."""


class Feed:
    """What an agent asks Prometheus, how old an answer may be, and the newest answers.

    Not thread-safe: the event loop owns it, and nothing but `deliver` changes it.
    """

    def __init__(
        self,
        queries: Sequence[Query] = (),
        *,
        max_age_seconds: float = 180.0,
        address: str = "",
        address_setting: str = "",
        clock: Callable[[], float] = time,
    ) -> None:
        """Start without any measurement.

        Args:
            queries: one per column; none where the agent does not read Prometheus.
            max_age_seconds: the age above which a sample counts as missing.
            address: Prometheus' URL, where it is not PROMETHEUS_URL.
            address_setting: the agent's own setting for it, for what is told if neither is set.
            clock: seconds since the epoch.
        """
        self.queries = tuple(queries)
        self.max_age_seconds = max_age_seconds
        self.address = address
        self.address_setting = address_setting
        self.measurements = nothing(len(self.queries))
        self.clock = clock
        self._stores: WeakSet[Store] = WeakSet()

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns, in the order of their queries."""
        return tuple(query.column for query in self.queries)

    def attach(self, store: Store) -> None:
        """Give `store` all measurements from here on, as long as somebody else keeps it."""
        self._stores.add(store)

    def deliver(self, measurements: Measurements) -> None:
        """Replace the measurements, for all stores at once."""
        self.measurements = measurements
        for store in self._stores:
            store.take(measurements)

    def fresh(self, values: FloatArray, times: FloatArray) -> FloatArray:
        """Return `values` with those NaN that were sampled too long ago, or in the future."""
        age = self.clock() - times
        is_fresh = (age <= self.max_age_seconds) & (age >= -AHEAD_SECONDS)
        return np.where(is_fresh, values, MISSING)


@runtime_checkable
class ReadsPrometheus(Protocol):
    """An agent with a feed; the telemetry extension fills it where it has queries."""

    @property
    def feed(self) -> Feed:
        """The agent's feed."""
