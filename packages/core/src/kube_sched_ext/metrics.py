"""What a process counts, for Prometheus."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector

_SECONDS: Final = (0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.5, 2.0, 5.0)


class Metrics:
    """The metrics of one process, in a registry of their own."""

    def __init__(self) -> None:
        """Start at zero."""
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        GCCollector(registry=registry)
        self.call_seconds = Histogram(
            "kube_sched_ext_call_seconds",
            "Time from a call's whole body to its reply.",
            ("verb", "name"),
            buckets=_SECONDS,
            registry=registry,
        )
        self.failed_calls = Counter(
            "kube_sched_ext_failed_calls",
            "Calls that an agent's fault made fail.",
            ("verb", "name"),
            registry=registry,
        )
        self.refused_requests = Counter(
            "kube_sched_ext_refused_requests",
            "Requests refused before any agent saw them, by HTTP status.",
            ("status",),
            registry=registry,
        )
        self.rejected_nodes = Counter(
            "kube_sched_ext_rejected_nodes",
            "Nodes that a predicate rejected.",
            ("name",),
            registry=registry,
        )
        self.foreseen_answers = Counter(
            "kube_sched_ext_foreseen_answers",
            "Answers of prioritize worked out before they were asked for, by what became of them.",
            ("result",),
            registry=registry,
        )
        self.unknown_nodes = Counter(
            "kube_sched_ext_unknown_nodes",
            "Names asked about that are no known node.",
            registry=registry,
        )
        self.unparsable_values = Counter(
            "kube_sched_ext_unparsable_values",
            "Values read from nodes and pods that count as missing because they do not parse.",
            ("agent", "key"),
            registry=registry,
        )
        self.unreadable_nodes = Counter(
            "kube_sched_ext_unreadable_nodes",
            "Nodes that an agent failed to read.",
            ("agent",),
            registry=registry,
        )
        self.known_nodes = Gauge(
            "kube_sched_ext_known_nodes",
            "Nodes that can be asked about by name.",
            registry=registry,
        )
        self.agents = Gauge(
            "kube_sched_ext_agent",
            "1 for each agent that is served, 0 for one that failed to load.",
            ("agent",),
            registry=registry,
        )
        self.failed_handshakes = Counter(
            "kube_sched_ext_failed_handshakes",
            "TLS handshakes that failed, by reason.",
            ("reason",),
            registry=registry,
        )
        self.certificate_ends = Gauge(
            "kube_sched_ext_certificate_not_after_timestamp_seconds",
            "When a certificate in force ends, by the setting that names its file.",
            ("setting",),
            registry=registry,
        )
        self.certificate_reloads = Counter(
            "kube_sched_ext_certificate_reloads",
            "Changes of TLS files that were taken over (done) or not (failed), by result.",
            ("result",),
            registry=registry,
        )
        self.dropped_log_lines = Counter(
            "kube_sched_ext_dropped_log_lines",
            "Log lines dropped because their reader was too slow.",
            registry=registry,
        )
