"""What is installed: agents, extensions and commands, by their entry points."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Generic, TypeVar

import click

from kube_sched_ext.agent import Agent
from kube_sched_ext.extension import Extension

AGENTS: Final = "kube_sched_ext.agents"
EXTENSIONS: Final = "kube_sched_ext.extensions"
COMMANDS: Final = "kube_sched_ext.commands"

Part = TypeVar("Part", type[Agent[Any]], type[Extension[Any]])


@dataclass(frozen=True, slots=True)
class Found(Generic[Part]):
    """The parts that loaded, and what is wrong with those that did not, by name."""

    parts: dict[str, Part] = field(default_factory=dict)
    broken: dict[str, Exception] = field(default_factory=dict)


def installed(group: str = AGENTS) -> dict[str, EntryPoint]:
    """Return what is installed by name, sorted, without importing any."""
    points = sorted(entry_points(group=group), key=lambda point: point.name)
    return {point.name: point for point in points}


def contested(group: str = AGENTS) -> dict[str, list[str]]:
    """Return the names that several packages claim, and what each of them means by it."""
    claims: dict[str, list[str]] = {}
    for point in entry_points(group=group):
        claims.setdefault(point.name, []).append(point.value)
    return {name: sorted(values) for name, values in claims.items() if len(values) > 1}


def load_agents(points: Iterable[EntryPoint]) -> Found[type[Agent[Any]]]:
    """Import agents, each for itself: one that fails does not stop the others."""
    return _load(points, Agent, Found())


def load_extensions() -> Found[type[Extension[Any]]]:
    """Import all extensions that are installed."""
    return _load(installed(EXTENSIONS).values(), Extension, Found())


def load_command(point: EntryPoint) -> click.Command:
    """Import a command; one that cannot be imported says so when it is run."""
    try:
        loaded = point.load()
    except Exception as error:  # noqa: BLE001  # the other commands must go on
        broken = click.ClickException(f"{point.name} failed to load: {error!r}")
    else:
        if isinstance(loaded, click.Command):
            return loaded
        broken = click.ClickException(f"{point.value} is no command")

    def fail(**_: object) -> None:
        raise broken

    return click.Command(
        point.name,
        callback=fail,
        params=[click.Argument(["arguments"], nargs=-1)],
        short_help="Failed to load.",
        context_settings={"ignore_unknown_options": True},
    )


def _load(points: Iterable[EntryPoint], base: Part, found: Found[Part]) -> Found[Part]:
    for point in points:
        try:
            found.parts[point.name] = _checked(point, base)
        except Exception as error:  # noqa: BLE001  # whatever an import raises breaks that part only
            found.broken[point.name] = error
    return found


def _checked(point: EntryPoint, base: Part) -> Part:
    loaded = point.load()
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        raise TypeError(f"{point.value} is no {base.__name__} class")
    if loaded.name != point.name:
        names = f"{loaded.name!r}, its entry point {point.name!r}"
        raise ValueError(f"{point.value} names itself {names}")
    return loaded
