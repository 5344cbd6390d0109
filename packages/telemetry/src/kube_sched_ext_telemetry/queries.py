"""What an agent asks Prometheus."""

import math
from typing import Final

import msgspec

TIME_LABEL: Final = "kube_sched_ext_time"
"""Marks the series of an answer that tell when a node was sampled."""


class Query(msgspec.Struct, frozen=True):
    """One number of each node, asked for all nodes at once.

    Prometheus stamps what it computes with the time at which it computed it. `sampled` is for the
    true age: a selector such as `node_load1`, whose newest sample tells when the node was last
    scraped. It is asked for in the same query; a node without such a sample counts as missing.
    """

    column: str
    promql: str
    lowest: float = -math.inf
    highest: float = math.inf
    """Values below `lowest` or above `highest` count as missing, as NaN and infinity do."""
    sampled: str = ""

    @property
    def text(self) -> str:
        """The PromQL that is sent."""
        if not self.sampled:
            return self.promql
        times = f'label_replace(timestamp({self.sampled}), "{TIME_LABEL}", "1", "", "")'
        return f"({self.promql}) or {times}"
