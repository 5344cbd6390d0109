"""The command line."""

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import click
import msgspec

from kube_sched_ext import discovery, process
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.configuration import configure
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.settings import Setting, settings_of
from kube_sched_ext.version import VERSION

_MISCONFIGURED = 2


class _Commands(click.Group):
    """The commands here, and those of installed packages, imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *discovery.installed(discovery.COMMANDS)})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        point = discovery.installed(discovery.COMMANDS).get(cmd_name)
        return discovery.load_command(point) if point else super().get_command(ctx, cmd_name)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(VERSION, message="%(version)s")
def main() -> None:
    """Scheduler-extender agents for Kubernetes.

    kube-scheduler asks an agent over HTTP which nodes to drop and how to rank the rest.
    """


def options(
    settings: Sequence[Setting],
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each of `settings`, whose value it gets under its name."""

    def add(command: Callable[..., None]) -> Callable[..., None]:
        for declared in reversed(settings):
            default = f"default: {declared.default_text or 'none'}"
            text = f"{declared.meaning} [{declared.allowed}; {default}; env: {declared.name}]"
            command = _option(declared, text)(command)
        return command

    return add


def _flags(command: Callable[..., None]) -> Callable[..., None]:
    """Give `command` an option for each setting of the core and of extensions."""
    extensions = discovery.load_extensions().parts.values()
    kinds: list[type[msgspec.Struct]] = [
        CoreSettings,
        *(kind.settings_type for kind in extensions),
    ]
    return options([it for kind in kinds for it in settings_of(kind)])(command)


def _option(declared: Setting, text: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    flag = _flag(declared)
    if declared.is_switch:
        switch = f"{flag}/--no-{flag.removeprefix('--')}"
        return click.option(switch, declared.name, default=None, help=text)
    return click.option(flag, declared.name, metavar="VALUE", help=text)


def _flag(declared: Setting) -> str:
    return "--" + declared.name.removesuffix("_FILE").lower().replace("_", "-")


@main.command()
@click.argument("agents", nargs=-1, metavar="[AGENT]...")
@_flags
def serve(agents: Sequence[str], **flags: str | bool | None) -> None:
    """Serve agents, or all that are installed.

    Each predicate and priority has a path of its own, POST /scheduler/predicates/NAME and
    /scheduler/priorities/NAME; POST /scheduler/filter and /scheduler/prioritize ask all of them in
    one call. Give kube-scheduler nodeCacheCapable: true where this process knows the nodes, as
    with --nodes. GET /livez, /readyz and /metrics are on a port of their own.

    An option wins over its variable in the environment, and that over the file of --config.
    Agents have settings too: kube-sched-ext settings lists all. SIGTERM finishes the calls under
    way. Exit code 2: something is configured wrong; all of it is listed.
    """
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        process.serve(configure(agents, given, os.environ))
    except ConfigurationError as error:
        for problem in error.problems:
            click.echo(f"kube-sched-ext: {problem}", err=True)
        sys.exit(_MISCONFIGURED)


@main.command("agents")
def list_agents() -> None:
    """List the installed agents and their verbs; exit code 1 where one fails to load."""
    found = discovery.load_agents(discovery.installed().values())
    for name, kind in found.parts.items():
        summary = (kind.__doc__ or "").strip().partition("\n")[0]
        click.echo(f"{name}: {summary}")
        agent: Any = kind()
        for predicate in agent.predicates:
            click.echo(f"  predicate {predicate.name}")
        for priority in agent.priorities:
            click.echo(f"  priority {priority.name}")
    for name, error in found.broken.items():
        click.echo(f"{name}: failed to load: {error!r}", err=True)
    sys.exit(1 if found.broken else 0)


@main.command("settings")
@click.argument("agents", nargs=-1, metavar="[AGENT]...")
def list_settings(agents: Sequence[str]) -> None:
    """List the settings of the core and of agents, or of all that are installed.

    Each is a variable in the environment, or a name in the YAML file that CONFIG_FILE names.
    """
    installed = discovery.installed()
    missing = [name for name in agents if name not in installed]
    for name in missing:
        click.echo(f"agent {name} is not installed; installed are {', '.join(installed)}", err=True)
    if missing:
        sys.exit(_MISCONFIGURED)
    found = discovery.load_agents(installed[name] for name in agents or installed)
    kinds: dict[str, Any] = {"core": CoreSettings}
    kinds |= {name: kind.settings_type for name, kind in discovery.load_extensions().parts.items()}
    kinds |= {name: kind.settings_type for name, kind in found.parts.items()}
    for owner, kind in kinds.items():
        declared_by = settings_of(kind)
        if declared_by:
            click.echo(f"{owner}:")
        for declared in declared_by:
            click.echo(f"  {declared.name}={declared.default_text}")
            click.echo(
                click.wrap_text(f"{declared.meaning} [{declared.allowed}]", 96, "      ", "      ")
            )
    for name, error in found.broken.items():
        click.echo(f"{name}: failed to load: {error!r}", err=True)
