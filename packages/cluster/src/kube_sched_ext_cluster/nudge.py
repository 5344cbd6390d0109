"""The nudge: kube-scheduler tries a rejected pod again only when something in the cluster changes.

A verdict that changes with a metric, or just with time, is no such change. Nor is a node's
annotation of which kube-scheduler heard before we did: it asks again at once, and gets the old
answer. So verdicts on pods that were rejected are looked at again and again, and when a node would
now pass, one annotation is written to it.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from random import uniform
from sys import intern
from time import monotonic
from typing import Final, Protocol

from prometheus_client import CollectorRegistry, Counter

from kube_sched_ext.agent import Predicate
from kube_sched_ext.errors import AgentError
from kube_sched_ext.logs import Log
from kube_sched_ext.objects import Node, Pod
from kube_sched_ext.verbs import Verbs
from kube_sched_ext_cluster.errors import ApiError, NoAnswerError

ANNOTATION: Final = "kube-sched-ext/nudge"
"""Its value is the time of the nudge, as in RFC 3339."""

_PODS: Final = 1000
_PODS_A_ROUND: Final = 100
"""How many pods are looked at in one round; those left come first in the next. One nudge brings
all pods back, so it is enough to find the first that would pass."""
_KEPT_SECONDS: Final = 600.0
"""kube-scheduler itself tries a pod again after 5 minutes; one that it does not ask about for
longer is gone."""
_SPREAD: Final = 0.5
"""By how much of the time between nudges a round may come later, so that replicas which wait for
the same moment do not nudge at the same moment."""
_CONFLICT: Final = 409


class Annotator(Protocol):
    """Writes annotations; `Api` does."""

    def annotate_node(
        self, name: str, annotations: Mapping[str, str | None], *, resource_version: str = ""
    ) -> None:
        """Merge `annotations` into a node that still has this version."""


@dataclass(frozen=True, slots=True)
class _Rejected:
    pod: Pod
    predicates: Sequence[Predicate]
    nodes: Sequence[str]
    at: float


class Nudger:
    """Looks for rejected nodes that would now pass.

    Several replicas do not nudge more often than one: each sees the others' nudges on the nodes it
    watches and waits as after its own, and a nudge is refused where the node has changed since.
    """

    def __init__(
        self,
        verbs: Verbs,
        annotator: Annotator,
        log: Log,
        registry: CollectorRegistry,
        *,
        seconds: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Look for cause every `seconds`, and nudge no more often than that."""
        self._verbs = verbs
        self._annotator = annotator
        self._log = log
        self._seconds = seconds
        self._clock = clock
        self._rejected: OrderedDict[str, _Rejected] = OrderedDict()
        self._versions: dict[str, str] = {}
        self._nudges_seen: dict[str, str] = {}
        self._nudged_at = float("-inf")
        self._nudges = Counter(
            "kube_sched_ext_nudges",
            "Nodes annotated so that a rejected pod is tried again, by outcome.",
            ("outcome",),
            registry=registry,
        )

    def rejected(self, pod: Pod, predicates: Sequence[Predicate], nodes: Sequence[str]) -> None:
        """Note that `predicates` rejected `nodes` for `pod`."""
        uid = pod.metadata.uid
        if not uid:
            return
        # Pods are rejected by the thousand on the same nodes: one copy of each name is enough.
        names = tuple(map(intern, nodes))
        self._rejected[uid] = _Rejected(pod, predicates, names, self._clock())
        self._rejected.move_to_end(uid)
        if len(self._rejected) > _PODS:
            self._rejected.popitem(last=False)

    def forget(self, uid: str) -> None:
        """Note that the pod has a node."""
        self._rejected.pop(uid, None)

    def seen(self, node: Node) -> None:
        """Note that `node` was added or has changed."""
        name = node.metadata.name
        self._versions[name] = node.metadata.resource_version
        nudge = (node.metadata.annotations or {}).get(ANNOTATION, "")
        if nudge != self._nudges_seen.get(name, ""):
            # When it was seen, not when it was written: clocks differ.
            self._nudges_seen[name] = nudge
            self._nudged_at = self._clock()

    def gone(self, name: str) -> None:
        """Note that the node is gone."""
        self._versions.pop(name, None)
        self._nudges_seen.pop(name, None)

    async def run(self) -> None:
        """Nudge whenever there is cause, until cancelled."""
        wait = self._seconds
        while True:
            await asyncio.sleep(wait + self._seconds * uniform(0, _SPREAD))  # noqa: S311  # spreads load, guards nothing
            wait = self._nudged_at + self._seconds - self._clock()
            if wait > 0:
                continue
            wait = self._seconds
            found = await self._passing()
            if found is not None:
                await self._nudge(*found)

    async def _passing(self) -> tuple[str, _Rejected] | None:
        """Return a node that would now pass for a pod, looking at one round of pods."""
        oldest = self._clock() - _KEPT_SECONDS
        for uid, rejected in list(self._rejected.items())[:_PODS_A_ROUND]:
            # Verbs go first: one pod at a time is looked at.
            await asyncio.sleep(0)
            if self._rejected.get(uid) is not rejected:
                continue
            if rejected.at < oldest:
                self.forget(uid)
                continue
            self._rejected.move_to_end(uid)
            try:
                passing = self._verbs.passing(rejected.predicates, rejected.pod, rejected.nodes)
            except AgentError as error:
                self._log.error("agent failed", pod=error.pod, exc_info=error)
                self.forget(uid)
                continue
            if passing:
                # Replicas that see the same choose the same, and one of them is refused.
                return min(passing), rejected
        return None

    async def _nudge(self, node: str, rejected: _Rejected) -> None:
        uid = rejected.pod.metadata.uid
        try:
            await asyncio.to_thread(
                self._annotator.annotate_node,
                node,
                {ANNOTATION: datetime.now(UTC).isoformat()},
                resource_version=self._versions.get(node, ""),
            )
        except (ApiError, NoAnswerError) as error:
            is_conflict = isinstance(error, ApiError) and error.code == _CONFLICT
            self._nudges.labels("conflict" if is_conflict else "failed").inc()
            # The pod is still noted: the next rounds try again.
            self._log.at(
                "DEBUG" if is_conflict else "ERROR",
                "nudge failed",
                {"node": node, "pod": str(rejected.pod), "error": str(error)},
            )
        else:
            self._nudges.labels("written").inc()
            self._log.info("nudged", node=node, pod=str(rejected.pod))
            # A pod that is rejected again is noted again.
            if self._rejected.get(uid) is rejected:
                self.forget(uid)
        self._nudged_at = self._clock()
