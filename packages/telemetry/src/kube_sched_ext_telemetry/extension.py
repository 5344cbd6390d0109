"""Prometheus beside the verbs."""

import asyncio
from functools import partial

from kube_sched_ext import Nodes
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.extension import Extension, Host
from kube_sched_ext_telemetry.coverage import View
from kube_sched_ext_telemetry.feed import ReadsPrometheus
from kube_sched_ext_telemetry.refresh import Refresher
from kube_sched_ext_telemetry.reports import Reports
from kube_sched_ext_telemetry.settings import TelemetrySettings


class Telemetry(Extension[TelemetrySettings]):
    """Fills the feeds of agents that read Prometheus."""

    name = "telemetry"
    settings_type = TelemetrySettings

    def __init__(self, settings: TelemetrySettings, host: Host) -> None:
        """Prepare a refresher for each agent whose feed has queries; `run` begins.

        Raises:
            ConfigurationError: an agent needs Prometheus, and no address is configured.
        """
        super().__init__(settings, host)
        fed = {
            agent.name: agent.feed
            for agent in host.verbs.agents
            if isinstance(agent, ReadsPrometheus) and agent.feed.queries
        }
        homeless = {name: it for name, it in fed.items() if not (it.address or settings.url)}
        if homeless:
            raise ConfigurationError(
                [
                    f"{', '.join(filter(None, (feed.address_setting, 'PROMETHEUS_URL')))}: agent "
                    f"{name} reads Prometheus, and no address is set"
                    for name, feed in homeless.items()
                ]
            )
        self._refreshers: list[Refresher] = []
        if not fed:
            return
        # Late: a process that asks no Prometheus does not pay for it.
        from kube_sched_ext_telemetry.prometheus import Prometheus  # noqa: PLC0415

        reports = Reports(host.instruments.log, host.instruments.metrics.registry)
        for name, feed in fed.items():
            source = Prometheus(feed.address or settings.url, settings)
            view = View(feed, partial(_cluster, host, name))
            refresher = Refresher(name, view, source, reports, settings)
            self._refreshers.append(refresher)
            host.health.add(f"telemetry/{name}", refresher.condition)

    async def run(self) -> None:
        """Refresh until cancelled."""
        async with asyncio.TaskGroup() as group:
            for refresher in self._refreshers:
                group.create_task(refresher.run())


def _cluster(host: Host, agent: str) -> Nodes:
    return host.table.nodes(agent, host.table.rows([])).cluster
