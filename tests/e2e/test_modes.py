"""Names mode and whole-node mode, asked about the same cluster."""

from collections import Counter
from collections.abc import Callable

import pytest
from control_plane import NO_SCORES, extender
from e2e_cluster import Cluster

NODES = [f"node-{number:02d}" for number in range(12)]
HOT = ("node-03", "node-07")
COOL = [name for name in NODES if name not in HOT]


def _add_nodes(cluster: Cluster) -> None:
    """Nodes for one pod each; two are at risk, of the others no two are scored alike."""
    factors = {name: number * 37 % 11 * 10 for number, name in enumerate(COOL)}
    assert len(set(factors.values())) == len(COOL)
    for name in NODES:
        annotations = {
            "congestion-factor": str(factors.get(name, 0)),
            "mean-free-cpu": "200" if name in HOT else "3500",
            "std-free-cpu": "300",
        }
        cluster.add_node(name, annotations=annotations, pods="1")


def test_both_modes_choose_alike(cluster: Cluster, tell: Callable[[str], None]) -> None:
    """Twelve pods, placed one after the other, get the same nodes for the same reasons.

    kube-scheduler's own scores are off: with whole nodes they go wrong, as the next test shows.
    """
    _add_nodes(cluster)
    server = cluster.serve(
        "congestion",
        "safe",
        PRIORITY_WEIGHTS="safe-overload=0,safe-balance=0",
        # Whole nodes do not tell of pods.
        SAFE_COUNT_NEW_PODS="false",
    )
    pods = [f"pod-{number:02d}" for number in range(10)]
    placements, messages = [], []
    for names in (True, False):
        cluster.schedule(
            extender(server.url, filter_verb="filter", prioritize_verb="prioritize", names=names),
            profile=NO_SCORES,
        )
        placements.append([cluster.place(pod) for pod in pods])
        cluster.create_pods(["too-many"])
        messages.append(cluster.wait_event("too-many", "FailedScheduling"))
        cluster.stop_scheduler()
        cluster.delete_pods([*pods, "too-many"])
        cluster.delete_events()
    by_names, by_whole_nodes = placements
    assert by_names == by_whole_nodes
    assert len(set(by_names)) == 10
    assert not set(HOT) & set(by_names)
    assert messages[0] == messages[1]
    assert "2 node overload risk" in messages[0]
    tell(f"{len(pods)} pods on the same nodes in both modes; {messages[0]!r}")


@pytest.mark.parametrize("names", [True, False], ids=["names", "whole-nodes"])
def test_whole_nodes_blind_kube_schedulers_own_scores(
    cluster: Cluster,
    names: bool,  # noqa: FBT001  # a parameter of the test
    tell: Callable[[str], None],
) -> None:
    """A filter asked with whole nodes, even one that keeps all, makes a full node look idle.

    kube-scheduler's fault (kubernetes#141781), and the reason why names are the default here.
    """
    for name in ("empty", "full"):
        cluster.add_node(name)
    server = cluster.serve("foo")
    cluster.bind_directly("filler", "full", {"cpu": "3", "memory": "6Gi"})
    cluster.schedule(extender(server.url, filter_verb="predicates/foo", names=names))
    pods = [f"pod-{number:02d}" for number in range(20)]
    counts = Counter(cluster.wait_bound(cluster.create_pods(pods)).values())
    tell(f"20 small pods, one of two nodes 75 % full: {dict(counts)}")
    if names:
        assert counts == {"empty": 20}
    else:
        assert counts["full"]  # half of them, as by tossing a coin
