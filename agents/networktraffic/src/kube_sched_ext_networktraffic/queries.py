"""The PromQL that settings stand for."""

from typing import Final

from kube_sched_ext_networktraffic.settings import NetworkTrafficSettings
from kube_sched_ext_telemetry import Query

_DIRECTIONS: Final = {
    "receive": ("receive",),
    "transmit": ("transmit",),
    "both": ("receive", "transmit"),
}
_MOST: Final = {"rate": 1e12, "sum_over_time": 1e24}
"""Bytes per second, and bytes added up over samples, that no interface has."""


def traffic_query(settings: NetworkTrafficSettings) -> Query:
    """Return the query for each node's traffic."""
    if settings.promql:
        return Query("traffic", settings.promql, lowest=0.0, highest=max(_MOST.values()))
    device = f'{{device="{settings.interface}"}}'
    counters = [
        f"node_network_{direction}_bytes_total{device}"
        for direction in _DIRECTIONS[settings.direction]
    ]
    promql = " + ".join(f"{settings.function}({it}[{settings.minutes}m])" for it in counters)
    if settings.is_over_speed:
        # Virtual interfaces report a speed below 0, or none.
        promql = f"({promql}) / (node_network_speed_bytes{device} > 0)"
    return Query(
        "traffic",
        promql,
        lowest=0.0,
        highest=_MOST[settings.function],
        sampled=counters[0],
    )
