"""The command `annotate`."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from kube_sched_ext import discovery
from kube_sched_ext.cli import options
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.configuration import attempt
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.settings import (
    Layer,
    Setting,
    environment,
    load,
    read_file,
    settings_of,
    unknown_names,
)
from kube_sched_ext_telemetry.annotate.settings import AnnotateSettings
from kube_sched_ext_telemetry.settings import TelemetrySettings

try:
    from kube_sched_ext_cluster.settings import ClusterSettings
except ModuleNotFoundError as error:
    raise ImportError("it needs more: pip install 'kube-sched-ext-telemetry[annotate]'") from error

_FAILED: Final = 1
_MISCONFIGURED: Final = 2
_SHARED: Final = (
    "CONFIG_FILE",
    "LOG_LEVEL",
    "LOG_FORMAT",
    "HTTP_HOST",
    "HTTP_PORT",
    "OPS_PORT",
    "KUBECONFIG",
    "KUBE_CONTEXT",
    "WATCH_DOWN_SECONDS",
)
"""What counts here of the settings of the core and of the cluster."""


def _declared() -> Sequence[Setting]:
    shared = [*settings_of(CoreSettings), *settings_of(ClusterSettings)]
    return [
        *settings_of(AnnotateSettings),
        *(it for it in settings_of(TelemetrySettings) if it.field != "refresh_seconds"),
        *(it for it in shared if it.name in _SHARED),
    ]


@click.command()
@click.option("--once", is_flag=True, help="Do one round and exit, as for a cron job.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print what one round would write, a line of JSON for each node, and write nothing.",
)
@options(_declared())
def annotate(*, once: bool, dry_run: bool, **flags: str | bool | None) -> None:
    """Write statistics of nodes as annotations on them, for whoever reads annotations.

    Usage, from Prometheus: mean-free-cpu, std-free-cpu and forcasted-free-cpu in millicores,
    mean-free-memory, std-free-memory and forcasted-free-memory in bytes, over a day. Allocation,
    from the pods on each node: requested-* and free-* of cpu, memory, pods, gpu and
    ephemeral-storage. The names are as published, the misspelling included.

    Only what has changed is written, by server-side apply with the field manager
    kube-sched-ext-annotate: other annotations stay, and what is no longer true goes. GET /livez,
    /readyz and /metrics are on OPS_PORT.

    Needs the rights get, list, watch and patch on nodes, and list and watch on pods. An option wins
    over its variable in the environment, and that over the file of --config.

    Exit code 0: stopped, or all of the round went well. 1: with --once or --dry-run, something
    could not be read or written, and the log says what. 2: something is configured wrong; all of it
    is listed.
    """
    # Late: --help need not pay for it.
    from kube_sched_ext_telemetry.annotate.process import run  # noqa: PLC0415

    given = {name: value for name, value in flags.items() if value is not None}
    try:
        is_well = run(*_configure(given, os.environ), once=once, dry_run=dry_run)
    except ConfigurationError as error:
        for problem in error.problems:
            click.echo(f"kube-sched-ext: {problem}", err=True)
        sys.exit(_MISCONFIGURED)
    sys.exit(0 if is_well else _FAILED)


def _configure(
    flags: Mapping[str, str | bool], variables: Mapping[str, str]
) -> tuple[CoreSettings, ClusterSettings, TelemetrySettings, AnnotateSettings]:
    problems: list[str] = []
    layers = [Layer("{name}", flags), environment(variables)]
    file = next((it.values["CONFIG_FILE"] for it in layers if it.values.get("CONFIG_FILE")), None)
    if file:
        layer = attempt(problems, lambda: read_file(Path(str(file))))
        if layer is not None:
            layers.append(layer)
            problems += unknown_names(layer, _all_settings())
    core = load(CoreSettings, layers, problems)
    cluster = load(ClusterSettings, layers, problems)
    telemetry = load(TelemetrySettings, layers, problems)
    annotate = load(AnnotateSettings, layers, problems)
    if core and cluster and telemetry and annotate and not problems:
        return core, cluster, telemetry, annotate
    raise ConfigurationError(problems)


def _all_settings() -> list[type[msgspec.Struct]]:
    """Return the settings of all that is installed: one file may serve several processes."""
    agents = discovery.load_agents(discovery.installed().values()).parts.values()
    extensions = discovery.load_extensions().parts.values()
    return [
        CoreSettings,
        AnnotateSettings,
        *(kind.settings_type for kind in agents),
        *(kind.settings_type for kind in extensions),
    ]
