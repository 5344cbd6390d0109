"""How traffic becomes a score."""

import numpy as np
from numpy.typing import NDArray


def exact_scores(traffic: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return 100 - 100 v / max for the traffic v >= 0 of each node; shape (n,).

    max is the largest of them; where all are 0 every node has 100. A node without data (NaN) has
    NaN.
    """
    largest = np.fmax.reduce(traffic, initial=0.0)
    if largest == 0.0:
        return np.where(np.isnan(traffic), np.nan, 100.0)
    return np.asarray(100.0 - 100.0 * traffic / largest)


def scores(exact: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return exact scores as integers 0..10, halves rounded up; 0 for nodes without data."""
    return np.floor(np.nan_to_num(exact, nan=0.0) / 10.0 + 0.5).astype(np.int64)
