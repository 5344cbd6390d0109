"""What can go wrong beside us: in the end every pod is bound, once."""

import signal
from collections.abc import Callable

import pytest
from control_plane import NO_SCORES, extender
from e2e_cluster import NODES, Cluster
from e2e_programs import wait_for
from e2e_server import Server
from relay import Relay

NAMES = [f"node-{number}" for number in range(8)]
PODS = [f"pod-{number:03d}" for number in range(200)]
MANY_PODS = [f"pod-{number:03d}" for number in range(400)]
"""More than are bound before a burst can be seen to have begun."""

both_ways = pytest.mark.parametrize("ignorable", [True, False], ids=["ignorable", "needed"])


def _add_nodes(cluster: Cluster) -> None:
    for name in NAMES:
        cluster.add_node(name)


def _wait_begun(cluster: Cluster, count: int = 20) -> int:
    """Wait until so many pods are bound; return how many."""
    return wait_for("burst begun", lambda: (n := cluster.bound_count()) >= count and n)


def _wait_seen(server: Server) -> None:
    """Wait until the server has seen that node-0 is congested; a watch may wait 30 s to retry."""
    path = "priorities/congestion"
    congested = {"node-0": 0}
    wait_for("seen", lambda: server.scores(path, {}, ["node-0"]) == congested, 45, every=0.1)


@both_ways
def test_extender_killed_in_mid_burst(
    cluster: Cluster,
    ignorable: bool,  # noqa: FBT001  # a parameter of the test
    tell: Callable[[str], None],
) -> None:
    """It is killed while it is asked about 400 pods, and started again."""
    _add_nodes(cluster)
    server = cluster.serve("safe")
    cluster.schedule(
        extender(
            server.url,
            filter_verb="filter",
            prioritize_verb="prioritize",
            ignorable=ignorable,
            timeout="2s",
        )
    )
    began = cluster.now()
    with cluster.creating(MANY_PODS):
        _wait_begun(cluster)
        server.kill()
        bound_before = cluster.bound_count()
        assert bound_before < len(MANY_PODS)
    if ignorable:
        cluster.wait_bound(MANY_PODS)
        seconds = cluster.now() - began
        server.start()
        server.wait_ready()
    else:
        # Nothing gets past it; what was answered before may still be on its way to be bound.
        bound_without = cluster.bound_count()
        assert bound_without <= bound_before + 5
        server.start()
        server.wait_ready()
        cluster.wait_bound(MANY_PODS)
        seconds = cluster.now() - began
    tell(f"killed after {bound_before} of 400 pods; all bound in {seconds:.2f} s")
    cluster.check_bound_once(NAMES)


@both_ways
def test_extender_slower_than_http_timeout(
    cluster: Cluster,
    ignorable: bool,  # noqa: FBT001  # a parameter of the test
    tell: Callable[[str], None],
) -> None:
    """It stands still for longer than kube-scheduler waits, then answers what nobody awaits."""
    _add_nodes(cluster)
    server = cluster.serve("safe")
    cluster.schedule(
        extender(server.url, filter_verb="filter", ignorable=ignorable, timeout="500ms")
    )
    pods = PODS[:10]
    server.signal(signal.SIGSTOP)
    began = cluster.now()
    cluster.create_pods(pods)
    if ignorable:
        cluster.wait_bound(pods)
        seconds = cluster.now() - began
        server.signal(signal.SIGCONT)
    else:
        message = cluster.wait_event(pods[0], "FailedScheduling", "deadline exceeded")
        assert server.url in message
        assert not any(cluster.placement(pods).values())
        server.signal(signal.SIGCONT)
        cluster.wait_bound(pods)
        seconds = cluster.now() - began
    tell(f"10 pods bound in {seconds:.2f} s")
    cluster.check_bound_once(NAMES)
    # And it is of use again.
    answered = server.calls("filter")
    cluster.place("afterwards")
    wait_for("asked again", lambda: server.calls("filter") > answered)


def test_apiserver_restarted_under_the_watch(cluster: Cluster, tell: Callable[[str], None]) -> None:
    """In the middle of a burst; the agents go on answering, and then learn what is new."""
    _add_nodes(cluster)
    server = cluster.serve("congestion", "--watch-down-seconds=600", "--bind", user="binder")
    path = "priorities/congestion"
    cluster.schedule(
        extender(server.url, prioritize_verb=path, filter_verb="filter", bind_verb="bind")
    )
    cluster.create_pods(MANY_PODS)
    bound_before = _wait_begun(cluster)
    began = cluster.now()
    cluster.plane.apiserver.kill()
    assert bound_before < len(MANY_PODS)
    assert server.is_ready()
    assert server.scores(path, {}, ["node-0"]) == {"node-0": 10}
    cluster.plane.apiserver.start()
    cluster.plane.wait_ready()
    back = cluster.now() - began
    cluster.annotate("node-0", congestion_factor="100")
    _wait_seen(server)
    seen = cluster.now() - began
    cluster.wait_bound(MANY_PODS, seconds=90)
    tell(
        f"apiserver killed after {bound_before} of 400 pods and back in {back:.2f} s; "
        f"our watch in {seen:.2f} s, all bound in {cluster.now() - began:.2f} s"
    )
    cluster.check_bound_once(NAMES, all_events=False)


def test_watch_cut(cluster: Cluster, tell: Callable[[str], None]) -> None:
    """A connection that breaks is made again, from the version seen last: without a list."""
    _add_nodes(cluster)
    with Relay(cluster.plane.port) as relay:
        server = cluster.serve("congestion", apiserver_port=relay.port)
        path = "priorities/congestion"
        cluster.schedule(extender(server.url, prioritize_verb=path, filter_verb="filter"))
        cluster.create_pods(PODS)
        _wait_begun(cluster)
        relay.cut()
        cluster.annotate("node-0", congestion_factor="100")
        assert server.scores(path, {}, ["node-0"]) == {"node-0": 10}
        relay.mend()
        began = cluster.now()
        _wait_seen(server)
        tell(f"change seen {cluster.now() - began:.2f} s after the watch could be made again")
        cluster.wait_bound(PODS)
        cluster.check_bound_once(NAMES)
        assert server.count("kube_sched_ext_watch_lists_total", resource="nodes") == 1


def test_watch_expired(cluster: Cluster, tell: Callable[[str], None]) -> None:
    """What we saw last is compacted meanwhile: 410, a new list, and what is gone is removed."""
    _add_nodes(cluster)
    with Relay(cluster.plane.port) as relay:
        server = cluster.serve("congestion", apiserver_port=relay.port)
        path = "priorities/congestion"
        cluster.schedule(extender(server.url, prioritize_verb=path, filter_verb="filter"))
        cluster.create_pods(PODS)
        _wait_begun(cluster)
        relay.cut()
        cluster.wait_bound(PODS)
        cluster.api("DELETE", f"{NODES}/node-7")
        cluster.add_node("node-8")
        cluster.annotate("node-0", congestion_factor="100")
        cluster.plane.compact()
        # It keeps what is younger than its start.
        cluster.plane.restart_apiserver()
        assert server.count("kube_sched_ext_known_nodes") == 8
        assert server.scores(path, {}, ["node-0"]) == {"node-0": 10}
        relay.mend()
        began = cluster.now()
        _wait_seen(server)
        tell(f"list taken anew {cluster.now() - began:.2f} s after it could be")
        assert server.count("kube_sched_ext_known_nodes") == 8
        assert server.count("kube_sched_ext_watch_lists_total", resource="nodes") == 2
        assert server.count("kube_sched_ext_watch_ends_total", reason="Expired") >= 1
        unknown = server.count("kube_sched_ext_unknown_nodes_total")
        server.scores(path, {}, ["node-7", "node-8"])
        assert server.count("kube_sched_ext_unknown_nodes_total") == unknown + 1
    more = cluster.create_pods(f"more-{number}" for number in range(20))
    cluster.wait_bound(more)
    cluster.check_bound_once([*NAMES, "node-8"], all_events=False)


@pytest.mark.parametrize("unknown", ["drop", "keep"])
def test_node_deleted_while_its_name_is_in_a_request(
    cluster: Cluster, unknown: str, tell: Callable[[str], None]
) -> None:
    """We learn of it before the request that names it arrives."""
    cluster.add_node("gone", annotations={"congestion-factor": "0"})
    cluster.add_node("stays", annotations={"congestion-factor": "90"})
    server = cluster.serve("congestion", UNKNOWN_NODES=unknown)
    with Relay(server.port) as relay:
        url = f"http://127.0.0.1:{relay.port}/scheduler"
        cluster.schedule(
            extender(url, filter_verb="filter", prioritize_verb="prioritize", weight=10),
            profile=NO_SCORES,
        )
        assert cluster.place("before") == "gone"
        relay.hold()
        began = cluster.now()
        cluster.create_pods(PODS[:20])
        assert relay.waiting.wait(10)
        cluster.api("DELETE", f"{NODES}/gone")
        wait_for("seen", lambda: server.count("kube_sched_ext_known_nodes") == 1)
        relay.release()
        placement = cluster.wait_bound(PODS[:20])
        tell(f"20 pods bound in {cluster.now() - began:.2f} s")
        assert server.count("kube_sched_ext_unknown_nodes_total") >= 1
        # Kept, it is a node without data, which congestion scores 10; kube-scheduler does not
        # look again before it binds. From the next pod on it knows.
        on_gone = [pod for pod, node in placement.items() if node == "gone"]
        assert len(on_gone) == (0 if unknown == "drop" else 1)
        cluster.check_bound_once(["gone", "stays"])
