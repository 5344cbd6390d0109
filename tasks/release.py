"""Builds a release into dist/: wheels and sdists of every package, an SBOM and checksums.

    python tasks/release.py [--version X.Y.Z]

All packages and the chart share one version. `--version` writes it everywhere first, and closes the
changelog's section "Unreleased" under it. Nothing is built while anything is out of step. Each
package is built twice, and must come out the same to the byte; what was built is installed into a
fresh environment and asked what kube-scheduler asked.
"""

import argparse
import datetime as dt
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from workspace import AGENTS, PACKAGES, ROOT, Package

DIST: Final = ROOT / "dist"
CHART: Final = "deploy/chart/Chart.yaml"
_VERSION: Final = re.compile(r"[0-9]+\.[0-9]+\.[0-9]+((a|b|rc)[0-9]+)?")
_CHART_VERSION: Final = re.compile(r'^(version|appVersion): "?([^"\s]+)"?$', re.MULTILINE)
_OURS: Final = re.compile(r'"(kube-sched-ext[a-z-]*)==([^"]+)"')


def version_in(root: Path, package: Package) -> str:
    """Return the version that `package` gives itself."""
    content = tomllib.loads((root / package.folder / "pyproject.toml").read_text())
    version: str = content["project"]["version"]
    return version


def out_of_step(root: Path, packages: Sequence[Package]) -> list[str]:
    """Return what keeps the workspace from being released as it is, a line each."""
    projects = {it: (root / it.folder / "pyproject.toml").read_text() for it in packages}
    versions = {package: version_in(root, package) for package in packages}
    [core] = [package for package in packages if package.name == "core"]
    version = versions[core]
    problems = [
        f"{package.folder}/pyproject.toml: version is {found}, core's is {version}"
        for package, found in versions.items()
        if found != version
    ]
    problems += [
        f"{package.folder}/pyproject.toml: asks for {name}=={found}, not =={version}"
        for package, text in projects.items()
        for name, found in _OURS.findall(text)
        if found != version
    ]
    chart = (root / CHART).read_text()
    problems += [
        f"{CHART}: {key} is {found}, core's version is {version}"
        for key, found in _CHART_VERSION.findall(chart)
        if found != version
    ]
    changelog = (root / "CHANGELOG.md").read_text()
    if not re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d$", changelog, re.MULTILINE
    ):
        problems.append(
            f"CHANGELOG.md: has no section ## [{version}] - YYYY-MM-DD; "
            "`nox -s release -- --version X.Y.Z` makes one of what is under Unreleased"
        )
    return problems


def write_version(root: Path, packages: Sequence[Package], version: str, today: str) -> None:
    """Write `version` everywhere, and close the changelog's section "Unreleased" under it.

    Raises:
        SystemExit: `version` is none, or nothing is under Unreleased.
    """
    if not _VERSION.fullmatch(version):
        raise SystemExit(f"release: {version!r} is no version such as 0.2.0 or 1.0.0rc1")
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text()
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if unreleased is None or not unreleased[1].strip():
        raise SystemExit("release: CHANGELOG.md has nothing under ## [Unreleased]")
    heading = f"## [Unreleased]\n\n## [{version}] - {today}\n"
    changelog.write_text(text.replace("## [Unreleased]\n", heading, 1))
    for package in packages:
        path = root / package.folder / "pyproject.toml"
        content = re.sub(
            r'^version = "[^"]+"$',
            f'version = "{version}"',
            path.read_text(),
            count=1,
            flags=re.MULTILINE,
        )
        path.write_text(_OURS.sub(rf'"\1=={version}"', content))
    chart = root / CHART
    chart.write_text(_CHART_VERSION.sub(rf"\1: {version}", chart.read_text()))


def build(packages: Sequence[Package], into: Path) -> None:
    """Build wheels and sdists of `packages` into an empty folder, with the last commit's time."""
    epoch = _output("git", "log", "-1", "--format=%ct")
    for package in packages:
        _run("uv", "build", "--quiet", "--out-dir", into, package.folder, SOURCE_DATE_EPOCH=epoch)
    (into / ".gitignore").unlink(missing_ok=True)


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each file in `folder`, by name."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.iterdir())
    }


def check_installed(packages: Sequence[Package], built: Path, environment: Path) -> None:
    """Install what was `built` into a new environment, and ask it what kube-scheduler asked."""
    python = environment / "bin" / "python"
    _run("uv", "venv", "--quiet", environment)
    pins = ("--constraint", ROOT / "requirements.txt")
    # By name: where a wheel lay then is nobody's business, and would stand in the SBOM.
    names = [f"{package.distribution}=={version_in(ROOT, package)}" for package in packages]
    found = ("--find-links", built)
    _run("uv", "pip", "install", "--quiet", "--python", python, *pins, *found, *names)
    installed = _output(environment / "bin" / "kube-sched-ext", "agents")
    missing = [agent.name for agent in AGENTS if f"{agent.name}: " not in installed]
    if missing:
        raise SystemExit(f"release: of what was installed, these agents are missing: {missing}")
    data = ROOT / "tests" / "data"
    demo = ("-m", "kube_sched_ext_testkit.demo", "--nodes", data / "nodes.json", data)
    _run(python, *demo)


def _output(*command: str | Path) -> str:
    run = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    return run.stdout.strip()


def _run(*command: str | Path, **variables: str) -> None:
    environment: Mapping[str, str] = os.environ | variables
    subprocess.run(command, cwd=ROOT, check=True, env=environment)


def release() -> None:
    """Build into DIST, and check what was built.

    Raises:
        SystemExit: what is wrong, a line each.
    """
    if problems := out_of_step(ROOT, PACKAGES):
        raise SystemExit("\n".join(f"release: {problem}" for problem in problems))
    with tempfile.TemporaryDirectory() as name:
        first, second, environment = (Path(name) / part for part in ("1", "2", "environment"))
        build(PACKAGES, first)
        build(PACKAGES, second)
        once, again = digests(first), digests(second)
        differing = [file for file, digest in once.items() if again[file] != digest]
        if differing:
            raise SystemExit(f"release: built twice, these differ: {', '.join(differing)}")
        check_installed(PACKAGES, first, environment)
        DIST.mkdir(exist_ok=True)
        for old in DIST.iterdir():
            old.unlink()
        for path in first.iterdir():
            path.rename(DIST / path.name)
        _run(
            *(sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"),
            *("--of", "JSON", "--output-file", DIST / "sbom.cdx.json"),
            *("--pyproject", "packages/core/pyproject.toml", environment),
        )
    lines = [f"{digest}  {file}" for file, digest in digests(DIST).items()]
    (DIST / "SHA256SUMS").write_text("\n".join(lines) + "\n")
    print(f"{len(lines)} files in {DIST.relative_to(ROOT)}, with SHA256SUMS:")
    print("\n".join(lines))


def main() -> None:
    """Write the version where one is given, then build."""
    parser = argparse.ArgumentParser(description="Build a release into dist/.")
    parser.add_argument("--version", help="write this version everywhere first, such as 0.2.0")
    options = parser.parse_args()
    if options.version:
        today = dt.datetime.now(tz=dt.UTC).date().isoformat()
        write_version(ROOT, PACKAGES, options.version, today)
    release()


if __name__ == "__main__":
    main()
