"""Prometheus into columns: what agents read of it, how fresh it is, and what stands in for it."""

from kube_sched_ext_telemetry.feed import Feed, ReadsPrometheus
from kube_sched_ext_telemetry.measurements import Measurements
from kube_sched_ext_telemetry.policy import MissingScores, MissingVerdicts, fill_in, rejected
from kube_sched_ext_telemetry.queries import Query
from kube_sched_ext_telemetry.store import MeasuredColumns

__all__ = [
    "Feed",
    "MeasuredColumns",
    "Measurements",
    "MissingScores",
    "MissingVerdicts",
    "Query",
    "ReadsPrometheus",
    "fill_in",
    "rejected",
]
