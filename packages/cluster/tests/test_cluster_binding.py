"""A pod gets its node once, and every other outcome has a reason."""

import asyncio
import json
import threading
import time

import msgspec
import pytest
from cluster_fake import FakeApiserver, Lines, Reply, status

from kube_sched_ext.wire import ExtenderBindingArgs
from kube_sched_ext_cluster.binding import Binder
from kube_sched_ext_cluster.errors import NoAnswerError, Trouble

pytestmark = pytest.mark.anyio

ARGS = ExtenderBindingArgs("web", "shop", "uid-1", "node-1")
TAKEN = status(
    409,
    "Conflict",
    'Operation cannot be fulfilled on pods/binding "web": pod web is already assigned to node "x"',
)


def pod(uid: str = "uid-1", node: str = "node-1") -> Reply:
    """Answer with a pod."""
    return Reply(200, {"metadata": {"name": "web", "uid": uid}, "spec": {"nodeName": node}})


async def bind(apiserver: FakeApiserver, seconds: float = 4.0, **changes: str) -> str:
    """Bind, and return the error."""
    binder = Binder(apiserver.api(), seconds=seconds)
    try:
        return (await binder.bind(msgspec.structs.replace(ARGS, **changes))).error
    finally:
        binder.close()


async def test_a_binding_carries_the_pods_uid(apiserver: FakeApiserver) -> None:
    """So that no other pod of the same name is bound."""
    assert await bind(apiserver) == ""
    [request] = apiserver.requests
    assert request.path == "/api/v1/namespaces/shop/pods/web/binding"
    assert json.loads(request.body) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "shop", "name": "web", "uid": "uid-1"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "node-1"},
    }


@pytest.mark.parametrize(
    ("found", "is_success"),
    [
        (pod(), True),
        (pod(node="node-2"), False),
        (pod(node=""), False),
        (pod(uid="uid-2"), False),
        (Reply(404, status(404, "NotFound", "gone meanwhile")), False),
        (Reply(200, "nonsense"), False),
    ],
    ids=["same node", "other node", "no node", "other pod", "no pod", "no answer"],
)
async def test_a_conflict_is_a_success_only_for_the_same_pod_and_node(
    apiserver: FakeApiserver, found: Reply, *, is_success: bool
) -> None:
    """A retry of what has already been done; anything else keeps the apiserver's reason."""
    apiserver.script["post"].append(Reply(409, TAKEN))
    apiserver.script["get"].append(found)
    assert await bind(apiserver) == ("" if is_success else TAKEN["message"])
    assert [it.verb for it in apiserver.requests] == ["post", "get"]


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (404, "NotFound", 'pods "web" not found'),
        (403, "Forbidden", 'pods "web" is forbidden: cannot create resource "pods/binding"'),
        (500, "InternalError", "etcdserver: request timed out"),
    ],
)
async def test_a_refusal_answers_the_apiservers_reason(
    apiserver: FakeApiserver, code: int, reason: str, message: str
) -> None:
    """Without another request."""
    apiserver.script["post"].append(Reply(code, status(code, reason, message)))
    assert await bind(apiserver) == message
    assert len(apiserver.requests) == 1


@pytest.mark.parametrize(("found", "is_success"), [(pod(), True), (pod(node=""), False)])
async def test_a_lost_answer_is_cleared_up_by_a_look_at_the_pod(
    apiserver: FakeApiserver, found: Reply, *, is_success: bool
) -> None:
    """The Binding is not sent again."""
    apiserver.script["post"].append(Lines(end="cut"))
    apiserver.script["get"].append(found)
    error = await bind(apiserver)
    assert (error == "") is is_success
    assert is_success or "Disconnected" in error
    assert [it.verb for it in apiserver.requests] == ["post", "get"]


async def test_an_apiserver_that_hangs_is_told_in_time(apiserver: FakeApiserver) -> None:
    """Before kube-scheduler gives up itself, and without a second Binding."""
    apiserver.script["post"].append(Lines(end="hang"))
    began = time.monotonic()
    error = await bind(apiserver, seconds=0.2)
    assert "no answer from the apiserver" in error
    assert time.monotonic() - began < 1.0
    assert len(apiserver.asked("post")) == 1


@pytest.mark.parametrize("reason", ["Unreachable", "Untrusted", "Credentials"])
async def test_a_request_that_was_never_sent_is_told_without_a_look_at_the_pod(
    reason: Trouble,
) -> None:
    """There is nothing to look for."""

    class Away:
        def create_binding(self, *_: object, **__: object) -> None:
            raise NoAnswerError(reason, "nobody there")

        def get_pod(self, *_: object, **__: object) -> bytes:
            raise AssertionError

    binder = Binder(Away())
    error = (await binder.bind(ARGS)).error
    binder.close()
    assert error == f"no answer from the apiserver: {reason}: nobody there"


async def test_a_pod_whose_turn_does_not_come_in_time_is_never_bound() -> None:
    """Time spent waiting for a thread counts, and a bind that was given up is not begun."""
    release = threading.Event()
    begun: list[str] = []

    class Slow:
        def create_binding(self, namespace: str, name: str, **_: object) -> None:
            begun.append(name)
            release.wait(5)

        def get_pod(self, *_: object, **__: object) -> bytes:
            raise AssertionError

    binder = Binder(Slow(), seconds=0.05, workers=1)
    first, second = await asyncio.gather(
        binder.bind(ARGS), binder.bind(msgspec.structs.replace(ARGS, pod_name="late"))
    )
    release.set()
    binder._workers.shutdown(wait=True)
    assert "within 0.05 s" in first.error
    assert "within 0.05 s" in second.error
    assert begun == ["web"]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"pod_name": ""}, "the request has no PodName"),
        ({"pod_namespace": "", "node": ""}, "the request has no PodNamespace, Node"),
        ({"pod_uid": ""}, "the request has no PodUID"),
        ({"pod_name": ".."}, "PodName '..' is no name"),
        ({"pod_namespace": "a/b"}, "PodNamespace 'a/b' is no name"),
    ],
)
async def test_a_request_that_lacks_something_is_refused_here(
    apiserver: FakeApiserver, changes: dict[str, str], error: str
) -> None:
    """And says what it lacks."""
    assert await bind(apiserver, **changes) == error
    assert apiserver.requests == []
