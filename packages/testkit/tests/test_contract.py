"""check_agent passes what the core takes, and names what it would not."""

from typing import Any

import numpy as np
import pytest

from kube_sched_ext import (
    Agent,
    NodeReader,
    Nodes,
    NodeStore,
    NoSettings,
    Pod,
    Scores,
    Verdict,
    predicate,
    priority,
)
from kube_sched_ext.errors import AgentError
from kube_sched_ext_testkit.builders import make_node, make_pod
from kube_sched_ext_testkit.contract import ContractError, check_agent


class Sound(Agent[NoSettings]):
    """An agent that keeps to everything."""

    name = "sound"
    columns = ("cpu", "weight")

    def row(self, node: NodeReader) -> tuple[float, float]:
        return node.allocatable("cpu"), node.annotation("weight")

    @predicate("sound")
    def has_cpu(self, pod: Pod, nodes: Nodes) -> Verdict:
        cpu = nodes.columns[0]
        return Verdict({"no cpu": ~(cpu > 0)}, {"cpu": cpu})

    @priority("sound")
    def has_weight(self, pod: Pod, nodes: Nodes) -> Scores:
        weight = np.nan_to_num(nodes.columns[1])
        return Scores(np.clip(weight, 0, 10).astype(np.int64), {"weight": weight})


class OwnStore(Sound):
    """An agent with a store of its own."""

    class Names:
        """Names by row."""

        def __init__(self) -> None:
            self.of: dict[int, str] = {}

        def put(self, row: int, node: NodeReader) -> None:
            self.of[row] = node.name

        def clear(self, row: int) -> None:
            self.of.pop(row, None)

    def new_store(self) -> NodeStore:
        return self.Names()

    @predicate("sound")
    def has_cpu(self, pod: Pod, nodes: Nodes) -> Verdict:
        names = nodes.store(self.Names).of
        return Verdict(
            {"odd name": np.array([names.get(row) == "odd" for row in nodes.rows], bool)}
        )

    @priority("sound")
    def has_weight(self, pod: Pod, nodes: Nodes) -> Scores:
        names = nodes.store(self.Names).of
        lengths = [len(names.get(row, "")) for row in nodes.rows]
        return Scores(np.minimum(np.array(lengths, np.int64), 10))


@pytest.mark.parametrize("kind", [Sound, OwnStore])
def test_sound_agent(kind: type[Agent[Any]]) -> None:
    check_agent(kind())
    check_agent(kind(), [make_node("n", annotations={"weight": "7"})], [make_pod("other")])


class NoVerbs(Agent[NoSettings]):
    """Neither filters nor scores."""

    name = "no-verbs"


class BadName(Sound):
    """Cannot be asked for."""

    name = "no/word"


class Twins(Sound):
    """Two priorities, one name."""

    @priority("sound")
    def twin(self, pod: Pod, nodes: Nodes) -> Scores:
        return Scores(np.zeros(len(nodes), np.int64))


class ShortRow(Sound):
    """One number for two columns."""

    def row(self, node: NodeReader) -> Any:
        return (1.0,)


class TextRow(Sound):
    """No number."""

    def row(self, node: NodeReader) -> Any:
        return (1.0, node.name)


class HighScore(Sound):
    """Scores where it has no data."""

    @priority("sound")
    def has_weight(self, pod: Pod, nodes: Nodes) -> Scores:
        return Scores(np.where(np.isnan(nodes.columns[1]), 11, 0))


class FloatScore(Sound):
    """Rounds nothing."""

    @priority("sound")
    def has_weight(self, pod: Pod, nodes: Nodes) -> Scores:
        return Scores(np.ones(len(nodes)))  # type: ignore[arg-type]  # what is tested


class OnlyMany(Sound):
    """Fails without nodes."""

    @priority("sound")
    def has_weight(self, pod: Pod, nodes: Nodes) -> Scores:
        return Scores(np.full(len(nodes), int(nodes.columns[0][0] > 0)))


class NumberedReason(Sound):
    """Puts a number into the reason."""

    @predicate("sound")
    def has_cpu(self, pod: Pod, nodes: Nodes) -> Verdict:
        return Verdict({"risk 0.3": np.zeros(len(nodes), bool)})


class ShortExplanation(Sound):
    """Explains one node."""

    @predicate("sound")
    def has_cpu(self, pod: Pod, nodes: Nodes) -> Verdict:
        return Verdict({}, {"cpu": np.zeros(1)})


class ByPlace(Sound):
    """Scores the place in the request."""

    @priority("sound")
    def has_weight(self, pod: Pod, nodes: Nodes) -> Scores:
        return Scores(np.arange(len(nodes)) % 10)


class Writes(Sound):
    """Writes into the store."""

    @priority("sound")
    def has_weight(self, pod: Pod, nodes: Nodes) -> Scores:
        nodes._store.values[nodes.rows] = 0.0  # type: ignore[attr-defined]  # what is tested
        return Scores(np.zeros(len(nodes), np.int64))


class Forgetful(Sound):
    """Scores by the pods that it has seen, and does not say so."""

    def __init__(self, settings: NoSettings | None = None) -> None:
        super().__init__(settings)
        self.pods: set[str] = set()

    def count(self, pod: Pod, nodes: Nodes) -> Scores:
        self.pods.add(pod.metadata.name)
        return Scores(np.full(len(nodes), min(len(self.pods) // 9, 10)))

    @priority("sound")
    def has_weight(self, pod: Pod, nodes: Nodes) -> Scores:
        return self.count(pod, nodes)


class Mindful(Forgetful):
    """Says so."""

    @priority("sound", depends_on="calls")
    def has_weight(self, pod: Pod, nodes: Nodes) -> Scores:
        return self.count(pod, nodes)


class LooksAround(Sound):
    """Scores the size of the cluster, and says that it does not look there."""

    @priority("sound", depends_on="nodes")
    def has_weight(self, pod: Pod, nodes: Nodes) -> Scores:
        return self.size(nodes)

    def size(self, nodes: Nodes) -> Scores:
        return Scores(np.full(len(nodes), min(len(nodes.cluster) // 9, 10)))


class LooksAbout(LooksAround):
    """Says that it does."""

    @priority("sound")
    def has_weight(self, pod: Pod, nodes: Nodes) -> Scores:
        return self.size(nodes)


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        (NoVerbs, ContractError, "neither a predicate nor a priority"),
        (BadName, ContractError, "'no/word' does not fit in a path"),
        (Twins, ContractError, "two priorities have one name: sound, sound"),
        (ShortRow, ContractError, "row has 1 numbers for 2 columns of bare"),
        (TextRow, ContractError, "more than numbers of bare"),
        (HighScore, AgentError, "scores from 0 to 11|scores from 11 to 11"),
        (FloatScore, AgentError, "not integers"),
        (OnlyMany, IndexError, "out of bounds"),
        (NumberedReason, ContractError, "'risk 0.3'"),
        (ShortExplanation, ContractError, r"explains cpu with \(1,\), not \(0,\)"),
        (ByPlace, ContractError, "in another order"),
        (Writes, ContractError, "changes what it is given"),
        (Forgetful, ContractError, "asked again: it depends on calls"),
        (LooksAround, ContractError, "other nodes: it depends on the cluster"),
    ],
)
def test_unsound_agent(kind: type[Agent[Any]], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check_agent(kind())


@pytest.mark.parametrize("kind", [Mindful, LooksAbout])
def test_scores_may_depend_on_what_their_priority_says(kind: type[Agent[Any]]) -> None:
    check_agent(kind())
