"""Who is told how the writer fares: the log, health and Prometheus. Each trouble is told once."""

from functools import partial
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from kube_sched_ext.health import Condition, Health
from kube_sched_ext.logs import Log
from kube_sched_ext_telemetry.annotate.writer import Outcome, Written

PROMETHEUS: Final = "prometheus"
DATA: Final = "data"
WRITES: Final = "writes"
CONFLICTS: Final = "conflicts"


class Reports:
    """What is wrong now, in a word and a few more; the log hears when that changes."""

    def __init__(self, log: Log, registry: CollectorRegistry, health: Health) -> None:
        """Log to `log`, count in `registry`, show what is wrong in `health`."""
        self._log = log
        self._wrong: dict[str, tuple[str, str]] = {}
        self._writes = Counter(
            "kube_sched_ext_annotate_writes",
            "Writes to nodes, by outcome.",
            ("outcome",),
            registry=registry,
        )
        self._nodes = Gauge(
            "kube_sched_ext_annotate_nodes",
            "Nodes in the last round: all, and those with fresh statistics of cpu and memory.",
            ("state",),
            registry=registry,
        )
        self._seconds = Gauge(
            "kube_sched_ext_annotate_round_seconds",
            "Time that the last round took.",
            registry=registry,
        )
        self._rounds = Counter("kube_sched_ext_annotate_rounds", "Rounds.", registry=registry)
        for place in (PROMETHEUS, DATA, WRITES, CONFLICTS):
            health.add(f"annotate/{place}", partial(self._condition, place))

    @property
    def is_failing(self) -> bool:
        """Whether something could not be read or written; bad data in an answer does not count."""
        return bool(self._wrong.keys() - {DATA})

    def failed(self, place: str, reason: str, message: str) -> None:
        """Note what is wrong at `place`; `reason` is the same word for the same cause."""
        known, _ = self._wrong.get(place, ("", ""))
        self._wrong[place] = reason, message
        self._log.at(
            "DEBUG" if known == reason else "ERROR",
            f"{place} failed",
            {"reason": reason, "error": message},
        )

    def well(self, place: str) -> None:
        """Note that nothing is wrong at `place`."""
        reason, _ = self._wrong.pop(place, ("", ""))
        if reason:
            self._log.info(f"{place} is well again", was=reason)

    def ended(self, nodes: int, fresh: int, seconds: float, written: Written) -> None:
        """Note how a round ended."""
        self._rounds.inc()
        self._seconds.set(seconds)
        self._nodes.labels("all").set(nodes)
        self._nodes.labels("fresh").set(fresh)
        for outcome, count in written.counts.items():
            self._writes.labels(outcome).inc(count)
        self._tell(WRITES, "failed", written)
        self._tell(CONFLICTS, "conflict", written)
        context: dict[str, object] = {"nodes": nodes, "fresh": fresh, "seconds": round(seconds, 3)}
        context |= {"left": written.left} if written.left else {}
        self._log.at("INFO" if written.counts else "DEBUG", "round", context | written.counts)

    def _tell(self, place: str, outcome: Outcome, written: Written) -> None:
        if outcome not in written.errors:
            self.well(place)
            return
        node, error = written.errors[outcome]
        count = f"{written.counts[outcome]} of {written.counts.total()} writes"
        self.failed(place, error.reason, f"{count}, such as to {node}: {error}")

    def _condition(self, place: str) -> Condition:
        reason, message = self._wrong.get(place, ("", ""))
        return Condition(ok=not reason, detail=message, required=False)
