"""Agents asked directly, about nodes and pods as the builders make them."""

import numpy as np
import pytest

from kube_sched_ext import (
    Agent,
    NodeReader,
    Nodes,
    NoSettings,
    Pod,
    Scores,
    Verdict,
    predicate,
    priority,
)
from kube_sched_ext_testkit.ask import (
    Reports,
    ask_predicate,
    ask_priority,
    nodes_for,
    read_node,
    read_pod,
)
from kube_sched_ext_testkit.builders import make_container, make_node, make_pod


class Weight(Agent[NoSettings]):
    """Reads one annotation."""

    name = "weight"
    columns = ("weight",)

    def row(self, node: NodeReader) -> tuple[float]:
        if node.name == "broken":
            raise RuntimeError("cannot read it")
        return (node.annotation("weight"),)

    @predicate("weight")
    def light(self, pod: Pod, nodes: Nodes) -> Verdict:
        [weight] = nodes.columns
        return Verdict({"too heavy": weight > 5, "no light weight": ~(weight <= 3)})

    @priority("weight")
    def lightest(self, pod: Pod, nodes: Nodes) -> Scores:
        return Scores(10 - np.nan_to_num(nodes.columns[0]).astype(np.int64))


NODES = [make_node(text, annotations={"weight": text}) for text in ("3", "9", "4", "x")]


def test_scores_in_order_of_nodes() -> None:
    assert ask_priority(Weight(), "weight", make_pod(), NODES) == [7, 1, 6, 10]


def test_first_reason_of_each_node() -> None:
    reasons = [None, "too heavy", "no light weight", "no light weight"]
    assert ask_predicate(Weight(), "weight", make_pod(), NODES) == reasons


@pytest.mark.parametrize("ask", [ask_priority, ask_predicate])
def test_verb_that_the_agent_has_not(ask: object) -> None:
    with pytest.raises(KeyError, match="height"):
        ask(Weight(), "height", make_pod(), NODES)  # type: ignore[operator]  # both take these


def test_unparsable_values_are_reported() -> None:
    reports = Reports()
    nodes_for(Weight(), NODES, reports)
    [(node, value)] = reports.values
    assert (node, value.key, value.value) == ("x", "weight", "x")


def test_agent_that_fails_to_read_fails_the_test() -> None:
    with pytest.raises(RuntimeError, match="cannot read it"):
        ask_priority(Weight(), "weight", make_pod(), [make_node("broken")])


def test_made_nodes_are_read_back() -> None:
    node = read_node(
        make_node(
            "n",
            allocatable={"cpu": "1500m", "memory": "2Gi"},
            annotations={"a": "1.5"},
            labels={"zone": "z"},
            images=[(["registry.example/app:1"], 7)],
        )
    )
    assert (node.name, node.labels) == ("n", {"zone": "z"})
    assert (node.allocatable("cpu"), node.allocatable("memory")) == (1500, 2 * 2**30)
    assert node.annotation("a") == 1.5
    assert [(image.names, image.size_bytes) for image in node.images] == [
        (("registry.example/app:1",), 7)
    ]


def test_made_pods_are_read_back() -> None:
    pod = read_pod(
        make_pod(
            "p",
            namespace="ns",
            requests={"cpu": "100m"},
            images=["a:1", "b:2"],
            init_containers=[make_container("s:1", requests={"cpu": "50m"}, is_sidecar=True)],
            annotations={"key": "annotation"},
            labels={"key": "label"},
            spec={"overhead": {"memory": "1Mi"}},
        )
    )
    assert (str(pod), pod.metadata.uid) == ("ns/p", "uid-of-ns-p")
    assert (pod.demand.cpu, pod.demand.memory) == (150, 2**20)
    assert pod.container_images == ["a:1", "b:2", "s:1"]
    assert pod.metadata.annotations == {"key": "annotation"}
    assert pod.metadata.labels == {"key": "label"}
