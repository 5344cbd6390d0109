"""What every part of a process reports to: log, metrics, problems."""

from dataclasses import dataclass

from kube_sched_ext.logs import Format, Level, LineWriter, Log, new_log
from kube_sched_ext.metrics import Metrics
from kube_sched_ext.problems import Problems


@dataclass(frozen=True, slots=True)
class Instruments:
    """The instruments of one process. Close `writer` last."""

    log: Log
    writer: LineWriter
    metrics: Metrics
    problems: Problems


def new_instruments(level: Level = "INFO", form: Format = "json") -> Instruments:
    """Return instruments that log to standard error."""
    log, writer = new_log(level, form)
    metrics = Metrics()
    writer.on_drop = metrics.dropped_log_lines.inc
    return Instruments(log, writer, metrics, Problems(log, metrics))
