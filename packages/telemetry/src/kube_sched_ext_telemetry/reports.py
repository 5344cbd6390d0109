"""Who is told how refreshes fare: the log, and Prometheus."""

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Final

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from kube_sched_ext.logs import Log
from kube_sched_ext_telemetry.collect import Collected
from kube_sched_ext_telemetry.coverage import View
from kube_sched_ext_telemetry.feed import Feed

_SECONDS: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)


class Reports:
    """What refreshes log and count, of all agents of a process."""

    def __init__(
        self,
        log: Log,
        registry: CollectorRegistry,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Log to `log`, count in `registry`."""
        self._log = log
        self._clock = clock
        self._problems: dict[str, dict[str, float]] = {}
        """When each problem of each agent began."""
        self._refreshes = Counter(
            "kube_sched_ext_telemetry_refreshes",
            "Refreshes of an agent's measurements, by ok or what was wrong.",
            ("agent", "outcome"),
            registry=registry,
        )
        self._refresh_seconds = Histogram(
            "kube_sched_ext_telemetry_refresh_seconds",
            "Time from the first query of a refresh until all answers are in columns.",
            ("agent",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._query_seconds = Histogram(
            "kube_sched_ext_telemetry_query_seconds",
            "Time that Prometheus took for the answer to a query.",
            ("agent",),
            buckets=_SECONDS,
            registry=registry,
        )
        self._left_out = Counter(
            "kube_sched_ext_telemetry_left_out",
            "Series that did not count, by column and by what was wrong with them.",
            ("agent", "column", "problem"),
            registry=registry,
        )
        self._problem = Gauge(
            "kube_sched_ext_telemetry_problem",
            "1 while an agent's measurements have this problem.",
            ("agent", "problem"),
            registry=registry,
        )
        self._fresh_nodes = Gauge(
            "kube_sched_ext_telemetry_fresh_nodes",
            "Nodes with fresh data, by column.",
            ("agent", "column"),
            registry=registry,
        )
        self._newest_seconds = Gauge(
            "kube_sched_ext_telemetry_newest_seconds",
            "Age of the newest sample.",
            ("agent",),
            registry=registry,
        )
        self._ahead_seconds = Gauge(
            "kube_sched_ext_telemetry_clock_ahead_seconds",
            "How far Prometheus' clock is ahead of ours.",
            ("agent",),
            registry=registry,
        )

    def begin(self, agent: str, view: View) -> None:
        """Show an agent's coverage from here on, as it is when somebody looks."""
        self._problems[agent] = {}
        self._newest_seconds.labels(agent).set_function(lambda: view.coverage().newest_seconds)
        for number, column in enumerate(view.feed.columns):
            self._fresh_nodes.labels(agent, column).set_function(
                lambda number=number: float(view.coverage().by_column[number])  # type: ignore[misc]
            )

    def refreshed(self, agent: str, feed: Feed, collected: Collected, seconds: float) -> None:
        """Count a refresh that took `seconds`."""
        outcome = collected.errors[0].reason if collected.errors else "ok"
        self._refreshes.labels(agent, outcome).inc()
        self._refresh_seconds.labels(agent).observe(seconds)
        for query_seconds in collected.seconds:
            self._query_seconds.labels(agent).observe(query_seconds)
        for name, column in zip(feed.columns, collected.columns, strict=True):
            for problem, count in column.left_out.items() if column else ():
                self._left_out.labels(agent, name, problem).inc(count)
        if not np.isnan(collected.ahead_seconds):
            self._ahead_seconds.labels(agent).set(collected.ahead_seconds)

    def fault(self, agent: str, error: Exception) -> None:
        """Count a refresh that failed through a fault of ours."""
        self._refreshes.labels(agent, "Fault").inc()
        if "Fault" not in self._problems[agent]:
            self._log.error("refresh broke", agent=agent, exc_info=error)

    def update(
        self, agent: str, errors: Mapping[str, str], data_problems: Mapping[str, str]
    ) -> None:
        """Log what is wrong when it begins, and when it is over.

        Args:
            agent: whose measurements they are.
            errors: why queries failed, by reason; all that there are.
            data_problems: what is wrong with answers, by a word for it; all that there are.
        """
        since = self._problems[agent]
        problems = {**data_problems, **errors}
        for problem in problems.keys() - since.keys():
            since[problem] = self._clock()
            self._problem.labels(agent, problem).set(1)
            log = self._log.error if problem in errors else self._log.warning
            log("telemetry problem", agent=agent, problem=problem, detail=problems[problem])
        for problem in since.keys() - problems.keys():
            seconds = round(self._clock() - since.pop(problem), 1)
            self._problem.labels(agent, problem).set(0)
            self._log.info(
                "telemetry problem is over", agent=agent, problem=problem, seconds=seconds
            )
