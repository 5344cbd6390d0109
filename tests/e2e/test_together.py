"""Two agents at work on the same pods."""

from collections.abc import Callable

from control_plane import JSON, NO_SCORES, extender
from e2e_cluster import Cluster

IDLE = {"mean-free-cpu": "3800", "std-free-cpu": "100"}
FULL = {"mean-free-cpu": "200", "std-free-cpu": "300"}


def _add_nodes(cluster: Cluster) -> None:
    """Nodes for one pod each, where safe rejects the two that congestion likes best."""
    for number in range(8):
        factor = {"congestion-factor": str(number * 12)}
        statistics = FULL if number < 2 else IDLE
        cluster.add_node(f"node-{number}", annotations=factor | statistics, pods="1")


def _placed(cluster: Cluster, *extenders: JSON) -> list[str]:
    cluster.schedule(*extenders, profile=NO_SCORES)
    pods = [f"pod-{number}" for number in range(6)]
    placement = [cluster.place(pod) for pod in pods]
    cluster.stop_scheduler()
    cluster.delete_pods(pods)
    cluster.delete_events()
    return placement


def test_two_servers_and_one_composite_call_choose_alike(
    cluster: Cluster, tell: Callable[[str], None]
) -> None:
    """The predicate of safe and the priority of congestion, from two extenders or from one."""
    _add_nodes(cluster)
    safe, congestion = cluster.serve("safe"), cluster.serve("congestion")
    by_two = _placed(
        cluster,
        extender(safe.url, filter_verb="predicates/safe-overload"),
        extender(congestion.url, prioritize_verb="priorities/congestion"),
    )
    assert by_two == [f"node-{number}" for number in range(2, 8)]
    weights = "congestion=1,safe-overload=0,safe-balance=0"
    both = cluster.serve("congestion", "safe", PRIORITY_WEIGHTS=weights)
    by_one = _placed(
        cluster, extender(both.url, filter_verb="filter", prioritize_verb="prioritize")
    )
    assert by_one == by_two
    # Six pods, and one node left for the last of them: nothing to rank then.
    assert (both.calls("filter"), both.calls("prioritize")) == (6, 5)
    assert (safe.calls("filter"), congestion.calls("prioritize")) == (6, 5)
    tell(f"6 pods alike: {by_two}")


def test_each_agent_gives_its_own_reason(cluster: Cluster) -> None:
    """One extender rejects a node, kube-scheduler itself the other; the event names both."""
    cluster.add_node("hot", annotations=FULL)
    cluster.add_node("small", annotations=IDLE, cpu="1")
    safe, foo = cluster.serve("safe"), cluster.serve("foo")
    cluster.schedule(
        extender(foo.url, filter_verb="predicates/foo", prioritize_verb="priorities/foo"),
        extender(safe.url, filter_verb="predicates/safe-overload"),
    )
    cluster.create_pods(["large"], requests={"cpu": "2"})
    message = cluster.wait_event("large", "FailedScheduling")
    assert "1 node overload risk" in message
    assert "1 Insufficient cpu" in message
    assert foo.calls("filter") >= 1
