"""One serving process, from its configuration to its stop."""

import gc
from functools import partial
from pathlib import Path

from kube_sched_ext import server
from kube_sched_ext.app import create_app_of
from kube_sched_ext.certificates import certificates_of
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.configuration import Configuration, attempt
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.extension import Host
from kube_sched_ext.health import Condition, Health
from kube_sched_ext.https import Tls
from kube_sched_ext.instruments import Instruments, new_instruments
from kube_sched_ext.logs import capture_standard_logging
from kube_sched_ext.ops import create_ops_app
from kube_sched_ext.selection import names_in
from kube_sched_ext.snapshot import load_snapshot
from kube_sched_ext.table import NodeTable
from kube_sched_ext.verbs import Verbs, new_table
from kube_sched_ext.version import VERSION


def serve(configuration: Configuration) -> None:
    """Serve what is configured until SIGTERM or SIGINT, then finish the calls under way.

    Raises:
        ConfigurationError: everything that keeps the process from serving.
    """
    settings = configuration.settings
    instruments = new_instruments(settings.log_level, settings.log_format)
    try:
        _serve(configuration, instruments)
    finally:
        instruments.writer.close()


def _serve(configuration: Configuration, instruments: Instruments) -> None:
    settings, agents = configuration.settings, configuration.agents
    problems: list[str] = []
    table = new_table(agents, instruments.problems)
    if path := settings.nodes_file:
        attempt(problems, lambda: load_snapshot(Path(path), table))
    health = Health()
    verbs = Verbs(agents, table, settings, instruments)
    host = Host(settings, table, verbs, instruments, health)
    extensions = [
        extension
        for make in configuration.extensions
        if (extension := attempt(problems, partial(make, host)))
    ]
    calls = [call for extension in extensions for call in extension.calls()]
    app = attempt(problems, lambda: create_app_of(verbs, settings, instruments, calls))
    address = settings.http_host
    verbs_socket = attempt(problems, lambda: server.bind(address, settings.http_port, "HTTP_PORT"))
    ops_socket = attempt(
        problems, lambda: server.bind(address, settings.operations_port, "OPS_PORT")
    )
    tls = attempt(problems, lambda: _tls(settings, instruments))
    if app is None or verbs_socket is None or ops_socket is None or problems:
        # What two steps found wrong is one problem.
        raise ConfigurationError(list(dict.fromkeys(problems)))

    capture_standard_logging(instruments.log)
    _show(health, configuration, table, instruments)
    if tls:
        health.add("tls", tls.condition)
    instruments.log.info(
        "serving",
        version=VERSION,
        agents=[agent.name for agent in agents],
        http_port=settings.http_port,
        tls=tls is not None,
        ops_port=settings.operations_port,
        nodes=len(table),
    )
    # What is loaded now stays; without this each full collection would walk all of it.
    gc.collect()
    gc.freeze()
    ops_app = create_ops_app(health, instruments.metrics)
    background: list[server.Background] = [extension.run for extension in extensions]
    if tls:
        background.append(tls.watch)
    server.run((app, verbs_socket), (ops_app, ops_socket), settings, health, background, tls)
    instruments.log.info("stopped")


def _tls(settings: CoreSettings, instruments: Instruments) -> Tls | None:
    certificates = certificates_of(settings)
    if certificates is None:
        return None
    return Tls(certificates, names_in(settings.tls_client_names), instruments)


def _show(
    health: Health, configuration: Configuration, table: NodeTable, instruments: Instruments
) -> None:
    metrics = instruments.metrics
    for agent in configuration.agents:
        metrics.agents.labels(agent.name).set(1)
        health.add(f"agent/{agent.name}", partial(Condition, ok=True))
        for name, check in agent.conditions().items():
            health.add(f"agent/{agent.name}/{name}", check)
    for name, error in configuration.broken.items():
        metrics.agents.labels(name).set(0)
        instruments.log.error("agent failed to load", agent=name, exc_info=error)
        health.add(
            f"agent/{name}",
            partial(Condition, ok=False, detail=repr(error), required=False),
        )
    metrics.known_nodes.set_function(lambda: len(table))
    health.add("nodes", lambda: _nodes_condition(len(table)))


def _nodes_condition(count: int) -> Condition:
    detail = f"{count} known" if count else "none known: whole-node requests only"
    return Condition(ok=True, detail=detail)
