"""What the agents answer about a pod, by names and by whole nodes."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from kube_sched_ext import discovery
from kube_sched_ext.config import CoreSettings
from kube_sched_ext_testkit.builders import JSON
from kube_sched_ext_testkit.cycle import Decision, schedule
from kube_sched_ext_testkit.demo import DemoError
from kube_sched_ext_testkit.demo.recorded import Asked, AskedToPreempt
from kube_sched_ext_testkit.scheduler import Extender, FilterOutcome, name_of


@dataclass(frozen=True, slots=True)
class Answers:
    """What became of one pod: each predicate's outcome, each priority's scores, the decision."""

    pod: JSON
    nodes: list[str]
    outcomes: dict[str, FilterOutcome]
    scores: dict[str, dict[str, int]]
    decision: Decision


class Agents:
    """The verbs of the agents that a server runs, by the agent's name."""

    def __init__(self, names: Sequence[str]) -> None:
        """Find them among what is installed.

        Raises:
            DemoError: one is not installed, or fails to load.
        """
        installed = discovery.installed()
        if missing := [name for name in names if name not in installed]:
            raise DemoError(f"not installed: {', '.join(missing)}")
        found = discovery.load_agents(installed[name] for name in names)
        if found.broken:
            broken = [f"{name}: {error!r}" for name, error in found.broken.items()]
            raise DemoError(f"failed to load: {', '.join(broken)}")
        # The core knows agents by their class; which settings each has makes no difference here.
        agents: list[Any] = [kind() for kind in found.parts.values()]
        self.predicates = {
            agent.name: [predicate.name for predicate in agent.predicates] for agent in agents
        }
        self.priorities = {
            agent.name: [priority.name for priority in agent.priorities] for agent in agents
        }


class Asker:
    """Asks a server about pods, each question by names and by whole nodes."""

    def __init__(self, url_prefix: str, agents: Agents, stack: ExitStack) -> None:
        """Use the server at `url_prefix`; `stack` closes the connections."""
        settings = CoreSettings()

        def both(
            *, filter_verb: str = "", prioritize_verb: str = "", preempt_verb: str = ""
        ) -> dict[bool, Extender]:
            return {
                by_names: stack.enter_context(
                    Extender(
                        url_prefix,
                        filter_verb=filter_verb,
                        prioritize_verb=prioritize_verb,
                        preempt_verb=preempt_verb,
                        node_cache_capable=by_names,
                    )
                )
                for by_names in (True, False)
            }

        self._predicates = {
            name: both(filter_verb=f"{settings.predicates_word}/{name}")
            for names in agents.predicates.values()
            for name in names
        }
        self._priorities = {
            name: both(prioritize_verb=f"{settings.priorities_word}/{name}")
            for names in agents.priorities.values()
            for name in names
        }
        self._preemption = both(preempt_verb=settings.preemption_word)

    def ask(self, to_filter: Mapping[bool, Asked], to_prioritize: Mapping[bool, Asked]) -> Answers:
        """Return the answers to what was asked: by names under True, by whole nodes under False.

        Raises:
            DemoError: names and whole nodes get different answers.
            ExtenderError: a call failed.
        """
        outcomes = {}
        for name, extenders in self._predicates.items():
            by_mode = {
                mode: extenders[mode].filter(asked.pod, asked.nodes)
                for mode, asked in to_filter.items()
            }
            kept = {mode: (sorted(it.kept_names), it.reasons) for mode, it in by_mode.items()}
            _check_same(f"predicate {name}", kept)
            outcomes[name] = by_mode[True]
        scores = {}
        for name, extenders in self._priorities.items():
            scored = {
                mode: extenders[mode].prioritize(asked.pod, asked.nodes)
                for mode, asked in to_prioritize.items()
            }
            _check_same(f"priority {name}", scored)
            scores[name] = scored[True]
        asked = to_filter[True]
        verbs = (*self._predicates.values(), *self._priorities.values())
        decision = schedule(asked.pod, asked.nodes, [by_mode[True] for by_mode in verbs])
        for error in decision.scoring_errors:
            raise error
        names = [name_of(node) for node in asked.nodes]
        return Answers(asked.pod, names, outcomes, scores, decision)

    def ask_to_preempt(self, asked: Mapping[bool, AskedToPreempt]) -> list[str]:
        """Return the candidates that remain.

        Raises:
            DemoError: names and whole nodes get different answers.
            ExtenderError: a call failed.
        """
        remaining = {
            mode: sorted(self._preemption[mode].preempt(it.pod, it.candidates))
            for mode, it in asked.items()
        }
        _check_same("preemption", remaining)
        return remaining[True]


def _check_same(what: str, answers: Mapping[bool, object]) -> None:
    if answers[True] != answers[False]:
        raise DemoError(
            f"{what} answers {answers[True]} by names, but {answers[False]} by whole nodes"
        )
