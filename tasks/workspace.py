"""The packages of the workspace, found by their pyproject.toml under packages/ and agents/."""

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Package:
    """One package of the workspace."""

    folder: str
    distribution: str
    needs: frozenset[str]
    """Distributions of the workspace that it depends on."""
    may_need: frozenset[str]
    """Those that it or one of its extras depends on."""
    test_needs: frozenset[str]
    """Those that only its tests need."""
    has_test_group: bool

    @property
    def name(self) -> str:
        """Its folder's name, by which tasks call it."""
        return Path(self.folder).name

    @property
    def module(self) -> str:
        """What it is imported as."""
        return self.distribution.replace("-", "_")

    @property
    def is_agent(self) -> bool:
        """Whether it is an agent, not a shared package."""
        return self.folder.startswith("agents/")


def read(pyproject: Path, root: Path = ROOT) -> Package:
    """Return the package that `pyproject` describes."""
    content = tomllib.loads(pyproject.read_text())
    project = content["project"]
    needs = project["dependencies"]
    extras = project.get("optional-dependencies", {}).values()
    groups = content.get("dependency-groups", {})
    return Package(
        folder=pyproject.parent.relative_to(root).as_posix(),
        distribution=project["name"],
        needs=_of_workspace(needs),
        may_need=_of_workspace([*needs, *(need for extra in extras for need in extra)]),
        test_needs=_of_workspace(groups.get("test", [])),
        has_test_group="test" in groups,
    )


def _of_workspace(needs: Iterable[str]) -> frozenset[str]:
    return frozenset(need.partition("==")[0] for need in needs if "kube-sched-ext" in need)


def find(root: Path = ROOT) -> list[Package]:
    """Return all packages below `root`, the shared ones first."""
    kinds = ("packages", "agents")
    return [
        read(path, root) for kind in kinds for path in sorted(root.glob(f"{kind}/*/pyproject.toml"))
    ]


PACKAGES = find()
BY_NAME = {package.name: package for package in PACKAGES}
BY_DISTRIBUTION = {package.distribution: package for package in PACKAGES}
AGENTS = [package for package in PACKAGES if package.is_agent]


def with_needs(packages: Iterable[Package]) -> list[Package]:
    """Return packages and what of the workspace they need, each once."""
    found: dict[Package, None] = {}
    for package in packages:
        found[package] = None
        found |= dict.fromkeys(with_needs(BY_DISTRIBUTION[it] for it in sorted(package.needs)))
    return list(found)
