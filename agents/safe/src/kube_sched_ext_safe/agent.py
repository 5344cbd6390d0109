"""The safe agent."""

import numpy as np

from kube_sched_ext import (
    Agent,
    FloatArray,
    NodeReader,
    Nodes,
    Pod,
    Scores,
    Verdict,
    predicate,
    priority,
)
from kube_sched_ext_safe import model
from kube_sched_ext_safe.settings import SafeSettings

_RESOURCES = ("cpu", "memory")
# The third is misspelt as published.
_STATISTICS = ("mean-free", "std-free", "forcasted-free")


class Safe(Agent[SafeSettings]):
    """Avoids nodes that the pod would put at risk of overload."""

    name = "safe"
    settings_type = SafeSettings
    columns = (
        *(f"allocatable-{resource}" for resource in _RESOURCES),
        *(f"{statistic}-{resource}" for statistic in _STATISTICS for resource in _RESOURCES),
    )

    def __init__(self, settings: SafeSettings | None = None) -> None:
        """Turn percentages into shares."""
        super().__init__(settings)
        self._forecast_weight = self.settings.forecast_weight / 100
        self._threshold = self.settings.utilisation / 100
        self._percentile = self.settings.percentile / 100
        if self.settings.print_table:
            self.explanation_level = "INFO"

    def row(self, node: NodeReader) -> tuple[float, ...]:
        """Read capacities and statistics: millicores and bytes."""
        return (
            *map(node.allocatable, _RESOURCES),
            *map(node.annotation, self.columns[len(_RESOURCES) :]),
        )

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
        return Scores(model.overload_scores(exact), {**made_of, "exact": exact})

    @priority("safe-balance")
    def balances(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score nodes with low and steady utilisation high."""
        mu, sigma, [exact] = self._balance(pod, nodes)
        made_of = _explanation(mu=mu, sigma=sigma)
        return Scores(model.balance_scores(exact), {**made_of, "exact": exact})

    def _overload(self, pod: Pod, nodes: Nodes) -> list[FloatArray]:
        """Return mu, sigma and risk, of shape (resources, n), and the exact score, (1, n)."""

        def compute(part: Nodes) -> FloatArray:
            mu, sigma = self._utilisation(pod, part)
            risk = model.overload_risk(mu, sigma, self._threshold)
            exact = model.exact_overload_scores(risk, self._percentile)
            return np.vstack([mu, sigma, risk, exact])

        # Filter and prioritize ask for the same of each pod, and pods of one kind come in numbers.
        found = nodes.memo(("overload", pod.demand.cpu, pod.demand.memory), compute)
        return [found[0:2], found[2:4], found[4:6], found[6:7]]

    def _balance(self, pod: Pod, nodes: Nodes) -> list[FloatArray]:
        """Return mu and sigma, of shape (resources, n), and the exact score, (1, n)."""

        def compute(part: Nodes) -> FloatArray:
            mu, sigma = self._utilisation(pod, part)
            return np.vstack([mu, sigma, model.exact_balance_scores(mu, sigma)])

        found = nodes.memo(("balance", pod.demand.cpu, pod.demand.memory), compute)
        return [found[0:2], found[2:4], found[4:5]]

    def _utilisation(self, pod: Pod, nodes: Nodes) -> tuple[FloatArray, FloatArray]:
        """Return mean and deviation after placement, each of shape (resources, n)."""
        capacity, mean, deviation, forecast = nodes.columns.reshape(4, len(_RESOURCES), len(nodes))
        demand = np.array([[pod.demand.cpu], [pod.demand.memory]], np.float64)
        return model.utilisation(capacity, mean, deviation, forecast, demand, self._forecast_weight)


def _explanation(**parts: FloatArray) -> dict[str, FloatArray]:
    """Name each resource's row of each part, of shape (resources, n)."""
    return {
        f"{name}_{resource}": values
        for name, rows in parts.items()
        for resource, values in zip(_RESOURCES, rows, strict=True)
    }
