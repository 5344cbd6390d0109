"""Which agents a change touches, through the import graph.

    python tasks/changed.py REVISION [--json]

An agent is touched by a change of its own files, of a module that it or the testkit (with which all
agents are tested) imports however indirectly, and of what all tasks share.
"""

import argparse
import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import grimp
from workspace import PACKAGES, ROOT, Package, with_needs

SHARED: Final = ("noxfile.py", "pyproject.toml", "requirements", ".ci/", "tasks/", "tests/data/")
"""Beginnings of the paths that every task reads."""

TESTKIT: Final = "testkit"


def changed_files(revision: str, root: Path = ROOT) -> list[str]:
    """Return the files that differ from where the branch left `revision`, committed or not."""

    def git(*arguments: str) -> list[str]:
        command = ["git", *arguments]
        run = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
        if run.returncode:
            raise SystemExit(f"changed: {revision!r} is no revision: {run.stderr.strip()}")
        return run.stdout.splitlines()

    [base] = git("merge-base", revision, "HEAD")
    untracked = git("ls-files", "--others", "--exclude-standard")
    return [*git("diff", "--name-only", "--no-renames", base), *untracked]


def touched(
    files: Iterable[str],
    packages: Sequence[Package] = PACKAGES,
    imported: Mapping[str, frozenset[str]] | None = None,
) -> list[str]:
    """Return the names of the agents that a change of `files` touches.

    Args:
        files: paths from the root of the workspace.
        packages: all of the workspace.
        imported: by agent's name the modules that it and the testkit import; read where left out.
    """
    files = list(files)
    agents = [package for package in packages if package.is_agent]
    imported = imports_of(agents) if imported is None else imported
    return [
        agent.name
        for agent in agents
        if any(_touches(file, agent, packages, imported[agent.name]) for file in files)
    ]


def imports_of(agents: Sequence[Package]) -> dict[str, frozenset[str]]:
    """Return the modules that each agent and the testkit import, those of theirs included."""
    packages = with_needs([*agents, *(it for it in PACKAGES if it.name == TESTKIT)])
    graph = grimp.build_graph(*(package.module for package in packages))

    def closure(module: str) -> frozenset[str]:
        parts = graph.find_descendants(module) | {module}
        return frozenset(parts).union(*(graph.find_upstream_modules(it) for it in parts))

    testkit = frozenset[str]().union(
        *(closure(package.module) for package in packages if package.name == TESTKIT)
    )
    return {agent.name: closure(agent.module) | testkit for agent in agents}


def _touches(
    file: str, agent: Package, packages: Sequence[Package], imported: frozenset[str]
) -> bool:
    if file.startswith(SHARED):
        return True
    owner = next((it for it in packages if file.startswith(f"{it.folder}/")), None)
    if owner is None or file.endswith(".md"):
        return False
    if owner == agent:
        return True
    inside = PurePosixPath(file).relative_to(owner.folder)
    if inside.parts[0] == "src" and inside.suffix == ".py":
        return _module(inside) in imported
    # How a package is built concerns all who need it; its tests concern it alone.
    needed = {*with_needs([agent]), *with_needs([it for it in packages if it.name == TESTKIT])}
    return inside.parts[0] != "tests" and owner in needed


def _module(inside: PurePosixPath) -> str:
    parts = inside.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def main() -> None:
    """Print the agents, one on a line."""
    parser = argparse.ArgumentParser(description="Print the agents that a change touches.")
    parser.add_argument("revision", help="what to compare with, such as origin/main")
    parser.add_argument("--json", action="store_true", help="as a list, for a matrix")
    options = parser.parse_args()
    names = touched(changed_files(options.revision))
    print(json.dumps(names) if options.json else "\n".join(names))


if __name__ == "__main__":
    main()
