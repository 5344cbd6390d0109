"""What watches report, kept for tests."""

import io

from prometheus_client import CollectorRegistry

from kube_sched_ext.logs import new_log
from kube_sched_ext_cluster.reports import WatchReports


class Told:
    """What watches report."""

    def __init__(self) -> None:
        """Start with nothing."""
        self._stream = io.StringIO()
        log, self._writer = new_log("DEBUG", "json", self._stream)
        self.registry = CollectorRegistry()
        self.reports = WatchReports(log, self.registry)

    def count(self, name: str, **labels: str) -> float:
        """Return a metric, 0 where nothing has been counted."""
        return self.registry.get_sample_value(f"kube_sched_ext_{name}", labels) or 0.0

    def close(self) -> str:
        """Return all that was logged."""
        self._writer.close()
        return self._stream.getvalue()
