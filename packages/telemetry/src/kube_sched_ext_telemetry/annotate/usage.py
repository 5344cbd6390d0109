"""The usage of nodes from Prometheus: a day of it, followed step by step."""

import asyncio
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

from kube_sched_ext_cluster.backoff import Backoff
from kube_sched_ext_telemetry.annotate.annotations import RESOURCES, STATISTICS, Annotations
from kube_sched_ext_telemetry.annotate.history import Found, History, Statistics
from kube_sched_ext_telemetry.annotate.matrix import read_matrix
from kube_sched_ext_telemetry.annotate.nodes import AnnotatedNode
from kube_sched_ext_telemetry.annotate.plan import Part
from kube_sched_ext_telemetry.annotate.reports import DATA, PROMETHEUS, Reports
from kube_sched_ext_telemetry.annotate.settings import AnnotateSettings
from kube_sched_ext_telemetry.answer import read_answer
from kube_sched_ext_telemetry.errors import PrometheusError
from kube_sched_ext_telemetry.prometheus import Connection, Prometheus
from kube_sched_ext_telemetry.queries import Query

_HIGHEST: Final = {"cpu": 1e9, "memory": 1e15}
"""A million cores, and a petabyte: what is more is no measurement."""

_CLOCK: Final = Query("clock", "vector(time())")
_NAMES: Final = tuple(tuple(f"{it}-{resource}" for it in STATISTICS) for resource in RESOURCES)
_CHUNK: Final = 24
"""Steps that are asked for at a time, until that turns out to be too many."""

_SETTLING_SECONDS: Final = 1.0
_LONGEST_BACKOFF: Final = 30.0


@dataclass(frozen=True, slots=True)
class _Known:
    """Statistics, and when they were new."""

    statistics: Statistics
    prometheus_time: float
    """By its clock, so that ours may be wrong."""
    at: float


class Usage:
    """Follows Prometheus, and tells the usage annotations of a node."""

    def __init__(
        self,
        settings: AnnotateSettings,
        prometheus: Prometheus,
        labels: Sequence[str],
        reports: Reports,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Ask `prometheus`; the first of `labels` that a series has names its node."""
        self._settings = settings
        self._prometheus = prometheus
        self._labels = labels
        self._reports = reports
        self._clock = clock
        self._began_at = clock()
        self._history = History(settings.window_seconds // settings.step_seconds)
        self._known: _Known | None = None
        self._chunk = _CHUNK
        self._backoff = Backoff(longest=_LONGEST_BACKOFF)
        self._stopping = threading.Event()
        self.asked = asyncio.Event()
        """Set once Prometheus has answered, or has failed to."""

    async def run(self) -> None:
        """Ask whenever a step is complete, until cancelled."""
        try:
            while True:
                seconds = await self.refresh()
                self.asked.set()
                await asyncio.sleep(seconds)
        finally:
            self._stopping.set()

    async def refresh(self) -> float:
        """Ask for the steps that are lacking; return the seconds until there is more to ask."""
        try:
            known, problems = await asyncio.to_thread(self._follow)
        except (PrometheusError, OSError) as error:
            # A file with a password may be gone.
            reason = error.reason if isinstance(error, PrometheusError) else "Credentials"
            self._reports.failed(PROMETHEUS, reason, str(error))
            return self._backoff.next()
        self._known = known
        self._backoff.reset()
        self._reports.well(PROMETHEUS)
        if problems:
            reason = ", ".join(sorted(problems))
            self._reports.failed(DATA, reason, "; ".join(sorted(problems.values())))
        else:
            self._reports.well(DATA)
        step = self._settings.step_seconds
        passed = known.prometheus_time % step + self._clock() - known.at
        return max(step - passed, 0.0) + _SETTLING_SECONDS

    def parts(self, node: AnnotatedNode) -> list[Part]:
        """Return what `node` is to have of each resource."""
        tolerance = self._settings.tolerance
        return [
            Part(names, self._values(node, resource), tolerance)
            for resource, names in enumerate(_NAMES)
        ]

    def _values(self, node: AnnotatedNode, resource: int) -> Annotations | None:
        known, settings = self._known, self._settings
        stale: Annotations | None = {} if settings.stale == "remove" else None
        now = self._clock()
        if known is None:
            return None if now - self._began_at <= settings.max_age_seconds else stale
        statistics = known.statistics
        places = (statistics.places.get(alias) for alias in node.aliases)
        for place in places:
            if place is None or (newest := int(statistics.newest[resource, place])) < 0:
                continue
            age = known.prometheus_time - newest * settings.step_seconds + now - known.at
            return statistics.of(resource, place) if age <= settings.max_age_seconds else stale
        return stale

    def _follow(self) -> tuple[_Known, dict[str, str]]:
        """Ask for the steps that are lacking, and return what they come to."""
        history, seconds = self._history, self._settings.step_seconds
        problems: dict[str, str] = {}
        with self._prometheus.connection() as connection:
            at = self._clock()
            now = read_answer(connection.ask(_CLOCK.text), _CLOCK, self._labels).evaluated_at
            if not math.isfinite(now):
                raise PrometheusError("NoClock", f"{_CLOCK.text} has no result")
            newest = int(now // seconds)
            first = newest - history.steps + 1
            if history.newest is not None:
                first = max(first, history.newest + 1)
            while first <= newest and not self._stopping.is_set():
                count = min(self._chunk, newest - first + 1)
                problems.clear()
                try:
                    found = [self._ask(connection, it, first, count, problems) for it in RESOURCES]
                except PrometheusError as error:
                    if count == 1 or not (error.is_about_query or error.reason == "Timeout"):
                        raise
                    # More than it takes at a time, where its answer is to many steps.
                    self._chunk = count // 2
                    continue
                history.add(first, count, found)
                first += count
        horizon = self._settings.horizon_seconds // seconds
        return _Known(history.statistics(horizon), now, at), problems

    def _ask(
        self,
        connection: Connection,
        resource: str,
        first: int,
        count: int,
        problems: dict[str, str],
    ) -> tuple[Found, Found]:
        """Return mean and deviation of the samples in `count` steps from number `first` on."""
        settings = self._settings
        seconds = settings.step_seconds
        query = settings.cpu_query if resource == "cpu" else settings.memory_query
        times = range(first * seconds, (first + count) * seconds, seconds)
        # A second less than whole steps: whether a range includes its begin differs by version.
        samples = f"({query})[{seconds - 1}s:{settings.sample_seconds}s]"
        steps = f"[{count * seconds - 1}s:{seconds}s] @ {times[-1]}"
        found = []
        for function in ("avg_over_time", "stddev_over_time"):
            body = connection.ask(f"{function}({samples}){steps}")
            matrix = read_matrix(body, self._labels, times=times, highest=_HIGHEST[resource])
            problems |= {f"{resource}: {it}": text for it, text in matrix.problems.items()}
            found.append((matrix.names, matrix.values))
        return found[0], found[1]
