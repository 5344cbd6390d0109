"""What is asked of Prometheus: the PromQL in settings, with what stands for windows filled in."""

from collections.abc import Iterator
from string import Template

from kube_sched_ext_safe.settings import SafeSettings, quantiles_of
from kube_sched_ext_telemetry import Feed, Query

# Above these a number is no measurement of a machine.
_MOST_CPU = 1e9
_MOST_MEMORY = 2.0**60


def new_feed(settings: SafeSettings) -> Feed:
    """Return what an agent with these settings asks."""
    return Feed(queries(settings), max_age_seconds=settings.max_age_seconds)


def queries(settings: SafeSettings) -> list[Query]:
    """Return means and deviations, then forecasts and quantiles where they count.

    Each is of cpu and of memory, in this order.
    """
    return [
        Query(f"{name}-{resource}", promql, lowest=0.0, highest=most, sampled=sample)
        for name, cpu, memory in _texts(settings)
        for resource, promql, most, sample in (
            ("cpu", cpu, _MOST_CPU, settings.sample_cpu),
            ("memory", memory, _MOST_MEMORY, settings.sample_memory),
        )
    ]


def _texts(settings: SafeSettings) -> Iterator[tuple[str, str, str]]:
    """Yield what is asked for, and the PromQL for cpu and for memory."""

    def filled(promql: str, quantile: float = 0.0) -> str:
        # What else has a dollar sign, as a regular expression may, stays.
        return Template(promql).safe_substitute(
            window=settings.window,
            resolution=settings.resolution,
            rate_window=settings.rate_window,
            horizon=f"{settings.horizon_seconds:g}",
            quantile=f"{quantile:g}",
        )

    yield "mean-free", filled(settings.mean_cpu), filled(settings.mean_memory)
    yield "std-free", filled(settings.deviation_cpu), filled(settings.deviation_memory)
    if settings.forecast_weight > 0:
        yield "forecast-free", filled(settings.forecast_cpu), filled(settings.forecast_memory)
    if settings.is_empirical:
        cpu, memory = settings.quantile_cpu, settings.quantile_memory
        for quantile in quantiles_of(settings.quantiles):
            name = f"quantile-{quantile:g}-free"
            yield name, filled(cpu, quantile), filled(memory, quantile)
