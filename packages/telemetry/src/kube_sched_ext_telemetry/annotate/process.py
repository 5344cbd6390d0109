"""One process that annotates, from its settings to its stop."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from socket import socket
from typing import Final

import click
import msgspec
import uvicorn
import uvloop
from starlette.applications import Starlette

from kube_sched_ext import server
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.configuration import attempt
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.health import Health
from kube_sched_ext.instruments import new_instruments
from kube_sched_ext.logs import Log, capture_standard_logging
from kube_sched_ext.ops import create_ops_app
from kube_sched_ext.version import VERSION
from kube_sched_ext_cluster.access import find_access
from kube_sched_ext_cluster.api import Api
from kube_sched_ext_cluster.reports import WatchReports
from kube_sched_ext_cluster.settings import ClusterSettings
from kube_sched_ext_telemetry.annotate.annotator import Annotator
from kube_sched_ext_telemetry.annotate.plan import Change
from kube_sched_ext_telemetry.annotate.reports import Reports
from kube_sched_ext_telemetry.annotate.settings import AnnotateSettings
from kube_sched_ext_telemetry.annotate.usage import Usage
from kube_sched_ext_telemetry.prometheus import Prometheus
from kube_sched_ext_telemetry.settings import TelemetrySettings

_READ_SECONDS: Final = 10.0
"""Time for one write: less than the apiserver's usual half a minute, as others wait behind it."""


def run(
    core: CoreSettings,
    cluster: ClusterSettings,
    telemetry: TelemetrySettings,
    settings: AnnotateSettings,
    *,
    once: bool,
    dry_run: bool,
) -> bool:
    """Annotate until SIGTERM or SIGINT, or `once`; return whether all went well.

    Args:
        core: how to log and listen.
        cluster: how to reach the cluster.
        telemetry: how to reach Prometheus.
        settings: what to write.
        once: do one round and return.
        dry_run: print what one round would write, and write nothing.

    Raises:
        ConfigurationError: everything that keeps the process from annotating.
    """
    problems: list[str] = []
    if settings.has_usage and not telemetry.url:
        problems.append(
            "PROMETHEUS_URL: is not set; usage annotations need it, or ANNOTATE_USAGE=false"
        )
    access = attempt(problems, lambda: find_access(cluster.kubeconfig, cluster.context))
    ops_socket = None
    if not (once or dry_run):
        bind = partial(server.bind, core.http_host, core.operations_port, "OPS_PORT")
        ops_socket = attempt(problems, bind)
    if problems or access is None:
        raise ConfigurationError(problems)

    instruments = new_instruments(core.log_level, core.log_format)
    capture_standard_logging(instruments.log)
    log, registry, health = instruments.log, instruments.metrics.registry, Health()
    reports = Reports(log, registry, health)
    usage = None
    if settings.has_usage:
        usage = Usage(settings, Prometheus(telemetry.url, telemetry), telemetry.labels, reports)
    annotator = Annotator(
        settings,
        Api(access, read_seconds=_READ_SECONDS),
        usage,
        reports,
        WatchReports(log, registry, cluster.watch_down_seconds),
    )
    for name, reflector in annotator.watches.items():
        health.add(f"watch/{name}", partial(reflector.state.condition, cluster.watch_down_seconds))
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            if ops_socket is None:
                return runner.run(_once(annotator, reports, log, dry_run=dry_run))
            app = create_ops_app(health, instruments.metrics)
            runner.run(_serve(annotator, app, ops_socket, log))
    finally:
        instruments.writer.close()
    return True


async def _once(annotator: Annotator, reports: Reports, log: Log, *, dry_run: bool) -> bool:
    async with annotator.following():
        try:
            await annotator.read()
        except TimeoutError:
            for name, reflector in annotator.watches.items():
                if not reflector.state.synced:
                    log.warning(
                        "the cluster cannot be read", what=name, error=reflector.state.error
                    )
            return False
        if dry_run:
            for change in annotator.changes()[0]:
                click.echo(_shown(change))
        else:
            await annotator.round()
    return not reports.is_failing


def _shown(change: Change) -> str:
    """Return a line of JSON: what the node is to have of ours, and what it is to have no more."""
    gone = sorted(change.node.owned - change.annotations.keys())
    shown = {"node": change.node.name, "annotations": change.annotations, "removed": gone}
    return msgspec.json.encode(shown).decode()


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn would raise the signal again after its stop, as if we had died of it.
        yield


async def _serve(annotator: Annotator, app: Starlette, ops_socket: socket, log: Log) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.set)
    ops = _Server(
        uvicorn.Config(app, lifespan="off", log_config=None, access_log=False, server_header=False)
    )
    log.info("annotating", version=VERSION, ops_port=ops_socket.getsockname()[1])
    async with asyncio.TaskGroup() as group:
        group.create_task(ops.serve([ops_socket]))
        work = group.create_task(annotator.run())
        await stopping.wait()
        work.cancel()
        ops.should_exit = True
    log.info("stopped")
