"""The bind verb: our server writes the Binding."""

from collections.abc import Callable

from control_plane import extender
from e2e_cluster import Cluster

NODES = [f"node-{number}" for number in range(10)]


def test_each_of_200_pods_is_bound_once(cluster: Cluster, tell: Callable[[str], None]) -> None:
    """kube-scheduler leaves all bindings to us; each pod gets one."""
    for name in NODES:
        cluster.add_node(name)
    server = cluster.serve("foo", "--bind", user="binder")
    cluster.schedule(extender(server.url, filter_verb="filter", bind_verb="bind"))
    began = cluster.now()
    pods = cluster.create_pods(f"pod-{number:03d}" for number in range(200))
    cluster.wait_bound(pods)
    tell(f"200 pods created and bound in {cluster.now() - began:.2f} s")
    cluster.check_bound_once(NODES)
    assert server.calls("bind") == 200


def test_a_refused_binding_is_told_in_the_pods_event(cluster: Cluster) -> None:
    """Without the right to bind, the apiserver's own words reach the user."""
    cluster.add_node("node")
    server = cluster.serve("foo", "--bind", user="watcher")
    cluster.schedule(extender(server.url, filter_verb="filter", bind_verb="bind"))
    cluster.create_pods(["refused"])
    message = cluster.wait_event("refused", "FailedScheduling")
    assert 'cannot create resource "pods/binding"' in message
    assert cluster.placement(["refused"]) == {"refused": ""}
