"""agents/README.md, done from its beginning to its end, as its reader does it."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from documentation_pages import ROOT, Block, blocks, run_block
from documentation_shell import need_helm, shell_environment
from new_agent_copy import copy_checkout

STEPS = [
    block
    for block in blocks(ROOT / "agents" / "README.md")
    if block.file or (block.kind == "sh" and not block.not_run)
]

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def clone() -> Iterator[Path]:
    """A clone of the repository, as good as fresh."""
    with tempfile.TemporaryDirectory(prefix="kube-sched-ext-tutorial-") as folder:
        yield copy_checkout(Path(folder))


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the reader's terminal knows."""
    return shell_environment(tmp_path_factory.mktemp("programs"))


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"line {step.line}")
def test_each_step_does_what_the_page_says(
    step: Block, clone: Path, environment: dict[str, str]
) -> None:
    """In the order of the page; each goes on where the one before has ended."""
    if step.text.startswith("helm "):
        need_helm()
    if step.file:
        (clone / step.file).write_text(step.text + "\n")
    else:
        run_block(step, clone, environment)
