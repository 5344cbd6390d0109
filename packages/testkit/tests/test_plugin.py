"""What the plugin gives to authors of agents, and what it costs those who do not use it."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from kube_sched_ext import Agent, NodeReader, Nodes, NoSettings, Pod, Scores, priority
from kube_sched_ext.config import CoreSettings
from kube_sched_ext_testkit import serving
from kube_sched_ext_testkit.builders import make_node, make_pod
from kube_sched_ext_testkit.scheduler import Extender

pytest_plugins = ["pytester"]


class Rank(Agent[NoSettings]):
    """Scores what an annotation says."""

    name = "rank"
    columns = ("rank",)

    def row(self, node: NodeReader) -> tuple[float]:
        return (node.annotation("rank"),)

    @priority("rank")
    def rank(self, pod: Pod, nodes: Nodes) -> Scores:
        return Scores(np.nan_to_num(nodes.columns[0]).astype(np.int64))


NODES = [make_node("a", annotations={"rank": "3"}), make_node("b")]


def test_agents_are_served_with_the_nodes_they_know(
    serve_agents: Callable[..., str], new_extender: Callable[..., Extender]
) -> None:
    url = serve_agents(Rank(), nodes=NODES)
    extender = new_extender(url, prioritize_verb="priorities/rank")
    assert url.endswith("/scheduler")
    assert extender.prioritize(make_pod(), NODES) == {"a": 3, "b": 0}


def test_agents_are_served_with_settings(
    serve_agents: Callable[..., str], new_extender: Callable[..., Extender]
) -> None:
    url = serve_agents(Rank(), settings=CoreSettings(path_prefix="/mine", unknown_nodes="drop"))
    assert url.endswith("/mine")
    extender = new_extender(url, prioritize_verb="priorities/rank")
    assert extender.prioritize(make_pod(), NODES) == {}


def test_servers_end_with_the_test() -> None:
    app = Starlette(routes=[Route("/", lambda _: PlainTextResponse("here"))])
    with serving.serve_app(app) as url:
        assert httpx.get(url, trust_env=False).text == "here"
    with pytest.raises(httpx.ConnectError):
        httpx.get(url, trust_env=False)


def test_fixtures_in_a_test_of_its_own(pytester: Any) -> None:
    pytester.makepyfile(
        """
        from kube_sched_ext_testkit.builders import make_node, make_pod
        from kube_sched_ext_testkit.scheduler import name_of
        from starlette.applications import Starlette

        def test_all(serve_app, serve_agents, new_extender):
            assert serve_app(Starlette()).startswith("http://127.0.0.1:")
            assert new_extender("http://127.0.0.1:9").filter({}, []).kept == []
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=1)


def test_plugin_imports_nothing_heavy() -> None:
    code = (
        "import sys, kube_sched_ext_testkit.plugin as _;"
        "print([name for name in ('numpy', 'starlette', 'httpx', 'uvicorn', 'kube_sched_ext')"
        " if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_readme(tmp_path: Path, serve_agents: Callable[..., str]) -> None:
    """The examples of the README, as one test file."""
    text = (Path(__file__).parents[1] / "README.md").read_text()
    blocks = [block.partition("```")[0] for block in text.split("```python\n")[1:]]
    assert len(blocks) == 4
    (tmp_path / "test_readme.py").write_text("\n".join(blocks))
    url = serve_agents(Rank())
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-W", "error", "-p", "no:cacheprovider", tmp_path],
        env={**os.environ, "EXTENDER_URL": url},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout
