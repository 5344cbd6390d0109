"""What is rendered is accepted: by helm's linter, the apiserver, custom resources' types."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from control_plane import ADMIN, ControlPlane, RefusedError
from deploy_plane import Rig, known
from deploy_programs import check_strictly, lint, notes, rendered, workload
from deploy_sets import SAFE, SERVICE, SETS
from render import agents_of_chart, nested, values

ROOT = Path(__file__).parents[2]
ON_HOST_NETWORK = ("service by node port", "service on the host network")


@pytest.fixture(scope="session")
def restricted(control_plane: ControlPlane) -> str:
    """A namespace with the strictest pod security level."""
    name = "restricted"
    labels = {"pod-security.kubernetes.io/enforce": name}
    meta = {"metadata": {"name": name, "labels": labels}}
    control_plane.api("POST", "/api/v1/namespaces", meta)
    return name


@pytest.mark.parametrize("name", SETS)
def test_helm_finds_nothing_wrong(name: str) -> None:
    """Neither errors nor warnings."""
    assert "0 chart(s) failed" in lint(SETS[name])


@pytest.mark.parametrize("name", SETS)
def test_the_apiserver_accepts_every_object(rig: Rig, restricted: str, name: str) -> None:
    """And knows each of its fields; custom resources decode into their published types."""
    for item in rendered(SETS[name], restricted):
        if known(item["kind"]):
            rig.accepts(item)
        else:
            check_strictly(yaml.safe_dump(item))


def pod_of(name: str, namespace: str) -> dict[str, object]:
    """Return a pod as the workload's controller would create it."""
    made = workload(rendered(SETS[name], namespace))["spec"]["template"]
    meta = made["metadata"] | {"name": "made-from-template", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": made["spec"]}


@pytest.mark.parametrize("name", sorted(set(SETS) - set(ON_HOST_NETWORK)))
def test_pods_keep_the_restricted_profile(rig: Rig, restricted: str, name: str) -> None:
    """The namespace enforces it; admission of workloads would only warn, so a pod is created."""
    rig.accepts(pod_of(name, restricted))


@pytest.mark.parametrize("name", ON_HOST_NETWORK)
def test_the_host_network_is_all_that_is_not_restricted(
    rig: Rig, restricted: str, name: str
) -> None:
    """The two options that need it are refused for nothing else."""
    with pytest.raises(RefusedError) as refused:
        rig.accepts(pod_of(name, restricted))
    violations = str(refused.value).partition("restricted:latest")[2]
    assert "host namespaces (hostNetwork=true)" in violations
    assert "hostPort" in violations
    for other in ("allowPrivilegeEscalation", "capabilities", "runAs", "seccomp", "volume"):
        assert other not in violations


def test_the_chart_knows_the_agents_of_the_workspace() -> None:
    """An agent without an entry in the values could not be installed by its name."""
    folders = {path.parent.name for path in (ROOT / "agents").glob("*/pyproject.toml")}
    assert set(agents_of_chart()) == folders


def test_the_chart_has_the_version_of_the_packages() -> None:
    """Its images are tagged with it."""
    chart = yaml.safe_load((ROOT / "deploy" / "chart" / "Chart.yaml").read_text())
    project = (ROOT / "packages" / "core" / "pyproject.toml").read_text()
    assert chart["version"] == chart["appVersion"]
    assert f'version = "{chart["version"]}"' in project


def test_the_types_refuse_what_they_do_not_know() -> None:
    """So that a slip in a custom resource is seen."""
    meta = {"apiVersion": "monitoring.coreos.com/v1", "kind": "ServiceMonitor"}
    monitor = meta | {"spec": {"selector": {}, "endpoints": [{"prot": "safe"}]}}
    with pytest.raises(AssertionError, match='unknown field "prot"'):
        check_strictly(yaml.safe_dump(monitor))


def test_every_value_is_tried() -> None:
    """Each is in at least one of the sets."""
    tried = {
        re.sub(r"^agents\.\w+\.", "agentDefaults.", path)
        for given in SETS.values()
        for path in paths(given)
    }
    assert [path for path, default, _ in values() if default and path not in tried] == []


def paths(given: Mapping[str, object]) -> set[str]:
    """Return the dotted paths of values, groups and single ones."""
    found = set()

    def walk(group: Mapping[str, object], prefix: str) -> None:
        for name, value in group.items():
            found.add(prefix + name)
            if isinstance(value, dict):
                walk(value, f"{prefix}{name}.")

    walk(nested(given), "")
    return found


WARNED = [
    (SERVICE | {"agents.safe.ignorable": False}, "agents.safe.ignorable is false: while it does"),
    (SAFE | {"nodeCache": False}, "agents.safe.filterVerb with nodeCache: false leaves"),
    (SERVICE | {"agents.safe.bind": True}, "agents.safe.bind is true without tls.clients.required"),
]


@pytest.mark.parametrize(("given", "words"), WARNED, ids=[words for _, words in WARNED])
def test_what_is_dangerous_is_said_after_installing(
    control_plane: ControlPlane, given: dict[str, object], words: str
) -> None:
    """Not refused: there are clusters for it."""
    access = control_plane.kubeconfig(ADMIN)
    assert f"WARNING: {words}" in notes(given, access)


@pytest.mark.parametrize("given", [SAFE, SERVICE], ids=["scheduler", "service"])
def test_nothing_is_dangerous_by_default(
    control_plane: ControlPlane, given: dict[str, object]
) -> None:
    """And the ports are told."""
    told = notes(given, control_plane.kubeconfig(ADMIN))
    assert "safe (5401)" in told
    assert "WARNING" not in told
