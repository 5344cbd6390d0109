"""An agent asked directly: its verbs on a few nodes, without a server between."""

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
import numpy as np

from kube_sched_ext import Agent, Node, NodeReader, Nodes, Pod
from kube_sched_ext.demand import Unparsable
from kube_sched_ext.table import NodeTable
from kube_sched_ext_testkit.builders import JSON

T = TypeVar("T", Node, Pod)


class Reports:
    """Collects what could not be read from nodes."""

    def __init__(self) -> None:
        """Start with nothing."""
        self.values: list[tuple[str, Unparsable]] = []

    def unparsable(self, agent: str, node: str, value: Unparsable) -> None:
        """Keep the node and the value."""
        self.values.append((node, value))

    def unreadable(self, agent: str, node: str, error: Exception) -> None:
        """Let the test fail with what the agent raised."""
        raise error


def read_node(node: JSON) -> NodeReader:
    """Return what an agent's `row` gets for `node`."""
    return NodeReader(_decoded(node, Node))


def read_pod(pod: JSON) -> Pod:
    """Return what an agent's verbs get for `pod`."""
    return _decoded(pod, Pod)


def nodes_for(agent: Agent[Any], nodes: Sequence[JSON], reports: Reports | None = None) -> Nodes:
    """Return `nodes` as `agent` sees them, in the order given."""
    table = NodeTable({agent.name: agent.new_store()}, reports or Reports())
    decoded = [_decoded(node, Node) for node in nodes]
    for node in decoded:
        table.put(node)
    return table.nodes(agent.name, table.rows([node.metadata.name for node in decoded]))


def ask_priority(agent: Agent[Any], name: str, pod: JSON, nodes: Sequence[JSON]) -> list[int]:
    """Return the score that priority `name` gives each of `nodes`, in their order.

    Raises:
        AgentError: the scores are not integers 0..10, one for each node.
        KeyError: the agent has no such priority.
    """
    priority = {priority.name: priority for priority in agent.priorities}[name]
    values: list[int] = priority.run(read_pod(pod), nodes_for(agent, nodes)).values.tolist()
    return values


def ask_predicate(
    agent: Agent[Any], name: str, pod: JSON, nodes: Sequence[JSON]
) -> list[str | None]:
    """Return the reason why predicate `name` rejects each of `nodes`; None where it stays.

    Raises:
        AgentError: the verdict is not made of boolean arrays, one value for each node.
        KeyError: the agent has no such predicate.
    """
    predicate = {predicate.name: predicate for predicate in agent.predicates}[name]
    verdict = predicate.run(read_pod(pod), nodes_for(agent, nodes))
    reasons: list[str | None] = [None] * len(nodes)
    for reason, mask in verdict.rejected.items():
        for place in np.flatnonzero(mask):
            reasons[place] = reasons[place] or reason
    return reasons


def _decoded(value: JSON, kind: type[T]) -> T:
    return msgspec.json.decode(msgspec.json.encode(value), type=kind)
