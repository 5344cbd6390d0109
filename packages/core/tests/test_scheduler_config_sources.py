"""Where a Policy may be, and how what is wrong there is told."""

import contextlib
import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import yaml
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

from kube_sched_ext.errors import ConfigurationError, UnparsableError
from kube_sched_ext.scheduler_config.durations import duration_text, nanoseconds_of

POLICY = policy(
    predicates=[{"name": "HostName"}],
    extenders=[{"urlPrefix": "http://one", "filterVerb": "f", "nodeCacheCapable": True}],
)


def config_map(name: str, **data: str) -> JSON:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "kube-system"},
        "data": {key.replace("_", "."): value for key, value in data.items()},
    }


def configuration(**members: Any) -> JSON:
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1alpha1",
        "kind": "KubeSchedulerConfiguration",
        **members,
    }


def many(*objects: JSON) -> str:
    return yaml.safe_dump_all(objects)


BEHIND_MAP = {"policy": {"configMap": {"namespace": "kube-system", "name": "p"}}}
BEHIND_FILE = {"policy": {"file": {"path": "/etc/scheduler/policy.json"}}}


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(POLICY),
        json.dumps(POLICY, indent="\t"),
        "\ufeff" + json.dumps(POLICY),
        yaml.safe_dump(POLICY),
        yaml.safe_dump({key: value for key, value in POLICY.items() if key != "kind"}),
        many(config_map("p", policy_cfg=json.dumps(POLICY))),
        many(config_map("p", policy_cfg=yaml.safe_dump(POLICY), notes="{")),
        json.dumps({"kind": "List", "items": [config_map("p", policy_cfg=json.dumps(POLICY))]}),
        many(
            config_map("c", config_yaml=many(configuration(algorithmSource=BEHIND_MAP))),
            config_map("p", policy_cfg=json.dumps(POLICY)),
        ),
        many(
            configuration(algorithmSource=BEHIND_MAP),
            config_map("p", policy_cfg=json.dumps(POLICY, indent="\t")),
            config_map("other", policy_cfg=json.dumps(policy())),
        ),
        many(
            config_map(
                "c",
                config_yaml=many(configuration(algorithmSource=BEHIND_FILE)),
                policy_json=json.dumps(POLICY),
            )
        ),
    ],
)
def test_a_policy_is_found_wherever_it_may_be(content: str, tmp_path: Path) -> None:
    """By itself, in a ConfigMap, or behind an algorithmSource."""
    found = loaded(print_policy(content, tmp_path))
    assert found["extenders"][0]["urlPrefix"] == "http://one"
    assert {"name": "NodePorts"} in found["profiles"][0]["plugins"]["multiPoint"]["disabled"]


def test_a_policy_may_be_in_another_file(tmp_path: Path) -> None:
    """That the configuration names by its path."""
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    source = {"policy": {"file": {"path": str(tmp_path / "policy.json")}}}
    found = loaded(print_policy(configuration(algorithmSource=source), tmp_path))
    assert found["extenders"][0]["urlPrefix"] == "http://one"


def test_what_was_published_with_the_first_agents_goes_on_working(tmp_path: Path) -> None:
    """Scheduler name, lock, verbs and weights are kept; a Deployment beside it is not read."""
    printed = print_policy(PUBLISHED, tmp_path)
    assert loaded(printed) == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {
            "leaderElect": True,
            "resourceNamespace": "kube-system",
            "resourceName": "my-scheduler",
        },
        "profiles": [{"schedulerName": "my-scheduler"}],
        "extenders": [
            {
                "urlPrefix": "http://localhost:5401/scheduler",
                "filterVerb": "predicates/safe-overload",
                "prioritizeVerb": "priorities/safe-overload",
                "weight": 1,
            },
            {
                "urlPrefix": "http://localhost:5402/scheduler",
                "prioritizeVerb": "priorities/congestion",
                "weight": 10,
            },
        ],
    }
    [remark] = printed.remarks
    assert "extenders[0].nodeCacheCapable: false" in remark


def test_the_configuration_that_named_a_policy_is_converted_too(tmp_path: Path) -> None:
    """With a note for each of its lines."""
    old = configuration(
        schedulerName="mine",
        algorithmSource=BEHIND_MAP,
        hardPodAffinitySymmetricWeight=7,
        leaderElection={
            "leaderElect": True,
            "leaseDuration": "30s",
            "renewDeadline": "20s",
            "retryPeriod": "4s",
            "resourceLock": "endpoints",
        },
        clientConnection={"kubeconfig": "/etc/scheduler.conf", "qps": 100, "burst": 200},
        percentageOfNodesToScore=30,
        bindTimeoutSeconds=100,
        disablePreemption=True,
        healthzBindAddress="0.0.0.0:10251",
        failureDomains="zone",
        podInitialBackoffSeconds=2,
        podMaxBackoffSeconds=20,
        enableProfiling=False,
    )
    printed = print_policy(many(old, config_map("p", policy_cfg="kind: Policy")), tmp_path)
    assert loaded(printed) == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": "/etc/scheduler.conf", "qps": 100.0, "burst": 200},
        "leaderElection": {
            "leaderElect": True,
            "resourceNamespace": "kube-system",
            "resourceName": "kube-scheduler",
            "leaseDuration": "30s",
            "renewDeadline": "20s",
            "retryPeriod": "4s",
        },
        "enableProfiling": False,
        "percentageOfNodesToScore": 30,
        "podInitialBackoffSeconds": 2,
        "podMaxBackoffSeconds": 20,
        "profiles": [
            {
                "schedulerName": "mine",
                "plugins": {"postFilter": {"disabled": [{"name": "DefaultPreemption"}]}},
                "pluginConfig": [
                    {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 100}},
                    {"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 7}},
                ],
            }
        ],
    }
    places = [remark.partition(": ")[0] for remark in printed.remarks]
    assert places == [
        "leaderElection.resourceLock",
        "healthzBindAddress, metricsBindAddress",
        "failureDomains",
    ]
    assert "disablePreemption: plugin DefaultPreemption is off" in notes_in(printed)


@pytest.mark.parametrize(
    ("provider", "args"),
    [
        ("DefaultProvider", []),
        (
            "ClusterAutoscalerProvider",
            [
                {
                    "name": "NodeResourcesFit",
                    "args": {"scoringStrategy": {"type": "MostAllocated"}},
                }
            ],
        ),
    ],
)
def test_a_provider_is_the_defaults_or_packs(
    provider: str, args: list[JSON], tmp_path: Path
) -> None:
    """An algorithmSource may name one instead of a Policy."""
    printed = print_policy(configuration(algorithmSource={"provider": provider}), tmp_path)
    assert loaded(printed)["profiles"][0].get("pluginConfig", []) == args


def test_options_win_over_the_old_configuration(tmp_path: Path) -> None:
    """Name, Lease, kubeconfig and how many nodes are enough."""
    found = loaded(
        print_policy(
            PUBLISHED,
            tmp_path,
            scheduler_names=("other",),
            lease="own/lock",
            kubeconfig="/k",
            percentage_of_nodes=40,
        )
    )
    assert found["profiles"] == [{"schedulerName": "other"}]
    assert found["leaderElection"]["resourceNamespace"] == "own"
    assert found["clientConnection"] == {"kubeconfig": "/k"}
    assert found["percentageOfNodesToScore"] == 40


def test_a_bare_policy_gets_a_lease_by_its_schedulers_name(tmp_path: Path) -> None:
    """As agents' configurations do."""
    found = loaded(print_policy(POLICY, tmp_path, scheduler_names=("other",)))
    assert found["leaderElection"]["resourceName"] == "other"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "policy.cfg: has no Policy; it must be one (kind: Policy), a ConfigMap with one"),
        ("[]", "policy.cfg: has no Policy"),
        ("kind: Pod", "policy.cfg: has no Policy"),
        ('{"kind": "Policy" 5}', "policy.cfg: is neither JSON nor YAML: Expecting ',' delimiter"),
        ("kind: [", "policy.cfg: is neither JSON nor YAML: while parsing"),
        ("a: !!python/object:os.x {}", "policy.cfg: is neither JSON nor YAML: could not determine"),
        ("a: 2020-99-99", "policy.cfg: is neither JSON nor YAML: month must be in"),
        ("[" * 100_000, "policy.cfg: is nested too deeply"),
        ("extenders: &a [*a]", "policy.cfg: extenders[0]: [[[...]]] is not a mapping"),
        (
            many(policy(), policy()),
            "policy.cfg: has 2 Policies, where one is allowed: ",
        ),
        (
            many(configuration(apiVersion="kubescheduler.config.k8s.io/v1")),
            "policy.cfg: is a kubescheduler.config.k8s.io/v1 KubeSchedulerConfiguration without an",
        ),
        (
            many(configuration(algorithmSource=BEHIND_MAP)),
            "algorithmSource.policy.configMap: no ConfigMap 'p' is in the file",
        ),
        (
            many(configuration(algorithmSource=BEHIND_MAP), config_map("p", other="x")),
            "policy.cfg, ConfigMap p: has no policy.cfg; its keys are other",
        ),
        (
            many(config_map("p", policy_cfg="{")),
            "policy.cfg, ConfigMap p, policy.cfg: is neither JSON nor YAML",
        ),
        (
            many(configuration(algorithmSource=BEHIND_FILE)),
            "algorithmSource.policy.file.path: '/etc/scheduler/policy.json' is not to be read here",
        ),
        (
            many(configuration(algorithmSource={"policy": {}})),
            "policy.cfg: algorithmSource.policy: names nothing; it must have file or configMap",
        ),
        (
            many(configuration(algorithmSource={"provider": "Mine"})),
            "algorithmSource.provider: 'Mine' is not DefaultProvider or ClusterAutoscalerProvider",
        ),
        (
            many(configuration(algorithmSource={}, leaderElection={"retryPeriod": "20s"})),
            "leaderElection: 15s, 10s, 20s are not leaseDuration, renewDeadline and retryPeriod",
        ),
        (
            many(configuration(algorithmSource={}, podInitialBackoffSeconds=20)),
            "podMaxBackoffSeconds: 10 is less than podInitialBackoffSeconds, 20",
        ),
        (
            many(configuration(algorithmSource={}, clientConnection={"qps": "x"})),
            "policy.cfg: clientConnection.qps: 'x' is not a number",
        ),
        (
            many(configuration(algorithmSource={}, clientConnection={"qps": float("inf")})),
            "policy.cfg: clientConnection.qps: inf is not a number",
        ),
        (
            many(configuration(algorithmSource={}, leaderElection={"leaseDuration": "15"})),
            "policy.cfg: leaderElection.leaseDuration: '15' is not a duration such as 5s",
        ),
        (
            many(config_map("p", policy_cfg="kind: Policy\npredicates: 5")),
            "policy.cfg, ConfigMap p, policy.cfg: predicates: 5 is not a list",
        ),
    ],
)
def test_what_is_no_policy_is_told(content: str, problem: str, tmp_path: Path) -> None:
    """With file and place, and what it must be; never a traceback."""
    with pytest.raises(ConfigurationError) as caught:
        print_policy(content, tmp_path)
    assert problem in str(caught.value)
    assert "\n" not in caught.value.problems[0]
    assert len(caught.value.problems[0]) < 500


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    """With their place in the file."""
    (tmp_path / "latin").write_bytes(b"kind: Polic\xff")
    source = {"policy": {"file": {"path": str(tmp_path / "latin")}}}
    with pytest.raises(ConfigurationError, match=r"latin: is not UTF-8: byte 11"):
        print_policy(configuration(algorithmSource=source), tmp_path)


@pytest.mark.parametrize("file", ["absent", ".", "nul\0"])
def test_a_file_that_cannot_be_read_is_told(file: str, tmp_path: Path) -> None:
    """With the reason."""
    source = {"policy": {"file": {"path": str(tmp_path / file)}}}
    with pytest.raises(ConfigurationError, match="is not to be read here"):
        print_policy(configuration(algorithmSource=source), tmp_path)


WHOLE = configuration(
    algorithmSource={"policy": {"file": {"path": "policy.json"}}, "provider": "DefaultProvider"},
    leaderElection={"leaseDuration": "15s", "retryPeriod": "2s", "resourceLock": "leases"},
    clientConnection={"qps": 50.0, "burst": 100},
    policy=policy(
        predicates=[
            {"name": "a", "argument": {"labelsPresence": {"labels": ["a"], "presence": True}}},
            {"name": "b", "argument": {"serviceAffinity": {"labels": ["a"]}}},
        ],
        priorities=[
            {"name": "a", "weight": 1, "argument": {"labelPreference": {"label": "a"}}},
            {"name": "b", "weight": 1, "argument": {"serviceAntiAffinity": {"label": "a"}}},
            {"name": "c", "weight": 1, "argument": {"requestedToCapacityRatioArguments": RATIO}},
        ],
        extenders=[FULL_EXTENDER],
        hardPodAffinitySymmetricWeight=5,
    ),
)


def paths_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    members = list(value.items()) if isinstance(value, dict) else []
    members += enumerate(value) if isinstance(value, list) else ()
    return [path, *(it for key, member in members for it in paths_in(member, (*path, key)))]


def in_parts(whole: JSON) -> str:
    """Return the configuration, and its Policy in a ConfigMap."""
    parts = {key: value for key, value in whole.items() if key != "policy"}
    return many(parts, config_map("p", policy_json=json.dumps(whole.get("policy"))))


def replaced(value: Any, path: tuple[Any, ...], other: object) -> Any:
    """Return a copy in which what is at `path` is another."""
    if not path:
        return other
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], other)
    return copy


OTHERS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from([[], {}, [[]], [None], {"": None}, "Policy", "5s", "http://a", 10**30, -1]),
)


def test_the_whole_of_it_is_converted(tmp_path: Path) -> None:
    """So that what follows changes something right."""
    [extender] = loaded(print_policy(in_parts(WHOLE), tmp_path))["extenders"]
    assert extender["weight"] == 7


@given(st.lists(st.tuples(st.sampled_from(paths_in(WHOLE)[1:]), OTHERS), min_size=1, max_size=2))
def test_whatever_is_in_a_file_there_is_no_other_error(
    changes: list[tuple[tuple[Any, ...], object]],
) -> None:
    """A configuration that YAML can read, or what is wrong."""
    whole = WHOLE
    for path, other in changes:
        with contextlib.suppress(KeyError, IndexError, TypeError, AttributeError):
            whole = replaced(whole, path, other)
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(ConfigurationError):
        printed = print_policy(in_parts(whole), Path(folder))
        assert loaded(printed)["kind"] == "KubeSchedulerConfiguration"
        printed.text.encode()


@pytest.mark.parametrize(
    ("text", "nanoseconds", "back"),
    [
        ("0", 0, "0s"),
        ("5s", 5_000_000_000, "5s"),
        ("1m30s", 90_000_000_000, "90s"),
        ("1.5h", 5_400_000_000_000, "5400s"),
        ("500ms", 500_000_000, "500ms"),
        (".5us", 500, "500ns"),
        ("1\N{MICRO SIGN}s", 1_000, "1us"),
        ("10ns", 10, "10ns"),
    ],
)
def test_durations_are_read_as_go_reads_them(text: str, nanoseconds: int, back: str) -> None:
    """And written in one unit."""
    assert nanoseconds_of(text) == nanoseconds
    assert duration_text(nanoseconds) == back


@pytest.mark.parametrize("text", ["", "5", "s", "5 s", "-5s", "5s5", "1d", "99999999999h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """As Go refuses it, and below 0 too."""
    with pytest.raises(UnparsableError, match="is not a duration such as"):
        nanoseconds_of(text)
