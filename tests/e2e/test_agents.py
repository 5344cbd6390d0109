"""Each agent changes where pods land, and says why."""

import pytest
from control_plane import extender
from e2e_cluster import Cluster
from e2e_programs import wait_for

IDLE = {"mean-free-cpu": "3600", "std-free-cpu": "100", "mean-free-memory": str(7 * 2**30)}
"""Statistics of a node of 4 cores and 8Gi."""
HALF = {"mean-free-cpu": "2000", "std-free-cpu": "200", "mean-free-memory": str(4 * 2**30)}
FULL = {"mean-free-cpu": "200", "std-free-cpu": "300", "mean-free-memory": str(7 * 2**30)}

EIGHT = [f"pod-{number}" for number in range(8)]


def test_foo_leaves_the_choice_to_kube_scheduler(cluster: Cluster) -> None:
    """The template is asked about every pod, and changes nothing: pods spread as without it."""
    for name in ("a", "b"):
        cluster.add_node(name)
    server = cluster.serve("foo")
    cluster.schedule(
        extender(server.url, filter_verb="predicates/foo", prioritize_verb="priorities/foo")
    )
    requests = {"cpu": "400m", "memory": "512Mi"}
    placement = cluster.wait_bound(cluster.create_pods(EIGHT, requests=requests))
    assert sorted(placement.values()) == ["a"] * 4 + ["b"] * 4
    assert server.calls("filter") == server.calls("prioritize") == 8
    # Asked as expected, from the second pod on, scores are there before.
    assert server.count("kube_sched_ext_foreseen_answers_total", result="used") > 4


def test_congestion_sends_pods_to_the_calm_node(cluster: Cluster) -> None:
    """Pods go where congestion-factor is lowest, and elsewhere once it has changed."""
    cluster.add_node("busy", annotations={"congestion-factor": "80"})
    cluster.add_node("calm", annotations={"congestion-factor": "10"})
    server = cluster.serve("congestion")
    path = "priorities/congestion"
    cluster.schedule(extender(server.url, prioritize_verb=path, weight=10))
    before = cluster.wait_bound(cluster.create_pods(EIGHT))
    assert set(before.values()) == {"calm"}

    cluster.annotate("busy", congestion_factor="0")
    wait_for("change seen", lambda: server.scores(path, {}, ["busy"]) == {"busy": 10})
    after = cluster.wait_bound(cluster.create_pods(f"after-{number}" for number in range(8)))
    assert set(after.values()) == {"busy"}


@pytest.mark.parametrize("priority", ["image_score", "image_locality"])
def test_image_sends_pods_to_the_node_that_has_theirs(cluster: Cluster, priority: str) -> None:
    """Pods go where their image is, even one too small for kube-scheduler's own ImageLocality."""
    image = "registry.example/team/small:1"
    cluster.add_node("cold")
    cluster.add_node("warm", images=[([image], 5_000_000)])
    server = cluster.serve("image", IMAGE_SPREAD_NODES="1")
    cluster.schedule(extender(server.url, prioritize_verb=f"priorities/{priority}", weight=10))
    placement = cluster.wait_bound(cluster.create_pods(EIGHT, image=image))
    assert set(placement.values()) == {"warm"}


def test_safe_keeps_pods_off_nodes_at_risk(cluster: Cluster) -> None:
    """The predicate rejects a node at risk of overload that kube-scheduler itself thinks empty."""
    cluster.add_node("hot", annotations=FULL)
    cluster.add_node("cool", annotations=IDLE)
    server = cluster.serve("safe")
    cluster.schedule(extender(server.url, filter_verb="predicates/safe-overload"))
    placement = cluster.wait_bound(cluster.create_pods(EIGHT))
    assert set(placement.values()) == {"cool"}


def test_safe_says_in_the_pods_event_why_no_node_is_left(cluster: Cluster) -> None:
    """With all nodes at risk the pod stays pending, and its event has the reason once, counted."""
    for number in range(3):
        cluster.add_node(f"hot-{number}", annotations=FULL)
    server = cluster.serve("safe")
    cluster.schedule(extender(server.url, filter_verb="predicates/safe-overload"))
    cluster.create_pods(["rejected"])
    message = cluster.wait_event("rejected", "FailedScheduling")
    assert "0/3 nodes are available: 3 node overload risk." in message
    # Evictions cannot help, and kube-scheduler knows.
    assert "3 Preemption is not helpful for scheduling" in message
    assert cluster.placement(["rejected"]) == {"rejected": ""}

    cluster.annotate("hot-1", **IDLE)
    path = "predicates/safe-overload"
    wait_for("change seen", lambda: server.kept(path, {}, ["hot-1"]) == ["hot-1"])
    # kube-scheduler may have seen it first and asked in vain: what it sees next makes it ask again.
    cluster.annotate("hot-2", seen="yes")
    assert cluster.wait_bound(["rejected"]) == {"rejected": "hot-1"}


@pytest.mark.parametrize("priority", ["safe-overload", "safe-balance"])
def test_safe_ranks_the_idle_node_first(cluster: Cluster, priority: str) -> None:
    """Both priorities prefer the idler of two nodes that kube-scheduler thinks alike."""
    cluster.add_node("half", annotations=HALF | {"std-free-cpu": "1500"})
    cluster.add_node("idle", annotations=IDLE)
    server = cluster.serve("safe")
    cluster.schedule(extender(server.url, prioritize_verb=f"priorities/{priority}", weight=10))
    placement = cluster.wait_bound(cluster.create_pods(EIGHT))
    assert set(placement.values()) == {"idle"}


def test_pods_not_selected_pass_through(cluster: Cluster) -> None:
    """A pod outside ONLY_LABELS gets a node that the predicate would reject."""
    cluster.add_node("hot", annotations=FULL)
    server = cluster.serve("safe", ONLY_LABELS="team=a")
    cluster.schedule(extender(server.url, filter_verb="predicates/safe-overload"))
    assert cluster.place("of-no-team") == "hot"
