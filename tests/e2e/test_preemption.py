"""Preemption with the preempt verb: evictions only where they can help."""

from collections.abc import Callable

import pytest
from control_plane import extender
from e2e_cluster import Cluster

MEMORY = {"mean-free-memory": str(7 * 2**30)}
COOL = {"mean-free-cpu": "3800", "std-free-cpu": "10"} | MEMORY
HOT = {"mean-free-cpu": "10", "std-free-cpu": "10"} | MEMORY
THREE_CORES = {"cpu": "3", "memory": "64Mi"}


def _fill(cluster: Cluster) -> None:
    """Two full nodes; kube-scheduler by itself would evict from the hot one.

    The pod there is of the lower priority. Statistics are taken to show both pods, which in truth
    are bound after them; so the tests turn off that safe counts new pods.
    """
    for name, value in (("lowest", 1), ("low", 10), ("high", 1000)):
        cluster.add_priority(name, value)
    cluster.add_node("hot", annotations=HOT)
    cluster.add_node("cool", annotations=COOL)
    cluster.bind_directly("on-hot", "hot", THREE_CORES, priority_class="lowest")
    cluster.bind_directly("on-cool", "cool", THREE_CORES, priority_class="low")


@pytest.mark.parametrize("names", [True, False], ids=["names", "whole-nodes"])
def test_preemption_happens_where_the_predicate_accepts(
    cluster: Cluster,
    names: bool,  # noqa: FBT001  # a parameter of the test
    tell: Callable[[str], None],
) -> None:
    """The pod on the cool node is evicted, although the other one costs less."""
    _fill(cluster)
    server = cluster.serve("safe", SAFE_COUNT_NEW_PODS="false")
    cluster.schedule(
        extender(server.url, filter_verb="filter", preempt_verb="preemption", names=names)
    )
    began = cluster.now()
    cluster.create_pods(["important"], requests=THREE_CORES, priority_class="high")
    assert cluster.wait_bound(["important"]) == {"important": "cool"}
    tell(f"preempted and bound in {cluster.now() - began:.2f} s")
    assert set(cluster.pods()) == {"important", "on-hot"}
    assert server.calls("preempt") >= 1


def test_without_the_preempt_verb_a_pod_is_evicted_in_vain(cluster: Cluster) -> None:
    """kube-scheduler tries evictions without asking filters: why the verb should be configured."""
    _fill(cluster)
    server = cluster.serve("safe", SAFE_COUNT_NEW_PODS="false")
    cluster.schedule(extender(server.url, filter_verb="filter"))
    cluster.create_pods(["important"], requests=THREE_CORES, priority_class="high")
    cluster.wait_event("on-hot", "Preempted")
    message = cluster.wait_event("important", "FailedScheduling", "node overload risk")
    assert "1 node overload risk" in message
