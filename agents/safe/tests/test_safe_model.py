"""From capacity, statistics and demand to risk and scores."""

import math

import mpmath
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import betainc

from kube_sched_ext_safe import model

NAN = math.nan
NARROW = 1e6
"""Both parameters of a Beta above which it has an expansion of its own."""

shares = st.floats(0, 1)


def risk_of(mu: float, sigma: float, threshold: float = 0.9) -> float:
    """Return the risk of one resource of one node."""
    [risk] = model.overload_risk(np.array([mu]), np.array([sigma]), threshold).tolist()
    return float(risk)


def column(*resources: float) -> model.FloatArray:
    """Return one node's values as (resources, 1)."""
    return np.array(resources, float).reshape(-1, 1)


def utilisation(
    capacity: float = 8000,
    mean: float = 2000,
    deviation: float = 400,
    forecast: float = NAN,
    demand: float = 250,
    weight: float = 0.2,
) -> tuple[float, float]:
    """Return mean and standard deviation of one resource of one node."""
    c, m, s, g, d = np.array([[capacity], [mean], [deviation], [forecast], [demand]], float)
    c, used, [sigma] = model.load(c, m, s, g, weight)
    [mu] = model.utilisation(c, used, d)
    return float(mu), float(sigma)


def test_published_example_has_the_published_utilisation() -> None:
    """8 cores, 2 free with a deviation of 0.4, and a demand of 0.25: (8 - 2 + 0.25) / 8."""
    assert utilisation() == (0.78125, 0.05)


def test_published_example_has_the_risk_of_its_beta() -> None:
    """Nu = 0.78125 * 0.21875 / 0.05^2 - 1 = 67.359375, so it is Beta(52.6, 14.7) above 0.9."""
    a, b = 52.62451171875, 14.73486328125
    assert risk_of(0.78125, 0.05) == pytest.approx(stats.beta(a, b).sf(0.9), abs=1e-12)
    assert risk_of(0.78125, 0.05) == pytest.approx(0.00262203575, abs=1e-11)


@pytest.mark.parametrize(
    ("forecast", "weight", "mu"),
    [
        (NAN, 0.2, 0.75),  # the mean alone: (8000 - 2000) / 8000
        (1000, 0.2, 0.775),  # 0.8 * 2000 + 0.2 * 1000 = 1800 free
        (1000, 0.0, 0.75),
        (1000, 1.0, 0.875),
        (NAN, 1.0, 0.75),
    ],
)
def test_forecast_counts_for_its_weight(forecast: float, weight: float, mu: float) -> None:
    """From not at all to alone; no forecast leaves the mean alone."""
    assert utilisation(forecast=forecast, weight=weight, demand=0)[0] == pytest.approx(mu)


@pytest.mark.parametrize(
    ("mean", "demand", "mu"),
    [
        (8000, 0, 0),
        (9000, 0, 0),  # more free than there is: nothing is used
        (9000, 800, 0.1),  # and that is no credit for the demand
        (0, 0, 1),
        (-500, 0, 1),
        (2000, 2000, 1),
        (2000, 9000, 1),  # a demand beyond the capacity
    ],
)
def test_mean_utilisation_stays_within_the_node(mean: float, demand: float, mu: float) -> None:
    """Use starts at 0, use and demand together end at 1."""
    assert utilisation(mean=mean, demand=demand)[0] == pytest.approx(mu)


@pytest.mark.parametrize(
    ("deviation", "sigma"), [(NAN, 0), (0, 0), (-5, 0), (400, 0.05), (8000, 1), (1e300, 1)]
)
def test_deviation_stays_within_the_node(deviation: float, sigma: float) -> None:
    """A missing one is 0."""
    assert utilisation(deviation=deviation)[1] == sigma


@pytest.mark.parametrize(
    ("capacity", "mean", "forecast"),
    [(NAN, 2000, NAN), (0, 2000, NAN), (8000, NAN, NAN), (8000, NAN, 2000), (NAN, NAN, NAN)],
)
def test_resource_without_capacity_or_mean_has_no_statistics(
    capacity: float, mean: float, forecast: float
) -> None:
    """A forecast or a deviation alone says nothing."""
    mu, sigma = utilisation(capacity=capacity, mean=mean, forecast=forecast)
    assert math.isnan(mu)
    assert math.isnan(sigma)


@given(
    capacity=st.integers(1, 2**63 - 1),
    mean=st.floats(allow_nan=False, allow_infinity=False),
    deviation=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    forecast=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    demand=st.integers(0, 2**63 - 1),
    weight=shares,
)
def test_utilisation_is_the_definition(
    capacity: int,
    mean: float,
    deviation: float | None,
    forecast: float | None,
    demand: int,
    weight: float,
) -> None:
    """Read plainly, whatever an annotation may hold."""
    c, d = float(capacity), float(demand)
    free = mean if forecast is None else (1 - weight) * mean + weight * forecast
    used = max(c - free, 0.0)
    expected_mu = min(max((used + d) / c, 0.0), 1.0)
    expected_sigma = min(max((deviation or 0.0) / c, 0.0), 1.0)
    mu, sigma = utilisation(
        c,
        mean,
        NAN if deviation is None else deviation,
        NAN if forecast is None else forecast,
        d,
        weight,
    )
    assert (mu, sigma) == (expected_mu, expected_sigma)


@pytest.mark.parametrize(
    ("mu", "sigma", "threshold", "risk"),
    [
        # No utilisation at all.
        (0.0, 0.0, 0.9, 0.0),
        (0.0, 0.3, 0.9, 0.0),
        (0.0, 1.0, 0.9, 0.0),
        (0.0, 0.0, 0.0, 0.0),
        (0.0, 0.3, 0.0, 0.0),
        # Full.
        (1.0, 0.0, 0.9, 1.0),
        (1.0, 0.3, 0.9, 1.0),
        (1.0, 0.3, 0.0, 1.0),
        (1.0, 0.0, 1.0, 0.0),
        (1.0, 0.3, 1.0, 0.0),
        # No spread: all mass on mu, which is no overload at the threshold itself.
        (0.5, 0.0, 0.9, 0.0),
        (0.9, 0.0, 0.9, 0.0),
        (0.91, 0.0, 0.9, 1.0),
        (0.5, 0.0, 0.0, 1.0),
        (0.5, 0.0, 1.0, 0.0),
        # A spread whose square is 0 in float64.
        (0.9, 1e-170, 0.9, 0.0),
        (0.91, 5e-324, 0.9, 1.0),
        # As much spread as there can be, and more: all mass on 0 and 1.
        (0.5, 0.5, 0.9, 0.5),
        (0.25, 0.5, 0.9, 0.25),
        (0.01, 0.1, 0.9, 0.01),
        (0.01, 1.0, 0.9, 0.01),
        (0.25, 0.5, 0.0, 0.25),
        (0.25, 0.5, 1.0, 0.0),
        # Any spread between: something above 0, nothing above 1.
        (0.5, 0.1, 0.0, 1.0),
        (0.5, 0.1, 1.0, 0.0),
        (0.5, 1e-9, 0.0, 1.0),
        (0.5, 1e-9, 1.0, 0.0),
    ],
)
def test_risk_has_limits(mu: float, sigma: float, threshold: float, risk: float) -> None:
    """Where no Beta distribution has the mean and deviation, its limit counts."""
    assert risk_of(mu, sigma, threshold) == risk


def test_resource_without_statistics_has_no_risk() -> None:
    """NaN stays NaN, beside others and at any threshold."""
    for threshold in (0.0, 0.9, 1.0):
        risk = model.overload_risk(np.array([NAN, 0.5]), np.array([NAN, 0.0]), threshold)
        assert np.isnan(risk).tolist() == [True, False]


@pytest.mark.parametrize("mu", [0.01, 0.25, 0.5, 0.75, 0.99])
def test_risk_goes_continuously_to_its_limit_for_wide_spread(mu: float) -> None:
    """Just below the widest spread almost all mass is on 0 and 1."""
    widest = math.sqrt(mu * (1 - mu))
    assert risk_of(mu, widest * (1 - 1e-9)) == pytest.approx(mu, abs=1e-7)
    assert risk_of(mu, np.nextafter(widest, 0)) == pytest.approx(mu, abs=1e-12)


@pytest.mark.parametrize("sigma", [1e-3, 1e-6, 1e-9, 1e-12, 1e-100, 1e-150])
def test_risk_goes_continuously_to_its_limit_for_narrow_spread(sigma: float) -> None:
    """Away from the threshold there is no risk below it, and no doubt above it."""
    assert risk_of(0.89, sigma) == pytest.approx(0, abs=1e-15)
    assert risk_of(0.91, sigma) == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("sigma", [1e-6, 1e-9, 1e-12, 1e-17, 1e-50, 1e-150])
def test_risk_at_the_threshold_is_even_however_narrow_the_spread(sigma: float) -> None:
    """Half the mass is above its mean, as long as it is spread at all."""
    assert risk_of(0.9, sigma) == pytest.approx(0.5, abs=2e-6)


@pytest.mark.parametrize(
    ("mu", "sigma", "threshold", "risk"),
    [
        (0.9, 1e-9, 0.9, 0.500000001182051),
        (0.89999999995, 1e-10, 0.9, 0.308537524239216),
        (0.8999999995, 1e-10, 0.9, 2.86650946249002e-7),
        (0.89999999999975, 1e-12, 0.9, 0.401285080586837),
        (0.5, 1e-5, 0.50001, 0.158655253980952),
        (0.899999, 1e-6, 0.9, 0.158655253922657),
        (0.1, 1e-8, 0.10000002, 0.0227501368042129),
        (0.90003, 2e-5, 0.9, 0.933183203377955),
        (0.90015, 1e-4, 0.9, 0.933144792827737),
    ],
)
def test_risk_of_narrow_spread_is_exact(
    mu: float, sigma: float, threshold: float, risk: float
) -> None:
    """As the definition gives it with 70 digits; float64's betainc is NaN or wrong for some."""
    assert risk_of(mu, sigma, threshold) == pytest.approx(risk, abs=1e-14, rel=1e-14)


def exact_risk(mu: float, sigma: float, threshold: float) -> mpmath.mpf:
    """Return the risk as the density adds up to it, with 50 digits."""
    with mpmath.workdps(50):
        m, s, t = map(mpmath.mpf, (mu, sigma, threshold))
        nu = m * (1 - m) / s**2 - 1
        a, b = m * nu, (1 - m) * nu
        log_beta = mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)

        def density(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.exp((a - 1) * mpmath.log(x) + (b - 1) * mpmath.log(1 - x) - log_beta)

        if t > m:
            return mpmath.quad(density, [t + 2 * k * s for k in range(20)])
        return 1 - mpmath.quad(density, [t - 2 * k * s for k in range(19, -1, -1)])


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("smaller", [1.01e6, 1e8, 1e12])
def test_risk_of_narrow_spread_is_nearer_to_the_truth_than_betainc(
    smaller: float, threshold: float
) -> None:
    """Within 1e-14, from 8 deviations below the threshold to 8 above; `smaller` is of a and b."""
    nu = smaller / min(threshold, 1 - threshold)
    sigma = math.sqrt(threshold * (1 - threshold) / (nu + 1))
    for deviations in (-8, -3, -1, 0, 1e-6, 0.3, 1.5, 4, 8):
        mu = threshold - deviations * sigma
        risk = model._narrow_risk(np.array([mu]), np.array([sigma]), threshold)[0]
        assert abs(float(risk - exact_risk(mu, sigma, threshold))) < 1e-14


def plain_risk(mu: float, sigma: float, threshold: float) -> float:
    """Return the risk as agents are told to compute it, one case after the other."""
    if mu == 0:
        return 0.0
    if mu == 1:
        return 1.0 if threshold < 1 else 0.0
    if sigma * sigma == 0:
        return 0.0 if mu <= threshold else 1.0
    if sigma * sigma >= mu * (1 - mu):
        return mu if threshold < 1 else 0.0
    nu = mu * (1 - mu) / sigma**2 - 1
    return float(stats.beta(mu * nu, (1 - mu) * nu).sf(threshold))


@given(mu=shares, sigma=st.just(0.0) | st.floats(1e-5, 1), threshold=shares)
@example(mu=(64000 - 6336) / 64000, sigma=398 / 64000, threshold=0.9)
@example(mu=0.99999, sigma=1e-5, threshold=0.99999)
def test_risk_is_the_definition(mu: float, sigma: float, threshold: float) -> None:
    """Read plainly, with scipy's Beta distribution."""
    assert risk_of(mu, sigma, threshold) == pytest.approx(
        plain_risk(mu, sigma, threshold), abs=1e-9
    )


def riskless_demand(
    used: float, sigma: float, threshold: float = 0.9, capacity: float = 1000
) -> float:
    """Return up to which demand one resource of one node is known to have no risk."""
    c, u, s = column(capacity, used, sigma)
    [limit] = model.riskless_demand(c[np.newaxis], u[np.newaxis], s[np.newaxis], threshold).tolist()
    return float(limit[0])


@pytest.mark.parametrize(
    ("used", "sigma", "threshold", "capacity", "limit"),
    [
        # An eighth, a quarter, half, or three quarters of the way from 500 to 900.
        (500, 0.0, 0.9, 1000, 300),
        (500, 1e-170, 0.9, 1000, 300),
        (500, 0.01, 0.9, 1000, 300),
        (500, 0.02, 0.9, 1000, 200),
        (500, 0.04, 0.9, 1000, 100),
        (500, 0.045, 0.9, 1000, 50),
        # Some risk already, or nearly so.
        (500, 0.05, 0.9, 1000, -math.inf),
        (890, 0.01, 0.9, 1000, -math.inf),
        # At the threshold and above it, however steady; without any use no Beta exists.
        (900, 0.0, 0.9, 1000, -math.inf),
        (950, 0.0, 0.9, 1000, -math.inf),
        (1000, 0.0, 0.9, 1000, -math.inf),
        (5000, 0.01, 0.9, 1000, -math.inf),
        (0, 0.0, 0.9, 1000, -math.inf),
        (0, 0.01, 0.9, 1000, -math.inf),
        # Nothing is above a threshold of 1, anything above one of 0.
        (500, 0.01, 1.0, 1000, 375),
        (500, 0.01, 0.0, 1000, -math.inf),
        # No statistics.
        (NAN, NAN, 0.9, 1000, -math.inf),
        (NAN, NAN, 0.9, NAN, -math.inf),
    ],
)
def test_demand_without_risk_goes_part_of_the_way_to_the_threshold(
    used: float, sigma: float, threshold: float, capacity: float, limit: float
) -> None:
    """Less far the more a node's use swings."""
    assert riskless_demand(used, sigma, threshold, capacity) == pytest.approx(limit)


@given(
    way=st.floats(0.01, 0.99),
    deviations=st.floats(0, 300).map(lambda decibels: 10 ** (decibels / 20)),
    threshold=st.floats(1e-18, 1) | st.sampled_from([0.5, 0.9, 0.95, 1 - 2**-53, 1e-18]),
    capacity=st.integers(1, 2**63 - 1),
    part=shares | st.just(1.0),
)
@settings(max_examples=1000)
def test_demand_up_to_the_riskless_one_has_no_risk(
    way: float, deviations: float, threshold: float, capacity: int, part: float
) -> None:
    """Exactly none, as computed with that demand; the threshold is some deviations away."""
    used = way * threshold
    sigma = (threshold - used) / deviations
    limit = riskless_demand(used * capacity, sigma, threshold, capacity)
    demand = part * max(limit, 0.0)
    c, u, d = np.array([[capacity], [used * capacity], [demand]], float)
    risk = risk_of(float(model.utilisation(c, u, d)[0]), sigma, threshold)
    assert risk == 0.0 or limit < 0


def literal_risk(
    mu: model.FloatArray, sigma: model.FloatArray, threshold: float
) -> model.FloatArray:
    """Return 1 - betainc(a, b, threshold), NaN where no Beta has this mean and deviation."""
    with np.errstate(all="ignore"):
        nu = mu * (1.0 - mu) / (sigma * sigma) - 1.0
        a, b = mu * nu, (1.0 - mu) * nu
        # Those above are the business of `test_risk_of_narrow_spread_is_exact`.
        is_beta = (sigma * sigma > 0.0) & (nu > 0.0) & (np.minimum(a, b) <= NARROW)
        return np.asarray(1.0 - betainc(np.where(is_beta, a, NAN), b, threshold))


def check_literally(mu: model.FloatArray, sigma: model.FloatArray, threshold: float) -> int:
    """Compare risks to the last bit; return how many there were to compare."""
    expected = literal_risk(mu, sigma, threshold)
    is_there = ~np.isnan(expected)
    risk = model.overload_risk(mu, sigma, threshold)
    assert risk[is_there].tolist() == expected[is_there].tolist()
    return int(np.count_nonzero(is_there))


@given(
    mu=shares | st.floats(-300, 0).map(lambda exponent: 10**exponent),
    sigma=shares | st.floats(-8, 0).map(lambda exponent: 10**exponent),
    threshold=shares | st.sampled_from([0.5, 0.9, 0.95, 1 - 2**-53, 1e-18]),
)
@settings(max_examples=1000)
def test_risk_is_literally_that_of_betainc(mu: float, sigma: float, threshold: float) -> None:
    """To the last bit, though betainc is not asked where the answer is settled."""
    check_literally(np.array([mu]), np.array([sigma]), threshold)


@pytest.mark.parametrize("threshold", [0.01, 0.3, 0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
def test_risk_is_literally_that_of_betainc_where_it_begins_to_be_settled(threshold: float) -> None:
    """At 7 to 12 deviations from the threshold, where the last bits of 1 - x go."""
    generator = np.random.default_rng(6)
    sigma = 10.0 ** generator.uniform(-4, -0.3, 40_000)
    far = generator.uniform(7, 12, len(sigma)) * generator.choice([-1, 1], len(sigma))
    mu = np.clip(threshold + far * sigma, 1e-12, 1 - 1e-12)
    assert check_literally(mu, sigma, threshold) > 10_000
    with np.errstate(all="ignore"):
        settled = model._is_settled(mu, sigma, threshold)
    assert 0.1 < settled.mean() < 0.99


def test_risk_of_calm_nodes_is_settled() -> None:
    """Half used, give or take 5 %: betainc is not asked at all."""
    mu, sigma = np.linspace(0.1, 0.5, 100), np.full(100, 0.05)
    assert model._is_settled(mu, sigma, 0.9).all()


@given(
    threshold=st.floats(0.01, 0.99),
    exponent=st.floats(-100, -5.5),
    deviations=st.floats(-10, 10),
)
def test_risk_of_narrow_spread_is_almost_that_of_a_normal(
    threshold: float, exponent: float, deviations: float
) -> None:
    """It differs by the skewness g, and by no more than g phi(z) |z^2 - 1| / 6 <= 0.07 g."""
    sigma = 10**exponent
    mu = threshold - deviations * sigma
    assume(0 < mu < 1)
    skewness = 2 * sigma * abs(1 - 2 * mu) / (mu * (1 - mu))
    normal = stats.norm(mu, sigma).sf(threshold)
    assert risk_of(mu, sigma, threshold) == pytest.approx(normal, abs=0.07 * skewness + 1e-10)


@given(mu=shares, sigma=shares | st.floats(-320, 0).map(lambda exponent: 10**exponent))
@example(mu=0.9, sigma=1.5848931924613312e-16)
@example(mu=5e-324, sigma=1e-162)
def test_risk_is_a_probability(mu: float, sigma: float) -> None:
    """For any spread, at the default threshold and at mu itself, if that is within percents."""
    assert 0 <= risk_of(mu, sigma) <= 1
    assert 0 <= risk_of(mu, sigma, min(max(mu, 0.001), 0.999)) <= 1


def test_risk_too_small_for_float64_is_none() -> None:
    """Half of the node is used, give or take 5 %: a risk of 5e-24 is 0, so that it scores 10."""
    risk = column(risk_of(0.5, 0.05))
    assert risk.tolist() == [[0.0]]
    assert model.overload_scores(model.exact_overload_scores(risk, 0.3)).tolist() == [10]


@pytest.mark.parametrize(
    ("risks", "percentile", "is_rejected"),
    [
        ((0.2, 0.2), 0.3, False),
        ((0.3, 0.3), 0.3, False),
        ((0.31, 0.0), 0.3, True),
        ((0.0, 0.31), 0.3, True),
        ((NAN, 0.31), 0.3, True),
        ((NAN, 0.29), 0.3, False),
        ((NAN, NAN), 0.3, False),
        ((0.0, 0.0), 0.0, False),
        ((1e-16, 0.0), 0.0, True),
        ((1.0, 1.0), 1.0, False),
    ],
)
def test_risk_above_the_percentile_of_either_resource_is_too_high(
    risks: tuple[float, float], percentile: float, *, is_rejected: bool
) -> None:
    """A risk at the percentile is not, nor is an unknown one."""
    assert model.has_overload_risk(column(*risks), percentile).tolist() == [is_rejected]


def test_statistics_of_one_resource_are_statistics() -> None:
    """Only a node without any has none."""
    risk = np.array([[0.1, NAN, 0.1, NAN], [0.1, 0.1, NAN, NAN]])
    assert model.has_statistics(risk).tolist() == [True, True, True, False]


@pytest.mark.parametrize(
    ("risks", "percentile", "score"),
    [
        ((0.0, 0.0), 0.3, 10),
        ((1e-16, 0.0), 0.3, 9),
        ((0.003, 0.003), 0.3, 9),  # 10 (1 - 0.1) = 9
        ((0.00301, 0.0), 0.3, 8),
        ((0.075, 0.0), 0.3, 5),  # 10 (1 - sqrt(1/4)) = 5
        ((0.0, 0.0751), 0.3, 4),
        ((0.299, 0.0), 0.3, 0),
        ((0.3, 0.0), 0.3, 0),
        ((1.0, 0.0), 0.3, 0),
        ((0.0, NAN), 0.3, 10),
        ((NAN, 0.075), 0.3, 5),
        ((NAN, NAN), 0.3, 0),
        ((0.0, 0.0), 0.0, 10),
        ((1e-16, 0.0), 0.0, 0),
        ((0.0, 1.0), 0.0, 0),
        ((0.0, NAN), 0.0, 10),
        ((NAN, NAN), 0.0, 0),
        ((0.25, 0.0), 1.0, 5),
        ((1.0, 0.0), 1.0, 0),
        ((0.5, 0.0), 5e-324, 0),
    ],
)
def test_overload_score_falls_with_the_root_of_the_risk(
    risks: tuple[float, float], percentile: float, score: int
) -> None:
    """Rounded down; the riskier resource counts; 0 without statistics."""
    exact = model.exact_overload_scores(column(*risks), percentile)
    assert model.overload_scores(exact).tolist() == [score]


@given(st.lists(st.tuples(st.none() | shares, st.none() | shares), max_size=8), shares)
def test_overload_score_is_the_definition(
    nodes: list[tuple[float | None, float | None]], percentile: float
) -> None:
    """Read plainly, node by node and resource by resource."""

    def plain(risk: float) -> int:
        if percentile == 0:
            share = 0.0 if risk == 0 else 1.0
        else:
            share = 1.0 if risk >= percentile else risk / percentile
        return math.floor(10 * (1 - math.sqrt(share)))

    expected = [
        min((plain(risk) for risk in risks if risk is not None), default=0) for risks in nodes
    ]
    risk = np.array(nodes, float).reshape(-1, 2).T
    exact = model.exact_overload_scores(risk, percentile)
    assert model.overload_scores(exact).tolist() == expected


@pytest.mark.parametrize(
    ("mus", "sigmas", "score"),
    [
        ((0.0, 0.0), (0.0, 0.0), 10),
        ((1.0, 0.0), (0.0, 0.0), 5),
        ((1.0, 1.0), (1.0, 1.0), 0),
        ((0.1, 0.1), (0.0, 0.0), 10),  # 9.5
        ((0.5, 0.0), (0.0, 0.0), 8),  # 7.5: half to even would be 8 too
        ((0.5, 0.0), (0.25, 0.0), 5),  # (0.5 + 0.5) / 2
        ((0.75, 0.0), (0.0625, 0.0), 5),  # (0.75 + 0.25) / 2
        ((0.5, 0.0), (0.16, 0.0), 6),  # 5.5
        ((0.5, 0.0), (0.36, 0.0), 5),  # 4.5: half to even would be 4
        ((0.0, 0.5), (0.0, 0.25), 5),
        ((NAN, 0.5), (NAN, 0.25), 5),
        ((0.0, NAN), (0.0, NAN), 10),
        ((NAN, NAN), (NAN, NAN), 0),
    ],
)
def test_balance_score_falls_with_utilisation_and_the_root_of_its_deviation(
    mus: tuple[float, float], sigmas: tuple[float, float], score: int
) -> None:
    """Halves are rounded up; the fuller resource counts; 0 without statistics."""
    exact = model.exact_balance_scores(column(*mus), column(*sigmas))
    assert model.balance_scores(exact).tolist() == [score]


@given(st.lists(st.tuples(shares, shares, st.none() | st.tuples(shares, shares)), max_size=8))
def test_balance_score_is_the_definition(
    nodes: list[tuple[float, float, tuple[float, float] | None]],
) -> None:
    """Read plainly, for nodes with statistics of one resource or of both."""

    def plain(mu: float, sigma: float) -> int:
        o = (mu + math.sqrt(sigma)) / 2
        return math.floor(10 * (1 - o) + 0.5)

    expected = [
        min([plain(mu, sigma)] + ([] if other is None else [plain(*other)]))
        for mu, sigma, other in nodes
    ]
    others = [other or (NAN, NAN) for _, _, other in nodes]
    mus = np.array([[mu for mu, _, _ in nodes], [mu for mu, _ in others]], float)
    sigmas = np.array([[sigma for _, sigma, _ in nodes], [sigma for _, sigma in others]], float)
    exact = model.exact_balance_scores(mus, sigmas)
    assert model.balance_scores(exact).tolist() == expected
