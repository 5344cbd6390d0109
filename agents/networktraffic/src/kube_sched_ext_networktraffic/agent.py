"""The networktraffic agent."""

import numpy as np

from kube_sched_ext import Agent, Nodes, NodeStore, Pod, Scores, priority
from kube_sched_ext_networktraffic import model
from kube_sched_ext_networktraffic.queries import traffic_query
from kube_sched_ext_networktraffic.settings import NetworkTrafficSettings
from kube_sched_ext_telemetry import Feed, MeasuredColumns, fill_in


class NetworkTraffic(Agent[NetworkTrafficSettings]):
    """Prefers nodes with little network traffic."""

    name = "networktraffic"
    settings_type = NetworkTrafficSettings

    def __init__(self, settings: NetworkTrafficSettings | None = None) -> None:
        """Ask Prometheus for the traffic of all nodes, from the telemetry's next refresh on."""
        super().__init__(settings)
        self.feed = Feed(
            [traffic_query(self.settings)],
            max_age_seconds=self.settings.max_age_seconds,
            address=self.settings.address,
            address_setting="Address",
        )

    def new_store(self) -> NodeStore:
        """Keep what is measured."""
        return MeasuredColumns(self.feed, self.columns, self.row)

    @priority("networktraffic")
    def networktraffic(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score 0 for the node with the most traffic, up to 10 without any."""
        [traffic] = nodes.store(MeasuredColumns).fresh(nodes.rows)
        exact = model.exact_scores(traffic)
        filled = fill_in(model.scores(exact), np.isnan(traffic), self.settings.missing)
        return Scores(filled, {"traffic": traffic, "exact": exact})
