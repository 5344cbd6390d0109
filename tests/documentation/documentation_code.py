"""What the code declares, by package: settings, metrics, verbs, commands and chart values."""

import ast
import importlib
import pkgutil
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import yaml
from documentation_pages import ROOT

from kube_sched_ext import Agent, discovery
from kube_sched_ext.cli import main
from kube_sched_ext.settings import settings_of

_METRICS: Final = {"Counter": "_total", "Gauge": "", "Histogram": "", "Summary": ""}


@dataclass(frozen=True)
class Package:
    """One package of the workspace."""

    folder: Path
    module: str

    @property
    def place(self) -> str:
        """Where it is, for tests' names."""
        return self.folder.relative_to(ROOT).as_posix()

    @property
    def pages(self) -> list[Path]:
        """Its README, and pages beside it."""
        return sorted(self.folder.glob("*.md"))

    @property
    def text(self) -> str:
        """All of its pages."""
        return "\n".join(page.read_text() for page in self.pages)


def _package(pyproject: Path) -> Package:
    project = tomllib.loads(pyproject.read_text())["project"]
    return Package(pyproject.parent, project["name"].replace("-", "_"))


PACKAGES: Final = [
    _package(path)
    for kind in ("packages", "agents")
    for path in sorted(ROOT.glob(f"{kind}/*/pyproject.toml"))
]
AGENTS: Final = discovery.load_agents(discovery.installed().values()).parts


@cache
def settings(package: Package) -> dict[str, str]:
    """Return the default of each setting that a package declares, as the environment has it."""
    found = {}
    for module in _modules(package):
        for value in vars(module).values():
            if _declares_settings(value, module.__name__):
                found |= {it.name: it.default_text for it in settings_of(value)}
    return found


def _declares_settings(value: object, module: str) -> bool:
    if not (isinstance(value, type) and issubclass(value, msgspec.Struct)):
        return False
    if value.__module__ != module or not value.__name__.endswith("Settings"):
        return False
    return bool(msgspec.structs.fields(value))


def _modules(package: Package) -> Iterator[Any]:
    root = importlib.import_module(package.module)
    yield root
    for found in pkgutil.walk_packages(root.__path__, f"{package.module}."):
        if found.name.rpartition(".")[2] in ("config", "settings"):
            yield importlib.import_module(found.name)


@cache
def metrics(package: Package) -> frozenset[str]:
    """Return the metrics that a package makes, under the names that Prometheus shows."""
    return frozenset(
        name
        for path in (package.folder / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if (name := _metric(node))
    )


def _metric(node: ast.AST) -> str:
    match node:
        case ast.Call(
            func=ast.Name(id=kind) | ast.Attribute(attr=kind),
            args=[ast.Constant(value=str(name)), *_],
        ) if name.startswith("kube_sched_ext_") and kind.removesuffix("MetricFamily") in _METRICS:
            return name + _METRICS[kind.removesuffix("MetricFamily")]
    return ""


def verbs(agent: Agent[Any]) -> set[str]:
    """Return the paths of an agent's own verbs, below the prefix."""
    predicates = {f"predicates/{predicate.name}" for predicate in agent.predicates}
    return predicates | {f"priorities/{priority.name}" for priority in agent.priorities}


def commands() -> dict[str, click.Command]:
    """Return the commands of `kube-sched-ext` by name."""
    context = click.Context(main)
    found = {name: main.get_command(context, name) for name in main.list_commands(context)}
    return {name: command for name, command in found.items() if command}


def options(command: click.Command) -> set[str]:
    """Return the options of a command."""
    flags = {
        flag
        for parameter in command.params
        if isinstance(parameter, click.Option)
        for flag in (*parameter.opts, *parameter.secondary_opts)
    }
    return flags | {"-h", "--help"}


@cache
def chart_values() -> frozenset[str]:
    """Return the values of the chart by dotted path; NAME stands for an agent."""
    content = yaml.safe_load((ROOT / "deploy/chart/values.yaml").read_text())
    content["agents"] = {"NAME": content["agentDefaults"]}
    return frozenset(_paths(content))


def _paths(value: object, path: str = "") -> Iterator[str]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, f"{path}.{key}" if path else key)
