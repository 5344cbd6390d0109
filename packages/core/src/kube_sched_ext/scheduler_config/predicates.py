"""From the predicates of a Policy to filters."""

from collections.abc import Sequence
from typing import Final

import msgspec

from kube_sched_ext.scheduler_config.mapping import (
    LIMITS_BEFORE_V1,
    MANDATORY,
    PREDICATES,
    SERVICE_AFFINITY_REMARK,
)
from kube_sched_ext.scheduler_config.names import unknown_name
from kube_sched_ext.scheduler_config.notes import Note
from kube_sched_ext.scheduler_config.policy import LabelsPresence, Predicate
from kube_sched_ext.scheduler_config.scheduler_configuration import ApiVersion, Requirement

_ONE_ARGUMENT: Final = "must have either serviceAffinity or labelsPresence"


class Filters(msgspec.Struct, frozen=True):
    """What filters; `plugins` None stands for the defaults."""

    plugins: frozenset[str] | None
    requirements: tuple[Requirement, ...]
    notes: tuple[Note, ...]


def problems_of(predicates: Sequence[Predicate]) -> list[str]:
    """Return what an old scheduler would have refused, by path."""
    problems = []
    for index, predicate in enumerate(predicates):
        path, argument = f"predicates[{index}]", predicate.argument
        if argument is not None:
            given = [it for it in (argument.service_affinity, argument.labels_presence) if it]
            if len(given) != 1:
                problems.append(f"{path}.argument: has {len(given)} members, {_ONE_ARGUMENT}")
        elif predicate.name not in PREDICATES:
            problems.append(
                f"{path}.name: {unknown_name(predicate.name, 'predicate', PREDICATES)}, or one of "
                f"your own with an argument, which {_ONE_ARGUMENT}"
            )
    return problems


def filters_of(predicates: Sequence[Predicate] | None, version: ApiVersion) -> Filters:
    """Return the filters for `predicates`, those that were mandatory among them."""
    if predicates is None:
        note = Note("predicates", "none are listed, so the default filters stay")
        return Filters(None, (), (note,))
    plugins = set(MANDATORY.values())
    requirements: list[Requirement] = []
    notes = []
    if not predicates:
        notes.append(Note("predicates", "an empty list: all filters but the mandatory are off"))
    names = {predicate.name for predicate in predicates}
    for index, predicate in enumerate(predicates):
        line = f"predicates[{index}] {predicate.name}"
        argument = predicate.argument
        if argument is None:
            became, note = _named(line, predicate.name, version)
            plugins.update(became)
            notes.append(note)
        elif argument.labels_presence is not None:
            added = _requirements(argument.labels_presence)
            requirements += [it for it in added if it not in requirements]
            notes.append(_presence(line, argument.labels_presence, names))
            if added:
                plugins.add("NodeAffinity")
        else:
            notes.append(Note(line, f"dropped: {SERVICE_AFFINITY_REMARK}", is_warning=True))
    notes += [
        Note("predicates", f"{name} is not listed but was mandatory, so {plugin} still filters")
        for name, plugin in MANDATORY.items()
        if name not in names
    ]
    return Filters(frozenset(plugins), tuple(requirements), tuple(notes))


def _named(line: str, name: str, version: ApiVersion) -> tuple[tuple[str, ...], Note]:
    entry = PREDICATES[name]
    if version != "v1" and name in LIMITS_BEFORE_V1:
        plugin = LIMITS_BEFORE_V1[name]
        return (plugin,), Note(line, f"filter {plugin}")
    if not entry.plugins:
        return (), Note(line, f"dropped: {entry.remark}", is_warning=name == "CheckServiceAffinity")
    kinds = "filters" if len(entry.plugins) > 1 else "filter"
    remark = f": {entry.remark}" if entry.remark else ""
    return entry.plugins, Note(line, f"{kinds} {', '.join(entry.plugins)}{remark}")


def _requirements(presence: LabelsPresence) -> list[Requirement]:
    return [Requirement.of(label, is_there=presence.presence) for label in presence.labels]


def _presence(line: str, presence: LabelsPresence, names: set[str]) -> Note:
    if not presence.labels:
        return Note(line, "dropped: it names no label, so it checked nothing")
    outcome = "filter NodeAffinity, whose addedAffinity asks the same of each pod's node"
    if not names & {"MatchNodeSelector", "GeneralPredicates"}:
        outcome += (
            "; it now also checks the pods' own node selectors, which kubelets do in any case"
        )
    return Note(line, outcome)
