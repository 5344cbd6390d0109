"""The nudge: a rejected pod is tried again, though nothing in the cluster has changed.

An annotation of a node brings rejected pods back by itself. What does not is a verdict that comes
from elsewhere; the agent of these tests changes its mind on a signal.
"""

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from control_plane import extender
from e2e_cluster import NODES, Cluster
from e2e_server import Server

ANNOTATION = "kube-sched-ext/nudge"
AGENT = '''
import signal
import numpy as np
from kube_sched_ext import Agent, NoSettings, Verdict, predicate


class Moody(Agent[NoSettings]):
    """Rejects all nodes until SIGUSR1."""

    name = "moody"
    is_cross = True

    def __init__(self, settings=None):
        super().__init__(settings)
        signal.signal(signal.SIGUSR1, self._cheer_up)

    def _cheer_up(self, *_):
        self.is_cross = False

    @predicate("moody")
    def rejects(self, pod, nodes):
        return Verdict({"bad mood": np.full(len(nodes), self.is_cross)})
'''


@pytest.fixture
def site(tmp_path: Path) -> str:
    """The PYTHONPATH of a process in which the agent is installed."""
    site = tmp_path / "site"
    metadata = site / "moody-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: moody\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[kube_sched_ext.agents]\nmoody = moody:Moody\n")
    (site / "moody.py").write_text(AGENT)
    return str(site)


def _rejected_pod(cluster: Cluster, server: Server) -> None:
    """A pod that is pending, and will not be tried again by itself."""
    cluster.schedule(extender(server.url, filter_verb="filter"))
    cluster.create_pods(["pending"])
    assert "2 bad mood" in cluster.wait_event("pending", "FailedScheduling")


def _nudges(cluster: Cluster) -> set[str]:
    nodes = cluster.api("GET", NODES)["items"]
    return {
        node["metadata"]["annotations"][ANNOTATION]
        for node in nodes
        if ANNOTATION in node["metadata"].get("annotations", {})
    }


def test_a_nudged_pod_is_scheduled_within_5_seconds(
    cluster: Cluster, site: str, tell: Callable[[str], None]
) -> None:
    """From the moment when the agent would let it pass."""
    for name in ("a", "b"):
        cluster.add_node(name)
    server = cluster.serve("moody", "--nudge", user="nudger", PYTHONPATH=site)
    _rejected_pod(cluster, server)
    began = cluster.now()
    server.signal(signal.SIGUSR1)
    cluster.wait_bound(["pending"], seconds=5)
    tell(f"scheduled {cluster.now() - began:.2f} s after its cause went away")
    assert len(_nudges(cluster)) == 1
    assert server.count("kube_sched_ext_nudges_total", outcome="written") == 1


def test_without_the_nudge_the_pod_stays_pending_for_60_seconds(
    cluster: Cluster, site: str, tell: Callable[[str], None]
) -> None:
    """kube-scheduler does not ask again, while nothing else happens; then any change will do."""
    for name in ("a", "b"):
        cluster.add_node(name)
    server = cluster.serve("moody", PYTHONPATH=site)
    _rejected_pod(cluster, server)
    asked = server.calls("filter")
    server.signal(signal.SIGUSR1)
    time.sleep(60)
    assert cluster.placement(["pending"]) == {"pending": ""}
    assert server.calls("filter") == asked
    began = cluster.now()
    cluster.annotate("a", any_change="1")
    cluster.wait_bound(["pending"], seconds=5)
    seconds = cluster.now() - began
    tell(f"not asked again in 60 s; scheduled {seconds:.2f} s after a node was annotated")


def test_two_replicas_do_not_nudge_twice_as_often(
    cluster: Cluster, site: str, tell: Callable[[str], None]
) -> None:
    """Both know of pods enough to nudge all the time; together they nudge no more than one may."""
    for name in ("a", "b"):
        cluster.add_node(name)
    replicas = [
        cluster.serve("moody", "--nudge", "--nudge-seconds=0.5", user="nudger", PYTHONPATH=site)
        for _ in range(2)
    ]
    for replica in replicas:
        # As kube-scheduler would ask; these pods are not there, so nothing ends their waiting.
        for number in range(40):
            pod = {"metadata": {"name": f"pod-{number}", "uid": f"uid-{number}"}, "spec": {}}
            replica.ask("filter", {"Pod": pod, "Nodes": None, "NodeNames": ["a", "b"]})
    for replica in replicas:
        replica.signal(signal.SIGUSR1)
    seen: set[str] = set()
    deadline = time.monotonic() + 6
    while time.monotonic() < deadline:
        seen |= _nudges(cluster)
        time.sleep(0.02)
    written = [
        int(replica.count("kube_sched_ext_nudges_total", outcome="written")) for replica in replicas
    ]
    tell(f"{written} nudges in 6 s, of 12 that one replica may write; {len(seen)} times seen")
    # One alone writes one each 0.5 to 0.75 s; two that knew nothing of each other some 19 in all.
    assert 5 <= sum(written) <= 13
