"""The bind verb: a pod gets its node, once."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Final, Protocol

import msgspec

from kube_sched_ext.objects import Slim
from kube_sched_ext.wire import ExtenderBindingArgs, ExtenderBindingResult
from kube_sched_ext_cluster.api import explain
from kube_sched_ext_cluster.errors import ApiError, NoAnswerError

BIND_SECONDS: Final = 4.0
"""Less than the 5 s that kube-scheduler waits by default, so that it hears the reason."""

_WORKERS: Final = 16
_CONFLICT: Final = 409
_NEVER_SENT: Final = ("Credentials", "Unreachable", "Untrusted")


class Bindings(Protocol):
    """The calls that binding takes; `Api` has them."""

    def create_binding(
        self, namespace: str, name: str, *, uid: str, node: str, seconds: float
    ) -> None:
        """Bind the pod that has this UID to `node`."""

    def get_pod(self, namespace: str, name: str, *, seconds: float) -> bytes:
        """Return the pod, as JSON."""


class _Meta(Slim, frozen=True):
    uid: str = ""


class _Spec(Slim, frozen=True):
    node_name: str = ""


class _Pod(Slim, frozen=True):
    metadata: _Meta = _Meta()
    spec: _Spec = _Spec()


_POD: Final = msgspec.json.Decoder(_Pod)


class Binder:
    """Binds pods, several at a time, each within a deadline.

    No pod is bound twice, whatever times out or is retried, because the apiserver itself gives a
    pod a node only while it has none, and only if it still is the pod with the UID that was asked
    for. A request that is still under way when its time is up may succeed later; the pod then has
    that node, kube-scheduler learns it from its own watch, and a retry for another node is
    refused. So each call sends at most one Binding and never repeats it: where the apiserver says
    conflict, or the answer is lost, it looks at the pod instead.
    """

    def __init__(
        self, api: Bindings, *, seconds: float = BIND_SECONDS, workers: int = _WORKERS
    ) -> None:
        """Bind through `api`.

        Args:
            api: the apiserver.
            seconds: the time for one pod, waiting for its turn included.
            workers: how many pods are bound at a time.
        """
        self._api = api
        self._seconds = seconds
        # Its own threads: an apiserver that hangs must not stop other background work.
        self._workers = ThreadPoolExecutor(workers, "bind")

    async def bind(self, args: ExtenderBindingArgs) -> ExtenderBindingResult:
        """Bind the pod, and return why it could not be, in the apiserver's words.

        A pod that already has this node is a success.
        """
        if problem := _problem(args):
            return ExtenderBindingResult(error=problem)
        deadline = monotonic() + self._seconds
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._seconds):
                error = await loop.run_in_executor(self._workers, self._bind, args, deadline)
        except TimeoutError:
            error = (
                f"no answer from the apiserver within {self._seconds:g} s; "
                "the pod may still get its node"
            )
        return ExtenderBindingResult(error=error)

    def close(self) -> None:
        """Take no more pods; those under way are finished."""
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _bind(self, args: ExtenderBindingArgs, deadline: float) -> str:
        """Return what is wrong; nothing where the pod has its node."""
        try:
            self._api.create_binding(
                args.pod_namespace,
                args.pod_name,
                uid=args.pod_uid,
                node=args.node,
                seconds=max(deadline - monotonic(), 0.001),
            )
        except ApiError as error:
            is_bound = error.code == _CONFLICT and self._is_bound(args, deadline)
            return "" if is_bound else explain(error)
        except NoAnswerError as error:
            is_bound = error.reason not in _NEVER_SENT and self._is_bound(args, deadline)
            return "" if is_bound else explain(error)
        return ""

    def _is_bound(self, args: ExtenderBindingArgs, deadline: float) -> bool:
        seconds = deadline - monotonic()
        if seconds <= 0:
            return False
        try:
            body = self._api.get_pod(args.pod_namespace, args.pod_name, seconds=seconds)
            pod = _POD.decode(body)
        except (ApiError, NoAnswerError, msgspec.MsgspecError):
            # The first error says more than this one.
            return False
        return pod.metadata.uid == args.pod_uid and pod.spec.node_name == args.node


def _problem(args: ExtenderBindingArgs) -> str:
    given = {
        "PodName": args.pod_name,
        "PodNamespace": args.pod_namespace,
        "PodUID": args.pod_uid,
        "Node": args.node,
    }
    missing = [field for field, value in given.items() if not value]
    if missing:
        return f"the request has no {', '.join(missing)}"
    # They become parts of a path.
    for field in ("PodName", "PodNamespace"):
        value = given[field]
        if value in (".", "..") or "/" in value or "%" in value:
            return f"{field} {value!r} is no name"
    return ""
