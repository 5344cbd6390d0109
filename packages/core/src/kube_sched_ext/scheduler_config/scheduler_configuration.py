"""A KubeSchedulerConfiguration, as far as extenders and Policies need it."""

from typing import Final, Literal

import msgspec

from kube_sched_ext.scheduler_config.kinds import (
    Base64,
    Duration,
    ExtenderWeight,
    ResourceName,
    UrlPrefix,
)

ApiVersion = Literal["v1", "v1beta3", "v1beta2"]

GROUP: Final = "kubescheduler.config.k8s.io"


class Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Part of a configuration; what has its default is not printed."""


class TlsConfig(Part, frozen=True):
    """How an extender is trusted, and how kube-scheduler shows who it is."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: Base64 = ""
    key_data: Base64 = ""
    ca_data: Base64 = ""


class ManagedResource(Part, frozen=True):
    """An extended resource whose pods alone an extender is asked about."""

    name: ResourceName
    ignored_by_scheduler: bool = False


class Extender(Part, frozen=True):
    """An extender; in a Policy it has the same fields."""

    url_prefix: UrlPrefix
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: ExtenderWeight = 0
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: TlsConfig | None = None
    http_timeout: Duration = ""
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


class Plugin(Part, frozen=True):
    """A plugin, with its weight where it scores."""

    name: str
    weight: int = 0


class PluginSet(Part, frozen=True):
    """What is changed at an extension point."""

    disabled: tuple[Plugin, ...] = ()
    enabled: tuple[Plugin, ...] = ()


class Plugins(Part, frozen=True):
    """What is changed at the extension points."""

    multi_point: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()


class InterPodAffinityArgs(Part, frozen=True):
    """Arguments of InterPodAffinity."""

    hard_pod_affinity_weight: int


class VolumeBindingArgs(Part, frozen=True):
    """Arguments of VolumeBinding."""

    bind_timeout_seconds: int


class Requirement(Part, frozen=True):
    """Whether a node has a label."""

    key: str
    operator: Literal["Exists", "DoesNotExist"]

    @classmethod
    def of(cls, label: str, *, is_there: bool) -> "Requirement":
        """Return that the label is there, or that it is not."""
        return cls(label, "Exists" if is_there else "DoesNotExist")


class NodeSelectorTerm(Part, frozen=True):
    """Requirements that hold together."""

    match_expressions: tuple[Requirement, ...]


class NodeSelector(Part, frozen=True):
    """Terms of which one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...]


class PreferredTerm(Part, frozen=True):
    """A term that counts `weight`."""

    weight: int
    preference: NodeSelectorTerm


class AddedAffinity(Part, frozen=True):
    """Node affinity that every pod gets on top of its own."""

    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class NodeAffinityArgs(Part, frozen=True):
    """Arguments of NodeAffinity."""

    added_affinity: AddedAffinity


class ShapePoint(msgspec.Struct, frozen=True):
    """What a utilisation scores; 0 is printed too."""

    utilization: int
    score: int


class Resource(Part, frozen=True):
    """A resource and what it counts."""

    name: str
    weight: int


class Shape(Part, frozen=True):
    """The points of a score's broken line."""

    shape: tuple[ShapePoint, ...]


class ScoringStrategy(Part, frozen=True):
    """How NodeResourcesFit scores."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
    resources: tuple[Resource, ...] = (Resource("cpu", 1), Resource("memory", 1))
    requested_to_capacity_ratio: Shape | None = None


class NodeResourcesFitArgs(Part, frozen=True):
    """Arguments of NodeResourcesFit."""

    scoring_strategy: ScoringStrategy


class Constraint(Part, frozen=True):
    """A constraint for pods that have none of their own."""

    max_skew: int
    topology_key: str
    when_unsatisfiable: Literal["ScheduleAnyway"]


class PodTopologySpreadArgs(Part, frozen=True):
    """Arguments of PodTopologySpread."""

    defaulting_type: Literal["System", "List"]
    default_constraints: tuple[Constraint, ...] = ()


PluginArgs = (
    InterPodAffinityArgs
    | NodeAffinityArgs
    | NodeResourcesFitArgs
    | PodTopologySpreadArgs
    | VolumeBindingArgs
)


class PluginConfig(Part, frozen=True):
    """A plugin's arguments."""

    name: str
    args: PluginArgs


class Profile(Part, frozen=True):
    """A profile: the pods of one schedulerName."""

    scheduler_name: str
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()


class LeaderElection(Part, frozen=True):
    """Leader election, and its Lease."""

    leader_elect: bool
    resource_namespace: str = ""
    resource_name: str = ""
    lease_duration: str = ""
    renew_deadline: str = ""
    retry_period: str = ""


class ClientConnection(Part, frozen=True):
    """How kube-scheduler reaches the apiserver."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float | None = None
    burst: int = 0


class SchedulerConfiguration(Part, frozen=True, kw_only=True):
    """A KubeSchedulerConfiguration; `rendering` adds its version and kind."""

    client_connection: ClientConnection = ClientConnection()
    leader_election: LeaderElection
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: int | None = None
    pod_max_backoff_seconds: int | None = None
    profiles: tuple[Profile, ...]
    extenders: tuple[Extender, ...] = ()
