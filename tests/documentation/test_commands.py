"""Every command on every page is run: here, by its page's own test, or by .ci/run.

Where that cannot be, a comment before it says why.
"""

import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from pathlib import Path

import httpx
import pytest
from documentation_pages import PAGES, ROOT, Block, blocks, run_block
from documentation_shell import shell_environment
from new_agent_copy import build, copy_checkout, run
from uv import find_uv_bin

from kube_sched_ext_testkit.serving import stop

TESTED_ELSEWHERE = {
    "agents/README.md": "tests/documentation/test_tutorial.py",
    "deploy/README.md": "tests/deploy/test_deploy_readme.py",
    "docs/scheduling.md": "tests/e2e/test_scheduling_page.py",
}
"""Pages that are done from beginning to end, each by a test of its own."""

CI = (ROOT / ".ci" / "run").read_text()
# Two blanks part a command from words about it.
TASK = re.compile(r"nox -s ((?:[a-z]\w*|\"[^\"]+\"| (?! ))+)")
PATIENCE = 20.0
SERVE = re.compile(r"^(?:\w+=\S+ )*kube-sched-ext serve ")
PIP = """#!/bin/sh
# pip, but with what is pinned, and our packages from wheels of this checkout.
exec {uv} pip "$@" --quiet --constraint requirements.txt --find-links {wheels}
"""

pytestmark = pytest.mark.timeout(300)


def is_run_by_ci(command: str) -> bool:
    """Tell whether .ci/run has it, or runs the same tasks."""
    if command in CI:
        return True
    tasks = TASK.search(command)
    done = " ".join(re.findall(r"nox -s ([^\n]+)", CI)).split()
    return bool(tasks) and set(re.findall(r"\b[a-z]\w*(?![^(]*\))", tasks[1])) <= set(done)


def blocks_to_run() -> Iterator[Block]:
    for page in PAGES:
        if str(page.relative_to(ROOT)) not in TESTED_ELSEWHERE:
            for block in blocks(page):
                if block.kind == "sh" and not block.not_run:
                    yield block


BLOCKS = [it for it in blocks_to_run() if not all(map(is_run_by_ci, it.commands))]


@pytest.fixture(scope="module")
def checkout() -> Iterator[Path]:
    """A clone of the repository, with the snapshot of a cluster that pages name."""
    with tempfile.TemporaryDirectory(prefix="kube-sched-ext-commands-") as folder:
        copy = copy_checkout(Path(folder))
        shutil.copy(copy / "tests" / "data" / "nodes.json", copy / "nodes.json")
        yield copy


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is published."""
    folder = tmp_path_factory.mktemp("wheels")
    for project in sorted(ROOT.glob("*/*/pyproject.toml")):
        build(project.parent, folder)
    return folder


@pytest.fixture(scope="module")
def terminal(
    tmp_path_factory: pytest.TempPathFactory, wheels: Path
) -> Callable[[Path], dict[str, str]]:
    """A terminal for each page, with an environment of its own where nothing is installed yet."""

    @cache
    def opened(_: Path) -> dict[str, str]:
        folder = tmp_path_factory.mktemp("terminal")
        uv = find_uv_bin()
        run([uv, "venv", "--quiet", "--python", sys.executable, folder / "venv"], folder)
        pip = folder / "venv" / "bin" / "pip"
        pip.write_text(PIP.format(uv=uv, wheels=wheels))
        pip.chmod(0o755)
        shell = shell_environment(folder)
        path = f"{folder}/venv/bin:{shell['PATH']}"
        return shell | {"PATH": path, "VIRTUAL_ENV": str(folder / "venv")}

    return opened


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.place)
def test_the_commands_of_a_page_do_their_work(
    block: Block, checkout: Path, terminal: Callable[[Path], dict[str, str]], tmp_path: Path
) -> None:
    """A server is asked whether it lives, and ended."""
    assert not any(map(TASK.search, block.commands)), ".ci/run does not run these tasks"
    environment = terminal(block.page)
    *first, last = block.commands
    if SERVE.match(last):
        run_block(replace(block, text="\n".join(first)), checkout, environment)
        check_server(last, checkout, environment, tmp_path / "serve.log")
    else:
        run_block(block, checkout, environment)


def check_server(command: str, folder: Path, environment: dict[str, str], log: Path) -> None:
    port, ops_port = free_ports(2)
    deadline = time.monotonic() + PATIENCE
    command = command.replace("--http-port 8080", f"--http-port {port}")
    own = {"HTTP_HOST": "127.0.0.1", "HTTP_PORT": str(port), "OPS_PORT": str(ops_port)}
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["bash", "-c", f"exec env {command}"],
            cwd=folder,
            env=environment | own,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        while not lives(f"http://127.0.0.1:{ops_port}/livez"):
            assert process.poll() is None, f"{command}\n{log.read_text()}"
            assert time.monotonic() < deadline, f"{command}\n{log.read_text()}"
            time.sleep(0.05)
    finally:
        code = stop(process)
    assert code == 0, f"{command}\n{log.read_text()}"


def lives(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).is_success
    except httpx.TransportError:
        return False


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        found = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in found]


@pytest.mark.parametrize("page", TESTED_ELSEWHERE)
def test_a_page_with_a_test_of_its_own_has_one(page: str) -> None:
    """Which names it."""
    text = (ROOT / TESTED_ELSEWHERE[page]).read_text()
    assert page in text.replace('" / "', "/")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_comment_that_excepts_commands_stands_before_some(page: Path) -> None:
    """And says why."""
    excepted = [block for block in blocks(page) if block.kind == "sh" and block.not_run]
    assert len(excepted) == len(re.findall(r"^<!-- not run", page.read_text(), re.MULTILINE))
