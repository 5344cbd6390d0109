"""What could not be read, who is not let in: each case counted, each place logged once."""

from typing import Final

from kube_sched_ext.demand import Unparsable
from kube_sched_ext.logs import Log
from kube_sched_ext.metrics import Metrics

_REMEMBERED: Final = 50_000


class Problems:
    """Reports of values and nodes that count as missing."""

    def __init__(self, log: Log, metrics: Metrics) -> None:
        """Log to `log`, count in `metrics`."""
        self._log = log
        self._metrics = metrics
        # A dict for its order: the oldest place is forgotten first.
        self._told: dict[tuple[str, str, str], None] = {}

    def unparsable(self, agent: str, node: str, value: Unparsable) -> None:
        """`value` of `node` counts as missing for `agent`."""
        self._metrics.unparsable_values.labels(agent, value.key).inc()
        if self._is_new(agent, node, value.key):
            self._log.warning(
                "value counts as missing",
                agent=agent,
                node=node,
                key=value.key,
                value=value.value,
                expected=value.expected,
            )

    def unparsable_request(self, pod: str, value: Unparsable) -> None:
        """`value` of `pod` counts as not asked for."""
        self._metrics.unparsable_values.labels("", "requests").inc()
        if self._is_new("", pod, value.key):
            self._log.warning(
                "value counts as missing",
                pod=pod,
                key=value.key,
                value=value.value,
                expected=value.expected,
            )

    def unreadable(self, agent: str, node: str, error: Exception) -> None:
        """`agent` raised `error` while it read `node`; it has no data of the node."""
        self._metrics.unreadable_nodes.labels(agent).inc()
        if self._is_new(agent, node, ""):
            self._log.error("agent failed to read node", agent=agent, node=node, exc_info=error)

    def refused_client(self, host: str, reason: str) -> None:
        """A client at `host` is not answered, for `reason`."""
        if self._is_new("", host, reason):
            self._log.warning("client refused", host=host, reason=reason)

    def _is_new(self, agent: str, place: str, key: str) -> bool:
        told = (agent, place, key)
        if told in self._told:
            return False
        self._told[told] = None
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        return True
