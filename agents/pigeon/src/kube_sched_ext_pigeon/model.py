"""The three objectives of pigeon and the ranking of their values, as functions of arrays.

Shapes: r resources, n nodes (at least one). ``capacity`` and ``usage`` are (r, n), ``demand`` is
(r,): float64, finite, not negative, one unit per resource (cpu in millicores, memory in MiB, pods,
gpu, storage in GiB; only ratios count). ``prime`` is the row of the prime resource. The cluster is
the columns given: a node whose capacity or usage is unknown (NaN) is left out by the caller.

Each objective returns v, (n,) float64: the objective of the whole cluster with the pod on node i,
for every node, whether the pod fits there or not. Smaller is better; `scores` ranks v over the
nodes that the pod fits on.

An objective strives for clusters in which v is a small difference of large sums, and the ranking
stretches any difference to the whole scale. So deviations are taken from the mean before they are
squared, a placement is a correction to their sum, and where the correction takes half of the sum
away the placement is computed from the definition instead: only an outlier can do that, and there
are no more than a few. What is done per node is done elementwise, as the rounding of a matrix
product may depend on the column: nodes alike get the same v to the last bit.

Sources: A. N. Tantawi and M. Steinder, "Autonomic Cloud Placement of Mixed Workload: An Adaptive
Bin Packing Algorithm", ICAC 2019; A. Albert and L. Zhang, "A novel definition of the multivariate
coefficient of variation", Biometrical Journal 52 (2010).
"""

import math
from typing import Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt

__all__ = ["bin_pack", "consolidate", "fits", "load_balance", "scores", "variation"]

Floats: TypeAlias = npt.NDArray[np.float64]
Bools: TypeAlias = npt.NDArray[np.bool_]
Ints: TypeAlias = npt.NDArray[np.int64]

# A mean utilisation nearer than this to 0 or 1 is there. A cluster of 5000 nodes with one unit in
# use, or one free, is above it up to ten million units a node; rounding stays below it.
_EDGE: Final = 1e-12


def fits(capacity: Floats, usage: Floats, demand: Floats) -> Bools:
    """Tell, per resource and node, whether the demand fits into what is free: (r, n).

    A resource that the pod does not ask for always fits, also where it is overcommitted. The pod
    fits on a node if every resource does: ``np.logical_and.reduce(fits(...))``.
    """
    wanted = demand[:, None]
    return (wanted <= 0) | (wanted <= capacity - usage)


def load_balance(capacity: Floats, usage: Floats, demand: Floats, prime: int = 0) -> Floats:
    """LOAD_BALANCE: v_i = population standard deviation of the prime resource's utilisation.

    Utilisation is usage / capacity, not clipped, and 1 on a node without capacity. O(n).
    """
    row = slice(prime, prime + 1)
    x = _ratio(usage[row], capacity[row], otherwise=1.0)
    step = _ratio(demand[row, None], capacity[row], otherwise=0.0)
    deviation: Floats = np.sqrt(_variance_along(x, step, np.ones_like(x)))
    return deviation


def consolidate(capacity: Floats, usage: Floats, demand: Floats, prime: int = 0) -> Floats:
    """CONSOLIDATE: v_i = 1 - sqrt(mean t_k^2), 0 where the mean utilisation m is 0, 1 or beyond.

    t_k = (m - x_k) / m below the mean and (x_k - m) / (1 - m) above it: 1 for every k in a cluster
    of full and empty nodes. Utilisation x of the prime resource as in `load_balance`. O(n log n).
    """
    size = capacity[prime]
    x = _ratio(usage[prime], size, otherwise=1.0)
    step = _ratio(demand[prime], size, otherwise=0.0)
    used = x.sum()
    if used > len(x) - used:
        # The objective is the same for what is free, and of an almost full node the free share is
        # exact where 1 - x has lost its digits.
        x, step = _ratio(size - usage[prime], size, otherwise=0.0), -step
    shift = step / len(x)
    mean = x.mean() + shift
    edge = (mean < _EDGE) | (mean > 1 - _EDGE)
    mean[edge] = 0.5
    v: Floats = 1 - np.sqrt(_mean_square_distance(x, step, shift, mean))
    v[edge] = 0.0
    return v


def bin_pack(
    capacity: Floats, usage: Floats, demand: Floats, mean: Floats, covariance: Floats
) -> Floats:
    """A_BINPACK: v_i = |variation of the nodes' utilisations - variation of the pods' demands|.

    ``mean`` (r,) and ``covariance`` (r, r) are those of the demands seen so far, this pod's
    included, in the units of ``demand``; they are divided by the mean capacity of the nodes that
    have the resource. Utilisations are clipped to [0, 1]; without capacity they are 0 if nothing is
    used and else 1. A resource that no node has takes no part. O(n r^2).
    """
    has = capacity > 0
    known = has.any(axis=1)
    capacity, usage, has = capacity[known], usage[known], has[known]
    y = np.minimum(_ratio(usage, capacity, otherwise=np.sign(usage)), 1.0)
    wanted = demand[known, None]
    step = np.minimum(_ratio(wanted, capacity, otherwise=np.sign(wanted)), 1.0 - y)
    means = y.mean(axis=1, keepdims=True) + step / y.shape[1]
    deviation = np.sqrt(_variance_along(y, step, means))
    square = (means * means).sum(axis=0)
    nodes = np.divide(deviation, square, out=np.zeros_like(square), where=square > 0)

    unit = capacity.sum(axis=1) / has.sum(axis=1)
    pods = variation(mean[known] / unit, covariance[np.ix_(known, known)] / np.outer(unit, unit))
    v: Floats = np.abs(nodes - pods)
    return v


def variation(mean: Floats, covariance: Floats) -> float:
    """Return the coefficient of variation G = sqrt(mu' S mu) / (mu' mu), 0 where undefined.

    The multivariate one of Albert and Zhang; with one resource standard deviation / mean.
    """
    square = float(mean @ mean)
    # Rounding can leave a covariance that is not quite positive semidefinite.
    return math.sqrt(max(float(mean @ covariance @ mean), 0.0)) / square if square > 0 else 0.0


def scores(v: Floats, fit: Bools) -> Ints:
    """Rank v (n,) over the nodes that fit: 10 for the smallest, 1 for the largest, 0 if it doesn't.

    All that fit equal: 10. v counts as float32, which makes placements tie that differ by rounding
    only; halves round away from zero.
    """
    ranks = np.zeros(v.shape, dtype=np.int64)
    ranked = v[fit].astype(np.float32).astype(np.float64)
    if not ranked.size:
        return ranks
    highest = ranked.max()
    span = highest - ranked.min()
    # Positive, so that half up is half away from zero.
    ranks[fit] = np.floor(1 + 9 * (highest - ranked) / span + 0.5) if span > 0 else 10
    return ranks


def _ratio(part: Floats | np.float64, whole: Floats, otherwise: Floats | float) -> Floats:
    """Part / whole, and ``otherwise`` where whole is 0."""
    out = np.empty(whole.shape)
    out[:] = otherwise
    ratio: Floats = np.divide(part, whole, out=out, where=whole > 0)
    return ratio


def _variance_along(y: Floats, step: Floats, directions: Floats) -> Floats:
    """Variance of direction_i . y over the nodes with step_i added to y_i, for each i: (n,).

    ``y``, ``step`` and ``directions`` are (r, n).
    """
    n = y.shape[1]
    centred = y - y.mean(axis=1, keepdims=True)
    # R of centred' = QR has R'R = the scatter. |R d| is exact to rounding where d'R'Rd would lose
    # half of the digits: along a direction in which the nodes hardly differ.
    # The cast: numpy's stubs know only the modes that return Q as well.
    root = cast("Floats", np.linalg.qr(centred.T, mode="r"))
    unchanged = ((root[:, :, None] * directions).sum(axis=1) ** 2).sum(axis=0)
    moved = (directions * step).sum(axis=0)
    place = (directions * centred).sum(axis=0)
    total: Floats = unchanged + moved * (2 * place + moved * ((n - 1) / n))
    # Node i alone makes up half of the sum: true of at most 2 r nodes, as leverages add up to r.
    for i in np.flatnonzero(total < 0.5 * unchanged):
        along = directions[:, i] @ centred
        along[i] += moved[i]
        total[i] = ((along - along.mean()) ** 2).sum()
    variance: Floats = total / n
    return variance


def _mean_square_distance(x: Floats, step: Floats, shift: Floats, mean: Floats) -> Floats:
    """Mean t^2 of `consolidate` with step_i added to x_i, for each i: (n,).

    ``shift`` is by how much that moves the mean, and ``mean`` is where to.
    """
    z = x - x.mean()
    below, above = mean**2, (1 - mean) ** 2
    ordered = np.sort(z)
    sums = _sums_before(ordered)
    squares = _sums_before(ordered * ordered)
    at = np.searchsorted(ordered, shift)

    def distance(offset: Floats) -> Floats:
        squared: Floats = offset**2 / np.where(offset < 0, below, above)
        return squared

    lower = squares[at] + shift * (at * shift - 2 * sums[at])
    upper = squares[-1] - squares[at] + shift * ((len(z) - at) * shift - 2 * (sums[-1] - sums[at]))
    unchanged = lower / below + upper / above
    total: Floats = unchanged + (distance(z + step - shift) - distance(z - shift))
    # Node i alone makes up half of the sum: true of the fullest or the emptiest node only.
    for i in np.flatnonzero(total < 0.5 * unchanged):
        offset = z - shift[i]
        offset[i] += step[i]
        total[i] = (offset**2 / np.where(offset < 0, below[i], above[i])).sum()
    # Where all nodes are at the mean, rounding can leave less than nothing.
    mean_square: Floats = np.maximum(total, 0.0) / len(z)
    return mean_square


def _sums_before(values: Floats) -> Floats:
    """Sum of the first k values, for k = 0..n: (n + 1,)."""
    return np.concatenate(([0.0], np.cumsum(values)))
