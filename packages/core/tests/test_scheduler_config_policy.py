"""What a Policy becomes."""

import re
from pathlib import Path
from typing import Any

import pytest
from core_scheduler_config import (
    FULL_EXTENDER,
    JSON,
    PUBLISHED,
    RATIO,
    loaded,
    notes_in,
    policy,
    print_policy,
)
from hypothesis import given
from hypothesis import strategies as st

from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.scheduler_config.conversion import convert, problems_of
from kube_sched_ext.scheduler_config.mapping import MANDATORY, POINTS, PREDICATES, PRIORITIES
from kube_sched_ext.scheduler_config.policy import (
    LabelPreference,
    LabelsPresence,
    OldConfiguration,
    Policy,
    Predicate,
    PredicateArgument,
    Priority,
    PriorityArgument,
    RequestedToCapacityRatio,
    ServiceAntiAffinity,
    UtilizationPoint,
)
from kube_sched_ext.scheduler_config.scheduler_configuration import ApiVersion, Plugins, PluginSet

FILTERS = {name for name, points in POINTS.items() if "filter" in points}
SCORES = {name for name, points in POINTS.items() if "score" in points}
ALWAYS = {"TaintToleration", "NodeUnschedulable"}


def names(plugins: JSON, point: str, kind: str) -> set[str]:
    return {it["name"] for it in plugins.get(point, {}).get(kind, [])}


def filters_in(configuration: JSON) -> set[str]:
    """Which filters of a Policy are left on."""
    plugins = configuration["profiles"][0].get("plugins", {})
    off = names(plugins, "multiPoint", "disabled") | names(plugins, "filter", "disabled")
    return (FILTERS - off) | names(plugins, "filter", "enabled")


def scores_in(configuration: JSON) -> dict[str, int]:
    """What scores instead of the defaults."""
    score = configuration["profiles"][0]["plugins"]["score"]
    assert score["disabled"] == [{"name": "*"}]
    return {it["name"]: it["weight"] for it in score.get("enabled", [])}


def args_in(configuration: JSON) -> JSON:
    """Return the arguments of plugins by name."""
    return {it["name"]: it["args"] for it in configuration["profiles"][0].get("pluginConfig", [])}


# As kube-scheduler 1.22.17 itself turned each predicate, alone in a Policy, into filters.
RECORDED_FILTERS = {
    "CheckNodeUnschedulable": {"NodeUnschedulable"},
    "GeneralPredicates": {"NodeResourcesFit", "NodeName", "NodePorts", "NodeAffinity"},
    "HostName": {"NodeName"},
    "PodFitsHostPorts": {"NodePorts"},
    "PodFitsPorts": {"NodePorts"},
    "MatchNodeSelector": {"NodeAffinity"},
    "PodFitsResources": {"NodeResourcesFit"},
    "NoDiskConflict": {"VolumeRestrictions"},
    "PodToleratesNodeTaints": {"TaintToleration"},
    "MaxCSIVolumeCountPred": {"NodeVolumeLimits"},
    "MaxEBSVolumeCount": {"EBSLimits"},
    "MaxGCEPDVolumeCount": {"GCEPDLimits"},
    "MaxAzureDiskVolumeCount": {"AzureDiskLimits"},
    "MaxCinderVolumeCount": {"CinderLimits"},
    "CheckVolumeBinding": {"VolumeBinding"},
    "NoVolumeZoneConflict": {"VolumeZone"},
    "EvenPodsSpread": {"PodTopologySpread"},
    "MatchInterPodAffinity": {"InterPodAffinity"},
}
# What only schedulers before it knew.
OLDER_FILTERS = {
    "CheckNodeCondition": set(),
    "CheckNodeMemoryPressure": set(),
    "CheckNodeDiskPressure": set(),
    "CheckNodePIDPressure": set(),
    "PodToleratesNodeNoExecuteTaints": set(),
    "NoVolumeNodeConflict": {"VolumeBinding"},
    "CheckNodeLabelPresence": set(),
    "CheckServiceAffinity": set(),
}


@pytest.mark.parametrize("name", sorted(PREDICATES))
def test_each_predicate_becomes_the_filters_that_it_was(name: str, tmp_path: Path) -> None:
    """And no others but those of the mandatory predicates; v1 counts all volumes in one."""
    expected = (RECORDED_FILTERS | OLDER_FILTERS)[name] | ALWAYS
    is_limit = any("Limits" in plugin for plugin in expected)
    found = loaded(print_policy(policy(predicates=[{"name": name}]), tmp_path))
    assert filters_in(found) == ({"NodeVolumeLimits"} | ALWAYS if is_limit else expected)


@pytest.mark.parametrize("version", ["v1beta2", "v1beta3"])
@pytest.mark.parametrize("name", sorted(it for it in RECORDED_FILTERS if "VolumeCount" in it))
def test_before_v1_each_kind_of_volume_has_a_filter(
    name: str, version: str, tmp_path: Path
) -> None:
    """Three of which are on by default and must be off where they are not listed."""
    printed = print_policy(policy(predicates=[{"name": name}]), tmp_path, api_version=version)
    plugins = loaded(printed)["profiles"][0]["plugins"]
    off = names(plugins, "multiPoint", "disabled") | names(plugins, "filter", "disabled")
    limits = {"EBSLimits", "GCEPDLimits", "AzureDiskLimits", "NodeVolumeLimits"}
    assert limits - off == RECORDED_FILTERS[name] - {"CinderLimits"}
    assert names(plugins, "filter", "enabled") == RECORDED_FILTERS[name] & {"CinderLimits"}


def test_v1beta2_turns_filters_off_at_each_point(tmp_path: Path) -> None:
    """Its multiPoint takes no default away."""
    printed = print_policy(policy(predicates=[]), tmp_path, api_version="v1beta2")
    plugins = loaded(printed)["profiles"][0]["plugins"]
    assert "multiPoint" not in plugins
    for point in ("preFilter", "filter", "reserve", "preBind"):
        assert {"name": "VolumeBinding"} in plugins[point]["disabled"]


def test_a_filter_that_is_off_may_still_score(tmp_path: Path) -> None:
    """And a score that is off may still filter."""
    found = print_policy(
        policy(
            predicates=[{"name": "MatchInterPodAffinity"}],
            priorities=[{"name": "LeastRequestedPriority", "weight": 2}],
        ),
        tmp_path,
    )
    plugins = loaded(found)["profiles"][0]["plugins"]
    idle = names(plugins, "multiPoint", "disabled")
    assert not idle & {"InterPodAffinity", "NodeResourcesFit"}
    assert "PodTopologySpread" in idle
    assert names(plugins, "preFilter", "disabled") == {"NodeResourcesFit"}
    assert names(plugins, "preScore", "disabled") == {"TaintToleration", "InterPodAffinity"}


# As kube-scheduler 1.22.17 turned each priority into a score, but for those of resources, which it
# had as plugins of their own.
RECORDED_SCORES = {
    "SelectorSpreadPriority": "PodTopologySpread",
    "ServiceSpreadingPriority": "PodTopologySpread",
    "EvenPodsSpreadPriority": "PodTopologySpread",
    "InterPodAffinityPriority": "InterPodAffinity",
    "BalancedResourceAllocation": "NodeResourcesBalancedAllocation",
    "NodeAffinityPriority": "NodeAffinity",
    "TaintTolerationPriority": "TaintToleration",
    "ImageLocalityPriority": "ImageLocality",
    "LeastRequestedPriority": "NodeResourcesFit",
    "MostRequestedPriority": "NodeResourcesFit",
    "RequestedToCapacityRatioPriority": "NodeResourcesFit",
    "RequestedToCapacityRatio": "NodeResourcesFit",
    "EqualPriority": None,
    "NodePreferAvoidPodsPriority": None,
    "ResourceLimitsPriority": None,
}


@pytest.mark.parametrize("name", sorted(PRIORITIES))
def test_each_priority_becomes_a_score_of_its_weight(name: str, tmp_path: Path) -> None:
    """Or says why there is none."""
    printed = print_policy(policy(priorities=[{"name": name, "weight": 3}]), tmp_path)
    plugin = RECORDED_SCORES[name]
    assert scores_in(loaded(printed)) == ({plugin: 3} if plugin else {})
    assert f"priorities[0] {name} weight 3: {'score' if plugin else 'dropped'}" in notes_in(printed)


def test_the_page_has_what_each_name_became() -> None:
    """In its two tables, and nothing else there."""
    page = (Path(__file__).parents[1] / "SCHEDULER_CONFIG.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\w, ]+) \|", page, re.MULTILINE))
    filters = {name: ", ".join(entry.plugins) for name, entry in PREDICATES.items()}
    scores = {name: entry.plugin for name, entry in PRIORITIES.items()}
    assert rows == {name: plugins or "none" for name, plugins in (filters | scores).items()}


def test_lists_that_are_not_there_stand_for_the_defaults(tmp_path: Path) -> None:
    """Also where they are null."""
    for content in (policy(), policy(predicates=None, priorities=None)):
        printed = print_policy(content, tmp_path)
        assert loaded(printed)["profiles"] == [{"schedulerName": "default-scheduler"}]
        assert "predicates: none are listed, so the default filters stay" in notes_in(printed)
        assert "priorities: none are listed, so the default scores stay" in notes_in(printed)


def test_empty_lists_stand_for_nothing(tmp_path: Path) -> None:
    """But for the predicates that were mandatory."""
    printed = print_policy(policy(predicates=[], priorities=[]), tmp_path)
    found = loaded(printed)
    assert filters_in(found) == ALWAYS
    assert scores_in(found) == {}
    for name, plugin in MANDATORY.items():
        assert f"{name} is not listed but was mandatory, so {plugin}" in notes_in(printed)


def test_one_list_does_not_touch_the_other(tmp_path: Path) -> None:
    """Predicates alone leave the default scores, priorities alone the default filters."""
    found = loaded(print_policy(policy(predicates=[]), tmp_path))
    assert "score" not in found["profiles"][0]["plugins"]
    found = loaded(print_policy(policy(priorities=[]), tmp_path))
    assert filters_in(found) == FILTERS


def test_labels_presence_becomes_added_affinity(tmp_path: Path) -> None:
    """Labels that must be there, and labels that must not."""
    predicates = [
        {"name": "Zoned", "argument": {"labelsPresence": {"labels": ["a", "b"], "presence": True}}},
        {"name": "Fresh", "argument": {"labelsPresence": {"labels": ["old"], "presence": False}}},
        {"name": "None", "argument": {"labelsPresence": {"labels": []}}},
    ]
    printed = print_policy(policy(predicates=predicates), tmp_path)
    found = loaded(printed)
    assert filters_in(found) == ALWAYS | {"NodeAffinity"}
    assert args_in(found)["NodeAffinity"] == {
        "addedAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {"key": "a", "operator": "Exists"},
                            {"key": "b", "operator": "Exists"},
                            {"key": "old", "operator": "DoesNotExist"},
                        ]
                    }
                ]
            }
        }
    }
    assert "it now also checks the pods' own node selectors" in notes_in(printed)
    assert "predicates[2] None: dropped: it names no label" in notes_in(printed)


def test_service_affinity_has_no_equivalent(tmp_path: Path) -> None:
    """Which the notes say, with what to do, and the remarks repeat."""
    predicates = [{"name": "Together", "argument": {"serviceAffinity": {"labels": ["rack"]}}}]
    printed = print_policy(policy(predicates=predicates), tmp_path)
    [remark] = printed.remarks
    assert remark.startswith("predicates[0] Together: dropped: no plugin keeps")
    assert "podAffinity" in remark


def test_label_preference_becomes_preferred_affinity(tmp_path: Path) -> None:
    """With the weight of all its labels together."""
    priorities = [
        {
            "name": name,
            "weight": 2,
            "argument": {"labelPreference": {"label": name, "presence": wants}},
        }
        for name, wants in (("ssd", True), ("old", False))
    ]
    printed = print_policy(policy(priorities=priorities), tmp_path)
    found = loaded(printed)
    assert scores_in(found) == {"NodeAffinity": 4}
    added = args_in(found)["NodeAffinity"]["addedAffinity"]
    assert added["preferredDuringSchedulingIgnoredDuringExecution"] == [
        {
            "weight": 100,
            "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]},
        },
        {
            "weight": 100,
            "preference": {"matchExpressions": [{"key": "old", "operator": "DoesNotExist"}]},
        },
    ]
    assert "prefers nodes without old" in notes_in(printed)


@pytest.mark.parametrize(
    ("listed", "args"),
    [
        (["EvenPodsSpreadPriority"], {"defaultingType": "List"}),
        (["SelectorSpreadPriority"], None),
        (["SelectorSpreadPriority", "EvenPodsSpreadPriority"], None),
        (
            ["rack"],
            {
                "defaultingType": "List",
                "defaultConstraints": [
                    {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"}
                ],
            },
        ),
        (
            ["rack", "SelectorSpreadPriority"],
            {
                "defaultingType": "List",
                "defaultConstraints": [
                    {"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "ScheduleAnyway"},
                    {
                        "maxSkew": 3,
                        "topologyKey": "kubernetes.io/hostname",
                        "whenUnsatisfiable": "ScheduleAnyway",
                    },
                ],
            },
        ),
    ],
)
def test_spreading_keeps_its_default_constraints_apart(
    listed: list[str], args: JSON | None, tmp_path: Path
) -> None:
    """Those of SelectorSpreadPriority, those of serviceAntiAffinity, or none."""
    priorities: list[JSON] = [
        {"name": name, "weight": 2}
        if name != "rack"
        else {"name": "r", "weight": 2, "argument": {"serviceAntiAffinity": {"label": name}}}
        for name in listed
    ]
    found = loaded(print_policy(policy(priorities=priorities), tmp_path))
    assert args_in(found).get("PodTopologySpread") == args


def test_priorities_that_are_one_score_now_take_the_largest_weight(tmp_path: Path) -> None:
    """And each says so."""
    priorities = [
        {"name": "SelectorSpreadPriority", "weight": 5},
        {"name": "EvenPodsSpreadPriority", "weight": 2},
    ]
    printed = print_policy(policy(priorities=priorities), tmp_path)
    assert scores_in(loaded(printed)) == {"PodTopologySpread": 5}
    assert notes_in(printed).count("with weight 5 (the largest of 5, 2, which share it)") == 2


def test_of_a_priority_listed_twice_the_last_counts(tmp_path: Path) -> None:
    """As it did."""
    priorities = [{"name": "ImageLocalityPriority", "weight": it} for it in (9, 2)]
    printed = print_policy(policy(priorities=priorities), tmp_path)
    assert scores_in(loaded(printed)) == {"ImageLocality": 2}
    assert "priorities[0] ImageLocalityPriority weight 9: dropped: it is listed" in notes_in(
        printed
    )


@pytest.mark.parametrize(
    ("least", "most", "scores", "strategy"),
    [
        (3, 1, {"NodeResourcesFit": 2}, None),
        (1, 3, {"NodeResourcesFit": 2}, "MostAllocated"),
        (2, 2, {}, None),
    ],
)
def test_least_and_most_requested_are_set_off(
    least: int, most: int, scores: dict[str, int], strategy: str | None, tmp_path: Path
) -> None:
    """They are opposite, and one plugin has room for one of them: their difference is left."""
    priorities = [
        {"name": "LeastRequestedPriority", "weight": least},
        {"name": "MostRequestedPriority", "weight": most},
    ]
    printed = print_policy(policy(priorities=priorities), tmp_path)
    found = loaded(printed)
    assert scores_in(found) == scores
    kind = args_in(found).get("NodeResourcesFit", {}).get("scoringStrategy", {}).get("type")
    assert kind == strategy
    assert "the two are opposite" in notes_in(printed)
    assert printed.remarks == ()


def test_requested_to_capacity_ratio_keeps_its_arguments(tmp_path: Path) -> None:
    """And displaces others that score resources, which are told of."""
    priorities: list[JSON] = [
        {"name": "LeastRequestedPriority", "weight": 9},
        {"name": "Mine", "weight": 4, "argument": {"requestedToCapacityRatioArguments": RATIO}},
    ]
    printed = print_policy(policy(priorities=priorities), tmp_path)
    found = loaded(printed)
    assert scores_in(found) == {"NodeResourcesFit": 4}
    assert args_in(found)["NodeResourcesFit"]["scoringStrategy"] == {
        "type": "RequestedToCapacityRatio",
        "resources": [{"name": "example.com/gpu", "weight": 5}, {"name": "cpu", "weight": 1}],
        "requestedToCapacityRatio": {"shape": RATIO["shape"]},
    }
    [remark] = printed.remarks
    assert remark.startswith("priorities[0] LeastRequestedPriority weight 9: dropped")


@pytest.mark.parametrize(
    ("priorities", "args", "outcome"),
    [
        (None, {"hardPodAffinityWeight": 10}, "argument hardPodAffinityWeight"),
        ([], None, "dropped: without InterPodAffinityPriority"),
        (
            [{"name": "InterPodAffinityPriority", "weight": 1}],
            {"hardPodAffinityWeight": 10},
            "argument hardPodAffinityWeight",
        ),
    ],
)
def test_hard_pod_affinity_weight_is_an_argument(
    priorities: list[JSON] | None, args: JSON | None, outcome: str, tmp_path: Path
) -> None:
    """Where InterPodAffinity scores at all."""
    content = policy(priorities=priorities, hardPodAffinitySymmetricWeight=10)
    printed = print_policy(content, tmp_path)
    assert args_in(loaded(printed)).get("InterPodAffinity") == args
    assert f"hardPodAffinitySymmetricWeight: {outcome}" in notes_in(printed)


def test_always_check_all_predicates_has_no_equivalent(tmp_path: Path) -> None:
    """Which is told where it was on."""
    printed = print_policy(policy(alwaysCheckAllPredicates=True), tmp_path)
    assert printed.remarks[0].startswith("alwaysCheckAllPredicates: dropped")
    assert print_policy(policy(alwaysCheckAllPredicates=False), tmp_path).remarks == ()


def test_an_extender_keeps_all_its_fields(tmp_path: Path) -> None:
    """Nanoseconds are a duration now, and enableHttps has another spelling."""
    printed = print_policy(policy(extenders=[FULL_EXTENDER]), tmp_path)
    [extender] = loaded(printed)["extenders"]
    assert extender == {
        key: value for key, value in FULL_EXTENDER.items() if key != "enableHttps"
    } | {
        "enableHTTPS": True,
        "httpTimeout": "30s",
    }
    assert "A score of 0..10 counts 0..700" in printed.text


@pytest.mark.parametrize(
    "change", [str.lower, str.upper, str.title, lambda key: key[:1].upper() + key[1:]]
)
def test_keys_may_be_in_any_case(change: Any, tmp_path: Path) -> None:
    """As old schedulers took them, TLSConfig and BindVerb above all."""

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {change(key): changed(member) for key, member in value.items()}
        return [changed(item) for item in value] if isinstance(value, list) else value

    content = policy(extenders=[FULL_EXTENDER], predicates=[{"name": "HostName"}])
    expected = loaded(print_policy(content, tmp_path))
    content = {"kind": "Policy", "apiVersion": "v1"} | changed(
        {key: value for key, value in content.items() if key not in ("kind", "apiVersion")}
    )
    assert loaded(print_policy(content, tmp_path)) == expected


@pytest.mark.parametrize(
    ("fields", "remark"),
    [
        ({"httpTimeout": 10}, "extenders[0].httpTimeout: 10ns; a Policy counts nanoseconds"),
        ({}, "extenders[0] http://one: kept; it has no verb, so it is never called"),
        ({"filterVerb": "f"}, "extenders[0].nodeCacheCapable: false, as it was; but since 1.33"),
        (
            {"enableHttps": True, "filterVerb": "f", "nodeCacheCapable": True},
            "extenders[0].enableHttps: enableHTTPS, and without a CA its certificate is not",
        ),
    ],
)
def test_what_needs_a_decision_is_a_remark(fields: JSON, remark: str, tmp_path: Path) -> None:
    """Beside the note in the output."""
    extender = {"urlPrefix": "http://one", **fields}
    printed = print_policy(policy(extenders=[extender]), tmp_path)
    assert any(it.startswith(remark) for it in printed.remarks)
    assert remark in notes_in(printed)


def test_fields_that_no_scheduler_had_are_told_of(tmp_path: Path) -> None:
    """Such as the apiVersion that many an extender was published with."""
    content = policy(extenders=[{"urlPrefix": "http://one", "apiVersion": "v1beta1"}], other=1)
    printed = print_policy(content, tmp_path)
    assert "extenders[0].apiVersion: ignored, as ever: no such field" in notes_in(printed)
    assert "other: ignored, as ever: no such field" in notes_in(printed)


def test_options_can_change_how_a_policys_extenders_are_asked(tmp_path: Path) -> None:
    """The published ones sent whole nodes; today's agents know the nodes by name."""
    printed = print_policy(PUBLISHED, tmp_path, node_cache=True, ignorable=True)
    for extender in loaded(printed)["extenders"]:
        assert extender["nodeCacheCapable"]
        assert extender["ignorable"]
    assert printed.remarks == ()
    assert "extenders[*].ignorable: true, as the option says" in notes_in(printed)


def test_agents_come_after_a_policys_extenders(tmp_path: Path) -> None:
    """Each with what it needs."""
    printed = print_policy(PUBLISHED, tmp_path, "pigeon")
    urls = [it["urlPrefix"] for it in loaded(printed)["extenders"]]
    assert urls == [
        "http://localhost:5401/scheduler",
        "http://localhost:5402/scheduler",
        "http://127.0.0.1:5401/scheduler",
    ]
    assert "The last extenders are for pigeon" in notes_in(printed)


@pytest.mark.parametrize(
    ("members", "problem"),
    [
        (
            {"predicates": [{"name": "HostNme"}]},
            "predicates[0].name: 'HostNme' is no predicate; did ",
        ),
        ({"predicates": [{"name": "x", "argument": {}}]}, "predicates[0].argument: has 0 members"),
        ({"predicates": {}}, "predicates: {} is not a list"),
        ({"predicates": ["HostName"]}, "predicates[0]: 'HostName' is not a mapping"),
        ({"predicates": [{"name": 7}]}, "predicates[0].name: 7 is not a text"),
        ({"priorities": [{"name": "EqualPriority"}]}, "priorities[0].weight: is missing; it must"),
        (
            {"priorities": [{"name": "EqualPriority", "weight": 0}]},
            "priorities[0].weight: 0 is not an integer from 1 to 2147483647",
        ),
        (
            {"priorities": [{"name": "EqualPriority", "weight": True}]},
            "priorities[0].weight: True is not an integer",
        ),
        ({"priorities": [{"name": "x", "weight": 1}]}, "priorities[0].name: 'x' is no priority"),
        (
            {"priorities": [{"name": "x", "weight": 1, "argument": {}}]},
            "priorities[0].argument: has 0 members, must have one of",
        ),
        (
            {
                "priorities": [
                    {"weight": it, "argument": {"labelPreference": {"label": "a"}}} for it in (1, 2)
                ]
            },
            "priorities[1].weight: 2 differs from the 1 of priorities[0]",
        ),
        (
            {
                "priorities": [
                    {"weight": 1, "argument": {"requestedToCapacityRatioArguments": RATIO}}
                ]
                * 2
            },
            "priorities[1]: priorities[0] has such arguments already",
        ),
        (
            {
                "priorities": [
                    {
                        "weight": 1,
                        "argument": {
                            "requestedToCapacityRatioArguments": {
                                "shape": [{"utilization": 5, "score": 1}] * 2
                            }
                        },
                    }
                ]
            },
            "shape[1].utilization: 5 is not above the 5 before",
        ),
        (
            {
                "priorities": [
                    {"weight": 1, "argument": {"requestedToCapacityRatioArguments": {"shape": []}}}
                ]
            },
            "shape: is empty; it must have a point",
        ),
        (
            {"priorities": [{"weight": 1, "argument": {"labelPreference": {"label": "a b"}}}]},
            "priorities[0].argument.labelPreference.label: 'a b' is not a label key such as",
        ),
        ({"hardPodAffinitySymmetricWeight": 101}, "101 is not an integer from 0 to 100"),
        ({"alwaysCheckAllPredicates": "yes"}, "alwaysCheckAllPredicates: 'yes' is not true or"),
        ({"extenders": [{}]}, "extenders[0].urlPrefix: is missing; it must be http:// or https://"),
        ({"extenders": [{"urlPrefix": "one:80"}]}, "extenders[0].urlPrefix: 'one:80' is not http"),
        (
            {"extenders": [{"urlPrefix": "http://a", "prioritizeVerb": "p"}]},
            "extenders[0].weight: is 0; with a prioritizeVerb it must be at least 1",
        ),
        (
            {"extenders": [{"urlPrefix": "http://a", "bindVerb": "b"}] * 2},
            "extenders[1].bindVerb: 'b' is a second one beside extenders[0]",
        ),
        (
            {"extenders": [{"urlPrefix": "http://a", "httpTimeout": -1}]},
            "extenders[0].httpTimeout: -1 is not a duration",
        ),
        (
            {"extenders": [{"urlPrefix": "http://a", "httpTimeout": 1.5}]},
            "extenders[0].httpTimeout: 1.5 is not a duration",
        ),
        (
            {"extenders": [{"urlPrefix": "http://a", "managedResources": [{"name": "cpu"}]}]},
            "extenders[0].managedResources[0].name: 'cpu' is not the name of an extended resource",
        ),
        (
            {"extenders": [{"urlPrefix": "http://a", "tlsConfig": {"caData": "?"}}]},
            "extenders[0].tlsConfig.caData: '?' is not base64",
        ),
        (
            {"extenders": [{"urlPrefix": "http://a", "tlsConfig": {"certFile": "c"}}]},
            "extenders[0].tlsConfig: has a client certificate or its key; it must be both",
        ),
        (
            {
                "extenders": [
                    {"urlPrefix": "http://a", "tlsConfig": {"insecure": True, "caFile": "c"}}
                ]
            },
            "extenders[0].tlsConfig: has a CA and is insecure; it must be one of the two",
        ),
    ],
)
def test_what_no_scheduler_would_take_is_refused(
    members: JSON, problem: str, tmp_path: Path
) -> None:
    """With the file, the place, the value and what is allowed."""
    with pytest.raises(ConfigurationError) as caught:
        print_policy(policy(**members), tmp_path)
    assert problem in str(caught.value)
    assert all(it.startswith(str(tmp_path / "policy.cfg")) for it in caught.value.problems)


def test_everything_wrong_in_a_policy_is_told_at_once(tmp_path: Path) -> None:
    """Shapes first, then what they mean."""
    content = policy(
        predicates=[{"name": 1}, {"name": "HostName", "argument": []}],
        priorities=[{"weight": "x"}],
        extenders=[{"urlPrefix": "http://a", "weight": -1, "filterVerb": False}],
    )
    with pytest.raises(ConfigurationError) as caught:
        print_policy(content, tmp_path)
    assert len(caught.value.problems) == 5


@pytest.mark.parametrize("name", ["a\nkind: Other", "\x07", "\u2028x", "#"])
def test_no_name_breaks_out_of_its_comment(name: str, tmp_path: Path) -> None:
    """Names of one's own may be anything."""
    predicates = [{"name": name, "argument": {"serviceAffinity": {"labels": ["a"]}}}]
    printed = print_policy(policy(predicates=predicates), tmp_path)
    assert loaded(printed)["kind"] == "KubeSchedulerConfiguration"
    assert all(line.isprintable() for line in printed.text.split("\n"))


@pytest.mark.parametrize(
    "verb", ["1e3", "0x1f", "y", "on", "null", "a: b", "#", "", "-", "é", "1_0"]
)
def test_texts_stay_texts(verb: str, tmp_path: Path) -> None:
    """Whatever another reader of YAML would take them for."""
    extender = {"urlPrefix": "http://a", "preemptVerb": verb}
    printed = print_policy(policy(extenders=[extender]), tmp_path)
    assert loaded(printed)["extenders"][0].get("preemptVerb", "") == verb
    assert not verb or f"preemptVerb: '{verb}'" in printed.text.replace('"', "'")


label = st.sampled_from(["zone", "example.com/rack", "kubernetes.io/hostname", "ssd"])
predicates = st.builds(Predicate, st.sampled_from(sorted(PREDICATES))) | st.builds(
    lambda labels, presence: Predicate(
        "mine", PredicateArgument(labels_presence=LabelsPresence(labels, presence))
    ),
    st.lists(label, max_size=3).map(tuple),
    st.booleans(),
)
weight = st.integers(1, 2**31 - 1) | st.integers(1, 9)
arguments = st.one_of(
    st.builds(lambda it: PriorityArgument(ServiceAntiAffinity(it)), label),
    st.builds(
        lambda it, presence: PriorityArgument(label_preference=LabelPreference(it, presence)),
        label,
        st.booleans(),
    ),
    st.just(
        PriorityArgument(
            requested_to_capacity_ratio_arguments=RequestedToCapacityRatio(
                (UtilizationPoint(0, 10), UtilizationPoint(100, 0))
            )
        )
    ),
)
priorities = st.builds(Priority, weight, st.sampled_from(sorted(PRIORITIES))) | st.builds(
    Priority, st.just(3), st.just("mine"), arguments
)
policies = st.builds(
    Policy,
    predicates=st.none() | st.lists(predicates, max_size=6).map(tuple),
    priorities=st.none() | st.lists(priorities, max_size=6).map(tuple),
    hard_pod_affinity_symmetric_weight=st.integers(0, 100),
)


def _sets(plugins: Plugins) -> list[PluginSet]:
    return [getattr(plugins, point) for point in plugins.__struct_fields__]


@given(policies, st.sampled_from(["v1", "v1beta3", "v1beta2"]))
def test_any_policy_becomes_a_sound_profile(content: Policy, version: ApiVersion) -> None:
    """A note for each line, mandatory filters on, each plugin once at a point, arguments for no
    plugin that is off.
    """
    if problems_of(content):
        return
    converted = convert(content, OldConfiguration(), version)
    lines = [note.line for note in converted.notes]
    for kind, listed in (("predicates", content.predicates), ("priorities", content.priorities)):
        places = {line.partition(" ")[0] for line in lines}
        assert all(f"{kind}[{index}]" in places for index in range(len(listed or ())))
    [profile] = converted.configuration.profiles
    for plugin_set in _sets(profile.plugins):
        named = [it.name for it in (*plugin_set.disabled, *plugin_set.enabled)]
        assert len(set(named)) == len(named)
        assert not set(named) & {"SchedulingGates", "DefaultBinder", "PrioritySort"}
    assert all(1 <= it.weight < 2**31 for it in profile.plugins.score.enabled)
    off = {it.name for it in profile.plugins.multi_point.disabled}
    assert not off & ALWAYS
    assert not {it.name for it in profile.plugins.filter.disabled} & ALWAYS
    assert not off & {it.name for it in profile.plugins.score.enabled}
    assert not off & {it.name for it in profile.plugin_config}
