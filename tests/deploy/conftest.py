"""Fixtures: helm's renderings, and the real control plane that takes them."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# pytest's importlib mode puts no folder of tests on the path.
sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "e2e"))
sys.path.append(str(Path(__file__).parents[2] / "deploy"))

from control_plane import BINARY, ControlPlane, running
from deploy_plane import Rig
from deploy_programs import STRICT
from render import HELM


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = [name for name in (BINARY, HELM, STRICT) if not os.environ.get(name)]
    if missing and os.environ.get("CI", "").lower() != "true":
        reason = f"{', '.join(missing)} not set: `nox -s chart` builds these programs and sets it"
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """The real etcd and kube-apiserver."""
    with running(os.environ[BINARY]) as plane:
        yield plane


@pytest.fixture
def rig(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Rig]:
    """A cluster into which rendered objects are installed, and where their containers run."""
    rig = Rig(control_plane, tmp_path)
    try:
        yield rig
    finally:
        rig.close()
