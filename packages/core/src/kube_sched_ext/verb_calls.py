"""The verbs' paths, and what happens to a body that comes there."""

from collections.abc import Sequence
from functools import partial

from kube_sched_ext import wire
from kube_sched_ext.agent import Predicate, Priority
from kube_sched_ext.calls import Answer, Call
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.foresight import Answering, Foresight
from kube_sched_ext.metrics import Metrics
from kube_sched_ext.selection import names_in
from kube_sched_ext.verbs import Verbs


def verb_calls(verbs: Verbs, settings: CoreSettings, metrics: Metrics) -> list[Call]:
    """Return a call for each predicate and priority, and those of all together."""
    predicates = [predicate for agent in verbs.agents for predicate in agent.predicates]
    priorities = [priority for agent in verbs.agents for priority in agent.priorities]
    bodies = _Bodies(verbs, metrics)
    prefix = settings.path_prefix
    every = ",".join(agent.name for agent in verbs.agents)
    calls = [
        Call(
            "filter",
            f"{prefix}/{settings.predicates_word}/{predicate.name}",
            predicate.name,
            predicate.agent,
            partial(bodies.filter, [predicate]),
        )
        for predicate in predicates
    ]
    calls += [
        Call(
            "prioritize",
            f"{prefix}/{settings.priorities_word}/{priority.name}",
            priority.name,
            priority.agent,
            bodies.prioritizing([priority]),
        )
        for priority in priorities
    ]
    left_out = names_in(settings.except_predicates)
    together = [predicate for predicate in predicates if predicate.name not in left_out]
    filter_all, preempt = partial(bodies.filter, together), partial(bodies.preempt, together)
    calls += [
        Call("filter", f"{prefix}/{settings.filter_word}", "", every, filter_all),
        Call("preempt", f"{prefix}/{settings.preemption_word}", "", every, preempt),
    ]
    # Without any predicate, accepting every node is right; without any priority no score is.
    if priorities:
        path = f"{prefix}/{settings.prioritize_word}"
        calls.append(Call("prioritize", path, "", every, bodies.prioritizing(priorities)))
    return calls


class _Bodies:
    """Answers bodies; what comes again from call to call is read once."""

    def __init__(self, verbs: Verbs, metrics: Metrics) -> None:
        self._verbs = verbs
        self._reader = wire.ArgsReader()
        self._foresight = Foresight(verbs.table, metrics)

    def filter(self, predicates: Sequence[Predicate], body: bytes | bytearray) -> Answer:
        args = self._reader.read(body)
        result = self._verbs.filter(predicates, args)
        rejected = len(result.failed_nodes) + len(result.failed_and_unresolvable_nodes)
        kept = result.node_names if result.nodes is None else result.nodes.items
        kept_count = len(kept or ())
        message: object = result
        if not rejected and (names := self._reader.json_of(result.node_names)):
            message = wire.all_kept(names)
        then = None
        # A single node needs no scores. What is counted per call has to wait for the call.
        if result.node_names and kept_count > 1 and not self._verbs.counts_something_of(args.pod):
            then = partial(self._look_ahead, args, result.node_names)
        return Answer(message, str(args.pod), kept_count + rejected, kept_count, then)

    def prioritizing(self, priorities: Sequence[Priority]) -> Answering:
        """Return what answers bodies about `priorities`, ahead where that makes no difference."""
        answering = partial(self._prioritize, priorities)
        if any(it.depends_on == "calls" or self._verbs.tells(it) for it in priorities):
            return answering
        is_local = all(it.depends_on == "nodes" for it in priorities)
        return self._foresight.ahead(answering, is_local=is_local)

    def preempt(self, predicates: Sequence[Predicate], body: bytes | bytearray) -> Answer:
        args = wire.decode_preemption_args(body)
        result = self._verbs.preempt(predicates, args)
        asked = args.node_name_to_meta_victims or args.node_name_to_victims or ()
        return Answer(result, str(args.pod), len(asked), len(result.node_name_to_meta_victims))

    def _prioritize(self, priorities: Sequence[Priority], body: bytes | bytearray) -> Answer:
        args = self._reader.read(body)
        scores = self._verbs.prioritize(priorities, args)
        asked = args.node_names if args.nodes is None else args.nodes.items
        return Answer(scores, str(args.pod), len(asked or ()), len(scores))

    def _look_ahead(self, args: wire.ExtenderArgs, kept: Sequence[str]) -> None:
        if body := self._reader.body_about(args, kept):
            self._foresight.expect(body, self._verbs.rows(kept))
