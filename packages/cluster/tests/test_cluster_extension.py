"""The live cluster as part of a serving process."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cluster_fake import FakeApiserver, Lines, Reply, status, until

from kube_sched_ext import Agent, BoundPod, NodeReader, Nodes, NoSettings, Pod, Verdict, predicate
from kube_sched_ext.calls import Answer
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.extension import Host
from kube_sched_ext.health import Health
from kube_sched_ext.instruments import Instruments
from kube_sched_ext.logs import new_log
from kube_sched_ext.metrics import Metrics
from kube_sched_ext.objects import PodMeta
from kube_sched_ext.problems import Problems
from kube_sched_ext.verbs import Verbs, new_table
from kube_sched_ext.wire import ExtenderArgs, ExtenderBindingResult
from kube_sched_ext_cluster.extension import Cluster
from kube_sched_ext_cluster.settings import ClusterSettings

pytestmark = pytest.mark.anyio

PODS = "/api/v1/pods"


class Valued(Agent[NoSettings]):
    """Rejects nodes of value 0."""

    name = "valued"
    columns = ("value",)

    def row(self, node: NodeReader) -> Sequence[float]:
        """Read the value."""
        return (node.annotation("value"),)

    @predicate("valued")
    def rejects(self, pod: Pod, nodes: Nodes) -> Verdict:
        """Reject 0."""
        return Verdict({"worthless": nodes.columns[0] == 0})


class PodKeeper:
    """A store of pods by UID."""

    def __init__(self) -> None:
        self.uids: set[str] = set()
        self.seen: set[str] = set()

    def put(self, row: int, node: NodeReader) -> None:
        pass

    def clear(self, row: int) -> None:
        pass

    def put_pod(self, row: int, pod: BoundPod) -> None:
        self.uids.add(pod.uid)
        self.seen.add(pod.uid)

    def remove_pod(self, row: int, pod: BoundPod) -> None:
        self.uids.discard(pod.uid)


class Keeper(Agent[NoSettings]):
    """Wants to know the pods."""

    name = "keeper"

    def new_store(self) -> PodKeeper:
        """Keep pods."""
        self.store = PodKeeper()
        return self.store


def make_host(*agents: Agent[Any], **settings: Any) -> Host:
    log, writer = new_log("ALERT", "json", io.StringIO())
    metrics = Metrics()
    instruments = Instruments(log, writer, metrics, Problems(log, metrics))
    core = CoreSettings(**settings)
    table = new_table(agents, instruments.problems)
    return Host(core, table, Verbs(agents, table, core, instruments), instruments, Health())


@pytest.fixture
def kubeconfig(apiserver: FakeApiserver, tmp_path: Path) -> str:
    """Return the path of a kubeconfig for the small apiserver."""
    path = tmp_path / "kubeconfig"
    config = {
        "current-context": "test",
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "clusters": [{"name": "test", "cluster": {"server": apiserver.url}}],
        "users": [{"name": "test", "user": {}}],
    }
    path.write_text(json.dumps(config))
    return str(path)


@asynccontextmanager
async def running(cluster: Cluster) -> AsyncIterator[None]:
    """Run the extension in the block."""
    task = asyncio.create_task(cluster.run())
    try:
        yield
        assert not task.done(), task.result()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_nodes_come_into_the_table(apiserver: FakeApiserver, kubeconfig: str) -> None:
    """Not ready before the first list; ready afterwards, and up to date."""
    apiserver.put("n1", 1)
    host = make_host(Valued())
    cluster = Cluster(ClusterSettings(node_cache=True, kubeconfig=kubeconfig), host)
    assert host.health.ready()[0] is False
    assert cluster.calls() == ()
    async with running(cluster):
        await until(lambda: host.health.ready()[0])
        apiserver.put("n2", 0)
        await until(lambda: len(host.table) == 2)
        apiserver.delete("n1")
        await until(lambda: len(host.table) == 1)
    assert "[+]watch/nodes ok" in host.health.ready()[1]
    assert "watch/pods" not in host.health.ready()[1]


async def test_pods_are_watched_where_an_agent_wants_them(
    apiserver: FakeApiserver, kubeconfig: str
) -> None:
    """Those with a node, until they are done."""
    pod = {
        "metadata": {"name": "p", "namespace": "d", "uid": "u", "resourceVersion": "2"},
        "spec": {"nodeName": "n1", "containers": []},
    }
    apiserver.put("n1")
    agent = Keeper()
    host = make_host(agent)
    cluster = Cluster(ClusterSettings(node_cache=True, kubeconfig=kubeconfig), host)

    page = {"metadata": {"resourceVersion": "2"}, "items": [pod]}
    apiserver.script[f"list {PODS}"].append(Reply(200, page))
    gone = {"type": "DELETED", "object": pod}
    apiserver.script[f"watch {PODS}"].extend([Lines(), Lines([gone], "hang")])
    async with running(cluster):
        await until(lambda: "u" in agent.store.seen)
        await until(lambda: not agent.store.uids)
    assert "watch/pods" in host.health.ready()[1]
    table = host.table
    assert table.nodes("keeper", table.rows([])).has_pods


async def test_bind_is_served_where_it_is_asked_for(
    apiserver: FakeApiserver, kubeconfig: str
) -> None:
    """Under the path that the settings give, with the apiserver's reason."""
    host = make_host(Valued(), path_prefix="/x")
    settings = ClusterSettings(
        node_cache=False, is_binding=True, bind_word="tie", kubeconfig=kubeconfig
    )
    cluster = Cluster(settings, host)
    [call] = cluster.calls()
    assert (call.verb, call.path) == ("bind", "/x/tie")
    body = b'{"PodName": "p", "PodNamespace": "d", "PodUID": "u", "Node": "n1"}'
    async with running(cluster):
        bound: Any = await call.answer(body)  # type: ignore[misc]
        assert bound == Answer(ExtenderBindingResult(), "d/p", 1, 1)
        apiserver.script["post"].append(Reply(403, status(403, "Forbidden", "not you")))
        refused: Any = await call.answer(body)  # type: ignore[misc]
    assert "not you" in refused.message.error
    assert refused.nodes_out == 0


async def test_a_rejected_pod_is_nudged(apiserver: FakeApiserver, kubeconfig: str) -> None:
    """From the verb to the annotation."""
    apiserver.put("n1", 0)
    host = make_host(Valued())
    settings = ClusterSettings(
        node_cache=True, is_nudging=True, nudge_seconds=0.05, kubeconfig=kubeconfig
    )
    empty = {"metadata": {"resourceVersion": "1"}, "items": []}
    apiserver.script[f"list {PODS}"].append(Reply(200, empty))
    apiserver.script[f"watch {PODS}"].append(Lines([], "hang"))
    async with running(Cluster(settings, host)):
        await until(lambda: len(host.table) == 1)
        pod = Pod(metadata=PodMeta(name="p", namespace="d", uid="u"))
        args = ExtenderArgs(pod, node_names=["n1"])
        result = host.verbs.filter(host.verbs.agents[0].predicates, args)
        assert result.failed_and_unresolvable_nodes == {"n1": "worthless"}
        apiserver.put("n1", 1)
        await until(lambda: apiserver.asked("patch"))
    [request, *_] = apiserver.asked("patch")
    assert request.path == "/api/v1/nodes/n1"
    assert "kube-sched-ext/nudge" in request.body


async def test_without_anything_to_do_no_cluster_is_needed() -> None:
    """There may be none."""
    cluster = Cluster(ClusterSettings(node_cache=False, kubeconfig="/none"), make_host(Valued()))
    assert cluster.calls() == ()
    await cluster.run()


@pytest.mark.parametrize(
    ("settings", "core", "words"),
    [
        ({"node_cache": True}, {"nodes_file": "nodes.json"}, "NODE_CACHE, NODES_FILE: nodes come"),
        ({"node_cache": False, "is_nudging": True}, {}, "NUDGE: needs NODE_CACHE=true"),
        ({"node_cache": True, "kubeconfig": "/none"}, {}, "/none"),
    ],
)
async def test_settings_that_cannot_be_met_are_told(
    settings: dict[str, Any], core: dict[str, Any], words: str
) -> None:
    """Naming them."""
    with pytest.raises(ConfigurationError, match=words):
        Cluster(ClusterSettings(**settings), make_host(Valued(), **core))
