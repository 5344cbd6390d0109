"""From the filters and scores that are wanted to what a profile must change of its defaults."""

from collections.abc import Iterable, Mapping

import msgspec

from kube_sched_ext.scheduler_config.mapping import (
    CINDER,
    LIMITS,
    POINTS,
    Point,
)
from kube_sched_ext.scheduler_config.scheduler_configuration import (
    ApiVersion,
    Plugin,
    Plugins,
    PluginSet,
)


class Choice(msgspec.Struct, frozen=True):
    """The filters and scores of a profile; None stands for the defaults."""

    filters: frozenset[str] | None = None
    scores: Mapping[str, int] | None = None
    has_preemption: bool = True


def plugins_of(choice: Choice, version: ApiVersion) -> Plugins:
    """Return what `choice` changes of the defaults of `version`."""
    acting = _points(version)
    off: dict[Point, list[str]] = {}
    for plugin, points in acting.items():
        for point in points:
            if _is_off(plugin, point, choice):
                off.setdefault(point, []).append(plugin)
    idle = [
        name for name, points in acting.items() if all(name in off.get(it, ()) for it in points)
    ]
    if version == "v1beta2":
        # Its defaults are enabled at each point for itself, so multiPoint takes none away.
        idle = []

    def without(point: Point) -> PluginSet:
        return PluginSet(disabled=_named(it for it in off.get(point, ()) if it not in idle))

    wanted = choice.filters or ()
    return Plugins(
        multi_point=PluginSet(disabled=_named(idle)),
        pre_filter=without("preFilter"),
        filter=PluginSet(
            enabled=_named(it for it in (CINDER,) if it in wanted),
            disabled=without("filter").disabled,
        ),
        post_filter=PluginSet(
            disabled=() if choice.has_preemption else (Plugin("DefaultPreemption"),)
        ),
        pre_score=without("preScore"),
        score=_scores(choice.scores),
        reserve=without("reserve"),
        pre_bind=without("preBind"),
    )


def _points(version: ApiVersion) -> dict[str, tuple[Point, ...]]:
    limits: tuple[str, ...] = () if version == "v1" else LIMITS
    return {**POINTS, **dict.fromkeys(limits, ("filter",))}


def _is_off(plugin: str, point: Point, choice: Choice) -> bool:
    if point in ("preScore", "score"):
        return choice.scores is not None and plugin not in choice.scores
    return choice.filters is not None and plugin not in choice.filters


def _scores(scores: Mapping[str, int] | None) -> PluginSet:
    if scores is None:
        return PluginSet()
    enabled = tuple(Plugin(name, scores[name]) for name in POINTS if name in scores)
    return PluginSet(enabled=enabled, disabled=_named(["*"]))


def _named(names: Iterable[str]) -> tuple[Plugin, ...]:
    return tuple(Plugin(name) for name in names)
