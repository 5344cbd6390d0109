"""A cluster from a file: what `kubectl get nodes -o json` prints."""

from pathlib import Path

import msgspec

from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.objects import Node
from kube_sched_ext.table import NodeTable


class _List(msgspec.Struct, gc=False):
    kind: str
    items: list[msgspec.Raw]


class _Item(msgspec.Struct, gc=False):
    kind: str = "Node"


def load_snapshot(path: Path, table: NodeTable) -> None:
    """Put the nodes in the file at `path` into `table`, one after the other.

    Raises:
        ConfigurationError: the file cannot be read, or is no list of nodes; says where.
    """
    place = "the list"
    try:
        listed = msgspec.json.decode(path.read_bytes(), type=_List)
        if listed.kind not in ("List", "NodeList"):
            raise ConfigurationError([f"{path}: is a {listed.kind}, not a List of nodes"])
        for index, item in enumerate(listed.items):
            place = f"items[{index}]"
            kind = msgspec.json.decode(item, type=_Item).kind
            if kind != "Node":
                raise ConfigurationError([f"{path}: {place}: is a {kind}, not a Node"])
            table.put(msgspec.json.decode(item, type=Node))
    except OSError as error:
        raise ConfigurationError([f"{path}: cannot be read: {error.strerror}"]) from None
    except ValueError as error:
        raise ConfigurationError([f"{path}: {place}: {error}"]) from None
    except RecursionError:
        raise ConfigurationError([f"{path}: {place}: is nested too deeply"]) from None
