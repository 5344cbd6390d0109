"""Settings of the safe agent, under their published names."""

from itertools import pairwise
from typing import Annotated, Final, Literal

import msgspec

from kube_sched_ext import setting

_DURATION: Final = r"^([0-9]+(ms|[smhdwy]))+\Z"
_IDLE: Final = (
    '1000 * sum without (cpu, mode) (rate(node_cpu_seconds_total{mode="idle"}[$rate_window]))'
)
_AVAILABLE: Final = "node_memory_MemAvailable_bytes"


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
            "What the predicate does with nodes that have no statistics of either resource, or "
            "none that are fresh.",
        ),
    ] = "accept"
    counts_new_pods: Annotated[
        bool,
        setting(
            "SAFE_COUNT_NEW_PODS",
            "Count the demand of pods bound to a node after its statistics were taken on top of "
            "them, until the next ones. Only a live cluster shows the pods.",
        ),
    ] = True
    source: Annotated[
        Literal["annotations", "prometheus"],
        setting("SAFE_SOURCE", "Where the statistics of nodes come from."),
    ] = "annotations"
    max_age_seconds: Annotated[
        float,
        setting(
            "SAFE_MAX_AGE_SECONDS",
            "Age above which statistics from Prometheus count as missing.",
            gt=0,
        ),
    ] = 180.0
    missing_scores: Annotated[
        Literal["neutral", "best", "worst"],
        setting(
            "SAFE_WITHOUT_STATISTICS_SCORE",
            "How nodes score of which Prometheus has no fresh statistics: as the mean of the "
            "others, as 10, or as 0. Without annotations they always score 0.",
        ),
    ] = "neutral"
    window: Annotated[
        str,
        setting(
            "SAFE_WINDOW",
            "`$window` of the queries: the time that statistics are of.",
            pattern=_DURATION,
            allowed="a duration such as 24h or 1h30m",
        ),
    ] = "24h"
    resolution: Annotated[
        str,
        setting(
            "SAFE_RESOLUTION",
            "`$resolution`: the time between two points of a subquery.",
            pattern=_DURATION,
            allowed="a duration such as 1m or 15s",
        ),
    ] = "1m"
    rate_window: Annotated[
        str,
        setting(
            "SAFE_RATE_WINDOW",
            "`$rate_window`: the time that the idle rate of a point is of.",
            pattern=_DURATION,
            allowed="a duration such as 5m",
        ),
    ] = "5m"
    horizon_seconds: Annotated[
        float,
        setting("SAFE_HORIZON_SECONDS", "`$horizon`: how far ahead a forecast is.", ge=0),
    ] = 3600.0
    mean_cpu: Annotated[
        str, setting("SAFE_MEAN_CPU", "PromQL of the mean of the free millicores.")
    ] = f"avg_over_time(({_IDLE})[$window:$resolution])"
    mean_memory: Annotated[
        str, setting("SAFE_MEAN_MEMORY", "PromQL of the mean of the free bytes.")
    ] = f"avg_over_time({_AVAILABLE}[$window])"
    deviation_cpu: Annotated[
        str, setting("SAFE_DEVIATION_CPU", "PromQL of their standard deviation: millicores.")
    ] = f"stddev_over_time(({_IDLE})[$window:$resolution])"
    deviation_memory: Annotated[
        str, setting("SAFE_DEVIATION_MEMORY", "PromQL of their standard deviation: bytes.")
    ] = f"stddev_over_time({_AVAILABLE}[$window])"
    forecast_cpu: Annotated[
        str,
        setting(
            "SAFE_FORECAST_CPU",
            "PromQL of the forecast of the free millicores; not asked if SAFEFORECASTWEIGHT is 0.",
        ),
    ] = f"clamp_min(predict_linear(({_IDLE})[$window:$resolution], $horizon), 0)"
    forecast_memory: Annotated[
        str,
        setting(
            "SAFE_FORECAST_MEMORY",
            "PromQL of the forecast of the free bytes; not asked if SAFEFORECASTWEIGHT is 0.",
        ),
    ] = f"clamp_min(predict_linear({_AVAILABLE}[$window], $horizon), 0)"
    sample_cpu: Annotated[
        str,
        setting(
            "SAFE_SAMPLE_CPU",
            "Selector of series whose newest samples are as old as the statistics of cpu.",
        ),
    ] = 'node_cpu_seconds_total{mode="idle",cpu="0"}'
    sample_memory: Annotated[
        str, setting("SAFE_SAMPLE_MEMORY", "The same for the statistics of memory.")
    ] = _AVAILABLE
    is_empirical: Annotated[
        bool,
        setting(
            "SAFE_EMPIRICAL",
            "Take the risk from quantiles over time, not from a Beta distribution. Needs "
            "SAFE_SOURCE=prometheus.",
        ),
    ] = False
    quantiles: Annotated[
        str,
        setting(
            "SAFE_QUANTILES",
            "Quantiles that are asked for, and between which SAFE_EMPIRICAL takes the "
            "distribution for even.",
            allowed="ascending numbers from 0 to 1, with commas between",
        ),
    ] = "0,0.01,0.05,0.1,0.2,0.3,0.5,0.75,1"
    quantile_cpu: Annotated[
        str,
        setting("SAFE_QUANTILE_CPU", "PromQL of the `$quantile` of the free millicores."),
    ] = f"quantile_over_time($quantile, ({_IDLE})[$window:$resolution])"
    quantile_memory: Annotated[
        str, setting("SAFE_QUANTILE_MEMORY", "PromQL of the `$quantile` of the free bytes.")
    ] = f"quantile_over_time($quantile, {_AVAILABLE}[$window])"

    def __post_init__(self) -> None:
        """Check what no single field shows."""
        problems = []
        if self.is_empirical and self.source != "prometheus":
            problems.append("SAFE_EMPIRICAL: needs SAFE_SOURCE=prometheus")
        try:
            shares = quantiles_of(self.quantiles)
        except ValueError:
            shares = []
        is_ascending = all(one < next_one for one, next_one in pairwise(shares))
        if not is_ascending or shares[:1] != [0.0] or shares[-1:] != [1.0]:
            problems.append(
                f"SAFE_QUANTILES: {self.quantiles!r} is not ascending numbers from 0 to 1, with "
                "commas between"
            )
        if problems:
            raise ValueError("\n".join(problems))


def quantiles_of(text: str) -> list[float]:
    """Return the numbers in SAFE_QUANTILES.

    Raises:
        ValueError: one is none.
    """
    return [float(part) for part in text.split(",")]
