"""Between two samples: a burst of pods, while statistics stay as they were."""

import itertools
from collections import Counter
from collections.abc import Callable

import pytest
from control_plane import NO_SCORES, extender
from e2e_cluster import Cluster
from e2e_programs import wait_for

IDLE = [f"idle-{number}" for number in range(10)]
BUSY = [f"busy-{number}" for number in range(5)]
BURST = [f"pod-{number:03d}" for number in range(100)]
REQUESTS = {"cpu": "100m", "memory": "64Mi"}


def _add_nodes(cluster: Cluster) -> None:
    """Ten idle nodes, one of them a little idler than the others, and five busy ones."""
    memory = {"mean-free-memory": str(60 * 2**30)}
    for name in IDLE:
        free = "14500" if name == IDLE[0] else "14000"
        annotations = {"mean-free-cpu": free} | memory
        cluster.add_node(name, annotations=annotations, cpu="16", memory="64Gi")
    for name in BUSY:
        annotations = {"mean-free-cpu": "6000", "std-free-cpu": "1000"} | memory
        cluster.add_node(name, annotations=annotations, cpu="16", memory="64Gi")


@pytest.mark.parametrize("counts", [True, False], ids=["counted", "not-counted"])
def test_burst_between_two_samples(
    cluster: Cluster,
    counts: bool,  # noqa: FBT001  # a parameter of the test
    tell: Callable[[str], None],
) -> None:
    """A hundred pods spread over the idle nodes; if new pods do not count, they all pile up on one.

    kube-scheduler's own scores are off, as they would spread the pods by themselves.
    """
    _add_nodes(cluster)
    server = cluster.serve("safe", SAFE_COUNT_NEW_PODS=str(counts).lower())
    path = "priorities/safe-balance"
    cluster.schedule(
        extender(server.url, filter_verb="filter", prioritize_verb=path), profile=NO_SCORES
    )
    placement = cluster.wait_bound(cluster.create_pods(BURST, requests=REQUESTS))
    pods = Counter(placement.values())
    tell(f"100 pods: {', '.join(f'{name} {pods[name]}' for name in [*IDLE, *BUSY])}")
    if not counts:
        assert pods == {IDLE[0]: 100}
        return
    assert set(pods) == set(IDLE)
    assert max(pods.values()) <= 30

    # The next sample shows the pods itself, all but those that were bound in its own second.
    before = server.scores(path, {}, IDLE)
    assert before[IDLE[0]] < 10
    means = itertools.count(15700)

    def is_sampled() -> bool:
        cluster.annotate(IDLE[0], mean_free_cpu=str(next(means)))
        return server.scores(path, {}, IDLE)[IDLE[0]] == 10

    wait_for("sample seen", is_sampled, every=0.2)
    after = server.scores(path, {}, IDLE)
    assert after == before | {IDLE[0]: 10}
