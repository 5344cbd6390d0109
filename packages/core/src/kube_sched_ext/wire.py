"""The extender protocol's messages, k8s.io/kube-scheduler/extender/v1.

The types carry Go's field names. Go reads keys in any case, and schedulers up to 1.16 and clients
written by hand use lower case: the functions here take any case too. kube-scheduler's own requests
are read in one pass.
"""

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import msgspec

from kube_sched_ext.errors import RequestError
from kube_sched_ext.gonames import GoMessage, with_go_names
from kube_sched_ext.objects import Node, Pod

Message = TypeVar("Message", bound=GoMessage)


class NodeList(GoMessage, frozen=True, rename=None):
    """Whole nodes, each kept as the bytes that came in: a reply must return them unchanged."""

    items: list[msgspec.Raw] | None = None
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


class ExtenderArgs(GoMessage, frozen=True):
    """What filter and prioritize are asked: a pod, and nodes either by name or whole."""

    pod: Pod
    nodes: NodeList | None = None
    node_names: list[str] | None = None


class ExtenderFilterResult(GoMessage, frozen=True, kw_only=True):
    """Which nodes stay, and why the others do not.

    `failed_nodes` are those that evictions could help, `failed_and_unresolvable_nodes` the rest.
    """

    nodes: NodeList | None = None
    node_names: list[str] | None = None
    failed_nodes: dict[str, str] = msgspec.field(default_factory=dict)
    failed_and_unresolvable_nodes: dict[str, str] = msgspec.field(default_factory=dict)
    error: str = ""


class HostPriority(GoMessage, frozen=True):
    """One node's score, 0 to 10."""

    host: str
    score: int


class MetaPod(GoMessage, frozen=True):
    """A pod by its UID."""

    uid: str = msgspec.field(default="", name="UID")


class MetaVictims(GoMessage, frozen=True):
    """The pods to evict from a node, by UID."""

    pods: list[MetaPod] | None = None
    num_pdb_violations: int = msgspec.field(default=0, name="NumPDBViolations")


class Victims(GoMessage, frozen=True):
    """The pods to evict from a node, whole."""

    pods: list[Pod] | None = None
    num_pdb_violations: int = msgspec.field(default=0, name="NumPDBViolations")


class ExtenderPreemptionArgs(GoMessage, frozen=True):
    """Candidate nodes for preemption, with victims either whole or by UID."""

    pod: Pod
    node_name_to_victims: dict[str, Victims] | None = None
    node_name_to_meta_victims: dict[str, MetaVictims] | None = None


class ExtenderPreemptionResult(GoMessage, frozen=True):
    """The candidates that remain, always by UID."""

    node_name_to_meta_victims: dict[str, MetaVictims]


class ExtenderBindingArgs(GoMessage, frozen=True):
    """The pod to bind, and the node to bind it to."""

    pod_name: str
    pod_namespace: str
    pod_uid: str = msgspec.field(name="PodUID")
    node: str


class ExtenderBindingResult(GoMessage, frozen=True):
    """Empty where the binding was made."""

    error: str = ""


class ErrorReply(GoMessage, frozen=True):
    """What every call that fails before its verb answers."""

    error: str


_ENCODER: Final = msgspec.json.Encoder()
_NODE: Final = msgspec.json.Decoder(Node)
UNDECODABLE: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What msgspec raises for input that it cannot take; the last is for nesting without end."""


def encode(message: object) -> bytes:
    """Return `message` as JSON, with Go's names."""
    return _ENCODER.encode(message)


_BEFORE_NAMES, _, _AFTER_NAMES = encode(ExtenderFilterResult(node_names=[])).partition(b"[]")


def all_kept(names: bytes) -> msgspec.Raw:
    """Return the reply of a filter that keeps all of `names`, a JSON array, as they came."""
    return msgspec.Raw(_BEFORE_NAMES + names + _AFTER_NAMES)


class Decoder(Generic[Message]):
    """Reads one kind of message."""

    def __init__(self, kind: type[Message]) -> None:
        """Prepare for `kind`."""
        self._kind = kind
        self._exact = msgspec.json.Decoder(kind)

    def decode(self, body: bytes | bytearray) -> Message:
        """Return the message in `body`, its keys in Go's case.

        Raises:
            RequestError: 400; what is wrong and where.
        """
        try:
            return self._exact.decode(body)
        except UNDECODABLE as error:
            raise _refusal(body, error) from None

    def decode_any_case(self, body: bytes | bytearray) -> Message:
        """Return the message in `body`, its keys in any case.

        Raises:
            RequestError: 400; what is wrong and where.
        """
        try:
            return self._exact.decode(with_go_names(body, self._kind))
        except UNDECODABLE as error:
            raise _refusal(body, error) from None


_ARGS: Final = Decoder(ExtenderArgs)
_NAMES: Final = msgspec.json.Decoder(list[str])
_NAMES_KEY: Final = b'"NodeNames":'
_PREEMPTION_ARGS: Final = Decoder(ExtenderPreemptionArgs)
_BINDING_ARGS: Final = Decoder(ExtenderBindingArgs)


def decode_args(body: bytes | bytearray) -> ExtenderArgs:
    """Return what a filter or prioritize call asks.

    Raises:
        RequestError: 400; not JSON, of the wrong shape, or with neither Nodes nor NodeNames.
    """
    try:
        args = _ARGS.decode(body)
    except RequestError:
        args = _ARGS.decode_any_case(body)
    else:
        if args.node_names is None and (args.nodes is None or not args.nodes.items):
            args = _ARGS.decode_any_case(body)
    if args.nodes is None and args.node_names is None:
        raise RequestError(400, "the request has neither Nodes nor NodeNames")
    return args


class ArgsReader:
    """Reads filter and prioritize calls; what comes again in the next call is read once.

    kube-scheduler asks prioritize about the same pod and the nodes that filter left, in the same
    order, and where it asks several extenders each of them again.
    """

    def __init__(self) -> None:
        """Start without a call."""
        self._pod_bytes = self._names_bytes = b"\0"
        self._names_json = b""
        self._args = ExtenderArgs(Pod(), node_names=[])

    def read(self, body: bytes | bytearray) -> ExtenderArgs:
        """Return what the call asks; a pod or names that come again are the same objects.

        Raises:
            RequestError: as `decode_args`.
        """
        if body.endswith(self._names_bytes):
            start = len(body) - len(self._names_bytes)
            names = self._args.node_names
        else:
            start = body.find(_NAMES_KEY + b"[")
            names = None
        # Go writes the names last; whoever does not is read at once.
        pod_bytes = bytes(body[:start])
        if start < 0 or not pod_bytes.endswith((b",", b"{")) or not body.endswith(b"]}"):
            return decode_args(body)
        try:
            if names is None:
                names = _NAMES.decode(memoryview(body)[start + len(_NAMES_KEY) : -1])
            if pod_bytes == self._pod_bytes:
                args = ExtenderArgs(self._args.pod, self._args.nodes, names)
            else:
                args = _ARGS.decode(pod_bytes + _NAMES_KEY + b"[]}")
                args = ExtenderArgs(args.pod, args.nodes, names)
        except (RequestError, *UNDECODABLE):
            return decode_args(body)
        self._pod_bytes, self._names_bytes = pod_bytes, bytes(body[start:])
        self._names_json = self._names_bytes[len(_NAMES_KEY) : -1]
        self._args = args
        return args

    def body_about(self, args: ExtenderArgs, names: Sequence[str]) -> bytes:
        """Return the body of a call about the pod of `args` and `names`, as kube-scheduler has it.

        Nothing where another call was read since `args`, or where that one was no scheduler's.
        """
        if args is not self._args:
            return b""
        return b"".join((self._pod_bytes, _NAMES_KEY, self.json_of(names) or encode(names), b"}"))

    def json_of(self, names: object) -> bytes:
        """Return `names` as the call had them where they are its list itself, else nothing."""
        return self._names_json if names is self._args.node_names else b""


def decode_nodes(items: Sequence[msgspec.Raw]) -> list[Node]:
    """Return the whole nodes of a request.

    Raises:
        RequestError: 400; which item is wrong, and what about it.
    """
    nodes = []
    for index, item in enumerate(items):
        try:
            nodes.append(_NODE.decode(item))
        except UNDECODABLE as error:
            raise RequestError(400, f"Nodes.items[{index}]: {error}") from None
    return nodes


def decode_preemption_args(body: bytes | bytearray) -> ExtenderPreemptionArgs:
    """Return what a preempt call asks.

    Raises:
        RequestError: 400; not JSON, of the wrong shape, or without candidates of either kind.
    """
    args = _PREEMPTION_ARGS.decode_any_case(body)
    if args.node_name_to_victims is None and args.node_name_to_meta_victims is None:
        raise RequestError(
            400, "the request has neither NodeNameToVictims nor NodeNameToMetaVictims"
        )
    return args


def decode_binding_args(body: bytes | bytearray) -> ExtenderBindingArgs:
    """Return what a bind call asks.

    Raises:
        RequestError: 400; not JSON or of the wrong shape.
    """
    return _BINDING_ARGS.decode_any_case(body)


def _refusal(body: bytes | bytearray, error: Exception) -> RequestError:
    if not body.strip():
        return RequestError(400, "the request has an empty body")
    if isinstance(error, RecursionError):
        return RequestError(400, "the request is nested too deeply")
    return RequestError(400, f"the request is not as it should be: {error}")
