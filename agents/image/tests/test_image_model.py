"""From presence, sizes and spread to scores."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_sched_ext_image import model

MB = 10**6


@pytest.mark.parametrize(
    ("references", "images", "score"),
    [
        ([], [], 0),
        ([False], [False], 0),
        ([True], [True], 1),
        ([True, True, False], [True, True, False], 2),
        ([True, True], [True], 1),
        ([True], [True, True], 1),
        ([True] * 10, [True] * 10, 10),
        ([True] * 11, [True] * 11, 10),
    ],
)
def test_image_score_counts_images_up_to_ten(
    references: list[bool], images: list[bool], score: int
) -> None:
    """Two references to one image are one image, as are two images under one reference."""
    scores = model.image_scores(
        np.array(references, bool).reshape(-1, 1), np.array(images, bool).reshape(-1, 1)
    )
    assert scores.tolist() == [score]


def test_image_score_counts_each_node_by_itself() -> None:
    """A column is a node."""
    presence = np.array([[True, False, True], [False, False, True]])
    assert model.image_scores(presence, presence).tolist() == [1, 0, 2]


@pytest.mark.parametrize(
    ("present", "sizes", "node_counts", "score"),
    [
        ([1], [100 * MB], [3], 10),
        ([1], [100 * MB], [300], 10),
        ([1], [100 * MB], [2], 7),  # 6.67
        ([1], [100 * MB], [1], 3),  # 3.33
        ([0], [100 * MB], [3], 0),
        ([1, 0], [60 * MB, 40 * MB], [3, 3], 6),
        ([0, 1], [60 * MB, 40 * MB], [3, 3], 4),
        ([1, 1], [60 * MB, 40 * MB], [3, 1], 7),  # 6 + 4/3 = 7.33
        ([1, 0], [5 * MB, 95 * MB], [3, 3], 1),  # 0.5: half to even would be 0
        ([1, 0], [45 * MB, 55 * MB], [3, 3], 5),  # 4.5: half to even would be 4
        ([1, 0], [44 * MB, 56 * MB], [3, 3], 4),  # 4.4
        ([1, 1], [0, 100 * MB], [3, 3], 10),
        ([1], [0], [3], 0),
        ([], [], [], 0),
    ],
)
def test_image_locality_is_the_share_of_bytes_present(
    present: list[int], sizes: list[int], node_counts: list[int], score: int
) -> None:
    """Images on fewer than 3 nodes count in proportion; without known bytes the score is 0."""
    exact = model.exact_localities(
        np.array(present, bool).reshape(-1, 1),
        np.array(sizes, float),
        np.array(node_counts, float),
        3,
    )
    assert model.locality_scores(exact).tolist() == [score]


@given(
    images=st.lists(
        st.tuples(
            st.integers(0, 2**40) | st.sampled_from([10 * MB, 20 * MB, 50 * MB, 100 * MB]),
            st.integers(1, 12),
            st.booleans(),
        ),
        max_size=8,
    ),
    spread_nodes=st.integers(1, 12),
)
def test_image_locality_is_the_formula_in_exact_arithmetic(
    images: list[tuple[int, int, bool]], spread_nodes: int
) -> None:
    """No rounding of float64 moves a score."""
    exact = model.exact_localities(
        np.array([has for _, _, has in images], bool).reshape(-1, 1),
        np.array([size for size, _, _ in images], float),
        np.array([node_count for _, node_count, _ in images], float),
        spread_nodes,
    )
    total = sum(size for size, _, _ in images)
    counted = sum(
        size * min(Fraction(1), Fraction(node_count, spread_nodes))
        for size, node_count, has in images
        if has
    )
    expected = math.floor(10 * counted / total + Fraction(1, 2)) if total else 0
    assert model.locality_scores(exact).tolist() == [expected]
