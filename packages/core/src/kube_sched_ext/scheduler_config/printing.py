"""What is printed: a configuration, one that a Policy became, or a Policy."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from kube_sched_ext.config import CoreSettings
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.scheduler_config.agents import (
    AgentVerbs,
    Manner,
    choose_priorities,
    extender_of,
    extenders_of,
)
from kube_sched_ext.scheduler_config.checks import extender_problems
from kube_sched_ext.scheduler_config.composing import (
    Called,
    comments_of,
    converted_configuration,
    header_of,
    new_configuration,
)
from kube_sched_ext.scheduler_config.conversion import (
    configuration_problems_of,
    convert,
    problems_of,
)
from kube_sched_ext.scheduler_config.documents import Document, read_documents
from kube_sched_ext.scheduler_config.legacy import USE, policy_json
from kube_sched_ext.scheduler_config.notes import Note
from kube_sched_ext.scheduler_config.options import Options, manners_of
from kube_sched_ext.scheduler_config.policy import OldConfiguration, Policy
from kube_sched_ext.scheduler_config.rendering import render
from kube_sched_ext.scheduler_config.sources import Source, find_source

_STANDARD_INPUT: Final = "-"


class Printed(msgspec.Struct, frozen=True):
    """What goes to standard output, and the lines for whoever runs the command."""

    text: str
    remarks: tuple[str, ...] = ()


def print_for(options: Options, agents: Sequence[AgentVerbs], words: CoreSettings) -> Printed:
    """Return what `options` ask for.

    Args:
        options: as the command line gave them, and as they go together.
        agents: the verbs of the agents that they name.
        words: the settings that say which paths the agents serve.

    Raises:
        ConfigurationError: everything that is wrong.
    """
    agents = choose_priorities(agents, options.priorities)
    options = msgspec.structs.replace(options, agents=tuple(agent.name for agent in agents))
    called = _called(options, agents, manners_of(options, words.path_prefix), words)
    if options.policy:
        return _converted(options, called)
    extenders = [it.extender for it in called]
    problems = extender_problems(extenders)
    if problems:
        raise ConfigurationError(problems)
    if options.legacy:
        text = policy_json(extenders, has_in_tree_scores=options.in_tree_scores)
        return Printed(text, (" ".join(USE.split()),))
    configuration = new_configuration(options, extenders)
    comments = comments_of(configuration, called, options.api_version)
    header = header_of(options, called, None)
    return Printed(render(configuration, options.api_version, header, comments))


def _called(
    options: Options, agents: Sequence[AgentVerbs], manners: dict[str, Manner], words: CoreSettings
) -> list[Called]:
    if options.together and agents:
        manner = msgspec.structs.replace(
            manners[agents[0].name],
            binds=bool(options.bind),
            managed_resources=tuple(
                it for each in manners.values() for it in each.managed_resources
            ),
        )
        return [Called(extender_of(agents, manner, words), tuple(agents))]
    extenders = extenders_of(agents, manners, words)
    return [Called(it, (agent,)) for it, agent in zip(extenders, agents, strict=True)]


def _converted(options: Options, called: Sequence[Called]) -> Printed:
    source = _source(options.policy)
    policy, overridden = _overridden(source.policy, options)
    old = source.old or OldConfiguration()
    problems = [f"{source.old_place}: {it}" for it in configuration_problems_of(old)]
    problems += [f"{source.place}: {it}" for it in problems_of(policy)]
    further = [it.extender for it in called]
    problems = problems or extender_problems([*policy.extenders, *further])
    if problems:
        raise ConfigurationError(problems)
    converted = convert(policy, old, options.api_version, further)
    converted = msgspec.structs.replace(
        converted, notes=(*converted.notes, *overridden, *source.notes)
    )
    configuration = converted_configuration(options, converted, is_bare=source.old is None)
    every = [*(Called(it) for it in policy.extenders), *called]
    comments = comments_of(configuration, every, options.api_version)
    header = header_of(options, every, converted)
    text = render(configuration, options.api_version, header, comments)
    return Printed(text, tuple(str(note) for note in converted.notes if note.is_warning))


def _overridden(policy: Policy, options: Options) -> tuple[Policy, list[Note]]:
    given = {"nodeCacheCapable": options.node_cache, "ignorable": options.ignorable}
    changes: dict[str, Any] = {}
    notes = []
    for field, value in given.items():
        if value is not None and policy.extenders:
            name = "node_cache_capable" if field == "nodeCacheCapable" else field
            changes[name] = value
            notes.append(Note(f"extenders[*].{field}", f"{value}".lower() + ", as the option says"))
    extenders = tuple(msgspec.structs.replace(it, **changes) for it in policy.extenders)
    return msgspec.structs.replace(policy, extenders=extenders), notes


def _source(file: str) -> Source:
    if file == _STANDARD_INPUT:
        place = "standard input"
        return find_source(read_documents(sys.stdin.buffer.read(), place), place, _read_named)
    path = Path(file)
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigurationError([f"{path}: cannot be read: {error.strerror}"]) from None
    except ValueError as error:
        raise ConfigurationError([f"{file!r}: cannot be read: {error}"]) from None
    return find_source(read_documents(content, str(path)), str(path), _read_named)


def _read_named(path: str) -> list[Document] | None:
    try:
        content = Path(path).read_bytes()
    except (OSError, ValueError):
        return None
    return read_documents(content, path)
