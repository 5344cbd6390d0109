"""From settings and installed agents to a process: everything that is wrong, at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kube_sched_ext import discovery
from kube_sched_ext.agent import Agent
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.discovery import Found
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.extension import Extension, Host
from kube_sched_ext.settings import Layer, Source, environment, load, read_file, unknown_names

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Configuration:
    """What to serve, and how."""

    settings: CoreSettings
    agents: Sequence[Agent[Any]]
    broken: Mapping[str, Exception]
    extensions: Sequence[Callable[[Host], Extension[Any]]] = ()


def attempt(problems: list[str], step: Callable[[], T]) -> T | None:
    """Return the result of `step`, or None after adding to `problems` what it found wrong."""
    try:
        return step()
    except ConfigurationError as error:
        problems.extend(error.problems)
        return None


def configure(
    names: Sequence[str], flags: Mapping[str, str | bool], variables: Mapping[str, str]
) -> Configuration:
    """Return the configuration for agents `names`, or all that are installed if there are none.

    Flags, by the name of their setting, win over environment variables, and those over the file
    that CONFIG_FILE names.

    Raises:
        ConfigurationError: everything that is wrong with the settings and the names.
    """
    problems: list[str] = []
    layers = [Layer("{name}", flags), environment(variables)]
    file = next((it.values["CONFIG_FILE"] for it in layers if it.values.get("CONFIG_FILE")), None)
    layer = attempt(problems, lambda: read_file(Path(str(file)))) if file else None
    source = [*layers, layer] if layer else layers

    installed = discovery.installed()
    found = discovery.load_agents(_chosen(names, installed, problems))
    settings = load(CoreSettings, source, problems)
    agents = _made(found, source, problems)
    if not agents:
        problems += [
            f"agent {name} failed to load: {error!r}" for name, error in found.broken.items()
        ]
    extensions = discovery.load_extensions()
    # Unlike an agent, what is missing here could not be seen from outside.
    problems += [
        f"extension {name} failed to load: {error!r}" for name, error in extensions.broken.items()
    ]
    makers = [
        partial(kind, extension_settings)
        for kind in extensions.parts.values()
        if (extension_settings := load(kind.settings_type, source, problems))
    ]
    if layer:
        shared: list[type[msgspec.Struct]] = [
            CoreSettings,
            *(kind.settings_type for kind in extensions.parts.values()),
        ]
        problems += _unknown_in_file(layer, shared, found, installed)
    if problems or settings is None:
        raise ConfigurationError(problems)
    return Configuration(settings, agents, found.broken, makers)


def _chosen(
    names: Sequence[str], installed: Mapping[str, EntryPoint], problems: list[str]
) -> list[EntryPoint]:
    if not installed:
        problems.append("no agent is installed; install one, such as kube-sched-ext-foo")
    problems += [
        f"agent {name} is not installed; installed are {', '.join(installed)}"
        for name in names
        if name not in installed and installed
    ]
    wanted = dict.fromkeys(names) if names else installed
    problems += [
        f"agent {name} is several, {' and '.join(values)}; uninstall all but one"
        for name, values in discovery.contested().items()
        if name in wanted
    ]
    return [installed[name] for name in wanted if name in installed]


def _made(found: Found[type[Agent[Any]]], source: Source, problems: list[str]) -> list[Agent[Any]]:
    agents = []
    for name, kind in found.parts.items():
        settings: msgspec.Struct | None = load(kind.settings_type, source, problems)
        if settings is None:
            continue
        try:
            agents.append(kind(settings))
        except Exception as error:  # noqa: BLE001  # it breaks that agent only
            found.broken[name] = error
    return agents


def _unknown_in_file(
    layer: Layer,
    shared: Sequence[type[msgspec.Struct]],
    found: Found[type[Agent[Any]]],
    installed: Mapping[str, EntryPoint],
) -> list[str]:
    kinds = [*shared, *(kind.settings_type for kind in found.parts.values())]
    if not unknown_names(layer, kinds):
        return []
    # One file may serve several processes, so settings of agents not served here are fine; only
    # now is it worth importing those.
    others = discovery.load_agents(
        point for name, point in installed.items() if name not in found.parts
    )
    if others.broken:
        # The names may be theirs, and a broken agent must not stop the others.
        return []
    return unknown_names(layer, [*kinds, *(kind.settings_type for kind in others.parts.values())])
