"""Settings of the safe agent, under their published names."""

from typing import Annotated, Literal

import msgspec

from kube_sched_ext import setting


class SafeSettings(msgspec.Struct, frozen=True):
    """What counts as overload, and how much risk of it is taken."""

    forecast_weight: Annotated[
        float,
        setting(
            "SAFEFORECASTWEIGHT",
            "Percentage that the forecast of a node's free resources counts; the mean counts for "
            "the rest.",
            ge=0,
            le=100,
        ),
    ] = 20.0
    utilisation: Annotated[
        float,
        setting(
            "SAFEUTILIZATION",
            "Percentage of a resource above which a node is overloaded.",
            ge=0,
            le=100,
        ),
    ] = 90.0
    percentile: Annotated[
        float,
        setting(
            "SAFEPERCENTILE",
            "Percentage of risk of overload above which a node is rejected, and scores 0.",
            ge=0,
            le=100,
        ),
    ] = 30.0
    print_table: Annotated[
        bool,
        setting(
            "SAFEPRINTTABLE", "Log mu, sigma, risk and score of each node with each call, at INFO."
        ),
    ] = False
    without_statistics: Annotated[
        Literal["accept", "reject"],
        setting(
            "SAFE_WITHOUT_STATISTICS",
            "What the predicate does with nodes that have no statistics of either resource.",
        ),
    ] = "accept"
