"""A copy of the checkout to make agents in, and wheels of what is in it."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
_LEFT_OUT = (
    ".git",
    ".nox",
    ".venv",
    "__pycache__",
    "*_cache",
    ".hypothesis",
    "node_modules",
    "dist",
)


def copy_checkout(folder: Path) -> Path:
    """Return a copy of the checkout in `folder`, without what tasks leave in it."""
    left_out = shutil.ignore_patterns(*_LEFT_OUT)
    return Path(shutil.copytree(ROOT, folder / "checkout", ignore=left_out, symlinks=True))


def contents(folder: Path) -> dict[str, str]:
    """Return a digest of each file below `folder`, by its path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def run(command: Sequence[str | Path], cwd: Path, **options: object) -> str:
    """Return what a command says, if it succeeds."""
    done = subprocess.run(  # type: ignore[call-overload]
        command,
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        **options,
    )
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}"
    return str(done.stdout)


def build(project: Path, folder: Path, target: str = "wheel") -> Path:
    """Return what hatchling builds of a project, without a network or an environment of its own."""
    before = set(folder.glob("*"))
    run([sys.executable, "-m", "hatchling", "build", "-t", target, "-d", folder], project)
    [built] = set(folder.glob("*")) - before
    return built
