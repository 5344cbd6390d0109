"""The verbs: from a decoded request to its reply, through the agents' pure functions."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from kube_sched_ext.agent import Agent, Explanation, Predicate, Priority
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.errors import AgentError
from kube_sched_ext.instruments import Instruments
from kube_sched_ext.objects import Pod
from kube_sched_ext.problems import Problems
from kube_sched_ext.stores import Rows
from kube_sched_ext.table import BLANK_ROW, NodeTable
from kube_sched_ext.wire import (
    ExtenderArgs,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    NodeList,
    decode_nodes,
)

Mask = NDArray[np.bool_]

Rejected = Callable[[Pod, Sequence[Predicate], Sequence[str]], None]
"""Is told of the nodes, by name, that predicates rejected for a pod."""

UNKNOWN_NODE: Final = "node not known to the extender"


def new_table(agents: Iterable[Agent[Any]], problems: Problems) -> NodeTable:
    """Return an empty table that keeps of nodes what `agents` read."""
    return NodeTable({agent.name: agent.new_store() for agent in agents}, problems)


@dataclass(slots=True)
class _Asked:
    """The nodes of one request: n names, their rows in a table, and whole nodes where sent."""

    names: list[str]
    rows: Rows
    table: NodeTable
    known: Mask
    unknown_count: int = 0
    nodes: NodeList | None = None
    generation: int = 0
    """Of the table, when the rows were looked up."""


@dataclass(slots=True)
class _Sieve:
    """Which nodes are left, and the reasons of the others."""

    kept: Mask
    failed: dict[str, str] = field(default_factory=dict)
    failed_for_good: dict[str, str] = field(default_factory=dict)

    @property
    def all_kept(self) -> bool:
        """Whether no node has failed."""
        return not self.failed and not self.failed_for_good


class Verbs:
    """Answers for a set of agents from one table."""

    def __init__(
        self,
        agents: Sequence[Agent[Any]],
        table: NodeTable,
        settings: CoreSettings,
        instruments: Instruments,
    ) -> None:
        """Answer for `agents` from `table`, made for them."""
        self.agents = agents
        self.table = table
        self._settings = settings
        self._instruments = instruments
        self._log = instruments.log
        self._by_name = {agent.name: agent for agent in agents}
        self._last_asked = _Asked([], np.empty(0, np.intp), table, np.empty(0, np.bool_))
        self.on_rejected: Rejected | None = None

    def filter(self, predicates: Sequence[Predicate], args: ExtenderArgs) -> ExtenderFilterResult:
        """Return the nodes that pass `predicates`, asked in turn, and why the others do not.

        Raises:
            AgentError: a predicate raised.
            RequestError: a whole node is not as it should be.
        """
        if not self._settings.selects(args.pod):
            return ExtenderFilterResult(nodes=args.nodes, node_names=args.node_names)
        asked = self._asked(args, {predicate.agent for predicate in predicates})
        sieve = self._sieve(predicates, args.pod, asked)
        all_kept = sieve.all_kept
        if asked.nodes is not None:
            items = asked.nodes.items or []
            kept = items if all_kept else list(compress(items, sieve.kept.tolist()))
            return ExtenderFilterResult(
                nodes=NodeList(items=kept, metadata=asked.nodes.metadata),
                failed_nodes=sieve.failed,
                failed_and_unresolvable_nodes=sieve.failed_for_good,
            )
        names = asked.names
        if not all_kept and self.on_rejected is not None:
            self.on_rejected(args.pod, predicates, list(compress(names, (~sieve.kept).tolist())))
        return ExtenderFilterResult(
            node_names=names if all_kept else list(compress(names, sieve.kept.tolist())),
            failed_nodes=sieve.failed,
            failed_and_unresolvable_nodes=sieve.failed_for_good,
        )

    def prioritize(self, priorities: Sequence[Priority], args: ExtenderArgs) -> list[HostPriority]:
        """Return each node's score: of one priority as it is, of several the weighted mean.

        Raises:
            AgentError: a priority raised.
            RequestError: a whole node is not as it should be.
        """
        if not self._settings.selects(args.pod):
            return []
        asked = self._asked(args, {priority.agent for priority in priorities})
        names, rows = asked.names, asked.rows
        if asked.unknown_count and self._drops_unknown:
            names, rows = list(compress(names, asked.known.tolist())), rows[asked.known]
        weighted = []
        for priority in priorities:
            weight = self._settings.priority_weights.get(priority.name, 1)
            if weight == 0 and len(priorities) > 1:
                continue
            nodes = asked.table.nodes(priority.agent, rows)
            with _Blaming("priority", priority, args.pod):
                scores = priority.run(args.pod, nodes)
                if self.tells(priority):
                    self._tell(
                        "score", priority, args.pod, names, scores.values, scores.explanation
                    )
            weighted.append((weight, scores.values))
        return list(map(HostPriority, names, _mean(weighted).tolist()))

    def preempt(
        self, predicates: Sequence[Predicate], args: ExtenderPreemptionArgs
    ) -> ExtenderPreemptionResult:
        """Return the candidates where evictions can help as far as `predicates` know.

        Left out are nodes without victims, which would fail the whole preemption, and nodes that a
        predicate rejects whatever is evicted. Predicates that evictions can help are not asked.

        Raises:
            AgentError: a predicate raised.
        """
        candidates = {
            name: victims for name, victims in _meta_victims(args).items() if victims.pods
        }
        if not self._settings.selects(args.pod):
            return ExtenderPreemptionResult(candidates)
        asked = self._named(list(candidates))
        steadfast = [predicate for predicate in predicates if not predicate.preemption_can_help]
        kept = self._sieve(steadfast, args.pod, asked).kept
        return ExtenderPreemptionResult(dict(compress(candidates.items(), kept.tolist())))

    def passing(self, predicates: Sequence[Predicate], pod: Pod, names: Sequence[str]) -> list[str]:
        """Return which of the known nodes among `names` pass `predicates` as things are.

        Raises:
            AgentError: a predicate raised.
        """
        asked = self._named([name for name in names if name in self.table])
        kept = self._sieve(predicates, pod, asked, is_call=False).kept
        return list(compress(asked.names, kept.tolist()))

    def rows(self, names: Sequence[str]) -> Rows:
        """Return the rows of `names`; at once where those are the ones asked about last."""
        asked = self._last_asked
        return asked.rows if names is asked.names else self.table.rows(names)

    def counts_something_of(self, pod: Pod) -> bool:
        """Tell whether each call about `pod` and the nodes named last adds to a metric."""
        return bool(self._last_asked.unknown_count or pod.demand.unparsable)

    def tells(self, verb: Predicate | Priority) -> bool:
        """Tell whether each call of `verb` is told node by node."""
        level = self._by_name[verb.agent].explanation_level
        return self._log.enabled("DEBUG") or self._log.enabled(level)

    @property
    def _drops_unknown(self) -> bool:
        return self._settings.unknown_nodes == "drop"

    def _asked(self, args: ExtenderArgs, agents: set[str]) -> _Asked:
        for value in args.pod.demand.unparsable:
            self._instruments.problems.unparsable_request(str(args.pod), value)
        if args.nodes is None or (not args.nodes.items and args.node_names is not None):
            return self._named(args.node_names or [])
        nodes = decode_nodes(args.nodes.items or [])
        table = new_table((self._by_name[name] for name in agents), self._instruments.problems)
        for node in nodes:
            table.put(node)
        names = [node.metadata.name for node in nodes]
        rows = table.rows(names)
        return _Asked(names, rows, table, np.ones(len(names), np.bool_), nodes=args.nodes)

    def _named(self, names: list[str]) -> _Asked:
        asked, generation = self._last_asked, self.table.generation
        if names is not asked.names or generation != asked.generation:
            rows = self.table.rows(names)
            known = rows != BLANK_ROW
            unknown_count = len(names) - int(np.count_nonzero(known))
            asked = _Asked(names, rows, self.table, known, unknown_count, generation=generation)
            self._last_asked = asked
        if asked.unknown_count:
            self._instruments.metrics.unknown_nodes.inc(asked.unknown_count)
        return asked

    def _sieve(
        self, predicates: Sequence[Predicate], pod: Pod, asked: _Asked, *, is_call: bool = True
    ) -> _Sieve:
        """Ask `predicates` in turn; only what is a scheduler's call is logged and counted."""
        sieve = _Sieve(np.ones(len(asked.names), np.bool_))
        if asked.unknown_count and self._drops_unknown:
            sieve.kept = asked.known.copy()
            unknown = compress(asked.names, (~asked.known).tolist())
            sieve.failed_for_good = dict.fromkeys(unknown, UNKNOWN_NODE)
        for predicate in predicates:
            # What is not known is not the predicate's to judge.
            judges_all = sieve.all_kept and not asked.unknown_count
            judged = sieve.kept if judges_all else sieve.kept & asked.known
            nodes = asked.table.nodes(
                predicate.agent, asked.rows if judges_all else asked.rows[judged]
            )
            with _Blaming("predicate", predicate, pod):
                verdict = predicate.run(pod, nodes)
                masks = {reason: mask for reason, mask in verdict.rejected.items() if mask.any()}
                is_told = is_call and self.tells(predicate)
                if not masks and not is_told:
                    continue
                passed = np.ones(len(nodes), np.bool_)
                failed = sieve.failed if predicate.preemption_can_help else sieve.failed_for_good
                for reason, mask in masks.items():
                    rejected = np.zeros_like(judged)
                    rejected[judged] = mask & passed
                    names = compress(asked.names, rejected.tolist())
                    failed.update(dict.fromkeys(names, reason))
                    passed &= ~mask
                if is_told:
                    told = list(compress(asked.names, judged.tolist()))
                    self._tell("verdict", predicate, pod, told, passed, verdict.explanation)
            rejected_count = len(passed) - int(np.count_nonzero(passed))
            if rejected_count:
                sieve.kept[judged] = passed
                if is_call:
                    metrics = self._instruments.metrics
                    metrics.rejected_nodes.labels(predicate.name).inc(rejected_count)
        return sieve

    def _tell(
        self,
        event: Literal["score", "verdict"],
        verb: Predicate | Priority,
        pod: Pod,
        names: Sequence[str],
        values: NDArray[Any],
        explanation: Explanation,
    ) -> None:
        log = self._log.bind(agent=verb.agent, name=verb.name, pod=str(pod))
        level = self._by_name[verb.agent].explanation_level
        is_explained = log.enabled(level) and bool(explanation)
        for index, (name, value) in enumerate(zip(names, values.tolist(), strict=True)):
            log.debug(event, node=name, **{event: value})
            if is_explained:
                made_of = {key: array[index].item() for key, array in explanation.items()}
                log.at(level, "explanation", {"node": name, event: value, "made_of": made_of})


def _mean(weighted: Sequence[tuple[int, NDArray[np.integer[Any]]]]) -> NDArray[np.integer[Any]]:
    """Return the weighted mean of scores, halves rounded up; of one alone the scores themselves."""
    if len(weighted) == 1:
        return weighted[0][1]
    total = sum(weight * values.astype(np.int64) for weight, values in weighted)
    weight_sum = sum(weight for weight, _ in weighted)
    return np.asarray((2 * total + weight_sum) // (2 * weight_sum))


@dataclass(slots=True)
class _Blaming:
    """Turns whatever an agent raises into the error of its verb."""

    kind: Literal["predicate", "priority"]
    verb: Predicate | Priority
    pod: Pod

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Exception):
            raise AgentError(f"{self.kind} {self.verb.name}: {error!r}", str(self.pod)) from error


def _meta_victims(args: ExtenderPreemptionArgs) -> dict[str, MetaVictims]:
    if args.node_name_to_meta_victims is not None:
        return args.node_name_to_meta_victims
    return {
        name: MetaVictims(
            [MetaPod(pod.metadata.uid) for pod in victims.pods or ()], victims.num_pdb_violations
        )
        for name, victims in (args.node_name_to_victims or {}).items()
    }
