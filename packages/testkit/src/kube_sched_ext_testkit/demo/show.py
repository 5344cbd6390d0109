"""The answers as tables, on terminals from 80 columns."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kube_sched_ext_testkit.ask import read_pod
from kube_sched_ext_testkit.demo.answers import Agents, Answers
from kube_sched_ext_testkit.demo.recorded import AskedToPreempt

_LABEL_WIDTH: Final = 22
_NODE_WIDTH: Final = 14
_NOTHING: Final = "-"


_Verb = tuple[str, str]
"""What a line of the log tells, verdict or score, and the name of the predicate or priority."""


@dataclass(frozen=True, slots=True)
class Explanations:
    """What a server's log at TRACE tells.

    `made_of` has for a verb and a pod what its answers were made of, by name and node;
    `rejected_by` has for a pod and a node the predicates that rejected it.
    """

    made_of: dict[tuple[_Verb, str], dict[str, dict[str, object]]]
    rejected_by: dict[tuple[str, str], set[str]]

    @classmethod
    def read(cls, log: Path) -> "Explanations":
        """Collect the lines that tell of single nodes."""
        explanations = cls({}, {})
        for line in log.read_bytes().splitlines():
            entry: dict[str, Any] = msgspec.json.decode(line)
            kind = "verdict" if "verdict" in entry else "score"
            if entry["event"] == "explanation":
                of_verb = explanations.made_of.setdefault(((kind, entry["name"]), entry["pod"]), {})
                for key, value in entry["made_of"].items():
                    of_verb.setdefault(key, {})[entry["node"]] = value
            elif entry["event"] == "verdict" and not entry["verdict"]:
                place = entry["pod"], entry["node"]
                explanations.rejected_by.setdefault(place, set()).add(entry["name"])
        return explanations


def show_answers(
    console: Console, agents: Agents, answers: Answers, explanations: Explanations
) -> None:
    """Print what each agent says of each node, and the node chosen."""
    pod = read_pod(answers.pod)
    console.rule(f"Pod {pod}", style="none", characters="=")
    memory = pod.demand.memory / 2**20
    console.print(f"asks for {pod.demand.cpu} millicores, {memory:.0f} MiB", highlight=False)
    console.print(f"images {', '.join(pod.container_images)}", highlight=False)
    room = console.width - _LABEL_WIDTH - 2
    per_table = max(1, room // _NODE_WIDTH)
    for start in range(0, len(answers.nodes), per_table):
        nodes = answers.nodes[start : start + per_table]
        table = _table(nodes, agents, answers, explanations, str(pod))
        for column in table.columns[1:]:
            column.max_width = room // len(nodes) - 2
        console.print(table)
    console.print(_decision(answers), style="bold", highlight=False)
    console.print()


def show_preemption(
    console: Console,
    asked: AskedToPreempt,
    remaining: Collection[str],
    explanations: Explanations,
) -> None:
    """Print which candidates for preemption remain, and who rejects the others."""
    pod = str(read_pod(asked.pod))
    console.rule(f"Pod {pod}: preemption", style="none", characters="=")
    table = _new_table("candidate", "victims", "verdict")
    for node, victims in asked.candidates.items():
        rejected_by = ", ".join(sorted(explanations.rejected_by.get((pod, node), ())))
        verdict = Text("keep") if node in remaining else _rejected(rejected_by or "no predicate")
        table.add_row(node, str(len(victims.pods)), verdict)
    console.print(table)


def _new_table(*columns: str) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    return table


def _table(
    nodes: list[str], agents: Agents, answers: Answers, explanations: Explanations, pod: str
) -> Table:
    table = _new_table("agent", *nodes)
    table.columns[0].min_width = _LABEL_WIDTH
    for agent, predicates in agents.predicates.items():
        table.add_row(Text(agent, style="bold"))
        # Verbs of one agent tend to share what they are made of: each thing once is enough.
        shown: list[object] = []
        for kind, name in (
            *(("verdict", name) for name in predicates),
            *(("score", name) for name in agents.priorities[agent]),
        ):
            if kind == "verdict":
                reasons = answers.outcomes[name].reasons
                cells = [_verdict(reasons.get(node)) for node in nodes]
            else:
                scores = answers.scores[name]
                cells = [Text(str(scores.get(node, _NOTHING))) for node in nodes]
            table.add_row(Text(f" {kind} {name}"), *cells)
            for part in explanations.made_of.get(((kind, name), pod), {}).items():
                if part not in shown:
                    shown.append(part)
                    _add_explanation(table, nodes, *part)
    choice = answers.decision.choice
    totals = choice.totals if choice else {}
    table.add_section()
    table.add_row("total", *(str(totals.get(node, _NOTHING)) for node in nodes))
    return table


def _add_explanation(
    table: Table, nodes: list[str], key: str, values: Mapping[str, object]
) -> None:
    cells = [Text(_shown(values.get(node)), style="dim") for node in nodes]
    table.add_row(Padding(Text(key, style="dim"), (0, 0, 0, 3)), *cells)


def _verdict(reason: str | None) -> Text:
    return Text("keep") if reason is None else _rejected(reason)


def _rejected(why: str) -> Text:
    return Text(f"reject: {why}", style="red")


def _shown(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _decision(answers: Answers) -> str:
    choice = answers.decision.choice
    if choice is None:
        return f"not scheduled: {answers.decision.event}"
    if len(choice.best) > 1:
        best = ", ".join(choice.best)
        return f"chosen: {choice.chosen} (equally good: {best}; kube-scheduler takes any)"
    return f"chosen: {choice.chosen}"
