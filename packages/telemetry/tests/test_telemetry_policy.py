"""What stands in for data that is missing."""

import numpy as np
import pytest

from kube_sched_ext_telemetry import MissingScores, MissingVerdicts, fill_in, rejected

X = -1  # missing


@pytest.mark.parametrize(
    ("scores", "policy", "filled"),
    [
        ([3, 1, 0], "neutral", [3, 1, 0]),
        ([3, 1, X], "neutral", [3, 1, 2]),
        ([3, X, 0], "neutral", [3, 2, 0]),  # 1.5: halves up
        ([X, 10, 7], "neutral", [9, 10, 7]),  # 8.5
        ([1, 0, 0, X], "neutral", [1, 0, 0, 0]),  # 0.33
        ([X, X], "neutral", [5, 5]),
        ([X, 0], "best", [10, 0]),
        ([X, 10], "worst", [0, 10]),
        ([X, X], "best", [10, 10]),
        ([], "neutral", []),
    ],
)
def test_missing_scores_are_filled_in(
    scores: list[int], policy: MissingScores, filled: list[int]
) -> None:
    """neutral: the rounded mean of the nodes that have data."""
    given = np.array(scores, np.int64)
    result = fill_in(given, given == X, policy)
    assert result.tolist() == filled
    assert result.dtype == np.int64


@pytest.mark.parametrize(
    ("policy", "verdict"), [("accept", [False, False]), ("reject", [True, False])]
)
def test_missing_nodes_stay_or_go(policy: MissingVerdicts, verdict: list[bool]) -> None:
    """Those with data are not its business."""
    assert rejected(np.array([True, False]), policy).tolist() == verdict
