"""The real kube-scheduler takes what is printed, and does with it what the Policy said.

`--write-config-to` ends it as soon as it has made the scheduler of its configuration, which needs
no cluster; at `-v=2` it logs which plugins are left at each point.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from core_scheduler_config import (
    FULL_EXTENDER,
    JSON,
    PUBLISHED,
    RATIO,
    policy,
    print_agents,
    print_policy,
)

from kube_sched_ext.scheduler_config.mapping import PREDICATES, PRIORITIES
from kube_sched_ext.scheduler_config.printing import Printed

BINARY = os.environ.get("KUBE_SCHED_EXT_CONTROLPLANE", "")
pytestmark = [
    pytest.mark.control_plane,
    pytest.mark.skipif(not BINARY, reason="KUBE_SCHED_EXT_CONTROLPLANE names no control plane"),
]


def start(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Let kube-scheduler read a configuration, and no more."""
    (folder / "config.yaml").write_text(text)
    return subprocess.run(
        [
            *(BINARY, "kube-scheduler", "--config", str(folder / "config.yaml"), "-v=2"),
            *("--write-config-to", str(folder / "written.yaml"), "--secure-port", "0"),
            *("--master", "http://127.0.0.1:1"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def taken(printed: Printed, folder: Path) -> dict[str, list[str]]:
    """Check that the configuration is taken; returns the plugins by point."""
    result = start(printed.text, folder)
    assert result.returncode == 0, result.stderr + printed.text
    assert (folder / "written.yaml").exists()
    logged = next(line for line in result.stderr.splitlines() if "starts to work with" in line)
    plugins = json.loads(logged.partition(" Plugins=")[2])
    return {
        point: [it["Name"] for it in plugin_set["Enabled"] or ()]
        for point, plugin_set in plugins.items()
    }


def test_a_wrong_configuration_is_not_taken(tmp_path: Path) -> None:
    """Or the tests here would prove nothing."""
    text = print_agents("safe").text
    changes = {"filterVerb": "filtreVerb", "weight: 5": "weight: 0", "v1\n": "v0\n"}
    for right, wrong in changes.items():
        assert right in text
        assert start(text.replace(right, wrong, 1), tmp_path).returncode != 0


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (("safe",), {}),
        (("safe", "congestion", "pigeon"), {}),
        (("safe", "congestion"), {"together": True, "in_tree_scores": False}),
        (("safe", "congestion"), {"scheduler_names": ("a", "b"), "leader_election": False}),
        (("safe",), {"bind": "safe", "percentage_of_nodes": 0, "lease": "own/lock"}),
        (("safe",), {"managed_resources": ("safe=a.b/c:ignored",), "in_tree_scores": False}),
        (("safe",), {"tls_insecure": True, "tls_server_names": ("safe.local",)}),
    ],
)
def test_what_agents_need_is_taken(
    names: tuple[str, ...], options: dict[str, Any], tmp_path: Path
) -> None:
    """With any option."""
    taken(print_agents(*names, **options), tmp_path)


def test_without_in_tree_scores_none_is_left(tmp_path: Path) -> None:
    """And all filters are."""
    plugins = taken(print_agents("safe", in_tree_scores=False), tmp_path)
    assert plugins["Score"] == []
    assert "NodeResourcesFit" in plugins["Filter"]


@pytest.mark.parametrize("name", sorted(PREDICATES))
def test_each_predicate_is_taken(name: str, tmp_path: Path) -> None:
    """Alone; what is left are its filters, the mandatory ones, and those no Policy knew."""
    plugins = taken(print_policy(policy(predicates=[{"name": name}]), tmp_path), tmp_path)
    expected = {*PREDICATES[name].plugins, "TaintToleration", "NodeUnschedulable"}
    assert set(plugins["Filter"]) - {"DynamicResources", "NodeDeclaredFeatures"} == expected
    assert ("VolumeBinding" in plugins["Reserve"]) == ("VolumeBinding" in expected)


@pytest.mark.parametrize("name", sorted(PRIORITIES))
def test_each_priority_is_taken(name: str, tmp_path: Path) -> None:
    """Alone; its score is the only one."""
    listed = policy(priorities=[{"name": name, "weight": 3}])
    plugins = taken(print_policy(listed, tmp_path), tmp_path)
    plugin = PRIORITIES[name].plugin
    assert plugins["Score"] == ([plugin] if plugin else [])
    assert "NodeResourcesFit" in plugins["Filter"]


PRIORITIES_OF_ONES_OWN: list[JSON] = [
    {"name": "a", "weight": 2, "argument": {"labelPreference": {"label": "ssd", "presence": True}}},
    {"name": "b", "weight": 2, "argument": {"serviceAntiAffinity": {"label": "a.b/rack"}}},
    {"name": "c", "weight": 2, "argument": {"requestedToCapacityRatioArguments": RATIO}},
    {"name": "SelectorSpreadPriority", "weight": 1},
]


@pytest.mark.parametrize(
    "content",
    [
        PUBLISHED,
        policy(),
        policy(predicates=[], priorities=[]),
        policy(predicates=[{"name": name} for name in PREDICATES]),
        policy(priorities=[{"name": name, "weight": 2147483647} for name in PRIORITIES]),
        policy(priorities=PRIORITIES_OF_ONES_OWN),
        policy(
            predicates=[
                {"argument": {"labelsPresence": {"labels": ["a", "b.c/d"], "presence": it}}}
                for it in (True, False)
            ],
        ),
        policy(extenders=[FULL_EXTENDER], predicates=[], priorities=[]),
        policy(extenders=[{"urlPrefix": "http://a", "bindVerb": "1e3", "filterVerb": "on"}]),
        policy(hardPodAffinitySymmetricWeight=100),
        {
            "apiVersion": "componentconfig/v1alpha1",
            "kind": "KubeSchedulerConfiguration",
            "algorithmSource": {"provider": "ClusterAutoscalerProvider"},
            "bindTimeoutSeconds": 0,
            "disablePreemption": True,
            "percentageOfNodesToScore": 100,
            "leaderElection": {"leaseDuration": "15s", "lockObjectName": "mine"},
            "clientConnection": {"qps": 0.5, "burst": 1, "contentType": "application/json"},
        },
    ],
)
def test_whole_policies_are_taken(content: object, tmp_path: Path) -> None:
    """As they are published, and with all there may be in them."""
    taken(print_policy(content, tmp_path), tmp_path)


def test_an_agent_beside_a_policy_is_taken(tmp_path: Path) -> None:
    """Its ignored resource needs arguments of a plugin that the Policy turned off."""
    resources = ("safe=example.com/gpu:ignored",)
    content = policy(predicates=[], priorities=[])
    taken(print_policy(content, tmp_path, "safe", managed_resources=resources), tmp_path)


def test_extenders_by_tls_are_taken_where_their_files_are(tmp_path: Path) -> None:
    """kube-scheduler reads them at its start."""
    trustme = pytest.importorskip("trustme")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca"))
    own = authority.issue_cert("kube-scheduler")
    own.cert_chain_pems[0].write_to_path(str(tmp_path / "crt"))
    own.private_key_pem.write_to_path(str(tmp_path / "key"))
    files = {f"tls_{kind}_file": str(tmp_path / kind[:3]) for kind in ("ca", "key")}
    printed = print_agents("safe", tls_cert_file=str(tmp_path / "crt"), **files)
    taken(printed, tmp_path)
    (tmp_path / "ca").unlink()
    assert start(printed.text, tmp_path).returncode != 0
