"""What the names in a Policy became, as data, checked against the sources of 1.9 to 1.22.

kube-scheduler 1.22 itself turned a Policy into plugins; this goes on from there to the plugins
that are left today.
"""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from kube_sched_ext.scheduler_config.scheduler_configuration import ApiVersion

Point = Literal["preFilter", "filter", "preScore", "score", "reserve", "preBind"]

_FILTERS: Final[tuple[Point, ...]] = ("preFilter", "filter")
_SCORES: Final[tuple[Point, ...]] = ("preScore", "score")

POINTS: Final[Mapping[str, tuple[Point, ...]]] = {
    "NodeUnschedulable": ("filter",),
    "NodeName": ("filter",),
    "TaintToleration": ("filter", *_SCORES),
    "NodeAffinity": (*_FILTERS, *_SCORES),
    "NodePorts": _FILTERS,
    "NodeResourcesFit": (*_FILTERS, *_SCORES),
    "VolumeRestrictions": _FILTERS,
    "NodeVolumeLimits": _FILTERS,
    "VolumeBinding": (*_FILTERS, "reserve", "preBind"),
    "VolumeZone": _FILTERS,
    "PodTopologySpread": (*_FILTERS, *_SCORES),
    "InterPodAffinity": (*_FILTERS, *_SCORES),
    "NodeResourcesBalancedAllocation": _SCORES,
    "ImageLocality": ("score",),
}
"""The default plugins that a Policy had a say in, and where they act, in the default order.

All others, such as SchedulingGates, DynamicResources and DefaultPreemption, came after Policies or
were never part of one: they stay as they are.
"""

LIMITS: Final = ("EBSLimits", "GCEPDLimits", "AzureDiskLimits")
"""Default filters until v1 took them out: one for each kind of disk."""

CINDER: Final = "CinderLimits"
"""As those, but never a default."""

DEFAULT_WEIGHTS: Final[Mapping[ApiVersion, Mapping[str, int]]] = {
    "v1": {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    },
    "v1beta3": {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    },
    "v1beta2": {
        "TaintToleration": 1,
        "NodeAffinity": 1,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 1,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    },
}
"""What the default profile scores with."""


class PredicateEntry(msgspec.Struct, frozen=True):
    """The filters that a predicate became, and what differs."""

    plugins: tuple[str, ...]
    remark: str = ""


_BY_CONDITION: Final = "the node controller now taints nodes by their conditions"
_VOLUMES: Final = "volumes in the tree are served by CSI drivers, whose limits this one counts"
_SERVICE_AFFINITY: Final = (
    "no plugin keeps a service's pods together by a label; give the pods podAffinity with that "
    "label as topologyKey"
)

PREDICATES: Final[Mapping[str, PredicateEntry]] = {
    "CheckNodeUnschedulable": PredicateEntry(("NodeUnschedulable",)),
    "GeneralPredicates": PredicateEntry(
        ("NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity")
    ),
    "HostName": PredicateEntry(("NodeName",)),
    "PodFitsHostPorts": PredicateEntry(("NodePorts",)),
    "PodFitsPorts": PredicateEntry(("NodePorts",), "it was another name of PodFitsHostPorts"),
    "MatchNodeSelector": PredicateEntry(("NodeAffinity",)),
    "PodFitsResources": PredicateEntry(("NodeResourcesFit",)),
    "NoDiskConflict": PredicateEntry(("VolumeRestrictions",)),
    "PodToleratesNodeTaints": PredicateEntry(("TaintToleration",)),
    "PodToleratesNodeNoExecuteTaints": PredicateEntry(
        ("TaintToleration",), "which counts NoSchedule taints too"
    ),
    "CheckNodeCondition": PredicateEntry(("TaintToleration",), _BY_CONDITION),
    "CheckNodeMemoryPressure": PredicateEntry(("TaintToleration",), _BY_CONDITION),
    "CheckNodeDiskPressure": PredicateEntry(("TaintToleration",), _BY_CONDITION),
    "CheckNodePIDPressure": PredicateEntry(("TaintToleration",), _BY_CONDITION),
    "MaxCSIVolumeCountPred": PredicateEntry(("NodeVolumeLimits",)),
    "MaxEBSVolumeCount": PredicateEntry(("NodeVolumeLimits",), _VOLUMES),
    "MaxGCEPDVolumeCount": PredicateEntry(("NodeVolumeLimits",), _VOLUMES),
    "MaxAzureDiskVolumeCount": PredicateEntry(("NodeVolumeLimits",), _VOLUMES),
    "MaxCinderVolumeCount": PredicateEntry(("NodeVolumeLimits",), _VOLUMES),
    "CheckVolumeBinding": PredicateEntry(("VolumeBinding",)),
    "NoVolumeNodeConflict": PredicateEntry(
        ("VolumeBinding",), "which checks the node affinity of volumes"
    ),
    "NoVolumeZoneConflict": PredicateEntry(("VolumeZone",)),
    "EvenPodsSpread": PredicateEntry(("PodTopologySpread",)),
    "MatchInterPodAffinity": PredicateEntry(("InterPodAffinity",)),
    "CheckNodeLabelPresence": PredicateEntry((), "without labelsPresence it checked nothing"),
    "CheckServiceAffinity": PredicateEntry((), _SERVICE_AFFINITY),
}

LIMITS_BEFORE_V1: Final[Mapping[str, str]] = {
    "MaxEBSVolumeCount": "EBSLimits",
    "MaxGCEPDVolumeCount": "GCEPDLimits",
    "MaxAzureDiskVolumeCount": "AzureDiskLimits",
    "MaxCinderVolumeCount": CINDER,
}
"""What v1beta2 and v1beta3 have instead of NodeVolumeLimits for these predicates."""

MANDATORY: Final[Mapping[str, str]] = {
    "PodToleratesNodeTaints": "TaintToleration",
    "CheckNodeUnschedulable": "NodeUnschedulable",
}
"""Predicates that were on whatever a Policy listed."""

SERVICE_AFFINITY_REMARK: Final = _SERVICE_AFFINITY


class PriorityEntry(msgspec.Struct, frozen=True):
    """The score that a priority became, none where it is gone, and what differs."""

    plugin: str = ""
    remark: str = ""


_SPREADING: Final = (
    "whose default constraints spread the pods of a Service, ReplicaSet or StatefulSet"
)

PRIORITIES: Final[Mapping[str, PriorityEntry]] = {
    "SelectorSpreadPriority": PriorityEntry("PodTopologySpread", _SPREADING),
    "ServiceSpreadingPriority": PriorityEntry("PodTopologySpread", _SPREADING),
    "EvenPodsSpreadPriority": PriorityEntry("PodTopologySpread"),
    "InterPodAffinityPriority": PriorityEntry("InterPodAffinity"),
    "BalancedResourceAllocation": PriorityEntry("NodeResourcesBalancedAllocation"),
    "NodeAffinityPriority": PriorityEntry("NodeAffinity"),
    "TaintTolerationPriority": PriorityEntry("TaintToleration"),
    "ImageLocalityPriority": PriorityEntry("ImageLocality"),
    "LeastRequestedPriority": PriorityEntry("NodeResourcesFit"),
    "MostRequestedPriority": PriorityEntry("NodeResourcesFit"),
    "RequestedToCapacityRatioPriority": PriorityEntry("NodeResourcesFit"),
    "RequestedToCapacityRatio": PriorityEntry("NodeResourcesFit"),
    "EqualPriority": PriorityEntry("", "it scored all nodes alike, so nothing is lost"),
    "NodePreferAvoidPodsPriority": PriorityEntry(
        "",
        "the annotation scheduler.alpha.kubernetes.io/preferAvoidPods is read no more; taint such "
        "nodes with PreferNoSchedule",
    ),
    "ResourceLimitsPriority": PriorityEntry(
        "", "no plugin scores by limits; the alpha feature was removed"
    ),
}

SPREADING: Final = ("SelectorSpreadPriority", "ServiceSpreadingPriority")
EQUAL: Final = "EqualPriority"
LEAST: Final = "LeastRequestedPriority"
MOST: Final = "MostRequestedPriority"
RATIO: Final = ("RequestedToCapacityRatioPriority", "RequestedToCapacityRatio")
