"""Settings of the networktraffic agent, the first three under their published names."""

from typing import Annotated, Literal

import msgspec

from kube_sched_ext import setting
from kube_sched_ext_telemetry import MissingScores
from kube_sched_ext_telemetry.settings import url_problems


class NetworkTrafficSettings(msgspec.Struct, frozen=True):
    """Which traffic counts, and where it is measured."""

    address: Annotated[
        str,
        setting(
            "Address",
            "URL of the Prometheus that knows the traffic; needed where PROMETHEUS_URL is not set, "
            "and wins over it.",
            allowed="a URL such as http://prometheus:9090",
        ),
    ] = ""
    interface: Annotated[
        str,
        setting(
            "NetworkInterface",
            "The network interface whose traffic counts, on all nodes.",
            pattern=r"^[^\s/\"\\]{1,15}\Z",
            allowed="a name such as eth0, of up to 15 characters",
        ),
    ] = "ens192"
    minutes: Annotated[
        int,
        setting("TimeRangeInMinutes", "The minutes up to now whose traffic counts.", ge=1, le=1440),
    ] = 5
    function: Annotated[
        Literal["rate", "sum_over_time"],
        setting(
            "NETWORKTRAFFIC_FUNCTION",
            "What is made of the counters. rate: bytes per second. sum_over_time: as published, "
            "but nodes that have been up for long look busy for ever.",
        ),
    ] = "rate"
    direction: Annotated[
        Literal["receive", "transmit", "both"],
        setting("NETWORKTRAFFIC_DIRECTION", "Whose bytes count; both: the sum."),
    ] = "receive"
    is_over_speed: Annotated[
        bool,
        setting(
            "NETWORKTRAFFIC_OVER_SPEED",
            "Divide by the speed of the interface, for nodes with different ones. A node that "
            "does not tell its speed counts as missing.",
        ),
    ] = False
    promql: Annotated[
        str,
        setting(
            "NETWORKTRAFFIC_PROMQL",
            "PromQL for the traffic of all nodes, instead of all that is made of the settings "
            "above; less is better.",
        ),
    ] = ""
    max_age_seconds: Annotated[
        float,
        setting(
            "NETWORKTRAFFIC_MAX_AGE_SECONDS",
            "Age above which a node's last sample counts as missing.",
            gt=0,
        ),
    ] = 180.0
    missing: Annotated[
        MissingScores,
        setting(
            "NETWORKTRAFFIC_MISSING",
            "How a node without fresh data scores. neutral: as the mean of the nodes asked about "
            "that have data, or 5 where none has. best: 10. worst: 0.",
        ),
    ] = "neutral"

    def __post_init__(self) -> None:
        """Check what no type shows."""
        if problems := url_problems("Address", self.address):
            raise ValueError("\n".join(problems))
