"""What each objective makes of a cluster: the same 2000 pods, placed by each of the three."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from kube_sched_ext_pigeon import model
from kube_sched_ext_pigeon.history import DemandHistory, Moments

Floats: TypeAlias = npt.NDArray[np.float64]
Objective: TypeAlias = Callable[[Floats, Floats, Floats, Moments], Floats]

NODES: Final = 40
CAPACITY: Final = np.tile([[16_000.0], [65_536.0]], (1, NODES))
PODS: Final = 2000
# Until then the cluster fills up.
WARM_UP: Final = 400
# In units of the time between two pods; keeps the cluster about half full.
LIFETIME: Final = 200
KINDS: Final = np.array([[1000.0, 4096], [2000, 4096], [1000, 8192], [4000, 16_384]])
SHARES: Final = [0.4, 0.25, 0.25, 0.1]

OBJECTIVES: Final[dict[str, Objective]] = {
    "A_BINPACK": lambda c, u, d, m: model.bin_pack(c, u, d, m.mean, m.covariance),
    "LOAD_BALANCE": lambda c, u, d, _: model.load_balance(c, u, d),
    "CONSOLIDATE": lambda c, u, d, _: model.consolidate(c, u, d),
}


@dataclass(frozen=True)
class Outcome:
    """Averages over the time after the warm-up."""

    mismatch: float
    """Between the variation of the nodes' utilisations and that of the demands."""
    empty: float
    """Nodes without a pod."""
    spread: float
    """Standard deviation of the nodes' cpu utilisation."""
    refused: int
    """Pods that found no node, in all."""


@cache
def outcome(objective: str) -> Outcome:
    """Place the pods, one after the other, each on the first of the nodes that score best."""
    random = np.random.default_rng(20_190_620)
    history, usage = DemandHistory(2), np.zeros_like(CAPACITY)
    leaving: list[tuple[float, int, int, Floats]] = []
    refused, seen = 0, []
    for now in range(PODS):
        demand, end = KINDS[random.choice(len(KINDS), p=SHARES)], now + random.exponential(LIFETIME)
        while leaving and leaving[0][0] <= now:
            _, _, node, freed = heapq.heappop(leaving)
            usage[:, node] -= freed
        history.add(str(now), demand)
        v = OBJECTIVES[objective](CAPACITY, usage, demand, history.moments)
        fit = np.logical_and.reduce(model.fits(CAPACITY, usage, demand))
        scores = model.scores(v, fit)
        node = int(scores.argmax())
        if scores[node]:
            usage[:, node] += demand
            heapq.heappush(leaving, (end, now, node, demand))
        else:
            refused += 1
        if now >= WARM_UP:
            seen.append(observe(usage, history.moments))
    mismatch, empty, spread = np.mean(seen, axis=0).tolist()
    return Outcome(mismatch, empty, spread, refused)


def observe(usage: Floats, moments: Moments) -> tuple[float, float, float]:
    """Mismatch, empty nodes and spread as of now."""
    y = usage / CAPACITY
    unit = CAPACITY.mean(axis=1)
    nodes = model.variation(y.mean(axis=1), np.cov(y, bias=True))
    pods = model.variation(moments.mean / unit, moments.covariance / np.outer(unit, unit))
    return abs(nodes - pods), int((~usage.any(axis=0)).sum()), float(y[0].std())


@pytest.mark.parametrize("other", ["LOAD_BALANCE", "CONSOLIDATE"])
def test_a_binpack_gives_the_nodes_the_variation_of_the_demands(other: str) -> None:
    """What is free has the shape of what is asked for, far better than under the other two."""
    assert outcome("A_BINPACK").mismatch < 0.1 * outcome(other).mismatch


@pytest.mark.parametrize("other", ["A_BINPACK", "LOAD_BALANCE"])
def test_consolidate_leaves_the_most_nodes_empty(other: str) -> None:
    """More than a third of the cluster at half load, where the others leave hardly a node."""
    assert outcome("CONSOLIDATE").empty > NODES / 3 > 10 * outcome(other).empty


@pytest.mark.parametrize("other", ["A_BINPACK", "CONSOLIDATE"])
def test_load_balance_has_the_smallest_spread(other: str) -> None:
    """A third or less of the others'."""
    assert outcome("LOAD_BALANCE").spread < outcome(other).spread / 3


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_pod_finds_a_node(objective: str) -> None:
    """So the three clusters compared hold the same pods."""
    assert outcome(objective).refused == 0
