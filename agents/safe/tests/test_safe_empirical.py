"""The risk from quantiles of what was free."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_sched_ext_safe import model

NAN = math.nan
EVEN = {0.0: 0.0, 1.0: 1000.0}
STEADY = {0.0: 300.0, 0.5: 300.0, 1.0: 300.0}
SKEWED = {0.0: 0.0, 0.1: 500.0, 0.5: 800.0, 1.0: 1000.0}
# For 60 % of the time 200 are free, 700 otherwise.
TWO_LEVELS = {0.0: 200.0, 0.59: 200.0, 0.61: 700.0, 1.0: 700.0}


def risk_of(
    free: dict[float, float], demand: float, threshold: float = 0.9, capacity: float = 1000.0
) -> float:
    """Return the risk of one resource of one node."""
    values = np.array(list(free.values()))[:, np.newaxis]
    [risk] = model.empirical_risk(
        np.array([capacity]), values, np.array(list(free)), np.array([demand]), threshold
    )
    return float(risk)


@pytest.mark.parametrize(
    ("free", "demand", "threshold", "risk"),
    [
        # The reserve above the threshold of 0.9 is 100, so that 100 + demand must be free.
        (EVEN, 0, 0.9, 0.1),
        (EVEN, 200, 0.9, 0.3),
        (EVEN, 900, 0.9, 1.0),
        (EVEN, 0, 1.0, 0.0),
        (EVEN, 5000, 1.0, 0.0),
        (EVEN, 0, 0.0, 1.0),
        (EVEN, 0, 0.5, 0.5),
        # The same all the time: as without a deviation.
        (STEADY, 0, 0.9, 0.0),
        (STEADY, 200, 0.9, 0.0),  # just at the threshold
        (STEADY, 201, 0.9, 1.0),
        # Between two quantiles in proportion.
        (SKEWED, 0, 0.9, 0.02),
        (SKEWED, 400, 0.9, 0.1),
        (SKEWED, 550, 0.9, 0.3),  # half of the way from 500 to 800
        (SKEWED, 800, 0.9, 0.75),
        (TWO_LEVELS, 100, 0.9, 0.0),
        (TWO_LEVELS, 350, 0.9, 0.6),
        (TWO_LEVELS, 600, 0.9, 0.61),
        (TWO_LEVELS, 601, 0.9, 1.0),
        # More free than there is to use: nothing is used, but the pod alone is too much.
        ({0.0: 5000.0, 1.0: 6000.0}, 900, 0.9, 0.0),
        ({0.0: 5000.0, 1.0: 6000.0}, 901, 0.9, 1.0),
        # A quantile that is missing.
        ({0.0: NAN, 1.0: 1000.0}, 0, 0.9, NAN),
        ({0.0: 0.0, 1.0: NAN}, 0, 0.9, NAN),
    ],
)
def test_risk_is_the_share_of_time_above_the_threshold(
    free: dict[float, float], demand: float, threshold: float, risk: float
) -> None:
    """Of 1000 millicores, with the pod there all the time."""
    assert risk_of(free, demand, threshold) == pytest.approx(risk, nan_ok=True)


def test_unknown_capacity_has_no_risk() -> None:
    """As without statistics."""
    assert math.isnan(risk_of(EVEN, 0, capacity=NAN))


@given(
    free=st.lists(st.integers(0, 1500), min_size=2, max_size=300),
    demand=st.integers(0, 1500),
    threshold=st.sampled_from([0.0, 0.25, 0.5, 0.875, 1.0]),
)
def test_risk_is_that_of_the_samples_but_for_what_lies_between_two_quantiles(
    free: list[int], demand: int, threshold: float
) -> None:
    """Counted plainly over all samples; wrong by no more than two steps of 5 % and a sample."""
    capacity = 1000
    used = [min(max(capacity - it, 0) + demand, capacity) for it in free]
    share = sum(it > threshold * capacity for it in used) / len(free)
    steps = np.linspace(0, 1, 21)
    risk = risk_of(
        dict(zip(steps.tolist(), np.quantile(free, steps).tolist(), strict=True)),
        demand,
        threshold,
        capacity,
    )
    assert risk == pytest.approx(share, abs=0.1 + 1 / (len(free) - 1))


@given(
    st.lists(st.floats(0, 2000), min_size=5, max_size=5).map(sorted),
    st.tuples(st.floats(0, 1200), st.floats(0, 1200)).map(sorted),
    st.floats(0, 1),
)
def test_risk_is_a_probability_that_grows_with_the_demand(
    free: list[float], demands: list[float], threshold: float
) -> None:
    """Whatever the quantiles."""
    by_quantile = dict(zip((0.0, 0.1, 0.5, 0.9, 1.0), free, strict=True))
    less, more = (risk_of(by_quantile, it, threshold) for it in demands)
    assert 0 <= less <= more + 1e-12 <= 1 + 2e-12
