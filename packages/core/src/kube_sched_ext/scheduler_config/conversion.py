"""From a Policy, and the configuration that named it, to what the same scheduler needs today."""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from kube_sched_ext.scheduler_config import predicates as filtering
from kube_sched_ext.scheduler_config import priorities as scoring
from kube_sched_ext.scheduler_config.checks import extender_problems
from kube_sched_ext.scheduler_config.durations import duration_text, nanoseconds_of
from kube_sched_ext.scheduler_config.mapping import POINTS
from kube_sched_ext.scheduler_config.notes import Note
from kube_sched_ext.scheduler_config.plugins import Choice, plugins_of
from kube_sched_ext.scheduler_config.policy import OldConfiguration, OldLeaderElection, Policy
from kube_sched_ext.scheduler_config.remarks import (
    AUTOSCALER,
    check_all_notes,
    configuration_notes,
    extender_notes,
    weight_notes,
)
from kube_sched_ext.scheduler_config.scheduler_configuration import (
    AddedAffinity,
    ApiVersion,
    ClientConnection,
    Extender,
    InterPodAffinityArgs,
    LeaderElection,
    NodeAffinityArgs,
    NodeResourcesFitArgs,
    NodeSelector,
    NodeSelectorTerm,
    PluginArgs,
    PluginConfig,
    Profile,
    SchedulerConfiguration,
    ScoringStrategy,
    VolumeBindingArgs,
)

DEFAULT_SCHEDULER: Final = "default-scheduler"
_PROVIDERS: Final = ("DefaultProvider", AUTOSCALER)


class Converted(msgspec.Struct, frozen=True):
    """The configuration, and what each line of the Policy became."""

    configuration: SchedulerConfiguration
    notes: tuple[Note, ...]


def problems_of(policy: Policy) -> list[str]:
    """Return all in `policy` that no scheduler would have taken, by path."""
    problems = filtering.problems_of(policy.predicates or ())
    problems += scoring.problems_of(policy.priorities or ())
    problems += extender_problems(policy.extenders)
    return problems


def configuration_problems_of(old: OldConfiguration) -> list[str]:
    """Return all in `old` that no scheduler would have taken, by path."""
    problems = []
    provider = old.algorithm_source.provider
    if provider and provider not in _PROVIDERS:
        problems.append(f"algorithmSource.provider: {provider!r} is not {' or '.join(_PROVIDERS)}")
    first, longest = old.pod_initial_backoff_seconds or 1, old.pod_max_backoff_seconds or 10
    if first > longest:
        problems.append(
            f"podMaxBackoffSeconds: {longest} is less than podInitialBackoffSeconds, {first}"
        )
    return problems + _election_problems(old.leader_election)


def _election_problems(election: OldLeaderElection) -> list[str]:
    lease = nanoseconds_of(election.lease_duration or "15s")
    renew = nanoseconds_of(election.renew_deadline or "10s")
    retry = nanoseconds_of(election.retry_period or "2s")
    if not election.leader_elect or lease > renew > retry > 0:
        return []
    given = ", ".join(duration_text(it) for it in (lease, renew, retry))
    problem = (
        f"leaderElection: {given} are not leaseDuration, renewDeadline and retryPeriod: each must "
        "be longer than the next, the last above 0"
    )
    return [problem]


def convert(
    policy: Policy, old: OldConfiguration, version: ApiVersion, further: Sequence[Extender] = ()
) -> Converted:
    """Return a Policy as the configuration of one profile.

    Args:
        policy: a Policy with which `problems_of` finds nothing wrong.
        old: the configuration that named it, or one of defaults; as `configuration_problems_of`.
        version: the version that the configuration will have.
        further: extenders that come after those of the Policy.
    """
    extenders = (*policy.extenders, *further)
    filters = filtering.filters_of(policy.predicates, version)
    scores = scoring.scores_of(policy.priorities, version)
    choice = Choice(filters.plugins, scores.weights, has_preemption=not old.disable_preemption)
    args = _args(_hard_weight(policy, old), old, filters, scores)
    if "NodeResourcesFit" not in args and _are_ignoring(extenders):
        # kube-scheduler then wants these arguments even where the plugin is off.
        args["NodeResourcesFit"] = NodeResourcesFitArgs(ScoringStrategy("LeastAllocated"))
    profile = Profile(
        scheduler_name=old.scheduler_name or DEFAULT_SCHEDULER,
        plugins=plugins_of(choice, version),
        plugin_config=tuple(PluginConfig(name, args[name]) for name in POINTS if name in args),
    )
    configuration = SchedulerConfiguration(
        leader_election=_leader_election(old.leader_election),
        profiles=(profile,),
        extenders=extenders,
        client_connection=ClientConnection(**msgspec.structs.asdict(old.client_connection)),
        percentage_of_nodes_to_score=old.percentage_of_nodes_to_score or None,
        pod_initial_backoff_seconds=old.pod_initial_backoff_seconds or None,
        pod_max_backoff_seconds=old.pod_max_backoff_seconds or None,
        enable_profiling=old.enable_profiling,
        enable_contention_profiling=old.enable_contention_profiling,
    )
    notes = [
        *filters.notes,
        *_off(filters),
        *scores.notes,
        *(note for index, it in enumerate(policy.extenders) for note in extender_notes(index, it)),
        *weight_notes(_hard_weight(policy, old), counts=_has_affinity_score(scores)),
        *check_all_notes(is_on=policy.always_check_all_predicates),
        *configuration_notes(old, binds_volumes=_binds_volumes(filters)),
    ]
    return Converted(configuration, tuple(notes))


def _hard_weight(policy: Policy, old: OldConfiguration) -> int:
    return policy.hard_pod_affinity_symmetric_weight or old.hard_pod_affinity_symmetric_weight


def _has_affinity_score(scores: scoring.Scores) -> bool:
    return scores.weights is None or "InterPodAffinity" in scores.weights


def _binds_volumes(filters: filtering.Filters) -> bool:
    return filters.plugins is None or "VolumeBinding" in filters.plugins


def _are_ignoring(extenders: Sequence[Extender]) -> bool:
    return any(
        resource.ignored_by_scheduler for it in extenders for resource in it.managed_resources
    )


def _args(
    hard_weight: int, old: OldConfiguration, filters: filtering.Filters, scores: scoring.Scores
) -> dict[str, PluginArgs]:
    args: dict[str, PluginArgs] = {}
    strategy = scores.strategy
    if scores.weights is None and old.algorithm_source.provider == AUTOSCALER:
        strategy = ScoringStrategy("MostAllocated")
    if strategy is not None:
        args["NodeResourcesFit"] = NodeResourcesFitArgs(strategy)
    if filters.requirements or scores.preferred:
        required = NodeSelector((NodeSelectorTerm(filters.requirements),))
        args["NodeAffinity"] = NodeAffinityArgs(
            AddedAffinity(required if filters.requirements else None, scores.preferred)
        )
    if scores.spreading is not None:
        args["PodTopologySpread"] = scores.spreading
    if hard_weight and _has_affinity_score(scores):
        args["InterPodAffinity"] = InterPodAffinityArgs(hard_weight)
    if old.bind_timeout_seconds is not None and _binds_volumes(filters):
        args["VolumeBinding"] = VolumeBindingArgs(old.bind_timeout_seconds)
    return args


def _leader_election(old: OldLeaderElection) -> LeaderElection:
    return LeaderElection(
        leader_elect=old.leader_elect,
        resource_namespace=old.resource_namespace or old.lock_object_namespace,
        resource_name=old.resource_name or old.lock_object_name,
        lease_duration=old.lease_duration,
        renew_deadline=old.renew_deadline,
        retry_period=old.retry_period,
    )


def _off(filters: filtering.Filters) -> Iterator[Note]:
    if filters.plugins is not None:
        off = [
            name
            for name, points in POINTS.items()
            if "filter" in points and name not in filters.plugins
        ]
        if off:
            yield Note("predicates", f"not listed, so off as before: {', '.join(off)}")
