"""What the rendered service account may do: what is switched on, and nothing else."""

from collections.abc import Callable

import pytest
from control_plane import JSON, Api, RefusedError
from deploy_plane import Rig
from deploy_programs import rendered

SAFE = {"agents.safe.enabled": True}
SERVICE = SAFE | {"shape": "service"}
BIND = {"agents.safe": {"enabled": True, "bind": True}}
NUDGE = {"agents.safe": {"enabled": True, "nudge": True}}
OFF = {"nodeCache": False}

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
BINDING = "/api/v1/namespaces/default/pods/missing/binding"

REQUESTS: dict[str, tuple[str, str, JSON | None]] = {
    "list nodes": ("GET", NODES, None),
    "watch nodes": ("GET", f"{NODES}?watch=true&timeoutSeconds=1", None),
    "get a node": ("GET", f"{NODES}/missing", None),
    "list pods": ("GET", PODS, None),
    "watch pods": ("GET", f"{PODS}?watch=true&timeoutSeconds=1", None),
    "get a pod": ("GET", "/api/v1/namespaces/default/pods/missing", None),
    "bind a pod": (
        "POST",
        BINDING,
        {"metadata": {"name": "missing"}, "target": {"kind": "Node", "name": "missing"}},
    ),
    "patch a node": ("PATCH", f"{NODES}/missing", {"metadata": {"annotations": {"a": "b"}}}),
    "get its Lease": ("GET", f"{LEASES}/it", None),
    "list events": ("GET", "/api/v1/namespaces/default/events", None),
    "get another Lease": ("GET", f"{LEASES}/another", None),
    "delete a pod": ("DELETE", "/api/v1/namespaces/default/pods/missing", None),
    "delete a node": ("DELETE", f"{NODES}/missing", None),
    "list secrets": ("GET", "/api/v1/secrets", None),
    "list configmaps": ("GET", "/api/v1/namespaces/kube-system/configmaps", None),
    "create a pod": (
        "POST",
        "/api/v1/namespaces/default/pods",
        {"metadata": {"name": "made"}, "spec": {"containers": [{"name": "a", "image": "a"}]}},
    ),
}
WATCH = {f"{verb} {what}" for verb in ("list", "watch") for what in ("nodes", "pods")}
WATCH |= {"get a node", "get a pod"}

CASES = {
    "agents that watch": (SERVICE, WATCH),
    "agents that bind": (SERVICE | BIND, WATCH | {"bind a pod"}),
    "agents that nudge": (SERVICE | NUDGE, WATCH | {"patch a node"}),
    "agents without the node cache": (SERVICE | OFF, set()),
    # They look at pods that they could not bind.
    "agents that bind without the node cache": (
        SERVICE | BIND | OFF,
        {"bind a pod", "get a pod"},
    ),
    # kube-scheduler's own roles.
    "a scheduler": (SAFE, WATCH | {"bind a pod", "get its Lease", "delete a pod"}),
    "a scheduler whose agents nudge": (
        SAFE | NUDGE,
        WATCH | {"bind a pod", "get its Lease", "delete a pod", "patch a node"},
    ),
    "a scheduler alone": (
        SAFE | {"configuration.leaderElection.enabled": False},
        WATCH | {"bind a pod", "delete a pod"},
    ),
}


@pytest.fixture
def may(rig: Rig) -> Callable[[dict[str, object]], set[str]]:
    """Install a release's account and roles, and return what the apiserver lets it do."""

    def found(given: dict[str, object]) -> set[str]:
        roles = ("ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
        rig.install(it for it in rendered(given) if it["kind"] in roles)
        api = rig.api_of("it")
        return {name for name, request in REQUESTS.items() if _is_let(api, *request)}

    return found


def _is_let(api: Api, method: str, path: str, body: JSON | None) -> bool:
    """Tell whether a request gets past the apiserver's authorisation."""
    try:
        api.text(method, path, body)
    except RefusedError as error:
        if error.status not in (403, 404):
            raise
        return error.status == 404
    return True


@pytest.mark.parametrize("who", CASES)
def test_the_account_may_do_what_is_switched_on(
    who: str, may: Callable[[dict[str, object]], set[str]]
) -> None:
    """Real requests with the account's own token; the apiserver refuses all others."""
    given, allowed = CASES[who]
    assert may(given) == allowed


def test_without_rights_there_is_no_token() -> None:
    """Agents that reach no apiserver get no credentials for it."""
    [made] = [it for it in rendered(SERVICE | OFF) if it["kind"] == "Deployment"]
    assert made["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
