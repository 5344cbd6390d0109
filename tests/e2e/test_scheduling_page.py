"""docs/scheduling.md, done on the playground as its reader does it."""

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from control_plane import ControlPlane
from documentation_pages import ROOT, Block, blocks, run_block
from e2e_programs import Program

PAGE = ROOT / "docs" / "scheduling.md"
STEPS = [block for block in blocks(PAGE) if block.kind == "sh" and not block.not_run]


@pytest.fixture(scope="module")
def environment(
    control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, str]]:
    """What the reader's terminal knows: kubectl, its kubeconfig, and where the agents are."""
    folder = tmp_path_factory.mktemp("playground")
    playground = Program(
        "playground", [sys.executable, ROOT / "tests/e2e/playground.py", "congestion"], folder
    )
    try:
        playground.wait_until("all there", lambda: "Ctrl-C" in playground.tail())
        told = playground.tail()
        kubectl = folder / "kubectl"
        kubectl.write_text(f'#!/bin/sh\nexec {control_plane.binary} kubectl "$@"\n')
        kubectl.chmod(0o755)
        found = [re.search(it, told) for it in (r"KUBECONFIG=(\S+)", r"The agents: (\S+)")]
        kubeconfig, agents = (it[1] for it in found if it)
        path = f"{folder}:{os.environ['PATH']}"
        yield os.environ | {"KUBECONFIG": kubeconfig, "AGENTS": agents, "PATH": path}
    finally:
        playground.stop()


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"line {step.line}")
def test_each_step_does_what_the_page_says(
    step: Block, environment: dict[str, str], tmp_path: Path
) -> None:
    """In the order of the page; each goes on where the one before has ended."""
    run_block(step, tmp_path, environment)
