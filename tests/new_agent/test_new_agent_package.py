"""`kube-sched-ext new-agent`: an agent outside of this repository, from installed wheels."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from new_agent_copy import ROOT, build, contents, run
from uv import find_uv_bin

from kube_sched_ext.version import VERSION
from kube_sched_ext_testkit.builders import make_node, make_pod
from kube_sched_ext_testkit.scheduler import Extender
from kube_sched_ext_testkit.serving import serve_process

UV = find_uv_bin()
NODES = [make_node("one"), make_node("two")]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what is published."""
    folder = tmp_path_factory.mktemp("wheels")
    for package in ("packages/core", "packages/testkit", "agents/foo"):
        build(ROOT / package, folder)
    return folder


def environment_with(folder: Path, wheels: Path, *packages: str) -> Path:
    """Return the programs of a fresh environment with packages, our own from wheels alone."""
    run([UV, "venv", "--quiet", "--python", sys.executable, folder], folder.parent)
    pins = ROOT / "requirements.txt"
    own = ("--find-links", wheels, "--constraint", pins, "--build-constraint", pins)
    python = folder / "bin" / "python"
    run([UV, "pip", "install", "--quiet", "--python", python, *own, *packages], folder.parent)
    return folder / "bin"


@pytest.fixture(scope="module")
def author(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of somebody who writes agents."""
    folder = tmp_path_factory.mktemp("author") / "environment"
    return environment_with(folder, wheels, "kube-sched-ext-testkit", "kube-sched-ext-foo")


@pytest.fixture(scope="module")
def package(author: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package that the command has made."""
    folder = tmp_path_factory.mktemp("packages")
    told = run([author / "kube-sched-ext", "new-agent", "low-noise"], folder)
    assert told.startswith(f"agent low-noise is in {folder}/low-noise; next:\n")
    return folder / "low-noise"


def test_the_package_goes_its_own_way(package: Path) -> None:
    """From a compatible version of the core on, under no license yet."""
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    assert project["name"] == "kube-sched-ext-low-noise"
    assert project["version"] == "0.1.0"
    assert f"kube-sched-ext~={VERSION}" in project["dependencies"]
    assert project["optional-dependencies"] == {"test": [f"kube-sched-ext-testkit~={VERSION}"]}
    assert "license" not in project
    for path in package.rglob("*.*"):
        assert not re.search("foo|template|==", path.read_text().replace(" == ", "")), path


def test_it_is_tested_installed_and_served_beside_wheels_of_the_core(
    package: Path, wheels: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a fresh environment, as its own words say."""
    programs = environment_with(tmp_path / "environment", wheels, f"{package}[test]")
    run([programs / "pytest", "-q", "-W", "error", package], tmp_path)
    agents = run([programs / "kube-sched-ext", "agents"], tmp_path)
    assert agents.startswith("low-noise: Accepts every node and scores each 1.\n")
    monkeypatch.setattr(sys, "executable", str(programs / "python"))
    with (
        serve_process("low-noise", folder=tmp_path) as served,
        Extender(
            served.url_prefix,
            filter_verb="predicates/low-noise",
            prioritize_verb="priorities/low-noise",
            node_cache_capable=False,
        ) as extender,
    ):
        assert extender.filter(make_pod(), NODES).reasons == {}
        assert extender.prioritize(make_pod(), NODES) == {"one": 1, "two": 1}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Quiet", "'Quiet' is no name of an agent; allowed: a letter a-z"),
        ("foo", "'foo' is taken; taken are foo, testkit"),
        ("telemetry", "'telemetry' is a part of this project"),
        ("in-use", "in-use is in use; give a folder that is empty or not there"),
        ("a-file", "a-file is in use"),
        ("a-file/quiet", "Not a directory"),
    ],
)
def test_what_cannot_be_made_is_refused(
    author: Path, tmp_path: Path, name: str, words: str
) -> None:
    """With exit code 2, and nothing is written."""
    (tmp_path / "in-use").mkdir()
    (tmp_path / "in-use" / "mine.txt").write_text("mine")
    (tmp_path / "a-file").write_text("mine")
    before = contents(tmp_path)
    command = f"{author}/kube-sched-ext new-agent {name}; echo exit code $?"
    told = run(["sh", "-c", command], tmp_path)
    assert told.startswith("kube-sched-ext: new-agent: ")
    assert words in told
    assert told.endswith("\nexit code 2\n")
    assert contents(tmp_path) == before


def test_the_template_comes_with_foo(wheels: Path, tmp_path: Path) -> None:
    """Without it the command says what to install."""
    programs = environment_with(tmp_path / "environment", wheels, "kube-sched-ext-testkit")
    command = f"{programs}/kube-sched-ext new-agent quiet; echo exit code $?"
    told = run(["sh", "-c", command], tmp_path, env=os.environ | {"PYTHONPATH": ""})
    assert "the template is not installed: pip install kube-sched-ext-foo brings it" in told
    assert told.endswith("\nexit code 2\n")
    assert not (tmp_path / "quiet").exists()


def test_the_template_is_in_both_kinds_of_package(wheels: Path, tmp_path: Path) -> None:
    """A wheel from the source distribution has what one from the checkout has."""
    source = build(ROOT / "agents/foo", tmp_path, "sdist")
    subprocess.run(["tar", "--extract", "--file", source], cwd=tmp_path, check=True)
    built = build(tmp_path / source.name.removesuffix(".tar.gz"), tmp_path)
    names = zipfile.ZipFile(built).namelist()
    assert names == zipfile.ZipFile(wheels / built.name).namelist()
    assert "kube_sched_ext_foo/template/tests/test_foo_agent.py" in names
