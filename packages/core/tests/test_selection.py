"""Which pods agents are asked about."""

import json
from typing import Any

import numpy as np
import pytest

from kube_sched_ext import Agent, Nodes, NoSettings, Pod, Scores, Verdict, predicate, priority
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.errors import UnparsableError
from kube_sched_ext.instruments import Instruments
from kube_sched_ext.selection import parse_selector
from kube_sched_ext.verbs import Verbs, new_table
from kube_sched_ext.wire import decode_args, decode_preemption_args, encode
from kube_sched_ext_testkit.ask import read_pod
from kube_sched_ext_testkit.builders import make_node, make_pod

LABELS = {"app": "web", "tier": "front", "example.com/team": "a-1", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        ("app = web", True),
        ("app=db", False),
        ("app!=db", True),
        ("app!=web", False),
        ("gone!=x", True),
        ("app", True),
        ("gone", False),
        ("!gone", True),
        ("! app", False),
        ("app in (web, db)", True),
        ("app in(web)", True),
        ("app in (db)", False),
        ("app notin (db,x)", True),
        ("app notin (web)", False),
        ("gone notin (x)", True),
        ("gone in (x)", False),
        ("empty=", True),
        ("empty in ()", True),
        ("example.com/team=a-1", True),
        (" app=web , tier in (front,back) ,!gone", True),
        ("app=web,tier=back", False),
    ],
)
def test_a_selector_matches_as_kubectl_has_it(selector: str, *, expected: bool) -> None:
    """All requirements must be met; a label that is not there is none of any values."""
    assert all(it.matches(LABELS) for it in parse_selector(selector)) == expected


@pytest.mark.parametrize(
    "selector",
    [
        "=web",
        "app=web tier=x",
        "app in web",
        "app in (a",
        "app>1",
        ",app",
        "app,",
        "a b",
        "!",
        "-a=b",
    ],
)
def test_what_is_no_selector_is_refused(selector: str) -> None:
    """With an example of one."""
    with pytest.raises(UnparsableError, match="label selector"):
        parse_selector(selector)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, True),
        ({"only_namespaces": "a, team"}, True),
        ({"only_namespaces": "a"}, False),
        ({"except_namespaces": "team"}, False),
        ({"only_schedulers": "mine"}, True),
        ({"only_schedulers": "default-scheduler"}, False),
        ({"except_schedulers": "mine,other"}, False),
        ({"only_labels": "app=web"}, True),
        ({"only_labels": "app=db"}, False),
        ({"except_labels": "app"}, False),
        ({"only_namespaces": "team", "only_labels": "app=db"}, False),
        ({"only_namespaces": "team", "except_labels": "app=db"}, True),
    ],
)
def test_a_pod_is_selected_by_all_of_only_and_none_of_except(
    settings: dict[str, str], *, expected: bool
) -> None:
    """Namespace, scheduler and labels."""
    pod = make_pod(namespace="team", labels={"app": "web"}, spec={"schedulerName": "mine"})
    assert CoreSettings(**settings).selects(read_pod(pod)) == expected  # type: ignore[arg-type]


def test_a_pod_without_namespace_and_scheduler_has_the_defaults() -> None:
    """As the apiserver fills them in."""
    settings = CoreSettings(only_namespaces="default", only_schedulers="default-scheduler")
    assert settings.selects(Pod())


@pytest.mark.parametrize("name", ["only_labels", "except_labels"])
def test_a_wrong_selector_is_told_with_its_setting(name: str) -> None:
    """At start."""
    with pytest.raises(ValueError, match=f"{name.upper()}: 'x y' is not a label selector"):
        CoreSettings(**{name: "x y"})  # type: ignore[arg-type]


class Strict(Agent[NoSettings]):
    """Rejects every node, and must not be asked."""

    name = "strict"

    @predicate("strict")
    def rejects(self, pod: Pod, nodes: Nodes) -> Verdict:
        """Reject all."""
        return Verdict({"no": np.ones(len(nodes), np.bool_)})

    @priority("strict")
    def likes(self, pod: Pod, nodes: Nodes) -> Scores:
        """Fail."""
        raise AssertionError


@pytest.fixture
def verbs(recorder: Any) -> Verbs:
    """Answer for pods that are not in kube-system."""
    instruments: Instruments = recorder.instruments
    agents = [Strict()]
    settings = CoreSettings(except_namespaces="kube-system", unknown_nodes="drop")
    return Verbs(agents, new_table(agents, instruments.problems), settings, instruments)


SYSTEM_POD = make_pod(namespace="kube-system")


def test_other_pods_keep_every_node_and_have_no_scores(verbs: Verbs) -> None:
    """By names."""
    body = json.dumps({"Pod": SYSTEM_POD, "NodeNames": ["a", "b"]}).encode()
    args = decode_args(body)
    result = verbs.filter([it for agent in verbs.agents for it in agent.predicates], args)
    assert result.node_names == ["a", "b"]
    assert result.failed_and_unresolvable_nodes == {}
    priorities = [it for agent in verbs.agents for it in agent.priorities]
    assert verbs.prioritize(priorities, args) == []


def test_other_pods_keep_whole_nodes_untouched(verbs: Verbs) -> None:
    """Byte by byte."""
    body = {"Pod": SYSTEM_POD, "Nodes": {"items": [make_node("a"), {"anything": 1}]}}
    args = decode_args(json.dumps(body).encode())
    predicates = [it for agent in verbs.agents for it in agent.predicates]
    result = verbs.filter(predicates, args)
    assert args.nodes is not None
    assert encode(result.nodes) == encode(args.nodes)


def test_other_pods_keep_all_candidates_for_preemption(verbs: Verbs) -> None:
    """But for nodes without victims, which would fail it."""
    victims = {"a": {"Pods": [{"UID": "u"}]}, "b": {"Pods": []}}
    body = json.dumps({"Pod": SYSTEM_POD, "NodeNameToMetaVictims": victims}).encode()
    predicates = [it for agent in verbs.agents for it in agent.predicates]
    result = verbs.preempt(predicates, decode_preemption_args(body))
    assert list(result.node_name_to_meta_victims) == ["a"]
