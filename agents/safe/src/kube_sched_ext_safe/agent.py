"""The safe agent."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kube_sched_ext import (
    Agent,
    FloatArray,
    LazyExplanation,
    NodeReader,
    Nodes,
    NodeStore,
    Pod,
    Scores,
    Verdict,
    predicate,
    priority,
)
from kube_sched_ext_safe import model
from kube_sched_ext_safe.settings import SafeSettings, quantiles_of
from kube_sched_ext_safe.store import (
    RESOURCES,
    AnnotationPodStore,
    AnnotationStore,
    Loads,
    LoadStore,
)

if TYPE_CHECKING:
    from kube_sched_ext_safe.measured import MeasuredStore
    from kube_sched_ext_telemetry import Feed, MissingScores

    FillIn = Callable[[NDArray[np.int64], NDArray[np.bool_], MissingScores], NDArray[np.int64]]

# The third is misspelt as published.
_STATISTICS = ("mean-free", "std-free", "forcasted-free")


class Safe(Agent[SafeSettings]):
    """Avoids nodes that the pod would put at risk of overload."""

    name = "safe"
    settings_type = SafeSettings
    columns = (
        *(f"allocatable-{resource}" for resource in RESOURCES),
        *(f"{statistic}-{resource}" for statistic in _STATISTICS for resource in RESOURCES),
    )
    feed: "Feed"
    """What Prometheus is asked, where statistics come from there."""

    def __init__(self, settings: SafeSettings | None = None) -> None:
        """Turn percentages into shares, and prepare to ask Prometheus where that is the source."""
        super().__init__(settings)
        self._forecast_weight = self.settings.forecast_weight / 100
        self._threshold = self.settings.utilisation / 100
        self._percentile = self.settings.percentile / 100
        self._quantiles = np.array(quantiles_of(self.settings.quantiles))
        if self.settings.print_table:
            self.explanation_level = "INFO"
        counts = self.settings.counts_new_pods
        self._store: type[LoadStore] = AnnotationPodStore if counts else AnnotationStore
        self._measured_store: type[MeasuredStore] | None = None
        self._fill_in: FillIn | None = None
        if self.settings.source == "prometheus":
            # Late: who has annotations does not pay for Prometheus.
            from kube_sched_ext_safe import measured, queries  # noqa: PLC0415
            from kube_sched_ext_telemetry import fill_in  # noqa: PLC0415

            self._fill_in = fill_in
            self.feed = queries.new_feed(self.settings)
            self._measured_store = measured.MeasuredPodStore if counts else measured.MeasuredStore
            self._store = self._measured_store

    def new_store(self) -> NodeStore:
        """Keep what follows from statistics, and new pods where those are to count."""
        loads = Loads(self._forecast_weight, self._threshold)
        if self._measured_store is not None:
            capacities = self.columns[: len(RESOURCES)]
            return self._measured_store(self.feed, capacities, self._capacities, loads)
        kind = AnnotationPodStore if self.settings.counts_new_pods else AnnotationStore
        return kind(self.columns, self.row, loads)

    def row(self, node: NodeReader) -> tuple[float, ...]:
        """Read capacities and statistics: millicores and bytes."""
        statistics = self.columns[len(RESOURCES) :]
        return (*self._capacities(node), *map(node.annotation, statistics))

    def _capacities(self, node: NodeReader) -> tuple[float, ...]:
        return tuple(map(node.allocatable, RESOURCES))

    @predicate("safe-overload")
    def rejects_overload(self, pod: Pod, nodes: Nodes) -> Verdict:
        """Reject nodes where the risk of overload is above SAFEPERCENTILE."""
        if self._is_riskless(pod, nodes):
            return Verdict(explanation=self._overload_explanation(pod, nodes))
        risk = self._risk(pod, nodes)
        rejected = {"node overload risk": model.has_overload_risk(risk, self._percentile)}
        if self.settings.without_statistics == "reject":
            rejected["node without usage statistics"] = ~model.has_statistics(risk)
        return Verdict(rejected, self._overload_explanation(pod, nodes))

    @priority("safe-overload", depends_on="nodes")
    def avoids_overload(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score 10 without risk of overload, down to 0 at SAFEPERCENTILE."""
        if self._is_riskless(pod, nodes):
            explanation = self._overload_explanation(pod, nodes, exact=np.full(len(nodes), 10.0))
            return Scores(np.full(len(nodes), 10), explanation)
        exact = model.exact_overload_scores(self._risk(pod, nodes), self._percentile)
        scores = self._filled_in(model.overload_scores(exact), exact)
        return Scores(scores, self._overload_explanation(pod, nodes, exact=exact))

    @priority("safe-balance", depends_on="nodes")
    def balances(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score nodes with low and steady utilisation high."""
        exact = model.exact_balance_scores(*self._utilisation(pod, nodes))
        scores = self._filled_in(model.balance_scores(exact), exact)
        explanation = LazyExplanation(lambda: {**self._made_of(pod, nodes), "exact": exact})
        return Scores(scores, explanation)

    def _is_riskless(self, pod: Pod, nodes: Nodes) -> bool:
        """Tell whether the risk is 0 for sure, on all nodes: so it is where all is calm."""
        store = nodes.store(self._store)
        lacks = store.lacks(nodes.rows)
        if self.settings.is_empirical or (lacks is not None and lacks.any()):
            return False
        return bool((_demand(pod) <= store.loads().riskless_demand(nodes.rows)).all())

    def _risk(self, pod: Pod, nodes: Nodes) -> FloatArray:
        """Return the risk of overload, shape (resources, n)."""
        store = nodes.store(self._store)
        compute = self._empirical_risk if self.settings.is_empirical else self._beta_risk
        # Filter and prioritize ask for the same of each pod, and pods of one kind come in numbers.
        key = (store.generation, pod.demand.cpu, pod.demand.memory)
        risk = nodes.memo(key, partial(compute, pod))
        return self._where_fresh(nodes, risk)

    def _beta_risk(self, pod: Pod, nodes: Nodes) -> FloatArray:
        risk = np.zeros((len(RESOURCES), len(nodes)))
        limit = nodes.store(self._store).loads().riskless_demand(nodes.rows)
        is_open = (_demand(pod) > limit).any(axis=0)
        if is_open.any():
            demand, capacity, used, sigma = self._loads(pod, nodes.at(nodes.rows[is_open]))
            mu = model.utilisation(capacity, used, demand)
            risk[:, is_open] = model.overload_risk(mu, sigma, self._threshold)
        return risk

    def _empirical_risk(self, pod: Pod, nodes: Nodes) -> FloatArray:
        assert self._measured_store is not None  # noqa: S101  # settings allow it with no other
        demand, capacity, _, _ = self._loads(pod, nodes)
        free = nodes.store(self._measured_store).quantiles(nodes.rows)
        return model.empirical_risk(capacity, free, self._quantiles, demand, self._threshold)

    def _utilisation(self, pod: Pod, nodes: Nodes) -> tuple[FloatArray, FloatArray]:
        """Return mu and sigma, each of shape (resources, n)."""
        demand, capacity, used, sigma = self._loads(pod, nodes)
        mu, sigma = self._where_fresh(
            nodes, np.stack([model.utilisation(capacity, used, demand), sigma])
        )
        return mu, sigma

    def _loads(self, pod: Pod, nodes: Nodes) -> FloatArray:
        """Return demand, capacity, use and spread, shape (4, resources, n)."""
        loads = nodes.store(self._store).loads().of(nodes.rows)
        # The pod's demand comes on top of what could not be measured yet.
        loads[0] += _demand(pod)
        return loads

    def _where_fresh(self, nodes: Nodes, values: FloatArray) -> FloatArray:
        """Return `values`, of shape (..., resources, n), with NaN where statistics are too old."""
        lacks = nodes.store(self._store).lacks(nodes.rows)
        return values if lacks is None else np.where(lacks, np.nan, values)

    def _overload_explanation(self, pod: Pod, nodes: Nodes, **parts: FloatArray) -> LazyExplanation:
        """Tell mu, sigma and risk of each resource, and `parts`, of shape (n,)."""
        return LazyExplanation(
            lambda: {**self._made_of(pod, nodes, risk=self._risk(pod, nodes)), **parts}
        )

    def _made_of(self, pod: Pod, nodes: Nodes, **parts: FloatArray) -> dict[str, FloatArray]:
        """Return mu, sigma and `parts`, of shape (resources, n), by name and resource."""
        mu, sigma = self._utilisation(pod, nodes)
        return {
            f"{name}_{resource}": values
            for name, rows in {"mu": mu, "sigma": sigma, **parts}.items()
            for resource, values in zip(RESOURCES, rows, strict=True)
        }

    def _filled_in(self, scores: NDArray[np.int64], exact: FloatArray) -> NDArray[np.int64]:
        """Return scores with those of nodes without statistics as the settings want them."""
        if self._fill_in is None:
            return scores
        return self._fill_in(scores, np.isnan(exact), self.settings.missing_scores)


def _demand(pod: Pod) -> FloatArray:
    """Return what `pod` asks for, shape (resources, 1)."""
    return np.array([[pod.demand.cpu], [pod.demand.memory]], np.float64)
