"""What is said of the lines of a Policy that are neither predicate nor priority."""

from collections.abc import Iterator
from typing import Final

from kube_sched_ext.scheduler_config.durations import nanoseconds_of
from kube_sched_ext.scheduler_config.notes import Note
from kube_sched_ext.scheduler_config.policy import (
    AlgorithmSource,
    OldConfiguration,
    OldLeaderElection,
)
from kube_sched_ext.scheduler_config.scheduler_configuration import Extender

AUTOSCALER: Final = "ClusterAutoscalerProvider"
_SHORT_NANOSECONDS: Final = 1_000_000


def extender_notes(index: int, extender: Extender) -> Iterator[Note]:
    """Yield what became of an extender; what is not told of stays as it was."""
    path = f"extenders[{index}]"
    has_verb = extender.filter_verb or extender.prioritize_verb
    has_verb = has_verb or extender.preempt_verb or extender.bind_verb
    remark = "" if has_verb else "; it has no verb, so it is never called"
    yield Note(f"{path} {extender.url_prefix}", f"kept{remark}", is_warning=not has_verb)
    if extender.http_timeout:
        is_short = nanoseconds_of(extender.http_timeout) < _SHORT_NANOSECONDS
        remark = (
            "; a Policy counts nanoseconds: no call ends in so short a time" if is_short else ""
        )
        yield Note(f"{path}.httpTimeout", f"{extender.http_timeout}{remark}", is_warning=is_short)
    if extender.filter_verb and not extender.node_cache_capable:
        yield Note(
            f"{path}.nodeCacheCapable",
            "false, as it was; but since 1.33 a filter that is sent whole nodes leaves the in-tree "
            "resource scores blind. Use --node-cache where the extender knows the nodes by name",
            is_warning=True,
        )
    tls = extender.tls_config
    if extender.enable_https:
        is_checked = tls is not None and (tls.ca_file or tls.ca_data)
        remark = "" if is_checked else ", and without a CA its certificate is not checked"
        yield Note(f"{path}.enableHttps", f"enableHTTPS{remark}", is_warning=not is_checked)


def weight_notes(weight: int, *, counts: bool) -> Iterator[Note]:
    """Yield what became of hardPodAffinitySymmetricWeight, which `counts` where pods score."""
    if weight:
        outcome = f"argument hardPodAffinityWeight of InterPodAffinity: {weight}"
        if not counts:
            outcome = "dropped: without InterPodAffinityPriority it counted nowhere"
        yield Note("hardPodAffinitySymmetricWeight", outcome)


def check_all_notes(*, is_on: bool) -> Iterator[Note]:
    """Yield what became of alwaysCheckAllPredicates."""
    if is_on:
        yield Note(
            "alwaysCheckAllPredicates",
            "dropped: a node's filters end with the first that rejects it, so that a pod's events "
            "give fewer reasons",
            is_warning=True,
        )


def configuration_notes(old: OldConfiguration, *, binds_volumes: bool) -> Iterator[Note]:
    """Yield what became of the configuration that named a Policy."""
    if old.scheduler_name:
        yield Note("schedulerName", "schedulerName of the profile")
    yield from _source(old.algorithm_source)
    yield from _election(old.leader_election)
    if old.disable_preemption:
        yield Note("disablePreemption", "plugin DefaultPreemption is off")
    if old.bind_timeout_seconds is not None:
        outcome = "argument bindTimeoutSeconds of VolumeBinding"
        if not binds_volumes:
            outcome = "dropped: CheckVolumeBinding is not listed"
        yield Note("bindTimeoutSeconds", outcome)
    if old.healthz_bind_address or old.metrics_bind_address:
        yield Note(
            "healthzBindAddress, metricsBindAddress",
            "dropped: health and metrics are served with TLS, at --bind-address and --secure-port",
            is_warning=True,
        )
    if old.failure_domains:
        yield Note("failureDomains", "dropped: pod affinity names its topologyKey", is_warning=True)


def _source(source: AlgorithmSource) -> Iterator[Note]:
    if source.policy is not None:
        yield Note("algorithmSource.policy", "all that the Policy became")
    if source.provider == AUTOSCALER:
        yield Note("algorithmSource.provider", "strategy MostAllocated of NodeResourcesFit")
    elif source.provider:
        yield Note("algorithmSource.provider", "the default plugins")


def _election(election: OldLeaderElection) -> Iterator[Note]:
    if election.lock_object_name or election.lock_object_namespace:
        yield Note(
            "leaderElection.lockObjectName, lockObjectNamespace", "resourceName, resourceNamespace"
        )
    if election.resource_lock not in ("", "leases"):
        yield Note(
            "leaderElection.resourceLock",
            "leases, the only lock left; it does not keep out a scheduler that still locks "
            f"{election.resource_lock}",
            is_warning=True,
        )
