"""Fixtures around the servers of `core_servers`."""

import textwrap
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from core_servers import AGENTS, Recorder, Served, serving
from starlette.applications import Starlette


@pytest.fixture
def serve_app() -> Iterator[Callable[[Starlette], int]]:
    """Serve applications until the test ends."""
    with ExitStack() as stack:
        yield lambda app: stack.enter_context(serving(app))


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    """Instruments that keep what is logged at INFO."""
    recorder = Recorder()
    yield recorder
    recorder.instruments.writer.close()


@pytest.fixture
def install_agents(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Install test agents by name; returns the environment of a process that has them."""

    def install(*names: str, extension: str = "", command: str = "") -> dict[str, str]:
        site = tmp_path / "site"
        metadata = site / "test_agents-1.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: test-agents\nVersion: 1\n")
        points = [f"{name} = agent_{name}:{name.capitalize()}" for name in names]
        (metadata / "entry_points.txt").write_text(
            "\n".join(["[kube_sched_ext.agents]", *points]) + "\n"
        )
        if extension:
            (site / "extension_beside.py").write_text(extension)
            with (metadata / "entry_points.txt").open("a") as file:
                file.write("[kube_sched_ext.extensions]\nbeside = extension_beside:Beside\n")
        if command:
            (site / "command_beside.py").write_text(command)
            with (metadata / "entry_points.txt").open("a") as file:
                file.write("[kube_sched_ext.commands]\nbeside = command_beside:beside\n")
        for name in names:
            (site / f"agent_{name}.py").write_text(textwrap.dedent(AGENTS[name]))
        return {"PYTHONPATH": str(site)}

    return install


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Start serving processes, which are gone when the test ends."""
    started: list[Served] = []

    def start(*arguments: str, **env: str) -> Served:
        served = Served(*arguments, **env)
        started.append(served)
        return served

    yield start
    for served in started:
        if served.process.poll() is None:
            served.process.kill()
        served.process.communicate()
