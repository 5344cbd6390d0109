"""From agents to the extenders that call them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from kube_sched_ext import discovery
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.scheduler_config.names import unknown_name
from kube_sched_ext.scheduler_config.scheduler_configuration import (
    Extender,
    ManagedResource,
    TlsConfig,
)

FIRST_PORT: Final = 5401
DEFAULT_WEIGHT: Final = 5
_BIND_WORD: Final = "bind"


class AgentVerbs(msgspec.Struct, frozen=True):
    """An agent, and what it can be asked."""

    name: str
    predicates: tuple[str, ...]
    priorities: tuple[str, ...]


class Manner(msgspec.Struct, frozen=True):
    """How an extender is called."""

    url_prefix: str
    weight: int = DEFAULT_WEIGHT
    http_timeout: str = ""
    tls_config: TlsConfig | None = None
    node_cache_capable: bool = True
    ignorable: bool = True
    binds: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()


def load_verbs(names: Sequence[str]) -> list[AgentVerbs]:
    """Return the verbs of installed agents, each once, in the order of `names`.

    Raises:
        ConfigurationError: one is not installed, or fails to load.
    """
    installed = discovery.installed()
    problems = [
        unknown_name(name, "installed agent", installed)
        for name in dict.fromkeys(names)
        if name not in installed
    ]
    found = discovery.load_agents(installed[it] for it in dict.fromkeys(names) if it in installed)
    problems += [f"agent {name} failed to load: {error!r}" for name, error in found.broken.items()]
    if problems:
        raise ConfigurationError(problems)
    return [_verbs(kind) for kind in found.parts.values()]


def _verbs(kind: Any) -> AgentVerbs:
    # Verbs are the class's: an agent that is made may miss settings, or read files.
    agent = kind.__new__(kind)
    return AgentVerbs(
        kind.name,
        tuple(predicate.name for predicate in agent.predicates),
        tuple(priority.name for priority in agent.priorities),
    )


def choose_priorities(agents: Sequence[AgentVerbs], chosen: Sequence[str]) -> list[AgentVerbs]:
    """Return `agents` with the `chosen` priorities only, where they have any of those.

    Raises:
        ConfigurationError: a name is no priority of theirs, or some but not all are chosen of one.
    """
    known = [name for agent in agents for name in agent.priorities]
    problems = [
        f"--priority: {unknown_name(name, 'priority of these agents', known)}"
        for name in chosen
        if name not in known
    ]
    narrowed = []
    for agent in agents:
        kept = tuple(name for name in agent.priorities if name in chosen) or agent.priorities
        if 1 < len(kept) < len(agent.priorities):
            problems.append(
                f"--priority: {', '.join(kept)} are some of the priorities of {agent.name}; choose "
                f"one, or leave it to PRIORITY_WEIGHTS of the agent, which weighs all of them: "
                f"{', '.join(agent.priorities)}"
            )
        narrowed.append(msgspec.structs.replace(agent, priorities=kept))
    if problems:
        raise ConfigurationError(problems)
    return narrowed


def extenders_of(
    agents: Sequence[AgentVerbs], manners: Mapping[str, Manner], words: CoreSettings
) -> list[Extender]:
    """Return an extender for each of `agents`, called as `manners` says by name.

    Raises:
        ConfigurationError: agents served by one process have verbs that only all of them together
            can be asked for.
    """
    served_by: dict[str, list[str]] = {}
    for agent in agents:
        served_by.setdefault(manners[agent.name].url_prefix, []).append(agent.name)
    problems = []
    for agent in agents:
        beside = [it for it in served_by[manners[agent.name].url_prefix] if it != agent.name]
        if beside and max(len(agent.predicates), len(agent.priorities)) > 1:
            problems.append(
                f"{manners[agent.name].url_prefix} serves {agent.name} and {', '.join(beside)}, so "
                f"the verbs of {agent.name} have no path that asks just them in one call; choose "
                "one with --priority, use --together, or give each agent a --url-prefix of its own"
            )
    if problems:
        raise ConfigurationError(problems)
    return [extender_of([agent], manners[agent.name], words) for agent in agents]


def extender_of(agents: Sequence[AgentVerbs], manner: Manner, words: CoreSettings) -> Extender:
    """Return the one extender for `agents`, which one process serves."""
    predicates = [name for agent in agents for name in agent.predicates]
    priorities = [name for agent in agents for name in agent.priorities]
    return Extender(
        url_prefix=manner.url_prefix,
        filter_verb=_verb(predicates, words.predicates_word, words.filter_word),
        prioritize_verb=_verb(priorities, words.priorities_word, words.prioritize_word),
        preempt_verb=words.preemption_word if predicates else "",
        bind_verb=_BIND_WORD if manner.binds else "",
        weight=manner.weight if priorities else 0,
        enable_https=manner.tls_config is not None,
        tls_config=manner.tls_config,
        http_timeout=manner.http_timeout,
        node_cache_capable=manner.node_cache_capable,
        managed_resources=manner.managed_resources,
        ignorable=manner.ignorable,
    )


def _verb(names: Sequence[str], word: str, word_for_all: str) -> str:
    if len(names) > 1:
        return word_for_all
    return f"{word}/{names[0]}" if names else ""
