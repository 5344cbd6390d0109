"""What verbs say of nodes without fresh data."""

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from kube_sched_ext.agent import MAX_SCORE

MissingScores = Literal["neutral", "best", "worst"]
"""How a priority scores them: as the mean of the nodes that have data, as 10, or as 0."""

MissingVerdicts = Literal["accept", "reject"]
"""Whether a predicate lets them stay."""

_NEUTRAL: Final = 5
"""The neutral score where no node has data."""


def fill_in(
    scores: NDArray[np.int64], is_missing: NDArray[np.bool_], policy: MissingScores
) -> NDArray[np.int64]:
    """Return `scores` with those of nodes without fresh data replaced, all of shape (n,).

    neutral: the mean of the others, halves rounded up; 5 where there are none.
    """
    if not is_missing.any():
        return scores
    return np.where(is_missing, _stand_in(scores[~is_missing], policy), scores)


def _stand_in(known: NDArray[np.int64], policy: MissingScores) -> int:
    if policy == "best":
        return MAX_SCORE
    if policy == "worst":
        return 0
    return int(np.floor(known.mean() + 0.5)) if len(known) else _NEUTRAL


def rejected(is_missing: NDArray[np.bool_], policy: MissingVerdicts) -> NDArray[np.bool_]:
    """Return which nodes a predicate rejects for having no fresh data; shape (n,)."""
    return is_missing if policy == "reject" else np.zeros_like(is_missing)
