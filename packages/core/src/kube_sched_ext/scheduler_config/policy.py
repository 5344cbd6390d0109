"""A Policy and the configuration that named it, as schedulers up to 1.22 read them."""

from typing import Annotated, Any

import msgspec

from kube_sched_ext.scheduler_config.kinds import Duration, LabelKey, Percentage, PluginWeight
from kube_sched_ext.scheduler_config.scheduler_configuration import Extender


class _Old(msgspec.Struct, frozen=True, rename="camel"):
    pass


class ServiceAffinity(_Old, frozen=True):
    """Pods of a service go where these labels have the values that they have on its first pod."""

    labels: tuple[str, ...] = ()


class LabelsPresence(_Old, frozen=True):
    """Nodes must have all labels, or none of them."""

    labels: tuple[LabelKey, ...] = ()
    presence: bool = False


class PredicateArgument(_Old, frozen=True):
    """What makes a predicate of one's own; exactly one member."""

    service_affinity: ServiceAffinity | None = None
    labels_presence: LabelsPresence | None = None


class Predicate(_Old, frozen=True):
    """A predicate."""

    name: str = ""
    argument: PredicateArgument | None = None


class ServiceAntiAffinity(_Old, frozen=True):
    """Pods of a service spread over the values of a label."""

    label: LabelKey


class LabelPreference(_Old, frozen=True):
    """Nodes with a label, or without it, are preferred."""

    label: LabelKey
    presence: bool = False


class UtilizationPoint(_Old, frozen=True):
    """What a utilisation scores."""

    utilization: Percentage = 0
    score: Annotated[int, msgspec.Meta(ge=0, le=10)] = 0


class WeightedResource(_Old, frozen=True):
    """A resource and what it counts; 0 counts as 1."""

    name: str = ""
    weight: Percentage = 0


class RequestedToCapacityRatio(_Old, frozen=True):
    """How a utilisation becomes a score."""

    shape: tuple[UtilizationPoint, ...] = ()
    resources: tuple[WeightedResource, ...] = ()


class PriorityArgument(_Old, frozen=True):
    """What makes a priority of one's own; exactly one member."""

    service_anti_affinity: ServiceAntiAffinity | None = None
    label_preference: LabelPreference | None = None
    requested_to_capacity_ratio_arguments: RequestedToCapacityRatio | None = None


class Priority(_Old, frozen=True):
    """A priority."""

    weight: PluginWeight
    name: str = ""
    argument: PriorityArgument | None = None


class Policy(_Old, frozen=True):
    """A Policy; lists that are not there stand for the defaults, empty ones for nothing."""

    kind: str = "Policy"
    api_version: str = ""
    predicates: tuple[Predicate, ...] | None = None
    priorities: tuple[Priority, ...] | None = None
    extenders: tuple[Extender, ...] = ()
    hard_pod_affinity_symmetric_weight: Percentage = 0
    always_check_all_predicates: bool = False


class PolicyFile(_Old, frozen=True):
    """A Policy in a file of the scheduler's container."""

    path: str = ""


class PolicyConfigMap(_Old, frozen=True):
    """A Policy under `policy.cfg` in a ConfigMap."""

    namespace: str = ""
    name: str = ""


class PolicySource(_Old, frozen=True):
    """Where a Policy is."""

    file: PolicyFile | None = None
    config_map: PolicyConfigMap | None = None


class AlgorithmSource(_Old, frozen=True):
    """A Policy, or a provider by name."""

    policy: PolicySource | None = None
    provider: str = ""


class OldLeaderElection(_Old, frozen=True):
    """Leader election; the lock had two names."""

    leader_elect: bool = True
    lease_duration: Duration = ""
    renew_deadline: Duration = ""
    retry_period: Duration = ""
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""
    lock_object_name: str = ""
    lock_object_namespace: str = ""


class OldClientConnection(_Old, frozen=True):
    """How kube-scheduler reached the apiserver."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float | None = None
    burst: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0


_Seconds = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


class OldConfiguration(_Old, frozen=True):
    """A KubeSchedulerConfiguration with an algorithmSource: v1alpha1, v1alpha2."""

    kind: str = ""
    api_version: str = ""
    scheduler_name: str = ""
    algorithm_source: AlgorithmSource = AlgorithmSource()
    hard_pod_affinity_symmetric_weight: Percentage = 0
    leader_election: OldLeaderElection = OldLeaderElection()
    client_connection: OldClientConnection = OldClientConnection()
    percentage_of_nodes_to_score: Percentage | None = None
    bind_timeout_seconds: _Seconds | None = None
    pod_initial_backoff_seconds: _Seconds | None = None
    pod_max_backoff_seconds: _Seconds | None = None
    disable_preemption: bool = False
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    healthz_bind_address: Any = None
    metrics_bind_address: Any = None
    failure_domains: Any = None
