"""Replies as Go reads them: keys in any case, the unknown skipped, null for whatever is empty."""

from typing import Any, TypeVar

import msgspec

from kube_sched_ext_testkit.builders import JSON
from kube_sched_ext_testkit.errors import ExtenderError


class _Reply(msgspec.Struct, frozen=True, rename=lambda name: name.replace("_", "")):
    pass


class NodeList(_Reply, frozen=True):
    """Whole nodes."""

    items: list[JSON] | None = None


class FilterReply(_Reply, frozen=True):
    """ExtenderFilterResult."""

    nodes: NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] | None = None
    failed_and_unresolvable_nodes: dict[str, str] | None = None
    error: str | None = None


class HostPriority(_Reply, frozen=True):
    """One node's score."""

    host: str = ""
    score: int = 0


class MetaPod(_Reply, frozen=True):
    """A pod by its UID."""

    uid: str = ""


class MetaVictims(_Reply, frozen=True):
    """The pods to evict from a node, by UID."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: int = 0


class PreemptReply(_Reply, frozen=True):
    """ExtenderPreemptionResult."""

    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class BindReply(_Reply, frozen=True):
    """ExtenderBindingResult."""

    error: str | None = None


T = TypeVar("T")


def read_filter(body: bytes) -> FilterReply:
    """Return the reply of a filter call.

    Raises:
        ExtenderError: it does not decode.
    """
    message = _folded(_decoded(body))
    if message.get("nodes") is not None:
        message["nodes"] = _folded(message["nodes"])
    return _converted(message, FilterReply)


def read_prioritize(body: bytes) -> list[HostPriority]:
    """Return the reply of a prioritize call.

    Raises:
        ExtenderError: it does not decode.
    """
    items = _decoded(body)
    if isinstance(items, list):
        items = [_folded(item) for item in items]
    return [] if items is None else _converted(items, list[HostPriority])


def read_preempt(body: bytes) -> PreemptReply:
    """Return the reply of a preempt call.

    Raises:
        ExtenderError: it does not decode, or has null where kube-scheduler would crash.
    """
    message = _folded(_decoded(body))
    by_node = message.get("nodenametometavictims")
    if isinstance(by_node, dict):
        message["nodenametometavictims"] = {
            node: _folded_victims(victims) for node, victims in by_node.items()
        }
    return _converted(message, PreemptReply)


def read_bind(body: bytes) -> BindReply:
    """Return the reply of a bind call.

    Raises:
        ExtenderError: it does not decode.
    """
    return _converted(_folded(_decoded(body)), BindReply)


def _folded_victims(victims: Any) -> Any:
    if not isinstance(victims, dict):
        return victims
    message = _folded(victims)
    if isinstance(message.get("pods"), list):
        message["pods"] = [
            _folded(pod) if isinstance(pod, dict) else pod for pod in message["pods"]
        ]
    return message


def _folded(message: Any) -> dict[str, Any]:
    """Return `message` with its keys in lower case; of keys that then are one, the last counts."""
    if message is None:
        return {}
    if not isinstance(message, dict):
        raise ExtenderError(f"the reply has {_kind(message)} where an object belongs")
    return {key.lower(): value for key, value in message.items()}


def _decoded(body: bytes) -> Any:
    if not body.strip():
        raise ExtenderError("the reply has an empty body")
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise ExtenderError(f"the reply does not decode: {error}") from None


def _converted(message: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(message, kind)
    except msgspec.ValidationError as error:
        raise ExtenderError(f"the reply does not decode: {error}") from None


def _kind(value: object) -> str:
    return {list: "a list", str: "a string", bool: "a boolean"}.get(type(value), "a number")
