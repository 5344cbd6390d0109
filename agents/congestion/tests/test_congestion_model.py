"""From a congestion factor to a score."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_sched_ext_congestion import model


@pytest.mark.parametrize(
    ("factor", "score"),
    [
        (0, 10),
        (100, 0),
        (150, 0),
        (-5, 10),
        (math.nan, 10),
        (50, 5),
        (4, 10),  # 9.6
        (5, 10),  # 9.5
        (6, 9),  # 9.4
        (45, 6),  # 5.5: half to even would be 6 too
        (55, 5),  # 4.5: half to even would be 4
        (95, 1),  # 0.5: half to even would be 0
        (96, 0),  # 0.4
        (2**63, 0),
        (-(2**63), 10),
    ],
)
def test_score_falls_from_ten_to_zero_with_the_factor(factor: float, score: int) -> None:
    """Factors are clipped to 0..100, halves are rounded up, no factor is no congestion."""
    exact = model.exact_scores(np.array([factor], float), 100.0)
    assert model.scores(exact).tolist() == [score]


@given(
    factors=st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(-10, 1100), max_size=20),
    factor_max=st.integers(1, 1000),
)
def test_scores_are_the_formula_in_exact_arithmetic(factors: list[int], factor_max: int) -> None:
    """No rounding of float64 moves a score: floor(10 (1 - f/max) + 1/2) for f within 0..max."""
    exact = model.exact_scores(np.array(factors, float), float(factor_max))
    expected = [
        math.floor(
            10 * (1 - Fraction(min(max(factor, 0), factor_max), factor_max)) + Fraction(1, 2)
        )
        for factor in factors
    ]
    assert model.scores(exact).tolist() == expected


@given(st.floats(min_value=0, exclude_min=True, allow_infinity=False))
def test_scores_span_the_scale_for_every_maximum(factor_max: float) -> None:
    """Any maximum above 0, however small or large, has 10 at no congestion and 0 at itself."""
    exact = model.exact_scores(np.array([0.0, factor_max, math.nan]), factor_max)
    assert model.scores(exact).tolist() == [10, 0, 10]
