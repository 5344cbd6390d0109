"""The live cluster beside the verbs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kube_sched_ext.calls import Call
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.extension import Extension, Host
from kube_sched_ext_cluster.settings import ClusterSettings

if TYPE_CHECKING:
    from kube_sched_ext_cluster.live import LiveCluster


class Cluster(Extension[ClusterSettings]):
    """Follows the cluster that kube-scheduler schedules for, and acts on it where asked to."""

    name = "cluster"
    settings_type = ClusterSettings

    def __init__(self, settings: ClusterSettings, host: Host) -> None:
        """Reach the cluster, if there is anything to do with one.

        Raises:
            ConfigurationError: the cluster cannot be reached as told, or the settings contradict
                each other.
        """
        super().__init__(settings, host)
        problems = []
        if settings.node_cache and host.settings.nodes_file:
            problems.append(
                "NODE_CACHE, NODES_FILE: nodes come either from the cluster or from the file; set "
                "NODE_CACHE=false or leave out NODES_FILE"
            )
        if settings.is_nudging and not settings.node_cache:
            problems.append("NUDGE: needs NODE_CACHE=true, which sees nodes change")
        if problems:
            raise ConfigurationError(problems)
        self._live: LiveCluster | None = None
        if settings.node_cache or settings.is_binding:
            # Late: a process that needs no cluster does not pay for reaching one.
            from kube_sched_ext_cluster import live  # noqa: PLC0415

            self._live = live.LiveCluster(settings, host)

    def calls(self) -> Sequence[Call]:
        """Return the bind verb, where it is asked for."""
        return self._live.calls() if self._live else ()

    async def run(self) -> None:
        """Keep the table up to date, and nudge."""
        if self._live:
            await self._live.run()
