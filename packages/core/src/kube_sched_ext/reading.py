"""How agents read numbers from a node: what does not parse counts as missing, and is told."""

import math
import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import msgspec

from kube_sched_ext.demand import Unparsable
from kube_sched_ext.errors import UnparsableError
from kube_sched_ext.objects import ContainerImage, Node, NodeAddress
from kube_sched_ext.quantity import parse_amount, whole

MISSING: Final = math.nan
"""A number that a node does not have."""

_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]{1,19})", re.ASCII)
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)


def decimal(text: str) -> float:
    """Return the plain decimal number in `text`: no blanks, underscores or hex.

    Raises:
        UnparsableError: another notation, or a number too large for a float64.
    """
    number = float(text) if _DECIMAL.fullmatch(text) else math.inf
    if not math.isfinite(number):
        raise UnparsableError(text, "a plain decimal number such as 4194304, 0.25 or 1e9")
    return number


_IMAGES: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)
_IMAGE: Final = msgspec.json.Decoder(ContainerImage)
_ADDRESSES: Final = msgspec.json.Decoder(list[NodeAddress] | None)


@lru_cache(maxsize=65536)
def _image(entry: bytes) -> ContainerImage:
    """Decode an image once for all nodes that have it: they report it in the same bytes."""
    return _IMAGE.decode(entry)


def int64(text: str) -> int | None:
    """Return the 64-bit decimal integer in `text`, or None if it is anything else."""
    match = _INTEGER.fullmatch(text)
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if -(2**63) <= number < 2**63 else None


class NodeReader:
    """One node, and what could not be read from it."""

    def __init__(self, node: Node) -> None:
        """Start without problems."""
        self._node = node
        self.unparsable: list[Unparsable] = []

    @property
    def name(self) -> str:
        """The node's name."""
        return self._node.metadata.name

    @property
    def labels(self) -> dict[str, str]:
        """The node's labels."""
        return self._node.metadata.labels or {}

    @property
    def images(self) -> list[ContainerImage]:
        """The images that the kubelet reports; by default its 50 largest.

        Raises:
            msgspec.ValidationError: they are not as Kubernetes has them.
        """
        return [_image(bytes(entry)) for entry in _IMAGES.decode(self._node.status.images) or ()]

    @property
    def addresses(self) -> list[NodeAddress]:
        """The node's addresses, in the order in which they are reported.

        Raises:
            msgspec.ValidationError: they are not as Kubernetes has them.
        """
        return _ADDRESSES.decode(self._node.status.addresses) or []

    def annotation(self, key: str, parse: Callable[[str], float] = decimal) -> float:
        """Return the number in annotation `key`, or MISSING.

        `parse` raises UnparsableError for what it does not take.
        """
        text = (self._node.metadata.annotations or {}).get(key)
        if text is None:
            return MISSING
        try:
            return parse(text)
        except UnparsableError as error:
            self.unparsable.append(Unparsable(key, text, error.expected))
            return MISSING

    def allocatable(self, resource: str) -> float:
        """Return what pods may use of `resource`, in millicores or whole units, or MISSING."""
        quantity = (self._node.status.allocatable or {}).get(resource)
        if quantity is None:
            return MISSING
        try:
            return float(whole(resource, parse_amount(quantity)))
        except UnparsableError as error:
            self.unparsable.append(Unparsable(resource, str(quantity), error.expected))
            return MISSING
