"""Fixtures around the real control plane; what tests tell of their times is shown at the end."""

import os
import sys
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

# pytest's importlib mode puts no folder of tests on the path.
sys.path.append(str(Path(__file__).parent))

from control_plane import BINARY, ControlPlane, running
from e2e_cluster import Cluster

TOLD = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TOLD] = []


@pytest.fixture(scope="session")
def control_plane() -> Iterator[ControlPlane]:
    """The real etcd and kube-apiserver."""
    binary = os.environ.get(BINARY)
    if not binary:
        reason = f"{BINARY} is not set: `nox -s e2e` builds that binary and sets it"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    with running(binary) as plane:
        yield plane


@pytest.fixture
def cluster(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Cluster]:
    """An empty cluster without a scheduler."""
    cluster = Cluster(control_plane, tmp_path)
    try:
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def tell(
    request: pytest.FixtureRequest, record_property: Callable[[str, object], None]
) -> Callable[[str], None]:
    """Show a line at the end of the run, and keep it in the report."""

    def told(line: str) -> None:
        record_property("told", line)
        request.config.stash[TOLD].append(f"{request.node.name}: {line}")

    return told


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(cluster, Cluster):
        report.sections += [(f"log of {name}", tail) for name, tail in cluster.tails()]
    return report


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    lines = config.stash[TOLD]
    if lines:
        terminalreporter.section("what it took")
        for line in lines:
            terminalreporter.write_line(line)
