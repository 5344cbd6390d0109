"""Images to test: those that KUBE_SCHED_EXT_IMAGES names, built once each."""

import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

# pytest's importlib mode puts no folder of tests on the path.
sys.path.append(str(Path(__file__).parent))
# Where Debian has debootstrap and runc, on whose path not everybody has it.
os.environ["PATH"] += f"{os.pathsep}/usr/sbin"

from images_container import Container
from images_store import Image, Store, secrets_of_the_machine
from images_workspace import SETTINGS

IMAGES = "KUBE_SCHED_EXT_IMAGES"
TOLD = pytest.StashKey[list[str]]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[TOLD] = []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "image" in metafunc.fixturenames:
        metafunc.parametrize("image", os.environ.get(IMAGES, "").split(), indirect=True)


@pytest.fixture(scope="session")
def needle() -> str:
    """What is in the secrets of a build, and nowhere else."""
    return secrets.token_hex()


@pytest.fixture(scope="session")
def store(needle: str) -> Iterator[Store]:
    """Where images are built; nothing of it stays."""
    if not os.environ.get(IMAGES):
        pytest.skip(f"{IMAGES} is not set: `nox -s images` sets it")
    missing = [it for it in ("buildah", "debootstrap", "runc") if not shutil.which(it)]
    if missing or os.geteuid() != 0:
        pytest.fail(f"needs root, and of this machine's packages {', '.join(missing) or 'none'}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kube-sched-ext"
    with tempfile.TemporaryDirectory(prefix="kube-sched-ext-images-") as folder:
        store = Store(Path(folder), secrets_of_the_machine(needle))
        try:
            store.prepare_base(cache)
            yield store
        finally:
            store.close()


@pytest.fixture(scope="session")
def image(request: pytest.FixtureRequest, store: Store) -> Image:
    """An image of one agent, or of several as in safe+congestion."""
    return store.build(*request.param.split("+"))


@pytest.fixture(scope="session")
def files(store: Store, image: Image) -> Iterator[Path]:
    """The files of an image."""
    with store.mounted(image) as folder:
        yield folder


@pytest.fixture
def run(image: Image, files: Path, tmp_path: Path) -> Iterator[Callable[..., Container]]:
    """Run a container of an image."""
    settings = {
        key: value for agent in image.agents for key, value in SETTINGS.get(agent, {}).items()
    }
    with ExitStack() as stack:

        def start(*command: str, mounts: dict[Path, str] | None = None, **more: str) -> Container:
            container = Container(
                tmp_path / "container",
                files,
                image.config,
                command=command,
                environment=settings | more,
                mounts=mounts,
            )
            return stack.enter_context(container)

        yield start


@pytest.fixture
def tell(request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Show a line at the end of the run."""
    return request.config.stash[TOLD].append


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    if lines := config.stash[TOLD]:
        terminalreporter.section("images")
        for line in lines:
            terminalreporter.write_line(line)
