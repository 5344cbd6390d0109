"""Requests that kube-scheduler sent, as files VERB.MODE.POD.json; MODE is names or full."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from kube_sched_ext_testkit.builders import JSON
from kube_sched_ext_testkit.demo import DemoError
from kube_sched_ext_testkit.scheduler import Victims, name_of


@dataclass(frozen=True, slots=True)
class Asked:
    """What filter and prioritize were asked."""

    pod: JSON
    nodes: list[JSON]


@dataclass(frozen=True, slots=True)
class AskedToPreempt:
    """What preempt was asked."""

    pod: JSON
    candidates: dict[str, Victims]


def load_nodes(path: Path) -> dict[str, JSON]:
    """Return the nodes in a snapshot (kubectl get nodes -o json) by name."""
    snapshot: Any = msgspec.json.decode(path.read_bytes())
    return {name_of(node): node for node in snapshot["items"]}


def pods_recorded(folder: Path, verb: str) -> list[str]:
    """Return the names of the pods that there are requests of `verb` for, sorted."""
    prefix = f"{verb}.names."
    return sorted(path.stem.removeprefix(prefix) for path in folder.glob(f"{prefix}*.json"))


def load_asked(path: Path, nodes: Mapping[str, JSON]) -> Asked:
    """Return a request of filter or prioritize; names are looked up in `nodes`.

    Raises:
        DemoError: a name is not there.
    """
    request: Any = msgspec.json.decode(path.read_bytes())
    if (names := request["NodeNames"]) is not None:
        if unknown := [name for name in names if name not in nodes]:
            raise DemoError(f"{path}: nodes that are not in the snapshot: {', '.join(unknown)}")
        return Asked(request["Pod"], [nodes[name] for name in names])
    return Asked(request["Pod"], request["Nodes"]["items"])


def load_asked_to_preempt(path: Path) -> AskedToPreempt:
    """Return a request of preempt; of victims given by UID no more than that is known."""
    request: Any = msgspec.json.decode(path.read_bytes())
    by_uid = request["NodeNameToMetaVictims"]
    candidates = {}
    for node, victims in (by_uid or request["NodeNameToVictims"]).items():
        pods = victims["Pods"]
        if by_uid is not None:
            pods = [{"metadata": {"uid": pod["UID"]}} for pod in pods]
        candidates[node] = Victims(pods, victims["NumPDBViolations"])
    return AskedToPreempt(request["Pod"], candidates)
