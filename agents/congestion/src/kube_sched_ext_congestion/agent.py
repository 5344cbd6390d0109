"""The congestion agent."""

from typing import Final

from kube_sched_ext import (
    Agent,
    NodeReader,
    Nodes,
    Pod,
    Scores,
    UnparsableError,
    int64,
    priority,
)
from kube_sched_ext_congestion import model
from kube_sched_ext_congestion.settings import CongestionSettings

ANNOTATION: Final = "congestion-factor"


class Congestion(Agent[CongestionSettings]):
    """Prefers nodes whose congestion-factor annotation is low."""

    name = "congestion"
    settings_type = CongestionSettings
    columns = (ANNOTATION,)

    def row(self, node: NodeReader) -> tuple[float]:
        """Read the annotation."""
        return (node.annotation(ANNOTATION, _factor),)

    @priority("congestion")
    def congestion(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score 10 without congestion, down to 0 at CONGESTION_FACTOR_MAX."""
        [factors] = nodes.columns
        exact = model.exact_scores(factors, self.settings.factor_max)
        return Scores(model.scores(exact), {ANNOTATION: factors, "exact": exact})


def _factor(text: str) -> float:
    number = int64(text)
    if number is None:
        raise UnparsableError(text, "a 64-bit decimal integer")
    return float(number)
