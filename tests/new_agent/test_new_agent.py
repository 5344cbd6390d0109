"""`nox -s new_agent`: an agent of this repository, whole or not at all."""

import os
import re
import resource
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from new_agent_copy import build, contents, copy_checkout, run

NAMES = ["newcomer", "zz" + "-z" * 14]
"""An ordinary one; the longest, with hyphens, whose imports stand behind the testkit's."""

LISTS = {"README.md", "deploy/chart/values.yaml", "images/docker-bake.hcl"}


def new_agent(
    checkout: Path, name: str, largest_file: int = -1
) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))

    return subprocess.run(
        [sys.executable, "tasks/new_agent.py", name],
        cwd=checkout,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=limit,
    )


@dataclass(frozen=True)
class Made:
    """An agent that has been made in a copy of the checkout, and installed in a folder."""

    name: str
    checkout: Path
    before: dict[str, str]
    environment: dict[str, str]

    @property
    def snake(self) -> str:
        return self.name.replace("-", "_")

    def run(self, *command: str | Path) -> str:
        return run([sys.executable, "-m", *command], self.checkout, env=self.environment)


@pytest.fixture(scope="module", params=NAMES)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("made")
    checkout = copy_checkout(folder)
    before = contents(checkout)
    done = new_agent(checkout, request.param)
    assert done.returncode == 0, done.stderr
    site = folder / "site"
    # A wheel of plain Python is installed where it is unpacked.
    zipfile.ZipFile(build(checkout / "agents" / request.param, folder)).extractall(site)
    return Made(request.param, checkout, before, os.environ | {"PYTHONPATH": str(site)})


def test_the_agent_is_all_there_and_nothing_else_has_changed(made: Made) -> None:
    """A folder like foo's, and an entry in each list."""
    after = contents(made.checkout)
    assert {it for it, digest in made.before.items() if after.get(it) != digest} == LISTS
    own = f"agents/{made.name}"
    assert set(after) - set(made.before) == {
        f"{own}/pyproject.toml",
        f"{own}/README.md",
        f"{own}/src/kube_sched_ext_{made.snake}/__init__.py",
        f"{own}/src/kube_sched_ext_{made.snake}/agent.py",
        f"{own}/src/kube_sched_ext_{made.snake}/py.typed",
        f"{own}/tests/test_{made.snake}_agent.py",
    }


def test_nothing_of_foo_is_left_in_it(made: Made) -> None:
    """Neither its name nor that it is a template."""
    for path in (made.checkout / "agents" / made.name).rglob("*.*"):
        assert not re.search("foo|template", path.read_text(), re.IGNORECASE), path
        assert not path.read_text().endswith("\n\n"), path


@pytest.mark.parametrize(
    "command",
    [
        ["pytest", "-q", "-p", "no:cacheprovider", "agents/{name}/tests"],
        ["pytest", "-q", "-p", "no:cacheprovider", "tests/contract", "-k", "not server"],
        ["ruff", "check", "--no-cache", "agents/{name}"],
        ["ruff", "format", "--no-cache", "--check", "agents/{name}"],
        ["mypy", "--cache-dir=/dev/null", "agents/{name}/src"],
    ],
    ids=["tests", "contract", "lint", "format", "types"],
)
def test_it_passes_before_a_line_is_changed(made: Made, command: Sequence[str]) -> None:
    """Its own tests, the testkit's contract, lint and types."""
    made.run(*(part.format(name=made.name) for part in command))


def test_it_is_found_by_its_entry_point(made: Made) -> None:
    """And so by the server."""
    assert f"\n  predicate {made.name}\n" in made.run("kube_sched_ext", "agents")


def test_the_chart_installs_it_as_foo(made: Made) -> None:
    """Its entry in the values is foo's."""
    agents = yaml.safe_load((made.checkout / "deploy/chart/values.yaml").read_text())["agents"]
    as_foo = {key: str(value).replace("foo", made.name) for key, value in agents["foo"].items()}
    assert {key: str(value) for key, value in agents[made.name].items()} == as_foo


def test_it_has_an_image(made: Made) -> None:
    """A target, which `all` builds."""
    text = (made.checkout / "images/docker-bake.hcl").read_text()
    assert f'"foo", "{made.name}", ' in text
    assert f'target "{made.name}" {{\n' in text
    assert f'"${{REGISTRY}}kube-sched-ext-{made.name}:${{VERSION}}"' in text


def test_the_project_lists_it(made: Made) -> None:
    """In the table of agents."""
    text = (made.checkout / "README.md").read_text()
    assert f"\n| [{made.name}](agents/{made.name}/README.md) |" in text


@contextmanager
def unchanged(checkout: Path) -> Iterator[None]:
    before = contents(checkout)
    folders = {path for path in checkout.rglob("*") if path.is_dir() and path.name != "__pycache__"}
    yield
    assert contents(checkout) == before
    assert folders == {it for it in checkout.rglob("*") if it.is_dir() and it.name != "__pycache__"}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_checkout(tmp_path_factory.mktemp("refused"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Quiet", "'Quiet' is no name of an agent; allowed: a letter a-z, then letters, digits"),
        ("../quiet", "'../quiet' is no name of an agent"),
        ("low_noise", "'low_noise' is no name of an agent"),
        ("low--noise", "'low--noise' is no name of an agent"),
        ("quiet-", "'quiet-' is no name of an agent"),
        ("7up", "'7up' is no name of an agent"),
        ("q", "2 to 30 characters"),
        ("z" * 31, "2 to 30 characters"),
        ("quiet\n", "is no name of an agent"),
        ("", "'' is no name of an agent"),
        ("foo", "'foo' is taken; taken are "),
        ("safe", "'safe' is taken"),
        ("safe-overload", "'safe-overload' is taken"),
        ("several", "'several' is taken"),
        ("core", "'core' is a part of this project; an agent may have any name but cluster, "),
        ("together", "'together' is a part of this project"),
        ("none", "'none' would make a class None, which means something else in Python"),
        ("agent", "'agent' would make a class Agent, which means something else"),
    ],
)
def test_a_name_that_is_taken_or_not_valid_is_refused(
    checkout: Path, name: str, words: str
) -> None:
    """In words that name it and what is allowed, and nothing is written."""
    with unchanged(checkout):
        done = new_agent(checkout, name)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_is_left_of_an_agent_that_could_not_be_written_whole(checkout: Path) -> None:
    """The small files of the agent fit, what it is listed in does not."""
    largest = max((checkout / it).stat().st_size for it in LISTS)
    with unchanged(checkout):
        done = new_agent(checkout, "newcomer", largest_file=largest)
    assert done.returncode == 1
    assert "File too large" in done.stderr


def test_a_list_that_has_lost_its_entry_of_foo_is_told(tmp_path: Path) -> None:
    """And nothing is written."""
    checkout = copy_checkout(tmp_path)
    values = checkout / "deploy/chart/values.yaml"
    values.write_text(values.read_text().replace("\n  foo:\n", "\n  fool:\n"))
    with unchanged(checkout):
        done = new_agent(checkout, "newcomer")
    assert "deploy/chart/values.yaml has 0 entries of foo" in done.stderr
