"""Who is told how watches fare: the log, and Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge

from kube_sched_ext.logs import Log
from kube_sched_ext_cluster.errors import ApiError, ClusterError
from kube_sched_ext_cluster.state import WatchState


class WatchReports:
    """What watches log and count. Thread-safe."""

    def __init__(
        self, log: Log, registry: CollectorRegistry, max_down_seconds: float = 60.0
    ) -> None:
        """Log to `log`, count in `registry`; a watch down for longer is an error in the log."""
        self._log = log
        self._max_down_seconds = max_down_seconds
        self._lists = Counter(
            "kube_sched_ext_watch_lists",
            "Complete lists that watches began with, or began anew with.",
            ("resource",),
            registry=registry,
        )
        self._ends = Counter(
            "kube_sched_ext_watch_ends",
            "Ends of watches and of attempts at them; Closed and Silent are ordinary.",
            ("resource", "reason"),
            registry=registry,
        )
        self._unreadable = Counter(
            "kube_sched_ext_watch_unreadable",
            "Objects and lines of watches that could not be read.",
            ("resource",),
            registry=registry,
        )
        self._down_seconds = Gauge(
            "kube_sched_ext_watch_down_seconds",
            "Time without a watch; 0 while there is one.",
            ("resource",),
            registry=registry,
        )
        self._objects = Gauge(
            "kube_sched_ext_watch_objects",
            "Objects known from a watch.",
            ("resource",),
            registry=registry,
        )

    def begin(self, resource: str, state: WatchState) -> None:
        """Show `state` from here on."""
        shown: list[tuple[Gauge, Callable[[], float]]] = [
            (self._down_seconds, lambda: state.down_seconds),
            (self._objects, lambda: state.objects),
        ]
        for gauge, value in shown:
            gauge.labels(resource).set_function(value)

    def listed(self, resource: str, objects: int, removed: int, seconds: float) -> None:
        """A list is complete."""
        self._lists.labels(resource).inc()
        self._log.info(
            "listed", resource=resource, objects=objects, removed=removed, seconds=round(seconds, 3)
        )

    def ended(self, resource: str, reason: str) -> None:
        """A watch ended as watches do."""
        self._ends.labels(resource, reason).inc()
        self._log.debug("watch ended", resource=resource, reason=reason)

    def failed(self, resource: str, error: ClusterError, state: WatchState, wait: float) -> None:
        """A list or a watch failed; the next attempt comes after `wait` seconds."""
        self._ends.labels(resource, error.reason).inc()
        context: dict[str, object] = {
            "resource": resource,
            "error": str(error),
            "down_seconds": round(state.down_seconds, 1),
            "retry_seconds": round(wait, 1),
        }
        if isinstance(error, ApiError) and error.is_refusal:
            self._log.error(
                "not allowed to watch", needs=f"list and watch on {resource}", **context
            )
        elif state.down_seconds > self._max_down_seconds:
            self._log.error("watch is down", **context)
        else:
            self._log.warning("watch failed", **context)

    def resumed(self, resource: str, down_seconds: float) -> None:
        """A watch is back after failures."""
        self._log.info("watch is back", resource=resource, down_seconds=round(down_seconds, 1))

    def unreadable(self, resource: str, key: str, error: Exception) -> None:
        """An object could not be read; what was known of it stays."""
        self._unreadable.labels(resource).inc()
        self._log.error("object cannot be read", resource=resource, key=key, error=str(error))

    def refused_by_view(self, resource: str, error: Exception) -> None:
        """The view raised `error` when it was given a change."""
        self._log.error("view failed to take a change", resource=resource, exc_info=error)

    def fault(self, resource: str, error: Exception) -> None:
        """The watch itself is at fault; it begins anew."""
        self._ends.labels(resource, "Fault").inc()
        self._log.error("watch broke", resource=resource, exc_info=error)
