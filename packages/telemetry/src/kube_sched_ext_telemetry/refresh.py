"""The background task that keeps one agent's measurements up to date."""

import asyncio
import random
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from functools import partial
from math import isnan
from time import perf_counter
from typing import Final, Protocol, TypeVar

from kube_sched_ext.health import Condition
from kube_sched_ext_telemetry.collect import Collected, collect
from kube_sched_ext_telemetry.coverage import View
from kube_sched_ext_telemetry.measurements import Measurements
from kube_sched_ext_telemetry.reports import Reports
from kube_sched_ext_telemetry.settings import TelemetrySettings

T = TypeVar("T")

_WRONG_CLOCK_SECONDS: Final = 30.0


class Connection(Protocol):
    """Connections that are kept for a few queries."""

    def ask(self, promql: str) -> bytes:
        """Return the body of the answer, or raise PrometheusError."""


class Source(Protocol):
    """Where answers come from."""

    def connection(self) -> AbstractContextManager[Connection]:
        """Connect for a few queries."""


class Refresher:
    """Asks an agent's queries every PROMETHEUS_REFRESH_SECONDS."""

    def __init__(
        self,
        agent: str,
        view: View,
        source: Source,
        reports: Reports,
        settings: TelemetrySettings,
    ) -> None:
        """Fill the feed of `view` for `agent`; `run` begins."""
        self._agent = agent
        self._view = view
        self._source = source
        self._reports = reports
        self._settings = settings
        self._errors: dict[str, str] = {}
        self._data_problems: dict[str, str] = {}
        reports.begin(agent, view)

    async def run(self) -> None:
        """Refresh now and every so often, until cancelled.

        The second refresh comes early, by chance, so that agents and replicas that start together
        do not go on asking together.
        """
        seconds = self._settings.refresh_seconds
        await self.refresh()
        await asyncio.sleep(seconds * random.uniform(0.5, 1.0))  # noqa: S311  # no secret
        while True:
            await self.refresh()
            await asyncio.sleep(seconds)

    async def refresh(self) -> None:
        """Ask all queries once, deliver the answers and tell what is wrong with them."""
        began = perf_counter()
        known = self._view.feed.measurements
        try:
            collected = await _in_thread(partial(self._collect, known))
        except Exception as error:  # noqa: BLE001  # verbs go on, and the next refresh may be well
            self._reports.fault(self._agent, error)
            self._errors = {"Fault": repr(error)}
        else:
            if collected.measurements is not known:
                self._view.feed.deliver(collected.measurements)
            seconds = perf_counter() - began
            self._reports.refreshed(self._agent, self._view.feed, collected, seconds)
            self._errors = {error.reason: str(error) for error in collected.errors}
            self._data_problems = self._problems_in(collected)
        self._reports.update(self._agent, self._errors, self._data_problems)

    def condition(self) -> Condition:
        """Return the condition for health; not required, for verbs answer without data, too."""
        problems = {**self._errors, **self._data_problems}
        coverage = self._view.coverage()
        is_ok = not problems and not isnan(coverage.newest_seconds)
        return Condition(is_ok, "; ".join([str(coverage), *problems.values()]), required=False)

    def _collect(self, known: Measurements) -> Collected:
        feed, labels = self._view.feed, self._settings.labels
        with self._source.connection() as connection:
            return collect(connection.ask, feed.queries, labels, known, feed.clock)

    def _problems_in(self, collected: Collected) -> dict[str, str]:
        # Where a query failed nobody knows whether what was wrong with its answers is over.
        found = dict(self._data_problems) if collected.errors else {}
        for name, column in zip(self._view.feed.columns, collected.columns, strict=True):
            for problem, text in column.problems.items() if column else ():
                found[problem] = f"{name}: {text}"
        if not collected.errors:
            found |= self._view.problems()
        if abs(collected.ahead_seconds) > _WRONG_CLOCK_SECONDS:
            seconds = f"{abs(collected.ahead_seconds):.0f} s"
            side = "ahead of" if collected.ahead_seconds > 0 else "behind"
            found["Clock"] = f"Prometheus' clock is {seconds} {side} ours"
        return found


async def _in_thread(work: Callable[[], T]) -> T:
    """Return the result of `work`, done in a thread that nobody waits for at the end."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(outcome: Callable[[], None]) -> None:
        if not done.cancelled():
            outcome()

    def run() -> None:
        try:
            outcome = partial(done.set_result, work())
        except Exception as error:  # noqa: BLE001  # raised again where the result is awaited
            outcome = partial(done.set_exception, error)
        with suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(settle, outcome)

    threading.Thread(target=run, name="telemetry", daemon=True).start()
    return await done
