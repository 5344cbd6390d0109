"""How a congestion factor becomes a score."""

import numpy as np
from numpy.typing import NDArray


def exact_scores(factors: NDArray[np.float64], factor_max: float) -> NDArray[np.float64]:
    """Return 10 (1 - f / factor_max) for each factor f clipped to 0..factor_max; shape (n,).

    A missing factor (NaN) is no congestion: 10.
    """
    clipped = np.clip(np.nan_to_num(factors, nan=0.0), 0.0, factor_max)
    return 10.0 * (1.0 - clipped / factor_max)


def scores(exact: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return exact scores as integers, halves rounded up."""
    return np.floor(exact + 0.5).astype(np.int64)
