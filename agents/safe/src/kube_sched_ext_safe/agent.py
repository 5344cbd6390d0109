"""The safe agent."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kube_sched_ext import (
    Agent,
    FloatArray,
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
from kube_sched_ext_safe.store import RESOURCES, AnnotationPodStore, AnnotationStore, LoadStore

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
        weight = self._forecast_weight
        if self._measured_store is not None:
            capacities = self.columns[: len(RESOURCES)]
            return self._measured_store(self.feed, capacities, self._capacities, weight)
        kind = AnnotationPodStore if self.settings.counts_new_pods else AnnotationStore
        return kind(self.columns, self.row, weight)

    def row(self, node: NodeReader) -> tuple[float, ...]:
        """Read capacities and statistics: millicores and bytes."""
        statistics = self.columns[len(RESOURCES) :]
        return (*self._capacities(node), *map(node.annotation, statistics))

    def _capacities(self, node: NodeReader) -> tuple[float, ...]:
        return tuple(map(node.allocatable, RESOURCES))

    @predicate("safe-overload")
    def rejects_overload(self, pod: Pod, nodes: Nodes) -> Verdict:
        """Reject nodes where the risk of overload is above SAFEPERCENTILE."""
        mu, sigma, risk, _ = self._overload(pod, nodes)
        rejected = {"node overload risk": model.has_overload_risk(risk, self._percentile)}
        if self.settings.without_statistics == "reject":
            rejected["node without usage statistics"] = ~model.has_statistics(risk)
        return Verdict(rejected, _explanation(mu=mu, sigma=sigma, risk=risk))

    @priority("safe-overload")
    def avoids_overload(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score 10 without risk of overload, down to 0 at SAFEPERCENTILE."""
        mu, sigma, risk, [exact] = self._overload(pod, nodes)
        made_of = _explanation(mu=mu, sigma=sigma, risk=risk)
        scores = self._filled_in(model.overload_scores(exact), exact)
        return Scores(scores, {**made_of, "exact": exact})

    @priority("safe-balance")
    def balances(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score nodes with low and steady utilisation high."""
        mu, sigma, [exact] = self._balance(pod, nodes)
        made_of = _explanation(mu=mu, sigma=sigma)
        scores = self._filled_in(model.balance_scores(exact), exact)
        return Scores(scores, {**made_of, "exact": exact})

    def _overload(self, pod: Pod, nodes: Nodes) -> list[FloatArray]:
        """Return mu, sigma and risk, of shape (resources, n), and the exact score, (1, n)."""

        def compute(part: Nodes) -> FloatArray:
            capacity, used, sigma, demand = self._loads(pod, part)
            mu = model.utilisation(capacity, used, demand)
            if self._measured_store is not None and self.settings.is_empirical:
                free = part.store(self._measured_store).quantiles(part.rows)
                risk = model.empirical_risk(
                    capacity, free, self._quantiles, demand, self._threshold
                )
            else:
                risk = model.overload_risk(mu, sigma, self._threshold)
            exact = model.exact_overload_scores(risk, self._percentile)
            return np.concatenate([mu, sigma, risk, exact[np.newaxis]])

        # Filter and prioritize ask for the same of each pod, and pods of one kind come in numbers.
        found = self._memo("overload", pod, nodes, compute)
        lacks = nodes.store(self._store).lacks(nodes.rows)
        parts = [found[0:2], found[2:4], found[4:6], found[6:7]]
        if lacks is not None and lacks.any():
            mu, sigma, risk = (np.where(lacks, np.nan, part) for part in parts[:3])
            exact = model.exact_overload_scores(risk, self._percentile)
            parts = [mu, sigma, risk, exact[np.newaxis]]
        return parts

    def _balance(self, pod: Pod, nodes: Nodes) -> list[FloatArray]:
        """Return mu and sigma, of shape (resources, n), and the exact score, (1, n)."""

        def compute(part: Nodes) -> FloatArray:
            capacity, used, sigma, demand = self._loads(pod, part)
            mu = model.utilisation(capacity, used, demand)
            exact = model.exact_balance_scores(mu, sigma)
            return np.concatenate([mu, sigma, exact[np.newaxis]])

        found = self._memo("balance", pod, nodes, compute)
        lacks = nodes.store(self._store).lacks(nodes.rows)
        parts = [found[0:2], found[2:4], found[4:5]]
        if lacks is not None and lacks.any():
            mu, sigma = (np.where(lacks, np.nan, part) for part in parts[:2])
            exact = model.exact_balance_scores(mu, sigma)
            parts = [mu, sigma, exact[np.newaxis]]
        return parts

    def _memo(
        self, name: str, pod: Pod, nodes: Nodes, compute: Callable[[Nodes], FloatArray]
    ) -> FloatArray:
        generation = nodes.store(self._store).generation
        key = (name, generation, pod.demand.cpu, pod.demand.memory)
        return nodes.memo(key, compute)

    def _loads(self, pod: Pod, nodes: Nodes) -> FloatArray:
        """Return capacity, use, spread and demand, shape (4, resources, n)."""
        loads = nodes.store(self._store).loads(nodes.rows)
        # The pod's demand comes on top of what could not be measured yet.
        loads[3] += np.array([[pod.demand.cpu], [pod.demand.memory]], np.float64)
        return loads

    def _filled_in(self, scores: NDArray[np.int64], exact: FloatArray) -> NDArray[np.int64]:
        """Return scores with those of nodes without statistics as the settings want them."""
        if self._fill_in is None:
            return scores
        return self._fill_in(scores, np.isnan(exact), self.settings.missing_scores)


def _explanation(**parts: FloatArray) -> dict[str, FloatArray]:
    """Name each resource's row of each part, of shape (resources, n)."""
    return {
        f"{name}_{resource}": values
        for name, rows in parts.items()
        for resource, values in zip(RESOURCES, rows, strict=True)
    }
