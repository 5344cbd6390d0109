"""From the priorities of a Policy to scores."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from kube_sched_ext.scheduler_config.kinds import MAX_PLUGIN_WEIGHT
from kube_sched_ext.scheduler_config.mapping import (
    DEFAULT_WEIGHTS,
    EQUAL,
    LEAST,
    MOST,
    PRIORITIES,
    RATIO,
    SPREADING,
)
from kube_sched_ext.scheduler_config.names import unknown_name
from kube_sched_ext.scheduler_config.notes import Note
from kube_sched_ext.scheduler_config.policy import Priority, RequestedToCapacityRatio
from kube_sched_ext.scheduler_config.scheduler_configuration import (
    ApiVersion,
    Constraint,
    NodeSelectorTerm,
    PodTopologySpreadArgs,
    PreferredTerm,
    Requirement,
    Resource,
    ScoringStrategy,
    Shape,
    ShapePoint,
)

_ONE_ARGUMENT: Final = (
    "must have one of serviceAntiAffinity, labelPreference and requestedToCapacityRatioArguments"
)
_SPREAD: Final = "PodTopologySpread"
_FIT: Final = "NodeResourcesFit"
_AFFINITY: Final = "NodeAffinity"
_HOST: Final = Constraint(3, "kubernetes.io/hostname", "ScheduleAnyway")
_DEFAULT_SHAPE: Final = (ShapePoint(0, 10), ShapePoint(100, 0))
_STRONGEST: Final = 100


class Scores(msgspec.Struct, frozen=True):
    """What scores; `weights` None stands for the defaults."""

    weights: dict[str, int] | None
    notes: tuple[Note, ...]
    preferred: tuple[PreferredTerm, ...] = ()
    strategy: ScoringStrategy | None = None
    spreading: PodTopologySpreadArgs | None = None


def problems_of(priorities: Sequence[Priority]) -> list[str]:
    """Return what an old scheduler would have refused, by path."""
    problems = []
    first: dict[str, tuple[int, int]] = {}
    for index, priority in enumerate(priorities):
        path = f"priorities[{index}]"
        if priority.argument is None:
            if priority.name not in PRIORITIES:
                problems.append(
                    f"{path}.name: {unknown_name(priority.name, 'priority', PRIORITIES)}, or one "
                    f"of your own with an argument, which {_ONE_ARGUMENT}"
                )
            continue
        kinds = list(_argument_kinds(priority))
        if len(kinds) != 1:
            problems.append(f"{path}.argument: has {len(kinds)} members, {_ONE_ARGUMENT}")
            continue
        known_index, weight = first.setdefault(kinds[0], (index, priority.weight))
        if known_index != index and kinds[0] == "requestedToCapacityRatioArguments":
            problems.append(f"{path}: priorities[{known_index}] has such arguments already")
        elif weight != priority.weight:
            problems.append(
                f"{path}.weight: {priority.weight} differs from the {weight} of "
                f"priorities[{known_index}]; all with {kinds[0]} must have one weight"
            )
        ratio = priority.argument.requested_to_capacity_ratio_arguments
        if ratio is not None:
            problems += _shape_problems(path, ratio)
    return problems


def _argument_kinds(priority: Priority) -> Iterator[str]:
    argument = priority.argument
    if argument is not None:
        if argument.service_anti_affinity is not None:
            yield "serviceAntiAffinity"
        if argument.label_preference is not None:
            yield "labelPreference"
        if argument.requested_to_capacity_ratio_arguments is not None:
            yield "requestedToCapacityRatioArguments"


def _shape_problems(path: str, ratio: RequestedToCapacityRatio) -> list[str]:
    path = f"{path}.argument.requestedToCapacityRatioArguments.shape"
    if not ratio.shape:
        return [f"{path}: is empty; it must have a point"]
    points = [point.utilization for point in ratio.shape]
    return [
        f"{path}[{index}].utilization: {points[index]} is not above the {points[index - 1]} before"
        for index in range(1, len(points))
        if points[index] <= points[index - 1]
    ]


def scores_of(priorities: Sequence[Priority] | None, version: ApiVersion) -> Scores:
    """Return the scores for `priorities`, which `problems_of` finds nothing wrong with."""
    if priorities is None:
        told = ", ".join(f"{name} {it}" for name, it in DEFAULT_WEIGHTS[version].items())
        outcome = f"none are listed, so the default scores stay, with today's weights: {told}"
        return Scores(None, (Note("priorities", outcome),))
    lines = _lines(priorities)
    fit = _fit(lines)
    shares: dict[str, list[int]] = {}
    if fit.weight:
        shares[_FIT] = [fit.weight]
    for line in lines:
        if line.plugin not in ("", _FIT) and not line.label:
            shares.setdefault(line.plugin, []).append(line.priority.weight)
    for plugin in (_AFFINITY, _SPREAD):
        labels = _labels(lines, plugin)
        if labels:
            # Each label counted as much as the weight that all of them must have.
            [weight, *_] = [it.priority.weight for it in lines if it.label and it.plugin == plugin]
            shares.setdefault(plugin, []).append(weight * len(labels))
    weights = {plugin: min(max(each), MAX_PLUGIN_WEIGHT) for plugin, each in shares.items()}
    notes = [_note(line, fit, weights, shares) for line in lines]
    if not notes:
        notes.append(Note("priorities", "an empty list: the in-tree scores are off"))
    preferred = tuple(
        PreferredTerm(_STRONGEST, NodeSelectorTerm((Requirement.of(label, is_there=is_there),)))
        for label, is_there in _labels(lines, _AFFINITY)
    )
    return Scores(weights, tuple(notes), preferred, fit.strategy, _spreading(lines))


class _Line(msgspec.Struct, frozen=True):
    """A priority, the plugin that it counts in, and the label that it asks for."""

    place: str
    priority: Priority
    plugin: str
    label: tuple[str, bool] | None = None
    is_repeated: bool = False

    @property
    def name(self) -> str:
        """The name of a priority that has no arguments."""
        return self.priority.name if self.priority.argument is None else ""


def _lines(priorities: Sequence[Priority]) -> list[_Line]:
    last = {it.name: index for index, it in enumerate(priorities) if it.argument is None}
    lines = []
    for index, priority in enumerate(priorities):
        place = f"priorities[{index}] {priority.name} weight {priority.weight}"
        argument = priority.argument
        if argument is None and last[priority.name] != index:
            line = _Line(place, priority, "", is_repeated=True)
        elif argument is None:
            line = _Line(place, priority, PRIORITIES[priority.name].plugin)
        elif argument.label_preference is not None:
            label = (argument.label_preference.label, argument.label_preference.presence)
            line = _Line(place, priority, _AFFINITY, label)
        elif argument.service_anti_affinity is not None:
            line = _Line(place, priority, _SPREAD, (argument.service_anti_affinity.label, True))
        else:
            line = _Line(place, priority, _FIT)
        lines.append(line)
    return lines


def _labels(lines: Sequence[_Line], plugin: str) -> list[tuple[str, bool]]:
    return list(dict.fromkeys(it.label for it in lines if it.label and it.plugin == plugin))


def _spreading(lines: Sequence[_Line]) -> PodTopologySpreadArgs | None:
    if not any(line.plugin == _SPREAD for line in lines):
        return None
    has_selector = any(line.name in SPREADING for line in lines)
    labels = [label for label, _ in _labels(lines, _SPREAD)]
    if not labels:
        # Without SelectorSpreadPriority only what pods ask for themselves counted.
        return None if has_selector else PodTopologySpreadArgs("List")
    constraints = [Constraint(1, label, "ScheduleAnyway") for label in labels]
    if has_selector and _HOST.topology_key not in labels:
        constraints.append(_HOST)
    return PodTopologySpreadArgs("List", tuple(constraints))


class _Fit(msgspec.Struct, frozen=True):
    """The one strategy that NodeResourcesFit has room for; `line` is what it came of."""

    strategy: ScoringStrategy | None
    weight: int
    line: _Line | None
    why: str = ""


def _fit(lines: Sequence[_Line]) -> _Fit:
    ratios = [line for line in lines if line.plugin == _FIT and line.name not in (LEAST, MOST)]
    if ratios:
        line = next((it for it in ratios if not it.name), ratios[0])
        argument = line.priority.argument
        ratio = argument.requested_to_capacity_ratio_arguments if argument is not None else None
        strategy = _ratio(ratio)
        why = f"NodeResourcesFit has room for one strategy, that of {line.place}"
        return _Fit(strategy, line.priority.weight, line, why)
    least = next((line for line in lines if line.name == LEAST and line.plugin), None)
    most = next((line for line in lines if line.name == MOST and line.plugin), None)
    difference = (most.priority.weight if most else 0) - (least.priority.weight if least else 0)
    if difference == 0:
        why = "the two are opposite and of one weight, so they cancel each other out"
        return _Fit(None, 0, None, why)
    if difference > 0:
        why = f"the two are opposite, so MostAllocated with weight {difference} is left"
        return _Fit(ScoringStrategy("MostAllocated"), difference, most, why)
    why = f"the two are opposite, so LeastAllocated with weight {-difference} is left"
    return _Fit(None, -difference, least, why)


def _ratio(ratio: RequestedToCapacityRatio | None) -> ScoringStrategy:
    shape: tuple[ShapePoint, ...] = _DEFAULT_SHAPE
    resources: tuple[Resource, ...] = ()
    if ratio is not None:
        shape = tuple(ShapePoint(point.utilization, point.score) for point in ratio.shape)
        resources = tuple(Resource(it.name, it.weight or 1) for it in ratio.resources)
    resources = resources or (Resource("cpu", 1), Resource("memory", 1))
    return ScoringStrategy("RequestedToCapacityRatio", resources, Shape(shape))


def _note(
    line: _Line, fit: _Fit, weights: Mapping[str, int], shares: Mapping[str, list[int]]
) -> Note:
    if line.is_repeated:
        return Note(line.place, "dropped: it is listed again below, and the last one counted")
    if line.plugin == _FIT:
        return _fit_note(line, fit)
    if not line.plugin:
        remark = PRIORITIES[line.name].remark
        return Note(line.place, f"dropped: {remark}", is_warning=line.name != EQUAL)
    outcome = f"score {line.plugin} with weight {weights[line.plugin]}"
    if len(shares[line.plugin]) > 1:
        outcome += f" (the largest of {', '.join(map(str, shares[line.plugin]))}, which share it)"
    remark = _label_remark(line) if line.label else PRIORITIES[line.name].remark
    return Note(line.place, f"{outcome}, {remark}" if remark else outcome)


def _label_remark(line: _Line) -> str:
    assert line.label is not None  # noqa: S101  # asked for no others
    label, is_there = line.label
    if line.plugin == _SPREAD:
        return (
            f"whose default constraints spread a service's pods over {label}, but for pods with "
            "topologySpreadConstraints of their own, and over nodes but no zones where "
            "SelectorSpreadPriority is listed too"
        )
    return (
        f"whose addedAffinity prefers nodes {'with' if is_there else 'without'} {label}; the best "
        "node now always scores in full, and the pods' own preferences are part of the same score"
    )


def _fit_note(line: _Line, fit: _Fit) -> Note:
    if fit.line is not line:
        is_warning = fit.strategy is not None and fit.strategy.type == "RequestedToCapacityRatio"
        return Note(line.place, f"dropped: {fit.why}", is_warning=is_warning)
    kind = fit.strategy.type if fit.strategy else "LeastAllocated"
    outcome = f"score {_FIT} with weight {fit.weight}, strategy {kind}"
    if line.name in RATIO:
        return Note(line.place, f"{outcome}, with the shape it had without arguments")
    if fit.weight != line.priority.weight:
        return Note(line.place, f"{outcome}: {fit.why}")
    return Note(line.place, outcome)
