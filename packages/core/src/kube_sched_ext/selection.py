"""Which pods agents are asked about; all others pass through untouched and unscored."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kube_sched_ext.errors import UnparsableError
from kube_sched_ext.objects import Pod

_KEY: Final = r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?"
_VALUE: Final = r"[A-Za-z0-9._-]*"
_SET: Final = rf"\(\s*{_VALUE}\s*(,\s*{_VALUE}\s*)*\)"
_REQUIREMENT: Final = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<lacking>{_KEY})"
    rf"|(?P<key>{_KEY})(?:\s*(?P<equality>==?|!=)\s*(?P<value>{_VALUE})"
    rf"|\s+(?P<membership>in|notin)\s*(?P<values>{_SET}))?)\s*",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Requirement:
    """One part of a label selector: the label is one of `values`, or (`values` None) is there."""

    key: str
    values: frozenset[str] | None
    is_negated: bool

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether `labels` meet it; a label that is not there is none of any values."""
        value = labels.get(self.key)
        is_met = value is not None and (self.values is None or value in self.values)
        return is_met != self.is_negated


def parse_selector(text: str) -> list[Requirement]:
    """Return the requirements of a label selector as kubectl takes it; all must be met.

    That is a list of `key=value`, `key==value`, `key!=value`, `key in (a, b)`, `key notin (a, b)`,
    `key` and `!key`, with commas between.

    Raises:
        UnparsableError: anything else.
    """
    requirements = []
    end = 0
    while end < len(text):
        match = _REQUIREMENT.match(text, end)
        if match is None or (match.end() < len(text) and text[match.end()] != ","):
            raise UnparsableError(text, "a label selector such as app=web,tier in (a, b),!legacy")
        requirements.append(_requirement(match))
        end = match.end() + 1
    if text.rstrip().endswith(","):
        raise UnparsableError(text, "a label selector: it ends in a comma")
    return requirements


def _requirement(match: re.Match[str]) -> Requirement:
    if match["absent"]:
        return Requirement(match["lacking"], None, is_negated=True)
    if match["equality"]:
        is_negated = match["equality"] == "!="
        return Requirement(match["key"], frozenset([match["value"]]), is_negated)
    if match["membership"]:
        values = frozenset(value.strip() for value in match["values"][1:-1].split(","))
        return Requirement(match["key"], values, is_negated=match["membership"] == "notin")
    return Requirement(match["key"], None, is_negated=False)


@dataclass(frozen=True, slots=True)
class PodSelector:
    """Pods by namespace, scheduler and labels; an empty part selects nothing by itself."""

    namespaces: frozenset[str]
    schedulers: frozenset[str]
    labels: Sequence[Requirement]

    def has_all(self, pod: Pod) -> bool:
        """Tell whether each part that is not empty selects `pod`."""
        return all(self._parts(pod))

    def has_any(self, pod: Pod) -> bool:
        """Tell whether a part that is not empty selects `pod`."""
        return any(self._parts(pod))

    def _parts(self, pod: Pod) -> list[bool]:
        parts = []
        if self.namespaces:
            parts.append((pod.metadata.namespace or "default") in self.namespaces)
        if self.schedulers:
            parts.append((pod.spec.scheduler_name or "default-scheduler") in self.schedulers)
        if self.labels:
            labels = pod.metadata.labels or {}
            parts.append(all(requirement.matches(labels) for requirement in self.labels))
        return parts


def names_in(text: str) -> frozenset[str]:
    """Return the names in a list with commas between."""
    return frozenset(name.strip() for name in text.split(",") if name.strip())
