"""The model against hand-checked cases and against a plain reading of the definitions.

The plain reading places the pod on each node in turn and computes the objective of the whole
cluster in exact fractions: O(n^2), no rounding before the float32 of the ranking.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kube_sched_ext_pigeon import model
from kube_sched_ext_pigeon.history import DemandHistory

Floats: TypeAlias = npt.NDArray[np.float64]
Row: TypeAlias = Sequence[Fraction]
Rows: TypeAlias = Sequence[Row]

NO_COVARIANCE = np.zeros((2, 2))


def columns(*nodes: Sequence[float]) -> Floats:
    """Node by node, as people write it, into resource by resource, as the model takes it."""
    return np.array(list(zip(*nodes, strict=True)), dtype=np.float64)


# --- the plain reading ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Cluster:
    """Whole numbers: capacity and usage per node, the demands seen so far, the pod's the last."""

    capacity: Sequence[Sequence[int]]
    usage: Sequence[Sequence[int]]
    demands: Sequence[Sequence[int]]
    prime: int

    @property
    def demand(self) -> Sequence[int]:
        """The pod to place."""
        return self.demands[-1]

    def with_pod_on(self, i: int) -> list[list[int]]:
        """The usage with the pod on node i."""
        usage = [list(node) for node in self.usage]
        usage[i] = [u + d for u, d in zip(usage[i], self.demand, strict=True)]
        return usage

    def fit(self, i: int) -> bool:
        """Whether the pod fits on node i."""
        node = zip(self.demand, self.capacity[i], self.usage[i], strict=True)
        return all(d <= c - u for d, c, u in node if d > 0)


def mean(values: Row) -> Fraction:
    """The mean."""
    # Over one denominator: ten times faster than adding fractions.
    whole = math.lcm(*[v.denominator for v in values])
    return Fraction(
        sum(v.numerator * (whole // v.denominator) for v in values), whole * len(values)
    )


def root(value: Fraction) -> Fraction:
    """The square root, to 200 binary digits after the point."""
    return Fraction(math.isqrt((value.numerator << 400) // value.denominator), 1 << 200)


def plain_prime(cluster: Cluster, usage: Sequence[Sequence[int]]) -> Row:
    """The utilisations x of the prime resource."""
    j = cluster.prime
    pairs = [(u[j], c[j]) for u, c in zip(usage, cluster.capacity, strict=True)]
    return [Fraction(u, c) if c else Fraction(1) for u, c in pairs]


def plain_load_balance(cluster: Cluster, usage: Sequence[Sequence[int]]) -> Fraction:
    """LOAD_BALANCE of the cluster with that usage."""
    x = plain_prime(cluster, usage)
    m = mean(x)
    return root(mean([(a - m) ** 2 for a in x]))


def plain_consolidate(cluster: Cluster, usage: Sequence[Sequence[int]]) -> Fraction:
    """CONSOLIDATE of the cluster with that usage."""
    x = plain_prime(cluster, usage)
    m = mean(x)
    if m <= 0 or m >= 1:
        return Fraction(0)
    t = [(m - a) / m if a < m else (a - m) / (1 - m) for a in x]
    return 1 - root(mean([a**2 for a in t]))


def plain_variation(first: Row, second: Rows) -> Fraction:
    """G of the mean and the second moments."""
    r = range(len(first))
    square = sum((first[j] ** 2 for j in r), Fraction(0))
    q = sum(
        (first[j] * (second[j][k] - first[j] * first[k]) * first[k] for j in r for k in r),
        Fraction(0),
    )
    return root(q) / square if square else Fraction(0)


def plain_clipped(usage: int, capacity: int) -> Fraction:
    """The utilisation y of A_BINPACK."""
    if not capacity:
        return Fraction(1 if usage else 0)
    return min(Fraction(usage, capacity), Fraction(1))


def plain_bin_pack(cluster: Cluster, usage: Sequence[Sequence[int]]) -> Fraction:
    """A_BINPACK of the cluster with that usage."""
    nodes = range(len(usage))
    sizes = list(zip(*cluster.capacity, strict=True))
    known = [j for j, row in enumerate(sizes) if any(row)]
    y = [[plain_clipped(usage[k][j], sizes[j][k]) for k in nodes] for j in known]
    system = plain_variation(
        [mean(row) for row in y],
        [[mean([a * b for a, b in zip(p, q, strict=True)]) for q in y] for p in y],
    )
    unit = [Fraction(sum(sizes[j]), sum(c > 0 for c in sizes[j])) for j in known]
    first = [Fraction(0)] * len(known)
    second = [[Fraction(0)] * len(known) for _ in known]
    for count, demand in enumerate(cluster.demands, 1):
        new = [demand[j] / a for j, a in zip(known, unit, strict=True)]
        w = Fraction(1, min(count, 100))
        first = [(1 - w) * m + w * a for m, a in zip(first, new, strict=True)]
        second = [
            [(1 - w) * m + w * a * b for m, b in zip(row, new, strict=True)]
            for row, a in zip(second, new, strict=True)
        ]
    return abs(system - plain_variation(first, second))


def plain_scores(v: Sequence[Fraction], fit: Sequence[bool]) -> list[int]:
    """The ranking of the values, once they are float32."""
    single = [Fraction(float(np.float32(float(value)))) for value in v]
    candidates = [value for value, fits in zip(single, fit, strict=True) if fits]
    if not candidates:
        return [0] * len(v)
    top, bottom = max(candidates), min(candidates)
    if top == bottom:
        return [10 if fits else 0 for fits in fit]
    exact = [1 + 9 * (top - value) / (top - bottom) for value in single]
    return [math.floor(e + Fraction(1, 2)) if f else 0 for e, f in zip(exact, fit, strict=True)]


# --- the model, called on the same cluster -------------------------------------------------------


def capacity_of(cluster: Cluster) -> Floats:
    """As the model takes it."""
    return columns(*cluster.capacity)


def usage_of(cluster: Cluster) -> Floats:
    """As the model takes it."""
    return columns(*cluster.usage)


def demand_of(cluster: Cluster) -> Floats:
    """As the model takes it."""
    return np.array(cluster.demand, dtype=np.float64)


def load_balance(cluster: Cluster) -> Floats:
    """The model's LOAD_BALANCE."""
    return model.load_balance(
        capacity_of(cluster), usage_of(cluster), demand_of(cluster), cluster.prime
    )


def consolidate(cluster: Cluster) -> Floats:
    """The model's CONSOLIDATE."""
    return model.consolidate(
        capacity_of(cluster), usage_of(cluster), demand_of(cluster), cluster.prime
    )


def bin_pack(cluster: Cluster) -> Floats:
    """The model's A_BINPACK, with a history of the demands."""
    history = DemandHistory(len(cluster.demand))
    for demand in cluster.demands:
        history.add(None, np.array(demand, dtype=np.float64))
    moments = history.moments
    return model.bin_pack(
        capacity_of(cluster),
        usage_of(cluster),
        demand_of(cluster),
        moments.mean,
        moments.covariance,
    )


NAMES = ["LOAD_BALANCE", "CONSOLIDATE", "A_BINPACK"]
MODEL = [load_balance, consolidate, bin_pack]
PLAIN = [plain_load_balance, plain_consolidate, plain_bin_pack]
EACH_WITH_PLAIN = pytest.mark.parametrize(
    ("objective", "plain"), list(zip(MODEL, PLAIN, strict=True)), ids=NAMES
)
EACH = pytest.mark.parametrize("objective", MODEL, ids=NAMES)
Objective: TypeAlias = Callable[[Cluster], Floats]
Plain: TypeAlias = Callable[[Cluster, Sequence[Sequence[int]]], Fraction]


@st.composite
def clusters(draw: st.DrawFn, usage_up_to: int = 1) -> Cluster:
    """Draw 1..60 nodes of a few sizes, some without a resource, and 1..6 pods, some too large."""
    r = draw(st.integers(1, 5))
    unit = draw(st.sampled_from([1, 10, 1000, 100_000, 10_000_000]))
    size = st.one_of(st.integers(0, unit), st.just(unit), st.just(0))
    sizes = draw(st.lists(st.tuples(*[size] * r), min_size=1, max_size=6))

    def used(capacity: int) -> st.SearchStrategy[int]:
        some = st.integers(0, capacity * usage_up_to)
        few = st.integers(0, min(capacity, 2))
        return st.one_of(few, few.map(lambda left: capacity - left), some)

    node = st.sampled_from(sizes).flatmap(
        lambda size: st.tuples(st.just(size), st.tuples(*[used(c) for c in size]))
    )
    kinds = draw(st.lists(node, min_size=1, max_size=draw(st.sampled_from([1, 2, 5, 60]))))
    n = draw(st.integers(1, 60))
    nodes = draw(st.lists(st.sampled_from(kinds), min_size=n, max_size=n))
    wanted = st.tuples(*[st.integers(0, draw(st.sampled_from([1, unit, 2 * unit])))] * r)
    return Cluster(
        capacity=[size for size, _ in nodes],
        usage=[usage for _, usage in nodes],
        demands=draw(st.lists(wanted, min_size=1, max_size=6)),
        prime=draw(st.integers(0, r - 1)),
    )


def placements(cluster: Cluster, plain: Plain) -> list[Fraction]:
    """The plain objective with the pod on each node in turn."""
    return [plain(cluster, cluster.with_pod_on(i)) for i in range(len(cluster.usage))]


# Not a time limit: how long an example takes is up to the fractions of the plain reading.
random_clusters = settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


class TestAgainstThePlainReading:
    """What the model corrects and sums is what placing the pod on every node gives."""

    @pytest.mark.parametrize("usage_up_to", [1, 2], ids=["sound", "overcommitted"])
    @EACH_WITH_PLAIN
    @random_clusters
    @given(data=st.data())
    def test_scores_are_the_same(
        self, objective: Objective, plain: Plain, usage_up_to: int, data: st.DataObject
    ) -> None:
        """Exactly the same, although v is rounded and ties are decided by float32."""
        cluster = data.draw(clusters(usage_up_to))
        fit = [cluster.fit(i) for i in range(len(cluster.usage))]

        found = model.scores(objective(cluster), np.array(fit))

        assert found.tolist() == plain_scores(placements(cluster, plain), fit)

    @EACH_WITH_PLAIN
    @random_clusters
    @given(data=st.data())
    def test_values_are_the_same(
        self, objective: Objective, plain: Plain, data: st.DataObject
    ) -> None:
        """To twelve digits where float32 keeps seven, so that a tie stays a tie.

        With a first pod: demands can vary in such a way that of their variation, which is taken
        from every node's value, only nine digits are right.
        """
        drawn = data.draw(clusters())
        cluster = replace(drawn, demands=[drawn.demand])
        expected = [float(value) for value in placements(cluster, plain)]
        fit = [cluster.fit(i) for i in range(len(expected))]

        found = objective(cluster)

        assert found[fit] == pytest.approx(np.array(expected)[fit], rel=1e-12, abs=1e-14)

    @random_clusters
    @given(cluster=clusters(usage_up_to=2))
    def test_a_node_fits_if_every_resource_does(self, cluster: Cluster) -> None:
        """The predicate's table, reduced to nodes."""
        found = model.fits(capacity_of(cluster), usage_of(cluster), demand_of(cluster))

        assert found.all(axis=0).tolist() == [cluster.fit(i) for i in range(len(cluster.usage))]

    @EACH
    @random_clusters
    @given(data=st.data())
    def test_nodes_alike_have_the_same_value(
        self, objective: Objective, data: st.DataObject
    ) -> None:
        """To the last bit: ties among nodes alike don't hang on rounding to float32."""
        cluster = data.draw(clusters())
        found: dict[tuple[tuple[int, ...], ...], set[float]] = {}
        nodes = zip(cluster.capacity, cluster.usage, objective(cluster), strict=True)
        for capacity, usage, value in nodes:
            found.setdefault((tuple(capacity), tuple(usage)), set()).add(float(value))

        assert all(len(values) == 1 for values in found.values())


class TestFits:
    """Which resources of a node can take the demand."""

    @pytest.mark.parametrize(
        ("capacity", "usage", "demand", "expected"),
        [
            pytest.param(10, 4, 6, [True], id="exactly what is free"),
            pytest.param(10, 4, 7, [False], id="one unit too much"),
            pytest.param(10, 12, 1, [False], id="overcommitted"),
            pytest.param(10, 12, 0, [True], id="overcommitted, but not asked for"),
            pytest.param(0, 0, 1, [False], id="no capacity"),
            pytest.param(0, 0, 0, [True], id="no capacity, but not asked for"),
        ],
    )
    def test_one_resource(
        self, capacity: float, usage: float, demand: float, expected: list[bool]
    ) -> None:
        """A resource fits if the demand is at most what is free, or 0."""
        found = model.fits(columns([capacity]), columns([usage]), np.array([demand]))

        assert found.tolist() == [expected]

    def test_tells_the_resources_apart(self) -> None:
        """One row per resource, one column per node: a reason can name the resource."""
        found = model.fits(columns((10, 5), (10, 5)), columns((0, 4), (9, 0)), np.array([2.0, 2.0]))

        assert found.tolist() == [[True, False], [False, True]]


class TestLoadBalance:
    """The standard deviation of the prime resource's utilisation."""

    @pytest.mark.parametrize(
        ("capacity", "usage", "demand", "expected"),
        [
            pytest.param([10, 10], [2, 4], 2, [0, 0.2], id="levels two nodes or parts them"),
            pytest.param([10, 20], [0, 0], 2, [0.1, 0.05], id="a large node moves less"),
            pytest.param([10, 0], [0, 0], 5, [0.25, 0.5], id="no capacity counts as full"),
            pytest.param([10, 10], [20, 0], 10, [1.5, 0.5], id="overcommitment is not clipped"),
            pytest.param([10], [3], 2, [0], id="a single node"),
            pytest.param([8, 8], [4, 2], 0, [0.125, 0.125], id="a demand of nothing"),
        ],
    )
    def test_by_hand(
        self,
        capacity: list[float],
        usage: list[float],
        demand: float,
        expected: list[float],
    ) -> None:
        """v_i = standard deviation of the utilisations with the pod on node i."""
        found = model.load_balance(np.array([capacity]), np.array([usage]), np.array([demand]))

        assert found == pytest.approx(expected, abs=1e-15)

    def test_looks_at_the_prime_resource_only(self) -> None:
        """The other rows may say the opposite."""
        found = model.load_balance(
            columns((10, 10), (10, 10)), columns((0, 2), (9, 4)), np.array([1.0, 2.0]), prime=1
        )

        assert found == pytest.approx([0, 0.2], abs=1e-15)


class TestConsolidate:
    """How far the cluster is from one of full and empty nodes."""

    @pytest.mark.parametrize(
        ("capacity", "usage", "demand", "expected"),
        [
            pytest.param([10, 10], [5, 0], 5, [0, 1], id="one full and one empty, or both half"),
            pytest.param(
                [10, 10, 10],
                [0, 2, 4],
                6,
                # t = (1/3 1/2 0), (1 2/3 0) and (1 1/2 1) about a mean of 0.4
                [1 - math.sqrt(13 / 108), 1 - math.sqrt(13 / 27), 1 - math.sqrt(3 / 4)],
                id="three nodes",
            ),
            pytest.param([10, 10], [10, 5], 5, [0, 0], id="a mean of 1"),
            pytest.param([10, 10], [20, 8], 2, [0, 0], id="a mean beyond 1"),
            pytest.param([10, 10], [0, 0], 0, [0, 0], id="a mean of 0"),
            pytest.param([3], [1], 2, [0], id="a mean of 1 in thirds"),
            pytest.param([10, 0], [0, 0], 5, [1 - math.sqrt(5 / 9), 0], id="no capacity is full"),
            pytest.param(
                [1e7, 1e7],
                [1e7 - 1, 1e7 - 3],
                1,
                [1 - math.sqrt(1 / 2), 1 - math.sqrt(1 / 18)],
                id="four units free",
            ),
        ],
    )
    def test_by_hand(
        self,
        capacity: list[float],
        usage: list[float],
        demand: float,
        expected: list[float],
    ) -> None:
        """v_i = 1 - sqrt(mean t^2) with the pod on node i, 0 at a mean of 0 or 1."""
        found = model.consolidate(np.array([capacity]), np.array([usage]), np.array([demand]))

        assert found == pytest.approx(expected, abs=2e-14)

    def test_a_level_cluster_is_level_whatever_it_was_before(self) -> None:
        """The node that is left behind takes nearly all of the sum with it; so no difference."""
        usage = np.array([[3333.0] * 59 + [1.0]])

        found = model.consolidate(np.full((1, 60), 10_000.0), usage, np.array([3332.0]))

        assert found[-1] == pytest.approx(1, abs=1e-15)

    def test_looks_at_the_prime_resource_only(self) -> None:
        """The other rows may say the opposite."""
        found = model.consolidate(
            columns((10, 10), (10, 10)), columns((0, 5), (9, 0)), np.array([1.0, 5.0]), prime=1
        )

        assert found == pytest.approx([0, 1], abs=1e-15)


class TestBinPack:
    """The distance between the nodes' coefficient of variation and the demands'."""

    def test_one_resource(self) -> None:
        """Utilisations of .6 and .2 vary by .5, as do demands of 2 with a deviation of 1."""
        found = model.bin_pack(
            columns([10], [10]),
            columns([4], [2]),
            np.array([2.0]),
            np.array([2.0]),
            np.array([[1.0]]),
        )

        assert found == pytest.approx([0, 0.5], abs=1e-15)

    def test_the_first_pod_is_spread(self) -> None:
        """Demands that don't vary ask for nodes that don't: the emptier node is better."""
        found = model.bin_pack(
            columns([10], [10]),
            columns([4], [2]),
            np.array([2.0]),
            np.array([2.0]),
            np.array([[0.0]]),
        )

        assert found == pytest.approx([0.5, 0], abs=1e-15)

    def test_resources_make_up_for_each_other(self) -> None:
        """(.3 .3) and (.1 .1) vary by 1/2; (.1 .3) and (.3 .1) not at all along their mean."""
        found = model.bin_pack(
            columns((10, 10), (10, 10)),
            columns((1, 3), (1, 1)),
            np.array([2.0, 0.0]),
            np.array([2.0, 0.0]),
            NO_COVARIANCE,
        )

        assert found == pytest.approx([0.5, 0], abs=1e-15)

    def test_a_resource_that_no_node_has_takes_no_part(self) -> None:
        """Neither on the nodes' side nor, with a demand for it, on the pods'."""
        found = model.bin_pack(
            columns((10, 0), (10, 0)),
            columns((4, 0), (2, 0)),
            np.array([2.0, 1.0]),
            np.array([2.0, 7.0]),
            np.array([[1.0, 5.0], [5.0, 9.0]]),
        )

        assert found == pytest.approx([0, 0.5], abs=1e-15)

    def test_a_cluster_without_capacity_has_no_variation(self) -> None:
        """0 where it is undefined."""
        found = model.bin_pack(
            columns([0], [0]),
            columns([0], [0]),
            np.array([1.0]),
            np.array([1.0]),
            np.array([[1.0]]),
        )

        assert found.tolist() == [0, 0]

    @pytest.mark.parametrize(
        ("capacity", "usage", "demand", "expected"),
        [
            pytest.param([10, 10], [30, 10], 0, [0, 0], id="at most full"),
            pytest.param([10, 10], [9, 8], 5, [1 / 9, 1 / 19], id="at most full with the pod"),
            pytest.param([10, 0], [10, 1], 0, [0, 0], id="used without capacity: full"),
            pytest.param([10, 0], [10, 0], 0, [1, 1], id="unused without capacity: empty"),
            pytest.param([10, 0], [10, 0], 5, [1, 0], id="filled without capacity"),
        ],
    )
    def test_utilisation_is_clipped(
        self, capacity: list[float], usage: list[float], demand: float, expected: list[float]
    ) -> None:
        """The nodes' variation alone: two full nodes have none, a full and an empty one have 1."""
        found = model.bin_pack(
            np.array([capacity]),
            np.array([usage]),
            np.array([demand]),
            np.array([1.0]),
            np.array([[0.0]]),
        )

        assert found == pytest.approx(expected, abs=1e-15)

    def test_demands_are_measured_by_the_nodes_that_have_the_resource(self) -> None:
        """A demand of (1, 1) with nodes of 2 and, one of them, 4: (1/2, 1/4), not (1/2, 1/2)."""
        capacity, usage = columns((2, 4), (2, 0)), columns((1, 2), (1, 0))
        covariance = np.array([[1.0, 0.0], [0.0, 0.0]])

        found = model.bin_pack(capacity, usage, np.zeros(2), np.ones(2), covariance)

        nodes = math.sqrt((1 / 4) ** 2 * (1 / 4) ** 2) / ((1 / 2) ** 2 + (1 / 4) ** 2)
        pods = math.sqrt((1 / 2) ** 2 * (1 / 4)) / ((1 / 2) ** 2 + (1 / 4) ** 2)
        assert found == pytest.approx([pods - nodes] * 2)


class TestVariation:
    """The coefficient of variation of Albert and Zhang."""

    @pytest.mark.parametrize(
        ("mean", "covariance", "expected"),
        [
            pytest.param([4], [[4]], 0.5, id="one resource: deviation over mean"),
            pytest.param([3, 4], [[1, 0], [0, 1]], 0.2, id="a circle: 1 over the length"),
            pytest.param([1, 1], [[1, -1], [-1, 1]], 0, id="opposites cancel"),
            pytest.param([0, 0], [[1, 0], [0, 1]], 0, id="no mean"),
            pytest.param([1], [[-1e-20]], 0, id="a variance rounded below 0"),
        ],
    )
    def test_by_hand(
        self, mean: list[float], covariance: list[list[float]], expected: float
    ) -> None:
        """G = sqrt(mu' S mu) / (mu' mu), 0 where that is undefined."""
        found = model.variation(np.array(mean, float), np.array(covariance, float))

        assert found == pytest.approx(expected)


class TestScores:
    """From the smallest v, 10, to the largest, 1."""

    @pytest.mark.parametrize(
        ("v", "fit", "expected"),
        [
            pytest.param([0, 0.5, 1], [1, 1, 1], [10, 6, 1], id="in proportion"),
            pytest.param([0, 1, 5, 6], [1, 1, 1, 1], [10, 9, 3, 1], id="8.5 and 2.5 round up"),
            pytest.param(
                [0, 1, 100], [1, 1, 0], [10, 1, 0], id="only nodes that fit set the scale"
            ),
            pytest.param([3, 3, 3], [1, 0, 1], [10, 0, 10], id="all equal"),
            pytest.param([0.1, 0.1 + 1e-12, 0.1], [1, 1, 1], [10] * 3, id="equal within float32"),
            pytest.param([0.1, 0.1 + 1e-7], [1, 1], [10, 1], id="different within float32"),
            pytest.param([7, 1], [1, 0], [10, 0], id="one that fits"),
            pytest.param([1, 2], [0, 0], [0, 0], id="none that fits"),
        ],
    )
    def test_by_hand(self, v: list[float], fit: list[int], expected: list[int]) -> None:
        """round_half_away_from_zero(1 + 9 (max - v) / (max - min)), 0 where the pod doesn't fit."""
        found = model.scores(np.array(v, float), np.array(fit, bool))

        assert found.tolist() == expected

    @EACH
    def test_a_demand_that_changes_nothing_scores_ten(self, objective: Objective) -> None:
        """Pods that ask for none of a scarce prime resource: every node is as good, to the bit."""
        cluster = Cluster(
            capacity=[(c,) for c in (3, 7, 11, 13, 0)],
            usage=[(u,) for u in (1, 5, 2, 13, 0)],
            demands=[(5,), (0,)],
            prime=0,
        )

        assert model.scores(objective(cluster), np.full(5, fill_value=True)).tolist() == [10] * 5
