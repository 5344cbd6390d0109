"""Nothing is released out of step."""

import shutil
from pathlib import Path

import pytest
import release
import workspace
from workspace import ROOT


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with what carries versions, as it is here, under Unreleased only."""
    for package in workspace.PACKAGES:
        (tmp_path / package.folder).mkdir(parents=True)
        project = Path(package.folder) / "pyproject.toml"
        shutil.copy(ROOT / project, tmp_path / project)
    (tmp_path / release.CHART).parent.mkdir(parents=True)
    shutil.copy(ROOT / release.CHART, tmp_path / release.CHART)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n- New.\n")
    return tmp_path


def problems_of(root: Path) -> list[str]:
    return release.out_of_step(root, workspace.find(root))


def test_the_workspace_is_in_step() -> None:
    """All but the changelog's section, which comes with the release."""
    problems = release.out_of_step(ROOT, workspace.PACKAGES)
    assert [it for it in problems if not it.startswith("CHANGELOG.md: ")] == []


def test_a_version_is_written_everywhere(root: Path) -> None:
    """Packages, what they ask of each other, the chart, and the changelog."""
    assert len(problems_of(root)) == 1
    release.write_version(root, workspace.find(root), "1.2.3", "2026-01-31")
    assert problems_of(root) == []
    text = (root / "CHANGELOG.md").read_text()
    assert text == "# Changelog\n\n## [Unreleased]\n\n## [1.2.3] - 2026-01-31\n\n- New.\n"
    assert '"kube-sched-ext==1.2.3"' in (root / "agents/foo/pyproject.toml").read_text()
    assert "\nversion: 1.2.3\nappVersion: 1.2.3\n" in (root / release.CHART).read_text()


@pytest.mark.parametrize(
    ("file", "old", "new", "problem"),
    [
        (
            "agents/foo/pyproject.toml",
            'version = "1.2.3"',
            'version = "1.2.4"',
            "agents/foo/pyproject.toml: version is 1.2.4, core's is 1.2.3",
        ),
        (
            "agents/foo/pyproject.toml",
            "kube-sched-ext==1.2.3",
            "kube-sched-ext==1.2.2",
            "agents/foo/pyproject.toml: asks for kube-sched-ext==1.2.2, not ==1.2.3",
        ),
        (
            release.CHART,
            "appVersion: 1.2.3",
            "appVersion: 1.2.2",
            "deploy/chart/Chart.yaml: appVersion is 1.2.2, core's version is 1.2.3",
        ),
        (
            "CHANGELOG.md",
            "[1.2.3] - 2026-01-31",
            "[1.2.3]",
            "CHANGELOG.md: has no section ## [1.2.3] - YYYY-MM-DD",
        ),
    ],
)
def test_what_is_out_of_step_is_named(
    root: Path, file: str, old: str, new: str, problem: str
) -> None:
    """The place, what it has and what it should have."""
    release.write_version(root, workspace.find(root), "1.2.3", "2026-01-31")
    path = root / file
    path.write_text(path.read_text().replace(old, new, 1))
    [found] = problems_of(root)
    assert found.startswith(problem)


@pytest.mark.parametrize("version", ["", "1", "1.2", "v1.2.3", "1.2.3-rc1", "1.2.3 "])
def test_what_is_no_version_is_refused(root: Path, version: str) -> None:
    """Nothing is written."""
    before = (root / "CHANGELOG.md").read_text()
    with pytest.raises(SystemExit, match="is no version such as"):
        release.write_version(root, workspace.find(root), version, "2026-01-31")
    assert (root / "CHANGELOG.md").read_text() == before


def test_a_release_without_changes_is_refused(root: Path) -> None:
    """A second one in a row."""
    release.write_version(root, workspace.find(root), "1.2.3", "2026-01-31")
    with pytest.raises(SystemExit, match="nothing under"):
        release.write_version(root, workspace.find(root), "1.2.4", "2026-02-01")
