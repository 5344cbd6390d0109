"""What the workspace says about its packages, and what is recorded for its agents."""

import json
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data"
PROJECTS: dict[str, dict[str, Any]] = {
    path.parent.relative_to(ROOT).as_posix(): tomllib.loads(path.read_text())["project"]
    for path in sorted(ROOT.glob("*/*/pyproject.toml"))
}
AGENTS = [Path(folder).name for folder in PROJECTS if folder.startswith("agents/")]
VERSION: str = PROJECTS["packages/core"]["version"]

# Settings without which an agent does not start, or looks at more than what is recorded.
SETTINGS = {
    "networktraffic": {"Address": "http://127.0.0.1:9090"},
    "pigeon": {"PIGEON_USAGE": "annotations"},
}

# Scores of the recorded nodes for the recorded pod test-pod.
SCORES = {
    "foo": {"foo": [1, 1, 1, 1]},
    "congestion": {"congestion": [9, 2, 8, 10]},
    "image": {"image_score": [0, 1, 2, 1], "image_locality": [0, 8, 9, 8]},
    "safe": {"safe-overload": [9, 0, 10, 0], "safe-balance": [5, 4, 7, 0]},
    "pigeon": {"pigeon-holing": [0, 0, 0, 0]},
    "networktraffic": {"networktraffic": [5, 5, 5, 5]},
}


def recorded(verb: str, mode: str) -> bytes:
    """Return what kube-scheduler sent for test-pod."""
    return (DATA / f"{verb}.{mode}.test-pod.json").read_bytes()


def node_names() -> list[str]:
    """Return the names of the recorded nodes."""
    nodes = json.loads((DATA / "nodes.json").read_text())["items"]
    return [node["metadata"]["name"] for node in nodes]


def needed(agents: tuple[str, ...]) -> set[str]:
    """Return the packages of the workspace that an image of agents has, by their dependencies."""
    needs = {
        project["name"]: {need.partition("==")[0] for need in project["dependencies"]}
        for project in PROJECTS.values()
    }
    found: set[str] = set()
    todo = ["kube-sched-ext-cluster", *(f"kube-sched-ext-{agent}" for agent in agents)]
    while todo:
        name = todo.pop()
        found.add(name)
        todo += (needs[name] & needs.keys()) - found
    return found
