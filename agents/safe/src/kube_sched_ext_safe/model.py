"""The risk of overloading a node, and what it scores.

The model is that of kube-safe-scheduler: a resource's utilisation after placement is taken for a
Beta distribution with the mean and variance measured. Arrays are float64; resources that a node
has no statistics of are NaN throughout.
"""

import math
from functools import reduce
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainc, ndtr

FloatArray = NDArray[np.float64]

_NARROW: Final = 1e6
"""Both parameters of a Beta above which `_narrow_risk` is nearer to the truth than betainc.

The error of betainc grows with the parameters, as does its time: with 1e16 it returns NaN, with
1e30 anything, and long before it takes 0.2 ms per number.
"""

_SERIES: Final = [(-1.0) ** (k + 1) / (k + 3) for k in range(7, -1, -1)]
"""Coefficients of (x - ln(1 + x) - x^2 / 2) / x^3, that of the highest power first."""

_LOST: Final = 40.0
"""-ln of a mass that 1 - x does not show: exp(-40) is a thirteenth of half an ulp of 1."""

_ROUNDING: Final = 1e-14
"""More than the error of D as computed; it counts where nu is huge."""

_WAYS: Final = np.array([1 / 8, 1 / 4, 1 / 2, 3 / 4]).reshape(-1, 1, 1)
"""How far from where a node stands to the threshold it is tried whether there is a risk."""


def load(
    capacity: FloatArray,
    free_mean: FloatArray,
    free_deviation: FloatArray,
    free_forecast: FloatArray,
    forecast_weight: float,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return capacity, what is used, and the standard deviation of the utilisation, within 0..1.

    Args:
        capacity: allocatable; none or 0 is NaN in all of the result.
        free_mean: measured mean of what is free; none is NaN in what is used and its deviation.
        free_deviation: measured standard deviation; none is 0.
        free_forecast: forecast of the mean; none leaves the mean alone.
        forecast_weight: share of the forecast, 0..1.

    All but the last are of one shape, in the resource's unit.
    """
    capacity = np.where(capacity > 0, capacity, np.nan)
    blended = (1.0 - forecast_weight) * free_mean + forecast_weight * free_forecast
    free = np.where(np.isnan(free_forecast), free_mean, blended)
    used = np.maximum(capacity - free, 0.0)
    sigma = np.clip(np.nan_to_num(free_deviation, nan=0.0) / capacity, 0.0, 1.0)
    return capacity, used, np.where(np.isnan(used), np.nan, sigma)


def utilisation(capacity: FloatArray, used: FloatArray, demand: FloatArray) -> FloatArray:
    """Return the mean utilisation after placement, within 0..1; NaN without statistics."""
    return np.asarray(((used + demand) / capacity).clip(0.0, 1.0))


def overload_risk(mu: FloatArray, sigma: FloatArray, threshold: float) -> FloatArray:
    """Return P(X > threshold) for X ~ Beta with mean `mu` and standard deviation `sigma`.

    nu = mu (1 - mu) / sigma^2 - 1, a = mu nu, b = (1 - mu) nu, risk = 1 - I_threshold(a, b).
    Where no such Beta exists its limit is taken: all mass on mu for sigma = 0, all on 0 and 1 for
    a variance of mu (1 - mu) or more.
    """
    risk = (mu > threshold).astype(np.float64)
    is_open = ~_is_settled(mu, sigma, threshold)
    if is_open.any():
        risk[is_open] = _open_risk(mu[is_open], sigma[is_open], threshold)
    return risk


def _is_settled(mu: FloatArray, sigma: FloatArray, threshold: float) -> NDArray[np.bool_]:
    """Tell where the risk is 0 or 1 to the last bit, as most nodes are far from the threshold.

    The mass of a Beta beyond t, on the side of t where mu is not, is at most exp(-nu D) with
    D = mu ln(mu / t) + (1 - mu) ln((1 - mu) / (1 - t)). (X is G / (G + H) with independent Gamma
    distributed G and H, so P(X > t) = P((1 - t) G - t H > 0) <= E exp(s ((1 - t) G - t H)), least
    at s = (t - mu) / (t (1 - t)).) Below half the distance from 1 to the next float64 it is lost
    in 1 - x.
    """
    nu, divergence = _tail(mu, sigma, threshold)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.asarray(nu * divergence > _LOST)


def _tail(mu: FloatArray, sigma: FloatArray, threshold: float) -> tuple[FloatArray, FloatArray]:
    """Return nu and D of `_is_settled`, D a little less than it is."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        nu = mu * (1.0 - mu) / (sigma * sigma) - 1.0
        rest = 1.0 - mu
        divergence = mu * (np.log(mu) - np.log(threshold)) + rest * (
            np.log(rest) - np.log(1.0 - threshold)
        )
        return nu, divergence - _ROUNDING


def riskless_demand(
    capacity: FloatArray, used: FloatArray, sigma: FloatArray, threshold: float
) -> FloatArray:
    """Return demands up to which `overload_risk` is 0, -inf where none is known; shape (r, n).

    They are not the largest ones. From the mean utilisation m as it is to one that is higher, but
    below the threshold, D falls, and nu, concave in m, is nowhere less than at both ends. So where
    D at the upper end and the lesser nu satisfy `_is_settled`, every m between them does.
    """
    now = used / capacity
    then = now + (threshold - now) * _WAYS
    nu_now, _ = _tail(now, sigma, threshold)
    nu, divergence = _tail(then, sigma, threshold)
    with np.errstate(invalid="ignore", over="ignore"):
        is_riskless = np.minimum(nu_now, nu) * divergence > _LOST
    highest = np.where(is_riskless & (now < threshold), then, -np.inf).max(axis=0)
    return np.asarray(np.fmax((highest - now) * capacity, -np.inf))


def _open_risk(mu: FloatArray, sigma: FloatArray, threshold: float) -> FloatArray:
    """Return `overload_risk` in all cases, shape (m,)."""
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
    is_narrow = np.minimum(a, b) > _NARROW
    # betainc of scipy 1.17 and 1 - betaincc differ in the last digits, and a published score of
    # ten would become nine.
    risk = 1.0 - betainc(np.where(is_narrow, np.nan, a), b, threshold)
    risk[is_narrow] = _narrow_risk(mu[is_narrow], sigma[is_narrow], threshold)
    return np.asarray(risk)


def _narrow_risk(mu: FloatArray, sigma: FloatArray, threshold: float) -> FloatArray:
    """Return `_beta_risk` for parameters above _NARROW; the error is below 1e-14.

    It is the uniform expansion for large parameters (Temme 1982): with the divergence D as in
    `_is_settled`, z = (t - mu) / sqrt(mu (1 - mu) / nu), and w = sqrt(2 nu D) of the sign of z,

        I = Phi(w) + phi(w) (1 / w - 1 / z + c),

    where c is the next term as it is for t = mu. Written by g = w / z, which is close to 1, so that
    nothing is lost where t is close to mu.
    """
    rest = 1.0 - mu
    product = mu * rest
    distance = threshold - mu
    spread = sigma / np.sqrt(1.0 - sigma * sigma / product)
    # Beyond a tenth, where the series would end, nothing is left of a tail so narrow.
    up, down = np.clip(distance / mu, -0.1, 0.1), np.clip(-distance / rest, -0.1, 0.1)
    bend_up, bend_down = np.polyval(_SERIES, up), np.polyval(_SERIES, down)
    g = np.sqrt(1.0 + 2.0 * (rest * up * bend_up + mu * down * bend_down))
    slope = 2.0 * (rest / mu * bend_up - mu / rest * bend_down)
    c = (1.0 - 2.0 * mu) * (1.0 + 23.0 * product) / 540.0 * (spread / product) ** 3
    with np.errstate(over="ignore"):
        w = distance / spread * g
        density = np.exp(-0.5 * w * w) / math.sqrt(2.0 * math.pi)
    return np.asarray(1.0 - (ndtr(w) - density * (slope * spread / (g * (1.0 + g)) - c)))


def empirical_risk(
    capacity: FloatArray,
    free: FloatArray,
    quantiles: FloatArray,
    demand: FloatArray,
    threshold: float,
) -> FloatArray:
    """Return the share of time for which the utilisation would have been above `threshold`.

    Args:
        capacity: allocatable.
        free: quantiles of what was free, ascending, shape (k, ...).
        quantiles: which those are, from 0 to 1, shape (k,).
        demand: of the pod, as if it had been there all the time.
        threshold: within 0..1.

    That is the share of time for which less was free than the pod and the reserve above the
    threshold need, or all of it where the pod alone is above. Between two quantiles time is taken
    to be spread evenly.
    """
    need = (1.0 - threshold) * capacity + demand
    width = np.diff(free, axis=0)
    below = free[:-1]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        part = np.where(width > 0.0, ((need - below) / width).clip(0.0, 1.0), need > below)
    risk = np.tensordot(np.diff(quantiles), part, axes=1).clip(0.0, 1.0)
    if threshold >= 1.0:
        risk = np.zeros_like(risk)
    else:
        risk = np.where(demand > threshold * capacity, 1.0, risk)
    return np.where(np.isnan(capacity) | np.isnan(free).any(axis=0), np.nan, risk)


def has_statistics(risk: FloatArray) -> NDArray[np.bool_]:
    """Tell for each node whether it has statistics of any resource, shape (resources, n)."""
    return np.asarray(~np.isnan(_worst(risk)))


def has_overload_risk(risk: FloatArray, percentile: float) -> NDArray[np.bool_]:
    """Tell for each node whether the risk of any resource, shape (resources, n), is too high."""
    return np.asarray(_worst(risk) > percentile)


def exact_overload_scores(risk: FloatArray, percentile: float) -> FloatArray:
    """Return 10 (1 - sqrt(min(risk / percentile, 1))), the least over the resources; shape (n,).

    A percentile of 0 takes no risk at all. A node without statistics has NaN.
    """
    # Every step falls or rises with the risk, rounded too: the largest risk has the least score.
    risk = _worst(risk)
    share = np.minimum(risk, percentile) / percentile if percentile > 0.0 else np.ceil(risk)
    return np.asarray(10.0 * (1.0 - np.sqrt(share)))


def overload_scores(exact: FloatArray) -> NDArray[np.int64]:
    """Return exact overload scores as integers, rounded down; 0 for nodes without statistics."""
    return _whole(np.floor(exact))


def exact_balance_scores(mu: FloatArray, sigma: FloatArray) -> FloatArray:
    """Return 10 (1 - (mu + sqrt(sigma)) / 2), the least over the resources; shape (n,).

    A node without statistics has NaN.
    """
    return np.asarray(10.0 * (1.0 - _worst(mu + np.sqrt(sigma)) / 2.0))


def balance_scores(exact: FloatArray) -> NDArray[np.int64]:
    """Return exact balance scores as integers, halves up; 0 for nodes without statistics."""
    return _whole(np.floor(exact + 0.5))


def _worst(values: FloatArray) -> FloatArray:
    """Return the largest over the resources that are known, shape (n,)."""
    return reduce(np.fmax, values)


def _whole(scores: FloatArray) -> NDArray[np.int64]:
    """Return scores as integers, 0 for NaN: none is below."""
    return np.fmax(scores, 0.0).astype(np.int64)
