"""What comes next: an autoregression for each node, fitted by statsmodels.

Of a day's steps each node's next ones are a weighted sum of its last three hours. Burg's method
finds the weights: it never diverges, whatever the series, and takes a fraction of the time that
exponential smoothing does.
"""

from typing import Final

import numpy as np

from kube_sched_ext import MISSING, FloatArray

LAGS: Final = 36
"""Three hours of steps of five minutes."""

LEAST: Final = 3 * LAGS
"""Steps that a forecast needs; a node with fewer has none."""


def forecast(series: FloatArray, horizon: int) -> FloatArray:
    """Return the mean of the next `horizon` steps of each row, never below 0.

    NaN where a row has fewer than `LEAST` steps since its first, or too few to fill the gaps from:
    more than half of them.

    Args:
        series: shape (n, steps), the newest step last; NaN where nothing was measured.
        horizon: how many steps ahead to look.
    """
    # Late: it is half of this process' memory, and not every process forecasts.
    from statsmodels.regression.linear_model import burg  # noqa: PLC0415

    means = np.full(len(series), MISSING)
    for row, steps in enumerate(series):
        whole = _without_gaps(steps)
        if whole is None:
            continue
        middle = whole.mean()
        if np.ptp(whole) <= abs(middle) * 1e-9:
            means[row] = middle
            continue
        weights, _ = burg(whole, LAGS)
        means[row] = middle + _next(whole[-LAGS:] - middle, weights[::-1], horizon).mean()
    return means.clip(min=0.0)


def _without_gaps(steps: FloatArray) -> FloatArray | None:
    [known] = np.nonzero(~np.isnan(steps))
    if not len(known):
        return None
    places = np.arange(known[0], len(steps))
    if len(places) < LEAST or len(known) * 2 < len(places):
        return None
    whole: FloatArray = np.interp(places, known, steps[known])
    return whole


def _next(last: FloatArray, weights: FloatArray, count: int) -> FloatArray:
    lags = len(last)
    steps: FloatArray = np.concatenate([last, np.empty(count)])
    for place in range(lags, lags + count):
        steps[place] = weights @ steps[place - lags : place]
    return steps[lags:]
