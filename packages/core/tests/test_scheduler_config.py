"""The configuration for agents."""

import json
from typing import Any

import pytest
import yaml
from core_scheduler_config import loaded, print_agents

from kube_sched_ext.config import CoreSettings
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.scheduler_config.agents import AgentVerbs
from kube_sched_ext.scheduler_config.options import Options, problems_of
from kube_sched_ext.scheduler_config.printing import print_for

Change = dict[str, Any]


def extenders(*names: str, **options: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = loaded(print_agents(*names, **options))["extenders"]
    return found


def test_each_agent_has_an_extender_of_its_own() -> None:
    """On ports from 5401 on, with the verbs that it has."""
    assert loaded(print_agents("safe", "congestion")) == {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {
            "leaderElect": True,
            "resourceNamespace": "kube-system",
            "resourceName": "kube-scheduler",
        },
        "profiles": [{"schedulerName": "default-scheduler"}],
        "extenders": [
            {
                "urlPrefix": "http://127.0.0.1:5401/scheduler",
                "filterVerb": "predicates/safe-overload",
                "prioritizeVerb": "prioritize",
                "preemptVerb": "preemption",
                "weight": 5,
                "httpTimeout": "5s",
                "nodeCacheCapable": True,
                "ignorable": True,
            },
            {
                "urlPrefix": "http://127.0.0.1:5402/scheduler",
                "prioritizeVerb": "priorities/congestion",
                "weight": 5,
                "httpTimeout": "5s",
                "nodeCacheCapable": True,
                "ignorable": True,
            },
        ],
    }


@pytest.mark.parametrize(
    ("agent", "verbs"),
    [
        ("safe", ("predicates/safe-overload", "prioritize", "preemption")),
        ("congestion", (None, "priorities/congestion", None)),
        ("pigeon", ("predicates/pigeon-fits", "priorities/pigeon-holing", "preemption")),
        ("quiet", ("filter", None, "preemption")),
    ],
)
def test_verbs_are_those_of_the_agent(agent: str, verbs: tuple[str | None, ...]) -> None:
    """One predicate or priority by its own path, several in one call."""
    [extender] = extenders(agent)
    assert tuple(extender.get(f"{it}Verb") for it in ("filter", "prioritize", "preempt")) == verbs
    assert ("weight" in extender) == ("prioritizeVerb" in extender)


def test_together_they_are_one_extender() -> None:
    """Which one process serves on one port."""
    printed = print_agents("safe", "congestion", together=True, weights=("3",))
    [extender] = loaded(printed)["extenders"]
    assert extender["urlPrefix"] == "http://127.0.0.1:5401/scheduler"
    assert extender["filterVerb"] == "predicates/safe-overload"
    assert extender["prioritizeVerb"] == "prioritize"
    assert extender["weight"] == 3
    assert "serve safe congestion --http-port 5401" in printed.text
    assert "mean of safe-overload, safe-balance, congestion" in printed.text


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"weights": ("2", "congestion=9")}, {"weight": [2, 9]}),
        ({"timeouts": ("500ms",)}, {"httpTimeout": ["500ms", "500ms"]}),
        ({"timeouts": ("safe=1m30s",)}, {"httpTimeout": ["90s", "5s"]}),
        ({"node_cache": False}, {"nodeCacheCapable": [None, None]}),
        ({"ignorable": False}, {"ignorable": [None, None]}),
        ({"bind": "congestion"}, {"bindVerb": [None, "bind"]}),
        ({"priorities": ("safe-balance",)}, {"prioritizeVerb": ["priorities/safe-balance"]}),
        (
            {"url_prefixes": ("safe=http://safe:80/a/", "congestion=http://b")},
            {"urlPrefix": ["http://safe:80/a", "http://b"]},
        ),
        (
            {"managed_resources": ("safe=example.com/a", "safe=example.com/b:ignored")},
            {
                "managedResources": [
                    [
                        {"name": "example.com/a"},
                        {"name": "example.com/b", "ignoredByScheduler": True},
                    ],
                    None,
                ]
            },
        ),
        (
            {"tls_ca_file": "/ca", "tls_server_names": ("safe=safe.local",)},
            {
                "urlPrefix": [
                    "https://127.0.0.1:5401/scheduler",
                    "https://127.0.0.1:5402/scheduler",
                ],
                "enableHTTPS": [True, True],
                "tlsConfig": [{"serverName": "safe.local", "caFile": "/ca"}, {"caFile": "/ca"}],
            },
        ),
        (
            {"tls_ca_file": "/ca", "tls_cert_file": "/crt", "tls_key_file": "/key"},
            {"tlsConfig": [{"caFile": "/ca", "certFile": "/crt", "keyFile": "/key"}]},
        ),
        ({"tls_insecure": True}, {"tlsConfig": [{"insecure": True}]}),
    ],
)
def test_options_are_for_all_agents_or_for_one(options: Change, expected: Change) -> None:
    """VALUE, or AGENT=VALUE, which wins."""
    found = extenders("safe", "congestion", **options)
    for field, values in expected.items():
        assert [it.get(field) for it in found][: len(values)] == values


def test_settings_say_which_words_the_paths_have() -> None:
    """As the image article's, whose extender has paths of its own."""
    words = CoreSettings(path_prefix="/my_scheduler_extension", priorities_word="my_new_priorities")
    image = AgentVerbs("image", (), ("image_score", "image_locality"))
    options = Options(agents=("image",), priorities=("image_score",))
    [extender] = loaded(print_for(options, [image], words))["extenders"]
    assert extender["urlPrefix"] == "http://127.0.0.1:5401/my_scheduler_extension"
    assert extender["prioritizeVerb"] == "my_new_priorities/image_score"


@pytest.mark.parametrize(
    ("options", "lease"),
    [
        ({}, ("kube-system", "kube-scheduler")),
        ({"scheduler_names": ("my-scheduler",)}, ("kube-system", "my-scheduler")),
        ({"lease": "mine"}, ("kube-system", "mine")),
        ({"lease": "own/mine", "scheduler_names": ("x",)}, ("own", "mine")),
    ],
)
def test_a_second_scheduler_has_a_lease_of_its_own(options: Change, lease: tuple[str, str]) -> None:
    """It would wait for that of the first for ever."""
    election = loaded(print_agents("safe", **options))["leaderElection"]
    assert (election["resourceNamespace"], election["resourceName"]) == lease


def test_leader_election_can_be_off() -> None:
    """For a scheduler that is there once."""
    found = loaded(print_agents("safe", leader_election=False))["leaderElection"]
    assert found == {"leaderElect": False}


def test_each_scheduler_name_is_a_profile() -> None:
    """And the in-tree scores can be off in all of them."""
    printed = print_agents("safe", scheduler_names=("a", "b"), in_tree_scores=False)
    [first, second] = loaded(printed)["profiles"]
    assert (first["schedulerName"], second["schedulerName"]) == ("a", "b")
    assert first["plugins"] == second["plugins"]
    assert first["plugins"]["score"] == {"disabled": [{"name": "*"}]}
    assert {"name": "InterPodAffinity"} in first["plugins"]["preScore"]["disabled"]
    assert "there are no in-tree scores" in printed.text


def test_what_the_scheduler_itself_needs() -> None:
    """Its kubeconfig and how many nodes are enough, with a comment."""
    printed = print_agents("safe", kubeconfig="/etc/scheduler.conf", percentage_of_nodes=0)
    found = loaded(printed)
    assert found["clientConnection"] == {"kubeconfig": "/etc/scheduler.conf"}
    assert found["percentageOfNodesToScore"] == 0
    assert "only those are scored" in " ".join(printed.text.replace("#", "").split())


@pytest.mark.parametrize("version", ["v1", "v1beta3", "v1beta2"])
def test_comments_say_what_weights_mean(version: str) -> None:
    """Against the sum of the in-tree scores of that version."""
    text = print_agents("safe", weights=("7",), api_version=version).text
    total = 800 if version == "v1beta2" else 1200
    assert f"counts 0..700, ten times its weight; the in-tree scores sum to {total}" in text
    assert yaml.safe_load(text)["apiVersion"] == f"kubescheduler.config.k8s.io/{version}"


def test_comments_tell_how_to_serve_the_agents() -> None:
    """With the ports that the configuration calls, unless others were given."""
    text = print_agents("safe", "congestion", bind="congestion").text
    assert "# NODE_CACHE=true kube-sched-ext serve safe --http-port 5401" in text.replace(
        "   ", " "
    )
    assert "NODE_CACHE=true BIND=true kube-sched-ext serve congestion --http-port 5402" in text
    assert "http-port" not in print_agents("safe", url_prefixes=("http://safe",)).text


@pytest.mark.parametrize(
    ("names", "options", "problem"),
    [
        (("safe",), {"weights": ("0",)}, "--weight: '0' is not an integer from 1 to 2147483647"),
        (("safe",), {"weights": ("x",)}, "--weight: 'x' is not an integer"),
        (
            ("safe",),
            {"weights": ("pigeon=2",)},
            "--weight: 'pigeon' is none of the agents given: s",
        ),
        (("safe",), {"timeouts": ("5",)}, "--timeout: '5' is not a duration such as 5s"),
        (("safe",), {"timeouts": ("0s",)}, "--timeout: '0s' is not a duration above 0"),
        (
            ("safe",),
            {"url_prefixes": ("localhost:80",)},
            "--url-prefix: 'localhost:80' is not http",
        ),
        (("safe",), {"url_prefixes": ("https://a",)}, "'https://a' needs --tls-ca-file, or"),
        (
            ("safe",),
            {"url_prefixes": ("http://a",), "tls_ca_file": "/ca"},
            "--url-prefix: 'http://a' is not https://, as TLS asks",
        ),
        (("safe",), {"tls_cert_file": "/crt", "tls_ca_file": "/ca"}, "one is missing; both or"),
        (("safe",), {"tls_insecure": True, "tls_ca_file": "/ca"}, "has no use with --tls-ca-file"),
        (("safe",), {"tls_server_names": ("a",)}, "need --tls-ca-file or --tls-insecure"),
        (("safe",), {"bind": "pigeon"}, "--bind: 'pigeon' is none of the agents given: safe"),
        (("safe",), {"managed_resources": ("safe=cpu",)}, "'cpu' is not the name of an extended"),
        (("safe",), {"managed_resources": ("cpu",)}, "'cpu' is none of the agents given"),
        (
            ("safe", "congestion"),
            {"managed_resources": ("safe=a.b/c", "congestion=a.b/c")},
            "extenders[1].managedResources[0].name: 'a.b/c' is managed by extenders[0] already",
        ),
        (("safe",), {"lease": "A/B/C"}, "--lease: 'A/B/C' is not NAME or NAMESPACE/NAME"),
        (("safe",), {"lease": "a", "leader_election": False}, "--lease: has no use with --no-"),
        (("safe",), {"priorities": ("safe-blance",)}, "did you mean safe-balance? known are"),
        (
            ("safe", "congestion"),
            {"weights": ("safe=2",), "together": True},
            "--weight: 'safe=2' names an agent; --together has one extender",
        ),
        (
            ("safe", "congestion"),
            {"url_prefixes": ("http://one:80",)},
            "http://one:80 serves safe and congestion, so the verbs of safe have no path",
        ),
    ],
)
def test_what_is_wrong_is_told(names: tuple[str, ...], options: Change, problem: str) -> None:
    """With its option, its value and what is allowed."""
    with pytest.raises(ConfigurationError) as caught:
        print_agents(*names, **options)
    assert problem in str(caught.value)


def test_some_of_three_priorities_cannot_be_asked_in_one_call() -> None:
    """Only one of them, or all: the agent weighs them."""
    many = AgentVerbs("many", (), ("a", "b", "c"))
    options = Options(agents=("many",), priorities=("a", "b"))
    with pytest.raises(ConfigurationError, match="a, b are some of the priorities of many"):
        print_for(options, [many], CoreSettings())


def test_one_process_can_serve_agents_with_a_path_for_each() -> None:
    """Where no agent has two verbs of a kind."""
    found = extenders("pigeon", "congestion", url_prefixes=("http://one:80/scheduler",))
    assert [it["urlPrefix"] for it in found] == ["http://one:80/scheduler"] * 2


def test_everything_wrong_is_told_at_once() -> None:
    """Not one after the other."""
    with pytest.raises(ConfigurationError) as caught:
        print_agents("safe", weights=("x",), timeouts=("y",), bind="z")
    assert len(caught.value.problems) == 3


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({}, "AGENT: none is given"),
        ({"policy": "p", "weights": ("1",)}, "--weight: is about agents, and none is given"),
        ({"policy": "p", "in_tree_scores": False}, "--no-in-tree-scores: the priorities of"),
        (
            {"agents": ("a",), "together": True, "priorities": ("p",)},
            "--priority: with --together PRIORITY_WEIGHTS of the process weighs them",
        ),
        ({"agents": ("a",), "legacy": True, "policy": "p"}, "--policy: is no part of a Policy"),
        ({"agents": ("a",), "legacy": True, "lease": "p"}, "--lease: is no part of a Policy"),
        ({"agents": ("a",), "scheduler_names": ("a", "a")}, "--scheduler-name: one is given twice"),
        ({"agents": ("a",), "scheduler_names": ("",)}, "--scheduler-name: '' is not a name"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: Change, problem: str) -> None:
    """Rather than left unread."""
    assert any(it.startswith(problem) for it in problems_of(Options(**options)))


def test_legacy_prints_a_policy() -> None:
    """In JSON, as schedulers up to 1.22 take it, with its use told beside it."""
    printed = print_agents(
        "safe",
        "congestion",
        legacy=True,
        timeouts=("500ms",),
        tls_insecure=True,
        managed_resources=("congestion=a.b/c:ignored",),
    )
    assert json.loads(printed.text) == {
        "kind": "Policy",
        "apiVersion": "v1",
        "extenders": [
            {
                "urlPrefix": "https://127.0.0.1:5401/scheduler",
                "filterVerb": "predicates/safe-overload",
                "prioritizeVerb": "prioritize",
                "preemptVerb": "preemption",
                "weight": 5,
                "enableHttps": True,
                "tlsConfig": {"insecure": True},
                "httpTimeout": 500_000_000,
                "nodeCacheCapable": True,
                "ignorable": True,
            },
            {
                "urlPrefix": "https://127.0.0.1:5402/scheduler",
                "prioritizeVerb": "priorities/congestion",
                "weight": 5,
                "enableHttps": True,
                "tlsConfig": {"insecure": True},
                "httpTimeout": 500_000_000,
                "nodeCacheCapable": True,
                "managedResources": [{"name": "a.b/c", "ignoredByScheduler": True}],
                "ignorable": True,
            },
        ],
    }
    [use] = printed.remarks
    assert "--policy-config-file" in use
    assert "algorithmSource" in use


def test_legacy_without_in_tree_scores_has_no_priorities() -> None:
    """An empty list means none; no list means the defaults."""
    printed = print_agents("safe", legacy=True, in_tree_scores=False)
    assert json.loads(printed.text)["priorities"] == []
