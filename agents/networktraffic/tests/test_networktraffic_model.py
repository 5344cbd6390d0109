"""From traffic to scores."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_sched_ext_networktraffic import model

NAN = math.nan


@pytest.mark.parametrize(
    ("traffic", "exact", "scores"),
    [
        ([1_000_000, 1_200_000, 1_400_000], [28.57, 14.29, 0], [3, 1, 0]),
        ([0, 0], [100, 100], [10, 10]),
        ([0, 5], [100, 0], [10, 0]),
        ([7], [0], [0]),
        ([95, 100, 85], [5, 0, 15], [1, 0, 2]),  # halves up
        ([NAN, 1, 2], [NAN, 50, 0], [0, 5, 0]),
        ([NAN, 0], [NAN, 100], [0, 10]),
        ([NAN, NAN], [NAN, NAN], [0, 0]),
        ([1e24, 5e23], [0, 50], [0, 5]),
        ([], [], []),
    ],
)
def test_scores_of_traffic(
    traffic: Sequence[float], exact: Sequence[float], scores: Sequence[int]
) -> None:
    """100 - 100 v / max; a tenth of it, rounded. The first row is the article's."""
    found = model.exact_scores(np.array(traffic, np.float64))
    np.testing.assert_allclose(found, exact, atol=0.005)
    assert model.scores(found).tolist() == scores


@given(st.lists(st.integers(0, 10**15) | st.none(), max_size=20))
def test_scores_are_those_of_the_definition(traffic: Sequence[int | None]) -> None:
    """In exact arithmetic; next to a half either neighbour will do."""
    largest = max((it for it in traffic if it is not None), default=0)
    values = np.array([NAN if it is None else float(it) for it in traffic], np.float64)
    scores = model.scores(model.exact_scores(values)).tolist()
    for it, score in zip(traffic, scores, strict=True):
        if it is None:
            assert score == 0
            continue
        exact = 10 - 10 * Fraction(it, largest) if largest else Fraction(10)
        allowed = {
            math.floor(exact + Fraction(1, 2) + e)
            for e in (0, Fraction(1, 10**12), -Fraction(1, 10**12))
        }
        assert score in allowed


@given(st.lists(st.floats(0, 1e24), min_size=2, max_size=20))
def test_less_traffic_never_scores_lower(traffic: Sequence[float]) -> None:
    """The order of the scores is that of the traffic, turned round; all are within 0..10."""
    values = np.sort(np.array(traffic))
    scores = model.scores(model.exact_scores(values))
    assert (np.diff(scores) <= 0).all()
    assert scores.min() >= 0
    assert scores.max() <= 10
