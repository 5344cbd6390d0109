"""The forecast: how far off it is on a recorded series, and what it does with odd ones."""

from pathlib import Path

import numpy as np
import pytest

from kube_sched_ext import FloatArray
from kube_sched_ext_telemetry.annotate.forecast import LEAST, forecast

DAY, HOUR = 288, 12
CPU, MEMORY = np.loadtxt(Path(__file__).with_name("test_annotate_series.csv"), delimiter=",").T
"""Three days of one node; the file tells where they are from."""


def error(found: FloatArray, series: FloatArray) -> float:
    """Return the mean error of the next hour's mean, as a share of the series' mean."""
    return float(np.abs(found - _coming(series)).mean() / series.mean())


def _begins(series: FloatArray) -> range:
    return range(DAY, len(series) - HOUR, 6)


def days(series: FloatArray) -> FloatArray:
    """Return a day before each half hour."""
    return np.array([series[begin - DAY : begin] for begin in _begins(series)])


def _coming(series: FloatArray) -> FloatArray:
    return np.array([series[begin : begin + HOUR].mean() for begin in _begins(series)])


@pytest.mark.parametrize(
    ("series", "most", "of_last_value", "of_mean"),
    [(CPU, 0.041, 0.4, 0.22), (MEMORY, 0.0088, 0.4, 0.07)],
    ids=["cpu", "memory"],
)
def test_it_is_better_than_what_costs_nothing(
    series: FloatArray, most: float, of_last_value: float, of_mean: float
) -> None:
    """Than to expect what was last, and by far than what the statistics without it expect."""
    past = days(series)
    found = error(forecast(past, HOUR), series)
    assert found < most
    assert found < of_last_value * error(past[:, -1], series)
    assert found < of_mean * error(past.mean(axis=1), series)


def test_rows_are_forecast_each_for_itself() -> None:
    """In the order given."""
    past = days(MEMORY)[:3]
    alone = [forecast(row[np.newaxis], HOUR)[0] for row in past]
    assert forecast(past, HOUR).tolist() == alone


def test_a_series_that_stands_still_goes_on_so() -> None:
    """Whatever its size."""
    for value in (0.0, 1e-9, 4000.0, 1e12):
        assert forecast(np.full((1, DAY), value), HOUR).tolist() == [pytest.approx(value)]


def test_gaps_are_bridged() -> None:
    """As long as half of the steps are there."""
    row = days(MEMORY)[0]
    whole = forecast(row[np.newaxis], HOUR)[0]
    row[100:130] = np.nan
    assert forecast(row[np.newaxis], HOUR)[0] == pytest.approx(whole, rel=0.03)
    row[20:170] = np.nan
    assert np.isnan(forecast(row[np.newaxis], HOUR)[0])


@pytest.mark.parametrize(("steps", "is_known"), [(0, False), (LEAST - 1, False), (LEAST, True)])
def test_a_node_needs_some_past(steps: int, *, is_known: bool) -> None:
    """What came before a node's first step is no gap."""
    row = days(MEMORY)[0]
    row[: DAY - steps] = np.nan
    assert np.isnan(forecast(row[np.newaxis], HOUR)[0]) != is_known


@pytest.mark.parametrize("seed", range(20))
def test_it_never_runs_away(seed: int) -> None:
    """Noise, jumps, ramps and spikes are forecast near what they have been, and never below 0."""
    chance = np.random.default_rng(seed)
    row = np.cumsum(chance.normal(0, 1, DAY)) + 100 * (chance.random(DAY) < 0.02)
    row += np.where(np.arange(DAY) > 200, chance.normal(0, 50), 0)
    row += np.linspace(0, chance.normal(0, 100), DAY)
    row -= row.min()
    [found] = forecast(row[np.newaxis], HOUR)
    assert 0 <= found <= row.max() + np.ptp(row)
