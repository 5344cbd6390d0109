"""Bound pods are counted as kube-scheduler counts them; cases as in component-helpers."""

import json
from typing import Any

import pytest

from kube_sched_ext_cluster.objects import BoundPod, read_bound_pod

JSON = dict[str, Any]
INFEASIBLE = {"type": "PodResizePending", "reason": "Infeasible"}
SCHEDULED = {
    "type": "PodScheduled",
    "status": "True",
    "lastTransitionTime": "2026-01-01T00:01:00Z",
}
DEFERRED = {"type": "PodResizePending", "reason": "Deferred"}


def requests(cpu: str = "", memory: str = "", **more: str) -> JSON:
    """Return quantities."""
    return {key: value for key, value in {"cpu": cpu, "memory": memory, **more}.items() if value}


def container(name: str = "c", *, sidecar: bool = False, **wanted: str) -> JSON:
    """Return a container."""
    it = {"name": name, "image": f"{name}:1", "resources": {"requests": requests(**wanted)}}
    return it | ({"restartPolicy": "Always"} if sidecar else {})


def held(name: str = "c", actual: JSON | None = None, allocated: JSON | None = None) -> JSON:
    """Return a container's status."""
    it: JSON = {"name": name, "image": "x", "restartCount": 0}
    if actual is not None:
        it["resources"] = {"requests": actual}
    if allocated is not None:
        it["allocatedResources"] = allocated
    return it


def read(spec: JSON, status: JSON | None = None, **meta: object) -> BoundPod:
    """Return the pod as it is read."""
    metadata = {"name": "web", "namespace": "shop", "uid": "u1", "resourceVersion": "5"} | meta
    pod = {"metadata": metadata, "spec": {"nodeName": "n1"} | spec, "status": status or {}}
    return read_bound_pod(json.dumps(pod).encode())


C100 = [container(cpu="100m", memory="100Mi")]
MI = 1 << 20


@pytest.mark.parametrize(
    ("spec", "status", "cpu", "memory"),
    [
        pytest.param({"containers": C100}, None, 100, 100 * MI, id="no status"),
        pytest.param(
            {"containers": C100}, {"containerStatuses": [held()]}, 100, 100 * MI, id="not reported"
        ),
        pytest.param(
            {"containers": C100},
            {"containerStatuses": [held(allocated=requests("900m"))]},
            100,
            100 * MI,
            id="allocated alone does not count without actual resources",
        ),
        pytest.param(
            {"containers": C100},
            {"containerStatuses": [held(actual=requests("300m"), allocated=requests("200m"))]},
            300,
            100 * MI,
            id="shrinking: actual is largest",
        ),
        pytest.param(
            {"containers": C100},
            {"containerStatuses": [held(actual={}, allocated=requests("50m", "2Gi"))]},
            100,
            2048 * MI,
            id="each resource by itself",
        ),
        pytest.param(
            {"containers": C100},
            {"containerStatuses": [held(actual=requests("0.1"), allocated=requests("1e-1"))]},
            100,
            100 * MI,
            id="one amount in three notations",
        ),
        pytest.param(
            {"containers": [container(cpu="2")]},
            {
                "conditions": [DEFERRED],
                "containerStatuses": [held(actual=requests("1"), allocated=requests("1"))],
            },
            2000,
            0,
            id="deferred: what is wanted counts",
        ),
        pytest.param(
            {"containers": [container(cpu="2")]},
            {
                "conditions": [{"type": "Ready", "reason": "Infeasible"}, INFEASIBLE],
                "containerStatuses": [held(actual=requests("1"), allocated=requests("500m"))],
            },
            1000,
            0,
            id="infeasible: what is wanted will never be",
        ),
        pytest.param(
            {"containers": [container(cpu="2")]},
            {
                "conditions": [DEFERRED, INFEASIBLE],
                "containerStatuses": [held(actual=requests("1"))],
            },
            2000,
            0,
            id="the first such condition decides",
        ),
        pytest.param(
            {"containers": [container(cpu="2"), container("d", cpu="1")]},
            {"conditions": [INFEASIBLE], "containerStatuses": [held(actual={}, allocated={})]},
            1000,
            0,
            id="infeasible and nothing held: nothing counts",
        ),
        pytest.param(
            {"containers": [container()]},
            {"containerStatuses": [held(actual=requests("1"))]},
            1000,
            0,
            id="held though not asked for",
        ),
        pytest.param(
            {"containers": C100, "initContainers": [container("i", cpu="1")]},
            {"initContainerStatuses": [held("i", actual=requests("5"))]},
            1000,
            100 * MI,
            id="init containers count as written",
        ),
        pytest.param(
            {
                "containers": C100,
                "initContainers": [container("s", sidecar=True, cpu="1"), container("i", cpu="1")],
            },
            {"initContainerStatuses": [held("s", actual=requests("3"))]},
            4000,
            100 * MI,
            id="sidecars count as held",
        ),
        pytest.param(
            {"containers": C100, "resources": {"requests": requests("1")}},
            {"containerStatuses": [held(actual=requests("7"))]},
            1000,
            100 * MI,
            id="pod level replaces containers",
        ),
        pytest.param(
            {"containers": C100, "resources": {"requests": requests("1")}},
            {
                "resources": {"requests": requests("2", "9Gi")},
                "allocatedResources": requests("3"),
            },
            3000,
            100 * MI,
            id="pod level as held, of what it names",
        ),
        pytest.param(
            {"containers": C100, "resources": {"requests": requests("4", "1Gi")}},
            {
                "conditions": [INFEASIBLE],
                "resources": {"requests": requests("2")},
                "allocatedResources": requests("1"),
            },
            2000,
            0,
            id="pod level infeasible",
        ),
        pytest.param(
            {"containers": C100, "resources": {"requests": requests("4")}},
            {"allocatedResources": requests("9")},
            4000,
            100 * MI,
            id="pod level allocated alone does not count",
        ),
        pytest.param(
            {"containers": C100, "overhead": requests("10m", "1Mi")},
            {"containerStatuses": [held(actual=requests("200m"))]},
            210,
            101 * MI,
            id="overhead on top",
        ),
        pytest.param(
            {"containers": None, "initContainers": None},
            {"containerStatuses": None, "conditions": None, "resources": None},
            0,
            0,
            id="nulls",
        ),
    ],
)
def test_a_bound_pod_counts_as_the_larger_of_what_it_asks_and_holds(
    spec: JSON, status: JSON | None, cpu: int, memory: int
) -> None:
    """By container or by pod, except where the node has said that it will never be."""
    demand = read(spec, status).demand
    assert (demand.cpu, demand.memory) == (cpu, memory)
    assert demand.unparsable == ()


def test_what_does_not_parse_counts_as_missing() -> None:
    """Wherever it stands, and it is told."""
    status = {"containerStatuses": [held(actual=requests("lots"), allocated=requests("1"))]}
    demand = read({"containers": C100}, status).demand
    assert demand.cpu == 0
    assert demand.memory == 100 * MI
    assert [it.value for it in demand.unparsable] == ["lots"]


def test_a_bound_pod_is_named_and_has_a_place() -> None:
    """What a view needs to find it."""
    spec = {
        "containers": C100,
        "initContainers": [container("i")],
        "ephemeralContainers": [{"name": "e", "image": "debug:2"}],
    }
    pod = read(spec, {"phase": "Running"})
    assert str(pod) == "shop/web"
    assert (pod.uid, pod.node, pod.phase, pod.is_deleting) == ("u1", "n1", "Running", False)
    assert pod.images == ("c:1", "i:1", "debug:2")
    assert read({}, deletionTimestamp="2026-01-01T00:00:00Z").is_deleting


@pytest.mark.parametrize(
    ("conditions", "bound_at"),
    [
        ([], 1767225600.0),
        ([SCHEDULED | {"status": "False"}], 1767225600.0),
        ([SCHEDULED | {"lastTransitionTime": None}], 1767225600.0),
        ([DEFERRED, SCHEDULED], 1767225660.0),
    ],
)
def test_a_bound_pod_tells_since_when(conditions: list[JSON], bound_at: float) -> None:
    """Since it was scheduled, or made where nobody told."""
    pod = read({}, {"conditions": conditions}, creationTimestamp="2026-01-01T00:00:00Z")
    assert pod.bound_at == bound_at
    assert read({}, creationTimestamp=None).bound_at == 0.0


def test_equal_demands_are_one() -> None:
    """Thousands of pods of one kind share it."""
    assert read({"containers": C100}).demand is read({"containers": C100}, uid="u2").demand
