"""From extenders and options to the configuration, and what is said beside it."""

from collections.abc import Sequence
from typing import Final

import msgspec

from kube_sched_ext.scheduler_config.agents import FIRST_PORT, AgentVerbs
from kube_sched_ext.scheduler_config.conversion import DEFAULT_SCHEDULER, Converted
from kube_sched_ext.scheduler_config.mapping import DEFAULT_WEIGHTS
from kube_sched_ext.scheduler_config.options import Options, lease_of
from kube_sched_ext.scheduler_config.plugins import Choice, plugins_of
from kube_sched_ext.scheduler_config.scheduler_configuration import (
    ApiVersion,
    Extender,
    LeaderElection,
    Profile,
    SchedulerConfiguration,
)

_LEASE_NAMESPACE: Final = "kube-system"
_LEASE: Final = "kube-scheduler"
_PERCENTAGE: Final = (
    "Once this share of the nodes has passed the filters kube-scheduler looks no further, and only "
    "those are scored. 0 is its own choice: 5 to 50 %, the larger the cluster the less."
)
_NONE: Final = "there are no in-tree scores"
_FULL_SCORE: Final = 10
_LEVELS: Final = 10
_FULL_PLUGIN_SCORE: Final = 100


def new_configuration(options: Options, extenders: Sequence[Extender]) -> SchedulerConfiguration:
    """Return the configuration of a scheduler that calls `extenders`.

    Raises:
        ConfigurationError: the Lease is no name.
    """
    choice = Choice(scores=None if options.in_tree_scores else {})
    plugins = plugins_of(choice, options.api_version)
    names = options.scheduler_names or (DEFAULT_SCHEDULER,)
    plain = SchedulerConfiguration(
        leader_election=LeaderElection(
            leader_elect=True,
            # A second scheduler must not wait for the Lease of the first.
            resource_name="" if names[0] == DEFAULT_SCHEDULER else names[0],
        ),
        profiles=tuple(Profile(name, plugins) for name in names),
        extenders=tuple(extenders),
    )
    return _adjusted(plain, options)


def converted_configuration(
    options: Options, converted: Converted, *, is_bare: bool
) -> SchedulerConfiguration:
    """Return what a Policy became, with what `options` say of it.

    `is_bare` says that no configuration came with it, which would have named scheduler and lock.

    Raises:
        ConfigurationError: the Lease is no name.
    """
    configuration = converted.configuration
    [profile] = configuration.profiles
    names = options.scheduler_names or (profile.scheduler_name,)
    election = configuration.leader_election
    if is_bare and names[0] != DEFAULT_SCHEDULER:
        election = msgspec.structs.replace(election, resource_name=names[0])
    named = msgspec.structs.replace(
        configuration,
        leader_election=election,
        profiles=tuple(msgspec.structs.replace(profile, scheduler_name=it) for it in names),
    )
    return _adjusted(named, options)


def _adjusted(configuration: SchedulerConfiguration, options: Options) -> SchedulerConfiguration:
    election = configuration.leader_election
    elects = election.leader_elect if options.leader_election is None else options.leader_election
    namespace, name = lease_of(options) or (
        election.resource_namespace or _LEASE_NAMESPACE,
        election.resource_name or _LEASE,
    )
    client = configuration.client_connection
    percentage = options.percentage_of_nodes
    return msgspec.structs.replace(
        configuration,
        leader_election=msgspec.structs.replace(
            election, leader_elect=elects, resource_namespace=namespace, resource_name=name
        )
        if elects
        else LeaderElection(leader_elect=False),
        client_connection=msgspec.structs.replace(
            client, kubeconfig=options.kubeconfig or client.kubeconfig
        ),
        percentage_of_nodes_to_score=(
            configuration.percentage_of_nodes_to_score if percentage is None else percentage
        ),
    )


class Called(msgspec.Struct, frozen=True):
    """An extender and the agents that it calls; none where it came out of a Policy."""

    extender: Extender
    agents: tuple[AgentVerbs, ...] = ()


def header_of(options: Options, called: Sequence[Called], converted: Converted | None) -> list[str]:
    """Return the paragraphs at the top: what this is, what became of a Policy, how to use it."""
    agents = [agent.name for it in called for agent in it.agents]
    header = []
    if converted is not None:
        header.append("Converted by kube-sched-ext scheduler-config. What each line became:")
        header += [f"  {note}" for note in converted.notes]
    if agents:
        beside = "The last extenders are" if converted is not None else "Extenders"
        header.append(f"{beside} for {', '.join(agents)}, by kube-sched-ext scheduler-config.")
    if agents and not options.url_prefixes:
        header.append("Served beside kube-scheduler by:")
        header += [_served(it, index) for index, it in enumerate(_ours(called))]
    header.append("Used by: kube-scheduler --config=FILE")
    return header


def _ours(called: Sequence[Called]) -> list[Called]:
    return [it for it in called if it.agents]


def _served(called: Called, index: int) -> str:
    switches = "NODE_CACHE=true " if called.extender.node_cache_capable else ""
    switches += "BIND=true " if called.extender.bind_verb else ""
    names = " ".join(agent.name for agent in called.agents)
    return f"  {switches}kube-sched-ext serve {names} --http-port {FIRST_PORT + index}"


def comments_of(
    configuration: SchedulerConfiguration, called: Sequence[Called], version: ApiVersion
) -> dict[str, str]:
    """Return what stands above keys: what a weight means, and what is asked in one call."""
    comments = {}
    if configuration.percentage_of_nodes_to_score is not None:
        comments["percentageOfNodesToScore"] = _PERCENTAGE
    in_tree = _in_tree(configuration, version)
    for index, it in enumerate(called):
        sentences = [_names(it)] if it.agents else []
        if it.extender.prioritize_verb:
            most = it.extender.weight * _LEVELS * _FULL_SCORE
            beside = f"the in-tree scores sum to {in_tree} at most" if in_tree else _NONE
            sentences.append(f"A score of 0..10 counts 0..{most}, ten times its weight; {beside}.")
        asked = [name for agent in it.agents for name in agent.priorities]
        if len(asked) > 1:
            sentences.append(f"Its score is the mean of {', '.join(asked)}: PRIORITY_WEIGHTS.")
        if sentences:
            comments[f"extenders[{index}]"] = " ".join(sentences)
    return comments


def _names(called: Called) -> str:
    return ", ".join(agent.name for agent in called.agents) + "."


def _in_tree(configuration: SchedulerConfiguration, version: ApiVersion) -> int:
    score = configuration.profiles[0].plugins.score
    weights = [it.weight for it in score.enabled]
    if not score.disabled:
        weights = list(DEFAULT_WEIGHTS[version].values())
    return sum(weights) * _FULL_PLUGIN_SCORE
