"""Against the real etcd and kube-apiserver."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Generic, TypeVar
from uuid import uuid4

import msgspec
import pytest
from cluster_controlplane import ControlPlane, make_node, make_pod
from cluster_fake import until
from cluster_told import Told

from kube_sched_ext.errors import KubeSchedExtError
from kube_sched_ext.objects import Node
from kube_sched_ext.reading import NodeReader
from kube_sched_ext.wire import ExtenderBindingArgs
from kube_sched_ext_cluster.access import find_access
from kube_sched_ext_cluster.api import Api
from kube_sched_ext_cluster.binding import Binder
from kube_sched_ext_cluster.errors import ApiError
from kube_sched_ext_cluster.objects import BoundPod
from kube_sched_ext_cluster.reflector import Reflector, Timing
from kube_sched_ext_cluster.resources import BOUND_PODS, NODES, Resource

pytestmark = [pytest.mark.anyio, pytest.mark.control_plane, pytest.mark.timeout(180)]

NODE = "/api/v1/nodes"
POD = "/api/v1/namespaces/default/pods"
T = TypeVar("T")


class Follower(Generic[T]):
    """A view that keeps all it is told."""

    def __init__(self, key: Callable[[T], str]) -> None:
        """Tell objects apart by `key`."""
        self.seen: dict[str, T] = {}
        self.removed: list[str] = []
        self._key = key

    def put(self, seen: T) -> None:
        """Take over an object."""
        self.seen[self._key(seen)] = seen

    def remove(self, key: str) -> None:
        """Forget an object, which must be there."""
        del self.seen[key]
        self.removed.append(key)


@asynccontextmanager
async def following(
    plane: ControlPlane,
    told: Told,
    resource: Resource[T],
    key: Callable[[T], str],
    **timing: Any,
) -> AsyncIterator[tuple[Follower[T], Reflector[T]]]:
    """Follow, with no more rights than that takes; the thread must end with the block, at once."""
    api = Api(find_access(str(plane.kubeconfig("watcher"))))
    view = Follower(key)
    reflector = Reflector(resource, api, view, told.reports, timing=Timing(**timing))
    reflector.start()
    try:
        async with asyncio.timeout(30):
            await reflector.synced()
        yield view, reflector
    finally:
        began = time.monotonic()
        assert await reflector.stop()
        assert time.monotonic() - began < 1.0
        api.close()


def node_name(node: Node) -> str:
    """Tell nodes apart."""
    return node.metadata.name


def pod_uid(pod: BoundPod) -> str:
    """Tell pods apart."""
    return pod.uid


async def call(plane: ControlPlane, method: str, path: str, body: object = None) -> Any:
    """Call as administrator, without holding up the loop."""
    return await asyncio.to_thread(plane.call, method, path, body)


async def create_pod(plane: ControlPlane, name: str = "", node: str = "") -> ExtenderBindingArgs:
    """Create a pod, and return what kube-scheduler would ask to bind it to n1."""
    name = name or f"pod-{uuid4().hex[:8]}"
    pod = await call(plane, "POST", POD, make_pod(name, node))
    return ExtenderBindingArgs(name, "default", pod["metadata"]["uid"], "n1")


async def test_nodes_appear_change_and_vanish(control_plane: ControlPlane, told: Told) -> None:
    """Each within a moment, over one watch."""
    await call(control_plane, "POST", NODE, make_node("early"))
    async with following(control_plane, told, NODES, node_name) as (view, reflector):
        assert "early" in view.seen
        await call(control_plane, "POST", NODE, make_node("late"))
        await until(lambda: "late" in view.seen)
        patch = {"metadata": {"annotations": {"congestion-factor": "70"}}}
        await call(control_plane, "PATCH", f"{NODE}/late", patch)
        await until(lambda: view.seen["late"].metadata.annotations == {"congestion-factor": "70"})
        assert NodeReader(view.seen["late"]).allocatable("cpu") == 4000
        await call(control_plane, "DELETE", f"{NODE}/early")
        await until(lambda: "early" not in view.seen)
        assert reflector.state.lists == 1
        assert reflector.state.ends == {}
    await call(control_plane, "DELETE", f"{NODE}/late")


async def test_bound_pods_appear_are_resized_and_end(
    control_plane: ControlPlane, told: Told
) -> None:
    """A pod enters the view when it gets a node, and leaves it when it is done or deleted."""
    done, deleted = await create_pod(control_plane), await create_pod(control_plane, node="n1")
    async with following(control_plane, told, BOUND_PODS, pod_uid) as (view, _):
        assert deleted.pod_uid in view.seen
        assert done.pod_uid not in view.seen
        binder = Binder(Api(find_access(str(control_plane.kubeconfig("binder")))))
        assert (await binder.bind(done)).error == ""
        binder.close()
        await until(lambda: done.pod_uid in view.seen)
        pod = view.seen[done.pod_uid]
        assert (pod.namespace, pod.name, pod.node) == ("default", done.pod_name, "n1")
        assert (pod.demand.cpu, pod.demand.memory) == (100, 64 << 20)
        assert pod.images == ("registry.example/app:1",)
        assert abs(time.time() - pod.bound_at) < 5
        held = {"name": "c", "resources": {"requests": {"cpu": "300m"}}, "image": "", "imageID": ""}
        held |= {"restartCount": 0, "ready": True}
        status = {"phase": "Running", "containerStatuses": [held]}
        path = f"{POD}/{done.pod_name}/status"
        await call(control_plane, "PATCH", path, {"status": status})
        await until(lambda: view.seen[done.pod_uid].demand.cpu == 300)
        assert view.seen[done.pod_uid].phase == "Running"
        await call(control_plane, "PATCH", path, {"status": {"phase": "Succeeded"}})
        await until(lambda: done.pod_uid not in view.seen)
        await call(control_plane, "DELETE", f"{POD}/{deleted.pod_name}")
        await until(lambda: deleted.pod_uid not in view.seen)
        assert sorted(view.removed) == sorted([done.pod_uid, deleted.pod_uid])


async def test_the_view_survives_a_restart_of_the_apiserver(
    control_plane: ControlPlane, told: Told
) -> None:
    """It keeps what it knows meanwhile, and ends up as the cluster is."""
    await call(control_plane, "POST", NODE, make_node("stays"))
    async with following(control_plane, told, NODES, node_name) as (view, reflector):
        reflector._backoff._longest = 0.5
        await asyncio.to_thread(control_plane.stop_apiserver)
        await until(lambda: reflector.state.ends["Unreachable"] > 1)
        assert "stays" in view.seen
        assert not reflector.state.condition(0.0).ok
        await asyncio.to_thread(control_plane.start_apiserver)
        await call(control_plane, "POST", NODE, make_node("new"))
        await call(control_plane, "DELETE", f"{NODE}/stays")
        await until(lambda: "new" in view.seen and "stays" not in view.seen, 30)
        assert reflector.state.condition(0.0).ok
    await call(control_plane, "DELETE", f"{NODE}/new")


async def test_a_watch_ends_by_the_apiservers_clock_and_goes_on(
    control_plane: ControlPlane, told: Told
) -> None:
    """Without a list, and without anything lost."""
    limits = {"shortest_watch": 1, "longest_watch": 1}
    async with following(control_plane, told, NODES, node_name, **limits) as (view, reflector):
        await until(lambda: reflector.state.watches >= 3)
        await call(control_plane, "POST", NODE, make_node("between"))
        await until(lambda: "between" in view.seen)
        assert reflector.state.lists == 1
        assert set(reflector.state.ends) == {"Closed"}
    await call(control_plane, "DELETE", f"{NODE}/between")


async def test_a_thousand_nodes_come_page_by_page(control_plane: ControlPlane, told: Told) -> None:
    """With all of their images."""
    names = [f"many-{number:04d}" for number in range(1000)]
    await asyncio.to_thread(control_plane.create, NODE, (make_node(it, 50) for it in names))
    async with following(control_plane, told, NODES, node_name, page=300) as (view, _):
        assert set(names) <= set(view.seen)
        assert len(NodeReader(view.seen["many-0999"]).images) == 50
        await call(control_plane, "DELETE", NODE)
        await until(lambda: not view.seen, 60)


async def test_a_pod_is_bound_once(control_plane: ControlPlane) -> None:
    """Again to the same node is a success, to another a refusal in the apiserver's words."""
    binder = Binder(Api(find_access(str(control_plane.kubeconfig("binder")))))
    args = await create_pod(control_plane)
    assert (await binder.bind(args)).error == ""
    assert (await binder.bind(args)).error == ""
    other = await binder.bind(msgspec.structs.replace(args, node="n2"))
    assert 'is already assigned to node "n1"' in other.error
    pod = await call(control_plane, "GET", f"{POD}/{args.pod_name}")
    assert pod["spec"]["nodeName"] == "n1"

    impostor = msgspec.structs.replace(args, pod_uid=str(uuid4()))
    assert "UID" in (await binder.bind(impostor)).error
    missing = msgspec.structs.replace(args, pod_name="missing")
    assert (await binder.bind(missing)).error == 'pods "missing" not found'
    binder.close()


async def test_many_pods_are_bound_side_by_side_and_twice(control_plane: ControlPlane) -> None:
    """Every one succeeds for both callers."""
    binder = Binder(Api(find_access(str(control_plane.kubeconfig("binder")))))
    pods = [await create_pod(control_plane) for _ in range(50)]
    results = await asyncio.gather(*(binder.bind(args) for args in pods * 2))
    assert {result.error for result in results} == {""}
    binder.close()


async def test_rights_are_the_least_that_do(control_plane: ControlPlane, told: Told) -> None:
    """Who may watch may not bind or annotate, who may nudge may not bind; each says so."""
    args = await create_pod(control_plane)
    await call(control_plane, "POST", NODE, make_node("plain"))
    apis = {
        user: Api(find_access(str(control_plane.kubeconfig(user))))
        for user in ("watcher", "binder", "nudger", "nobody")
    }
    for user in ("watcher", "nudger"):
        binder = Binder(apis[user])
        error = (await binder.bind(args)).error
        assert f'User "{user}" cannot create resource "pods/binding"' in error
        binder.close()
    with pytest.raises(ApiError, match="cannot patch resource"):
        await asyncio.to_thread(apis["binder"].annotate_node, "plain", {"a": "b"})
    await asyncio.to_thread(apis["nudger"].annotate_node, "plain", {"kube-sched-ext/nudge": "1"})
    node = await call(control_plane, "GET", f"{NODE}/plain")
    assert node["metadata"]["annotations"] == {"kube-sched-ext/nudge": "1"}

    stranger: Reflector[Node] = Reflector(NODES, apis["nobody"], Follower(node_name), told.reports)
    stranger.start()
    await until(lambda: stranger.state.ends["Forbidden"] >= 2)
    condition = stranger.state.condition(60.0)
    assert not condition.ok
    assert 'cannot list resource "nodes"' in condition.detail
    assert await stranger.stop()
    await call(control_plane, "DELETE", f"{NODE}/plain")


async def test_applied_annotations_are_those_of_their_manager(control_plane: ControlPlane) -> None:
    """What it leaves out goes, what others have stays, and no node is made of them."""
    node = await call(control_plane, "POST", NODE, make_node("applied"))
    api = Api(find_access(str(control_plane.kubeconfig("annotator"))))
    uid = node["metadata"]["uid"]

    async def apply(
        name: str = "applied", *, uid: str = uid, force: bool = True, **its: str
    ) -> str:
        try:
            await asyncio.to_thread(
                api.apply_annotations, name, its, uid=uid, manager="ours", force=force
            )
        except ApiError as error:
            return " ".join((str(error.code), *error.causes))
        found = await call(control_plane, "GET", f"{NODE}/applied")
        return " ".join(sorted(f"{k}={v}" for k, v in found["metadata"]["annotations"].items()))

    theirs = {"metadata": {"annotations": {"theirs": "1"}}}
    await call(control_plane, "PATCH", f"{NODE}/applied", theirs)
    assert await apply(a="1", b="1") == "a=1 b=1 theirs=1"
    assert await apply(a="2") == "a=2 theirs=1"
    assert await apply(force=False, theirs="2") == "409 FieldManagerConflict"
    assert await apply(theirs="2") == "theirs=2"
    assert await apply(uid=str(uuid4()), a="1") == "422 FieldValueInvalid FieldValueInvalid"
    assert await apply("missing", a="1") == "409"
    await call(control_plane, "DELETE", f"{NODE}/applied")
    assert await apply(a="1") == "409"


async def test_a_token_that_is_not_known_is_refused(control_plane: ControlPlane) -> None:
    """As Unauthorized."""
    path = control_plane.kubeconfig("stranger")
    with pytest.raises(KubeSchedExtError, match="401 Unauthorized"):
        await asyncio.to_thread(Api(find_access(str(path))).list_page, NODES, limit=1)
