"""Settings of the congestion agent."""

from typing import Annotated

import msgspec

from kube_sched_ext import setting


class CongestionSettings(msgspec.Struct, frozen=True):
    """What counts as congested."""

    factor_max: Annotated[
        float,
        setting(
            "CONGESTION_FACTOR_MAX",
            "The congestion-factor of a node that cannot be more congested: its score is 0.",
            gt=0,
        ),
    ] = 100.0
