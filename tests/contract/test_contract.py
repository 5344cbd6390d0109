"""What every agent owes the core and kube-scheduler: asked of those that are installed."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube_sched_ext import discovery
from kube_sched_ext_testkit.conformance import Target, check_extender
from kube_sched_ext_testkit.contract import check_agent
from kube_sched_ext_testkit.scheduler import Extender
from kube_sched_ext_testkit.serving import ServeProcess, serve_process

DATA = Path(__file__).parents[1] / "data"
NODES: list[dict[str, Any]] = json.loads((DATA / "nodes.json").read_text())["items"]
PODS: list[dict[str, Any]] = [
    *(
        json.loads((DATA / f"filter.names.{it}.json").read_text())["Pod"]
        for it in ("test-pod", "no-requests")
    ),
    {
        "metadata": {"name": "article", "namespace": "default"},
        "spec": {"containers": [{"name": "web", "image": "nginx:1.7.9"}]},
    },
]
AGENTS = discovery.load_agents(discovery.installed().values())


def test_every_installed_agent_loads() -> None:
    """One that does not would be left out, with a line in the log."""
    assert AGENTS.parts
    assert AGENTS.broken == {}


@pytest.mark.parametrize("name", sorted(AGENTS.parts))
def test_an_agent_keeps_the_contract(name: str) -> None:
    """On the recorded nodes and pods."""
    check_agent(AGENTS.parts[name](), NODES, PODS)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """Serve all that is installed on the recorded cluster."""
    folder = tmp_path_factory.mktemp("served")
    nobody = {"PROMETHEUS_URL": "http://127.0.0.1:1"}
    with serve_process(folder=folder, nodes_file=DATA / "nodes.json", environment=nobody) as it:
        yield it


@pytest.mark.parametrize("names_mode", [True, False], ids=["names", "whole nodes"])
def test_the_server_conforms_to_the_protocol(served: ServeProcess, *, names_mode: bool) -> None:
    """As kube-scheduler v1.36 treats it."""
    has_priorities = any(kind().priorities for kind in AGENTS.parts.values())
    with Extender(
        served.url_prefix,
        filter_verb="filter",
        prioritize_verb="prioritize" if has_priorities else "",
        preempt_verb="preemption",
        node_cache_capable=names_mode,
    ) as extender:
        check_extender(Target(extender, NODES))
