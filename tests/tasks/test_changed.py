"""A change touches the agents that could break by it, and no other."""

import json
import subprocess
import sys
from pathlib import Path

import changed
import pytest
import workspace

ALL = [agent.name for agent in workspace.AGENTS]
CORE = "packages/core/src/kube_sched_ext"


@pytest.mark.parametrize(
    ("file", "agents"),
    [
        ("agents/foo/src/kube_sched_ext_foo/agent.py", ["foo"]),
        ("agents/foo/tests/test_foo_agent.py", ["foo"]),
        ("agents/foo/pyproject.toml", ["foo"]),
        ("agents/foo/README.md", []),
        (f"{CORE}/nodes.py", ALL),
        # Agents do not import it; the testkit, with which they are tested, does.
        (f"{CORE}/verbs.py", ALL),
        (f"{CORE}/__init__.py", ALL),
        ("packages/core/pyproject.toml", ALL),
        ("packages/testkit/src/kube_sched_ext_testkit/contract.py", ALL),
        ("packages/core/src/kube_sched_ext/scheduler_config/names.py", []),
        ("packages/core/tests/test_app.py", []),
        ("packages/cluster/src/kube_sched_ext_cluster/live.py", []),
        (
            "packages/telemetry/src/kube_sched_ext_telemetry/__init__.py",
            ["networktraffic", "safe"],
        ),
        ("requirements.txt", ALL),
        ("noxfile.py", ALL),
        ("tests/data/nodes.json", ALL),
        ("tests/e2e/test_bind.py", []),
        ("README.md", []),
    ],
)
def test_files_touch_agents(file: str, agents: list[str]) -> None:
    """Its own, what it and the testkit import, and what all tasks share."""
    assert changed.touched([file]) == agents


def test_files_touch_agents_together() -> None:
    """Each agent once, in the order of their names."""
    files = ["agents/safe/pyproject.toml", "agents/foo/pyproject.toml", "README.md"]
    assert changed.touched(files) == ["foo", "safe"]


def git(folder: Path, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True)


def test_changes_are_counted_from_where_the_branch_began(tmp_path: Path) -> None:
    """Committed, in the work tree, and new; what others changed meanwhile is none of it."""
    git(tmp_path, "init", "--initial-branch=main")
    for name in ("kept", "edited", "removed"):
        (tmp_path / name).write_text(name)
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message=base")
    git(tmp_path, "switch", "--create=branch")
    (tmp_path / "committed").write_text("")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message=branch")
    git(tmp_path, "switch", "main")
    (tmp_path / "of-others").write_text("")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--message=others")
    git(tmp_path, "switch", "branch")
    (tmp_path / "edited").write_text("anew")
    (tmp_path / "removed").unlink()
    (tmp_path / "new").write_text("")
    files = changed.changed_files("main", tmp_path)
    assert sorted(files) == ["committed", "edited", "new", "removed"]


def test_a_revision_that_is_none_is_named() -> None:
    """With what git says of it."""
    with pytest.raises(SystemExit, match="'nowhere' is no revision: fatal"):
        changed.changed_files("nowhere")


def test_the_command_prints_a_matrix() -> None:
    """As JSON, where it is asked for."""
    command = [sys.executable, changed.__file__, "HEAD", "--json"]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert set(json.loads(run.stdout)) <= set(ALL)
