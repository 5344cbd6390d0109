"""The risk of overloading a node, and what it scores.

The model is that of kube-safe-scheduler: a resource's utilisation after placement is taken for a
Beta distribution with the mean and variance measured. Arrays are float64; resources that a node
has no statistics of are NaN throughout.
"""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtr

FloatArray = NDArray[np.float64]

_NORMAL: Final = 1e9
"""Both parameters of a Beta from which on it is taken for normal but for its skewness.

The error is below 1e-10 there. That of betainc grows with the parameters, as does its time: with
1e16 it returns NaN, with 1e30 anything, and long before it takes 0.2 ms per number.
"""

_FAR: Final = 40.0
"""Standard deviations from the mean beyond which no float64 tells a normal's tail from 0."""


def utilisation(
    capacity: FloatArray,
    free_mean: FloatArray,
    free_deviation: FloatArray,
    free_forecast: FloatArray,
    demand: FloatArray,
    forecast_weight: float,
) -> tuple[FloatArray, FloatArray]:
    """Return mean and standard deviation of the utilisation after placement, within 0..1.

    Args:
        capacity: allocatable; none or 0 is NaN in the result.
        free_mean: measured mean of what is free; none is NaN in the result.
        free_deviation: measured standard deviation; none is 0.
        free_forecast: forecast of the mean; none leaves the mean alone.
        demand: of the pod.
        forecast_weight: share of the forecast, 0..1.

    All but the last broadcast to one shape, such as (resources, n), in the resource's unit.
    """
    capacity = np.where(capacity > 0, capacity, np.nan)
    blended = (1.0 - forecast_weight) * free_mean + forecast_weight * free_forecast
    free = np.where(np.isnan(free_forecast), free_mean, blended)
    used = np.maximum(capacity - free, 0.0)
    mu = np.clip((used + demand) / capacity, 0.0, 1.0)
    sigma = np.clip(np.nan_to_num(free_deviation, nan=0.0) / capacity, 0.0, 1.0)
    return mu, np.where(np.isnan(mu), np.nan, sigma)


def overload_risk(mu: FloatArray, sigma: FloatArray, threshold: float) -> FloatArray:
    """Return P(X > threshold) for X ~ Beta with mean `mu` and standard deviation `sigma`.

    nu = mu (1 - mu) / sigma^2 - 1, a = mu nu, b = (1 - mu) nu, risk = 1 - I_threshold(a, b).
    Where no such Beta exists its limit is taken: all mass on mu for sigma = 0, all on 0 and 1 for
    a variance of mu (1 - mu) or more.
    """
    variance = sigma * sigma
    widest = mu * (1.0 - mu)
    on_mean = np.where(mu <= threshold, 0.0, 1.0)
    on_ends = mu if threshold < 1.0 else np.zeros_like(mu)
    risk = np.where(variance == 0.0, on_mean, on_ends)
    is_beta = (variance > 0.0) & (variance < widest)
    risk[is_beta] = _beta_risk(mu[is_beta], sigma[is_beta], threshold)
    return np.where(np.isnan(mu), np.nan, risk)


def _beta_risk(mu: FloatArray, sigma: FloatArray, threshold: float) -> FloatArray:
    """Return `overload_risk` for 0 < sigma^2 < mu (1 - mu), shape (m,)."""
    with np.errstate(over="ignore"):
        nu = mu * (1.0 - mu) / (sigma * sigma) - 1.0
    a, b = mu * nu, (1.0 - mu) * nu
    is_normal = np.minimum(a, b) > _NORMAL
    # betainc of scipy 1.17 and 1 - betaincc differ in the last digits, and a published score of
    # ten would become nine.
    risk = 1.0 - betainc(np.where(is_normal, np.nan, a), b, threshold)
    risk[is_normal] = _normal_risk(mu[is_normal], sigma[is_normal], threshold)
    return np.asarray(risk)


def _normal_risk(mu: FloatArray, sigma: FloatArray, threshold: float) -> FloatArray:
    """Return `_beta_risk` for parameters above _NORMAL.

    It is Edgeworth's expansion of the distribution function up to the skewness g:
    Phi(z) - phi(z) (z^2 - 1) g / 6.
    """
    with np.errstate(over="ignore"):
        z = np.clip((threshold - mu) / sigma, -_FAR, _FAR)
    skewness = 2.0 * (1.0 - 2.0 * mu) / (mu * (1.0 - mu)) * sigma
    density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    return np.asarray(1.0 - (ndtr(z) - density * (z * z - 1.0) * skewness / 6.0))


def has_statistics(risk: FloatArray) -> NDArray[np.bool_]:
    """Tell for each node whether it has statistics of any resource, shape (resources, n)."""
    return np.asarray((~np.isnan(risk)).any(axis=0))


def has_overload_risk(risk: FloatArray, percentile: float) -> NDArray[np.bool_]:
    """Tell for each node whether the risk of any resource, shape (resources, n), is too high."""
    return np.asarray((risk > percentile).any(axis=0))


def exact_overload_scores(risk: FloatArray, percentile: float) -> FloatArray:
    """Return 10 (1 - sqrt(min(risk / percentile, 1))), the least over the resources; shape (n,).

    A percentile of 0 takes no risk at all. A node without statistics has NaN.
    """
    share = np.minimum(risk, percentile) / percentile if percentile > 0.0 else np.ceil(risk)
    return _least(10.0 * (1.0 - np.sqrt(share)))


def overload_scores(exact: FloatArray) -> NDArray[np.int64]:
    """Return exact overload scores as integers, rounded down; 0 for nodes without statistics."""
    return _whole(np.floor(exact))


def exact_balance_scores(mu: FloatArray, sigma: FloatArray) -> FloatArray:
    """Return 10 (1 - (mu + sqrt(sigma)) / 2), the least over the resources; shape (n,).

    A node without statistics has NaN.
    """
    return _least(10.0 * (1.0 - (mu + np.sqrt(sigma)) / 2.0))


def balance_scores(exact: FloatArray) -> NDArray[np.int64]:
    """Return exact balance scores as integers, halves up; 0 for nodes without statistics."""
    return _whole(np.floor(exact + 0.5))


def _least(scores: FloatArray) -> FloatArray:
    return np.asarray(np.fmin.reduce(scores, axis=0))


def _whole(scores: FloatArray) -> NDArray[np.int64]:
    return np.nan_to_num(scores, nan=0.0).astype(np.int64)
