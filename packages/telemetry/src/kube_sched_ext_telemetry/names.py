"""Which node a series is about: what labels call it, and what nodes answer to."""

from collections.abc import Sequence
from functools import lru_cache
from ipaddress import AddressValueError, IPv6Address
from typing import Final

from kube_sched_ext import NodeReader

NAMES: Final = 4
"""How many names of a node count: its own, and those of three addresses, such as its host name,
and its internal address in IPv4 and in IPv6."""

_ADDRESSES: Final = ("Hostname", "InternalIP")


def names_of(node: NodeReader) -> Sequence[str]:
    """Return what a series may call `node`, best first: `NAMES` texts, empty ones where fewer."""
    addresses = [it.address for it in node.addresses if it.type in _ADDRESSES]
    found = [*dict.fromkeys([node.name, *map(host_of, addresses)])]
    return (found + [""] * NAMES)[:NAMES]


@lru_cache(maxsize=65536)
def host_of(text: str) -> str:
    """Return the host in a label's value: `host`, `host:port`, or `[IPv6]:port`."""
    host = text
    if text.startswith("["):
        host = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        host = text.partition(":")[0]
    if ":" not in host:
        return host
    try:
        # One address has many spellings.
        return str(IPv6Address(host))
    except AddressValueError:
        return host
