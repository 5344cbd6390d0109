"""What the core expects of an agent, checked without a server."""

import re
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kube_sched_ext import Agent, Nodes, Pod
from kube_sched_ext.agent import Predicate, Priority
from kube_sched_ext.stores import FloatColumns
from kube_sched_ext_testkit.ask import nodes_for, read_node, read_pod
from kube_sched_ext_testkit.builders import JSON, make_node, make_pod

_WORD: Final = re.compile(r"[A-Za-z0-9._~-]+")
_MANY: Final = 50


class ContractError(AssertionError):
    """What an agent does not keep to."""


def check_agent(agent: Agent[Any], nodes: Sequence[JSON] = (), pods: Sequence[JSON] = ()) -> None:
    """Check that `agent` is what the core takes it for.

    Its names fit in a path; `row` has one number for each column, of a node without any data too;
    its verbs answer for none, one and many nodes, known or not, give each node the same answer
    wherever it stands, leave alone what they are given, and give reasons that can be counted; its
    priorities depend on no more than they say.

    Args:
        agent: the agent.
        nodes: nodes with what it reads, beside bare ones.
        pods: pods that it treats in different ways, beside a plain one.

    Raises:
        ContractError: what is wrong.
        AgentError: a verb returned scores or masks of the wrong shape, type or range.
    """
    _check_names(agent)
    bare: list[JSON] = [make_node("bare"), {"metadata": {"name": "barest"}}]
    usual = make_node("usual", allocatable={"cpu": "4", "memory": "8Gi", "pods": "110"})
    odd = make_node("odd", allocatable={"cpu": "0", "memory": "unparsable"})
    known = [*bare, usual, odd, *nodes]
    _check_rows(agent, known)
    many = [*known, *(make_node(f"more-{index}") for index in range(_MANY))]
    seen = nodes_for(agent, many)
    with_unknown = seen.at(np.append(seen.rows, np.zeros(2, np.intp)))
    asking = [
        read_pod(pod) for pod in (make_pod(requests={"cpu": "100m", "memory": "64Mi"}), {}, *pods)
    ]
    verbs: list[Predicate | Priority] = [*agent.predicates, *agent.priorities]
    for pod in asking:
        for verb in verbs:
            for asked in (seen.at(seen.rows[:0]), seen.at(seen.rows[:1]), with_unknown):
                _check_verb(verb, pod, asked)
    some = nodes_for(agent, known)
    for priority in agent.priorities:
        _check_dependence(priority, asking, some, seen.at(seen.rows[: len(some)]))


def _check_names(agent: Agent[Any]) -> None:
    names = [verb.name for verb in agent.predicates]
    others = [verb.name for verb in agent.priorities]
    if not names and not others:
        raise ContractError("the agent has neither a predicate nor a priority")
    for name in (agent.name, *names, *others):
        if not _WORD.fullmatch(name):
            raise ContractError(f"{name!r} does not fit in a path")
    for kind, called in (("predicates", names), ("priorities", others)):
        if len(set(called)) < len(called):
            raise ContractError(f"two {kind} have one name: {', '.join(called)}")


def _check_rows(agent: Agent[Any], nodes: Sequence[JSON]) -> None:
    if not isinstance(agent.new_store(), FloatColumns):
        return
    for node in nodes:
        reader = read_node(node)
        row = agent.row(reader)
        if len(row) != len(agent.columns):
            raise ContractError(
                f"row has {len(row)} numbers for {len(agent.columns)} columns of {reader.name}"
            )
        if not all(isinstance(number, Real) for number in row):
            raise ContractError(f"row has more than numbers of {reader.name}: {row}")


def _check_verb(verb: Predicate | Priority, pod: Pod, nodes: Nodes) -> None:
    before = _inputs(pod, nodes)
    answer = _answer(verb, pod, nodes)
    backwards = _answer(verb, pod, nodes.at(nodes.rows[::-1].copy()))
    if _inputs(pod, nodes) != before:
        raise ContractError(f"{verb.name} changes what it is given")
    if list(answer) != list(backwards) or not all(
        np.array_equal(answer[key], backwards[key][::-1]) for key in answer
    ):
        raise ContractError(f"{verb.name} answers otherwise for the same nodes in another order")


def _check_dependence(
    verb: Priority, pods: Sequence[Pod], alone: Nodes, among_others: Nodes
) -> None:
    """Compare scores of the same nodes: later, and where the cluster has others, too."""

    def scores(nodes: Nodes) -> list[list[int]]:
        return [verb.run(pod, nodes).values.tolist() for pod in pods]

    if verb.depends_on == "calls":
        return
    before = scores(alone)
    for number in range(_MANY):
        verb.run(read_pod(make_pod(f"more-{number}", requests={"cpu": f"{number}"})), alone)
    if scores(alone) != before:
        raise ContractError(f"{verb.name} answers otherwise when asked again: it depends on calls")
    if verb.depends_on == "nodes" and scores(among_others) != before:
        raise ContractError(
            f"{verb.name} answers otherwise where there are other nodes: it depends on the cluster"
        )


def _answer(
    verb: Predicate | Priority, pod: Pod, nodes: Nodes
) -> Mapping[str, NDArray[np.bool_] | NDArray[np.integer[Any]]]:
    if isinstance(verb, Priority):
        scores = verb.run(pod, nodes)
        _check_explanation(verb, scores.explanation, len(nodes))
        return {"": scores.values}
    verdict = verb.run(pod, nodes)
    _check_explanation(verb, verdict.explanation, len(nodes))
    for reason in verdict.rejected:
        if not reason or re.search(r"[0-9]", reason):
            raise ContractError(
                f"{verb.name} gives the reason {reason!r}: kube-scheduler adds up equal ones, "
                "so numbers belong into the explanation"
            )
    return verdict.rejected


def _check_explanation(
    verb: Predicate | Priority, explanation: Mapping[str, NDArray[Any]], count: int
) -> None:
    for key, values in explanation.items():
        if values.shape != (count,):
            raise ContractError(f"{verb.name} explains {key} with {values.shape}, not ({count},)")


def _inputs(pod: Pod, nodes: Nodes) -> tuple[bytes, bytes, bytes]:
    try:
        columns = nodes.columns.tobytes()
    except TypeError:
        # A store of the agent's own, which only it can read.
        columns = b""
    return msgspec.json.encode(pod), nodes.rows.tobytes(), columns
