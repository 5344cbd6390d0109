"""An extender as kube-scheduler v1.36 sees it.

Where its HTTPExtender fails a call, the calls here raise ExtenderError; where it would go on with a
reply that misleads it, MisleadingReplyError.
"""

import ssl
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from time import monotonic
from types import TracebackType
from typing import Any, Final, Self

import httpx
import msgspec

from kube_sched_ext_testkit import replies
from kube_sched_ext_testkit.builders import JSON
from kube_sched_ext_testkit.errors import ExtenderError, MisleadingReplyError

MAX_SCORE: Final = 10


@dataclass(frozen=True, slots=True)
class FilterOutcome:
    """Which nodes a filter kept, and why not the others: reasons by node.

    `failed` are those that preemption could help, `failed_and_unresolvable` the rest.
    """

    kept: list[JSON]
    failed: dict[str, str] = field(default_factory=dict)
    failed_and_unresolvable: dict[str, str] = field(default_factory=dict)

    @property
    def kept_names(self) -> list[str]:
        """The names of the nodes kept."""
        return [name_of(node) for node in self.kept]

    @property
    def reasons(self) -> dict[str, str]:
        """The reason that counts for each node; unresolvable wins."""
        return {**self.failed, **self.failed_and_unresolvable}


@dataclass(frozen=True, slots=True)
class Victims:
    """The pods to evict from a node."""

    pods: Sequence[JSON]
    pdb_violations: int = 0


@dataclass(frozen=True, slots=True)
class RawReply:
    """An answer as it came; `connection` is the near end of the connection that it came on."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    connection: object


class Extender:
    """One entry of `extenders` in kube-scheduler's configuration, and its calls.

    Close it, or use it in a `with` statement. Several threads may call at once.
    """

    def __init__(  # noqa: PLR0913  # the entry has as many fields
        self,
        url_prefix: str,
        *,
        filter_verb: str = "",
        prioritize_verb: str = "",
        preempt_verb: str = "",
        bind_verb: str = "",
        weight: int = 1,
        node_cache_capable: bool = True,
        managed_resources: Collection[str] = (),
        ignorable: bool = False,
        timeout: float = 5.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Take what the configuration would say.

        Args:
            url_prefix: what the URL of every verb starts with.
            filter_verb: rest of the filter's URL; empty where the extender has none, like the
                other verbs.
            prioritize_verb: rest of the priority's URL.
            preempt_verb: rest of the URL for preemption.
            bind_verb: rest of the URL for binding.
            weight: of the scores.
            node_cache_capable: whether to send names instead of whole nodes.
            managed_resources: extended resources; where given, only pods that ask for one of them
                are of interest.
            ignorable: whether scheduling goes on when the filter or preempt call fails.
            timeout: seconds for a whole call.
            tls: whom to trust, and who to be, at an https URL.
        """
        self.url_prefix = url_prefix.rstrip("/")
        self.filter_verb = filter_verb
        self.prioritize_verb = prioritize_verb
        self.preempt_verb = preempt_verb
        self.bind_verb = bind_verb
        self.weight = weight
        self.node_cache_capable = node_cache_capable
        self.managed_resources = frozenset(managed_resources)
        self.ignorable = ignorable
        self.timeout = timeout
        self._client = httpx.Client(
            timeout=timeout,
            follow_redirects=True,
            # Go never asks a proxy about a loopback address.
            trust_env=False,
            verify=tls or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            # Go keeps two idle ones and closes others. httpx may close one beyond a limit in the
            # moment in which another thread is given it.
            limits=httpx.Limits(
                max_connections=None, max_keepalive_connections=None, keepalive_expiry=90
            ),
        )

    def __enter__(self) -> Self:
        """Return the extender itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def is_interested(self, pod: JSON) -> bool:
        """Tell whether kube-scheduler calls the extender for `pod` at all."""
        if not self.managed_resources:
            return True
        spec: Any = pod.get("spec") or {}
        containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        kinds = [container.get("resources") or {} for container in containers]
        asked = {
            name
            for resources in kinds
            for key in ("requests", "limits")
            for name in resources.get(key) or ()
        }
        return not self.managed_resources.isdisjoint(asked)

    def filter(self, pod: JSON, nodes: Sequence[JSON]) -> FilterOutcome:
        """Ask which of `nodes` to keep; all, where there is no filter verb.

        Raises:
            ExtenderError: the call failed, or the extender reports an error.
            MisleadingReplyError: nodes changed, given twice, or not asked about.
        """
        if not self.filter_verb:
            return FilterOutcome(list(nodes))
        reply = replies.read_filter(self._send(self.filter_verb, self.args(pod, nodes)))
        if reply.error:
            raise ExtenderError(f"{self.filter_verb} reports an error: {reply.error}")
        asked = {name_of(node): node for node in nodes}
        outcome = FilterOutcome(
            self._kept(reply, asked),
            reply.failed_nodes or {},
            reply.failed_and_unresolvable_nodes or {},
        )
        self._check_names(self.filter_verb, outcome.kept_names, asked)
        self._check_names(self.filter_verb, outcome.reasons, asked)
        if both := set(outcome.kept_names) & set(outcome.reasons):
            raise MisleadingReplyError(f"{self.filter_verb} keeps and rejects {_list(both)}")
        return outcome

    def prioritize(self, pod: JSON, nodes: Sequence[JSON]) -> dict[str, int]:
        """Ask for a score of each of `nodes`; none, where there is no prioritize verb.

        Raises:
            ExtenderError: the call failed.
            MisleadingReplyError: scores outside of 0..10, or for nodes not asked about.
        """
        if not self.prioritize_verb:
            return {}
        reply = replies.read_prioritize(self._send(self.prioritize_verb, self.args(pod, nodes)))
        self._check_names(
            self.prioritize_verb,
            [score.host for score in reply],
            {name_of(node): node for node in nodes},
        )
        for score in reply:
            if not 0 <= score.score <= MAX_SCORE:
                raise MisleadingReplyError(
                    f"{self.prioritize_verb} scores {score.host} {score.score}, "
                    f"not 0 to {MAX_SCORE}"
                )
        return {score.host: score.score for score in reply}

    def preempt(
        self,
        pod: JSON,
        candidates: Mapping[str, Victims],
        pods_by_node: Mapping[str, Sequence[JSON]] | None = None,
    ) -> dict[str, Victims]:
        """Ask which of `candidates`, victims by node, remain.

        `pods_by_node` are the pods of the whole cluster; the victims alone where left out.

        Raises:
            ExtenderError: the call failed, or the reply has a node that is not in the cluster,
                one without victims, or a pod that is not on its node.
        """
        if not self.preempt_verb:
            raise ExtenderError(f"{self.url_prefix} has no preempt verb")
        if pods_by_node is None:
            pods_by_node = {node: victims.pods for node, victims in candidates.items()}
        body = self._send(self.preempt_verb, self.preemption_args(pod, candidates))
        by_node = replies.read_preempt(body).node_name_to_meta_victims or {}
        remaining: dict[str, Victims] = {}
        for node, meta in by_node.items():
            if node not in pods_by_node:
                raise ExtenderError(f"{self.preempt_verb} returns {node}, which is no known node")
            pods = {_meta(on_node).get("uid"): on_node for on_node in pods_by_node[node]}
            uids = [victim.uid for victim in meta.pods or ()]
            if missing := [uid for uid in uids if uid not in pods]:
                raise ExtenderError(
                    f"{self.preempt_verb} evicts pods that are not on {node}: {_list(missing)}"
                )
            if uids:
                victims = [pods[uid] for uid in uids]
                remaining[node] = Victims(victims, meta.num_pdb_violations)
            elif not self.ignorable:
                raise ExtenderError(f"{self.preempt_verb} returns {node} without victims")
        return remaining

    def bind(self, pod: JSON, node: str) -> None:
        """Ask to bind `pod` to `node`.

        Raises:
            ExtenderError: the call failed, or the extender reports an error.
        """
        if not self.bind_verb:
            raise ExtenderError(f"{self.url_prefix} has no bind verb")
        meta = _meta(pod)
        args: JSON = {
            "PodName": meta.get("name", ""),
            "PodNamespace": meta.get("namespace", ""),
            "PodUID": meta.get("uid", ""),
            "Node": node,
        }
        reply = replies.read_bind(self._send(self.bind_verb, args))
        if reply.error:
            raise ExtenderError(f"{self.bind_verb} reports an error: {reply.error}")

    def args(self, pod: JSON, nodes: Sequence[JSON]) -> JSON:
        """Return the message that asks to filter or prioritize `nodes`."""
        if self.node_cache_capable:
            return {"Pod": pod, "Nodes": None, "NodeNames": [name_of(node) for node in nodes]}
        items = list(nodes) or None
        return {"Pod": pod, "Nodes": {"metadata": {}, "items": items}, "NodeNames": None}

    def preemption_args(self, pod: JSON, candidates: Mapping[str, Victims]) -> JSON:
        """Return the message that asks to preempt `candidates`."""
        whole: dict[str, JSON] = {
            node: {"Pods": list(victims.pods), "NumPDBViolations": victims.pdb_violations}
            for node, victims in candidates.items()
        }
        if not self.node_cache_capable:
            return {"Pod": pod, "NodeNameToVictims": whole, "NodeNameToMetaVictims": None}
        by_uid = {
            node: {
                "Pods": [{"UID": _meta(victim).get("uid", "")} for victim in victims.pods],
                "NumPDBViolations": victims.pdb_violations,
            }
            for node, victims in candidates.items()
        }
        return {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": by_uid}

    def _kept(self, reply: replies.FilterReply, asked: Mapping[str, JSON]) -> list[JSON]:
        if self.node_cache_capable and reply.node_names is not None:
            if unknown := [name for name in reply.node_names if name not in asked]:
                raise ExtenderError(
                    f"{self.filter_verb} keeps nodes that were not in the request: {_list(unknown)}"
                )
            return [asked[name] for name in reply.node_names]
        if reply.nodes is None:
            return []
        kept = reply.nodes.items or []
        for node in kept:
            sent = asked.get(name_of(node))
            if not self.node_cache_capable and sent is not None and not is_same(node, sent):
                raise MisleadingReplyError(f"{self.filter_verb} changed node {name_of(node)}")
        return kept

    def _check_names(self, verb: str, names: Iterable[str], asked: Collection[str]) -> None:
        told = list(names)
        if unknown := [name for name in told if name not in asked]:
            raise MisleadingReplyError(
                f"{verb} names nodes that were not in the request: {_list(unknown)}"
            )
        if len(set(told)) < len(told):
            twice = {name for name in told if told.count(name) > 1}
            raise MisleadingReplyError(f"{verb} names nodes more than once: {_list(twice)}")

    def request(self, method: str, verb: str, content: bytes = b"") -> RawReply:
        """Return what the extender answers, whatever it is.

        Raises:
            ExtenderError: it does not answer, or not in time.
        """
        url = f"{self.url_prefix}/{verb}"
        deadline = monotonic() + self.timeout
        headers = {"Content-Type": "application/json", "Accept-Encoding": "gzip"}
        try:
            with self._client.stream(method, url, content=content, headers=headers) as response:
                connection = response.extensions["network_stream"].get_extra_info("client_addr")
                chunks = []
                for chunk in response.iter_bytes():
                    chunks.append(chunk)
                    # httpx limits each read alone, Go the whole call.
                    if monotonic() > deadline:
                        raise ExtenderError(f"{url} took more than {self.timeout:g} s")
        except httpx.TimeoutException:
            raise ExtenderError(f"{url} took more than {self.timeout:g} s") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ExtenderError(f"{url} cannot be asked: {error}") from None
        return RawReply(response.status_code, response.headers, b"".join(chunks), connection)

    def _send(self, verb: str, args: JSON) -> bytes:
        reply = self.request("POST", verb, msgspec.json.encode(args))
        url = f"{self.url_prefix}/{verb}"
        if reply.status != httpx.codes.OK:
            text = reply.body.decode(errors="replace").strip()
            raise ExtenderError(f"{url} answers {reply.status}: {text}")
        if "content-length" not in reply.headers:
            raise MisleadingReplyError(
                f"{url} sends no Content-Length: kube-scheduler cannot use the connection again"
            )
        return reply.body


def name_of(node: JSON) -> str:
    """Return the name of a node, or of a pod."""
    return str(_meta(node).get("name", ""))


def is_same(one: JSON, other: JSON) -> bool:
    """Tell whether two objects are the same to Go, for which a zero value is as good as none."""
    return bool(_significant(one) == _significant(other))


def _significant(value: Any) -> Any:
    if isinstance(value, dict):
        parts = {key: _significant(part) for key, part in value.items()}
        return {key: part for key, part in parts.items() if part}
    if isinstance(value, list):
        return [_significant(part) for part in value]
    return value


def _meta(thing: JSON) -> Any:
    return thing.get("metadata") or {}


def _list(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))
