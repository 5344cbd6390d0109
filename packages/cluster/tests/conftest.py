"""Fixtures around the servers of `cluster_fake` and `cluster_controlplane`."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster_controlplane import ControlPlane
from cluster_fake import FakeApiserver
from cluster_told import Told

BINARY = "KUBE_SCHED_EXT_CONTROLPLANE"


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The event loop that serves."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def told() -> Iterator[Told]:
    """Reports that are kept."""
    told = Told()
    yield told
    told.close()


@pytest.fixture
def apiserver() -> Iterator[FakeApiserver]:
    """A small apiserver that does as it is told."""
    with FakeApiserver() as server:
        yield server


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The real etcd and kube-apiserver."""
    binary = os.environ.get(BINARY)
    if not binary:
        pytest.skip(f"{BINARY} is not set: the path of a binary with etcd and kube-apiserver")
    plane = ControlPlane(Path(binary), tmp_path_factory.mktemp("controlplane"))
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()
