"""A pod's way through the extenders: filters in turn, then scores, then the choice."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kube_sched_ext_testkit.builders import JSON
from kube_sched_ext_testkit.errors import ExtenderError
from kube_sched_ext_testkit.scheduler import Extender, name_of

# What brings an extender's 0..10 to the 0..100 of kube-scheduler's own plugins.
_SCALE: Final = 10


@dataclass(frozen=True, slots=True)
class Choice:
    """The weighted sum of each node's scores, and the nodes that have the highest."""

    totals: dict[str, int]
    best: list[str]

    @property
    def chosen(self) -> str:
        """The first of the best, in the order asked; kube-scheduler takes any of them."""
        return self.best[0]


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a pod.

    Of `node_count` nodes, `reasons` has why some were rejected; `choice` is None where none
    remained; `scoring_errors` are failed prioritize calls, which kube-scheduler passes over.
    """

    node_count: int
    reasons: dict[str, str] = field(default_factory=dict)
    choice: Choice | None = None
    scoring_errors: list[ExtenderError] = field(default_factory=list)

    @property
    def event(self) -> str:
        """What the pod's event says where no node remained."""
        counts = Counter(self.reasons.values())
        reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items()))
        told = f"0/{self.node_count} nodes are available:"
        return f"{told} {reasons}." if reasons else told


def choose(nodes: Sequence[str], scores: Iterable[tuple[Mapping[str, int], int]]) -> Choice:
    """Return the choice among `nodes`: the highest sum of score x weight x 10.

    `scores` has each extender's scores by node, and its weight. A node without a score gets 0.

    Raises:
        ValueError: there are no nodes to choose from.
    """
    totals = dict.fromkeys(nodes, 0)
    for by_node, weight in scores:
        for node in nodes:
            totals[node] += by_node.get(node, 0) * weight * _SCALE
    highest = max(totals.values())
    return Choice(totals, [node for node, total in totals.items() if total == highest])


def schedule(pod: JSON, nodes: Sequence[JSON], extenders: Sequence[Extender]) -> Decision:
    """Return where `pod` goes, as far as `extenders` decide: other plugins score all nodes alike.

    Raises:
        ExtenderError: a filter failed that is not ignorable.
    """
    interested = [extender for extender in extenders if extender.is_interested(pod)]
    # kube-scheduler too asks those last whose failure it can bear.
    interested.sort(key=lambda extender: extender.ignorable)
    reasons: dict[str, str] = {}
    kept = list(nodes)
    for extender in interested:
        if not kept:
            break
        try:
            outcome = extender.filter(pod, kept)
        except ExtenderError:
            if not extender.ignorable:
                raise
            continue
        reasons.update(outcome.reasons)
        kept = outcome.kept
    if not kept:
        return Decision(len(nodes), reasons)
    scores = []
    errors = []
    # One node alone is taken without a question.
    for extender in interested if len(kept) > 1 else ():
        try:
            scores.append((extender.prioritize(pod, kept), extender.weight))
        except ExtenderError as error:
            errors.append(error)
    choice = choose([name_of(node) for node in kept], scores)
    return Decision(len(nodes), reasons, choice, errors)
