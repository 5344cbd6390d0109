"""All agents in one process, asked what kube-scheduler asked."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kube_sched_ext import discovery
from kube_sched_ext_testkit.scheduler import Extender
from kube_sched_ext_testkit.serving import ServeProcess, serve_process

DATA = Path(__file__).parents[1] / "data"
NODES: list[dict[str, Any]] = json.loads((DATA / "nodes.json").read_text())["items"]
NAMES = [node["metadata"]["name"] for node in NODES]
AGENTS = discovery.load_agents(discovery.installed().values())
OURS = ("congestion", "foo", "image", "networktraffic", "pigeon", "safe")
"""What is asked here, whatever else is installed."""


def pod_of(name: str) -> dict[str, Any]:
    pod: dict[str, Any] = json.loads((DATA / f"filter.names.{name}.json").read_text())["Pod"]
    return pod


ARTICLE_POD = {
    "metadata": {"name": "article", "namespace": "default"},
    "spec": {"containers": [{"name": "web", "image": "nginx:1.7.9"}]},
}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    """Serve several agents on the recorded cluster."""
    folder = tmp_path_factory.mktemp("served")
    variables = {
        "PRIORITY_WEIGHTS": "safe-overload=2,image_locality=0,pigeon-holing=0,networktraffic=0",
        "PROMETHEUS_URL": "http://127.0.0.1:1",  # nobody is there
    }
    nodes = DATA / "nodes.json"
    with serve_process(*OURS, folder=folder, nodes_file=nodes, environment=variables) as it:
        yield it


def test_every_agent_of_the_workspace_is_found() -> None:
    """And none fails to load."""
    assert AGENTS.broken == {}
    assert set(OURS) <= set(AGENTS.parts)


SCORES = {
    ("no-requests", "foo"): [1, 1, 1, 1],
    ("no-requests", "congestion"): [9, 2, 8, 10],
    ("no-requests", "image_score"): [0, 0, 0, 0],
    ("no-requests", "image_locality"): [0, 0, 0, 0],
    ("no-requests", "safe-overload"): [9, 0, 10, 0],
    ("no-requests", "safe-balance"): [6, 4, 7, 0],
    ("test-pod", "congestion"): [9, 2, 8, 10],
    ("test-pod", "image_score"): [0, 1, 2, 1],
    ("test-pod", "image_locality"): [0, 8, 9, 8],
    ("test-pod", "safe-overload"): [9, 0, 10, 0],
    ("test-pod", "safe-balance"): [5, 4, 7, 0],
    ("test-pod", "pigeon-holing"): [0, 0, 0, 0],
    ("article", "image_score"): [0, 0, 1, 0],
    ("article", "networktraffic"): [5, 5, 5, 5],
}


@pytest.mark.parametrize("names_mode", [True, False], ids=["names", "whole nodes"])
@pytest.mark.parametrize(("pod", "priority"), SCORES, ids="-".join)
def test_the_recorded_cluster_has_these_scores(
    served: ServeProcess, pod: str, priority: str, *, names_mode: bool
) -> None:
    """Alike by names and with whole nodes."""
    asked = ARTICLE_POD if pod == "article" else pod_of(pod)
    with Extender(
        served.url_prefix, prioritize_verb=f"priorities/{priority}", node_cache_capable=names_mode
    ) as extender:
        scores = extender.prioritize(asked, NODES)
    assert [scores[name] for name in NAMES] == SCORES[pod, priority]


@pytest.mark.parametrize("names_mode", [True, False], ids=["names", "whole nodes"])
def test_one_call_asks_all_agents(served: ServeProcess, *, names_mode: bool) -> None:
    """Filters in turn; scores as the weighted mean, halves rounded up."""
    with Extender(
        served.url_prefix,
        filter_verb="filter",
        prioritize_verb="prioritize",
        node_cache_capable=names_mode,
    ) as extender:
        outcome = extender.filter(pod_of("test-pod"), NODES)
        scores = extender.prioritize(pod_of("test-pod"), NODES)
    assert outcome.reasons == {"worker-node1": "node overload risk"}
    # foo, congestion, image_score, safe-balance once and safe-overload twice: sums over 6.
    parts = zip(*([SCORES["no-requests", "foo"]] + [
        SCORES["test-pod", name] for name in ("congestion", "image_score", "safe-balance")
    ] + [SCORES["test-pod", "safe-overload"]] * 2), strict=True)  # fmt: skip
    assert [scores[name] for name in NAMES] == [int(sum(part) / 6 + 0.5) for part in parts]


def test_the_url_of_the_article_can_be_served(tmp_path: Path) -> None:
    """Under /my_scheduler_extension/my_new_priorities/image_score."""
    environment = {
        "PATH_PREFIX": "/my_scheduler_extension",
        "PRIORITIES_PATH": "my_new_priorities",
    }
    with (
        serve_process("image", folder=tmp_path, environment=environment) as served,
        Extender(
            served.url_prefix,
            prioritize_verb="my_new_priorities/image_score",
            node_cache_capable=False,
        ) as extender,
    ):
        scores = extender.prioritize(ARTICLE_POD, NODES)
    assert [scores[name] for name in NAMES] == SCORES["article", "image_score"]


@pytest.mark.parametrize(
    ("agents", "absent"),
    [
        (["foo"], ["scipy", "kubernetes", "urllib3", "requests"]),
        (["safe"], ["kubernetes", "scipy.stats"]),
    ],
)
def test_a_process_imports_only_what_its_agents_need(agents: list[str], absent: list[str]) -> None:
    """A container with foo alone stays small, whatever else is installed."""
    script = (
        "import os, sys; from kube_sched_ext import process; "
        "from kube_sched_ext.configuration import configure; "
        f"configure({agents!r}, {{}}, {{}}); "
        f"print([name for name in {absent!r} if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"
