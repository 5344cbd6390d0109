"""Each image as it would run: read-only, as its user, with nothing more than its agents need."""

import json
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from images_apiserver import KUBECONFIG, Apiserver, listen
from images_container import Container
from images_store import CommandError, Image, Store, secrets_of_the_machine
from images_workspace import AGENTS, ROOT, SCORES, VERSION, needed, node_names, recorded

Run = Callable[..., Container]

# A build may be part of a test.
pytestmark = pytest.mark.timeout(600)

DOCKERFILE = ROOT / "images" / "Dockerfile"
LARGEST = {"foo": 150, "safe": 330}
INSTALLERS = re.compile(r"(pip|uv|uvx|easy_install|wheel)[0-9.]*")
COMPILERS = re.compile(
    r"([\w-]+-)?(cc|c\+\+|gcc|g\+\+|cpp|clang|as|ld|make|cmake|rustc|go)([0-9.-]*)"
)
PORT_OF_LIVENESS = 9080


def test_it_says_how_it_runs(image: Image) -> None:
    """Not as root, on ports that its user may bind, as what version, of which agents."""
    config = image.config
    assert config["User"] == "65532:65532"
    assert config["Entrypoint"] == ["kube-sched-ext"]
    assert config["Cmd"] == ["serve"]
    assert config["StopSignal"] == "SIGTERM"
    assert config["ExposedPorts"].keys() == {"8080/tcp", "9080/tcp"}
    agents = " ".join(image.agents)
    said = {
        key.removeprefix("org.opencontainers.image."): value
        for key, value in config["Labels"].items()
    }
    assert said["title"] == f"kube-sched-ext: {agents}"
    assert said["version"] == VERSION
    assert said["licenses"] == "Apache-2.0"


def test_it_serves_whole_nodes_until_it_is_told_to_stop(
    image: Image, run: Run, tell: Callable[[str], None]
) -> None:
    """The answers of the agents, from a root that is read-only; then exit code 0."""
    container = run()
    container.wait_ready()
    assert container.ask("GET", "/version").body.decode() == VERSION
    assert container.ask("GET", "/livez", port=PORT_OF_LIVENESS).status == 200
    assert_answers(container, image, "full")
    process = status_of(container)
    assert process["Uid"].split() == ["65532"] * 4
    assert int(process["CapBnd"], 16) == 0
    assert process["NoNewPrivs"] == "1"
    mounted = Path(f"/proc/{container.pid}/mounts").read_text().splitlines()
    [root] = [line.split()[3] for line in mounted if line.split()[1] == "/"]
    assert "ro" in root.split(",")
    code, seconds = container.stop()
    assert code == 0, container.log
    assert seconds < 5
    tell(f"{image.name}: stopped in {seconds:.2f} s")


def test_it_serves_names_of_a_cluster(image: Image, run: Run, tmp_path: Path) -> None:
    """With the kubernetes client that is in it."""
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "kubeconfig").write_text(json.dumps(KUBECONFIG))
    container = run(
        NODE_CACHE="true", KUBECONFIG="/config/kubeconfig", mounts={tmp_path / "config": "/config"}
    )
    with Apiserver(container.in_its_network(listen)):
        container.wait_ready()
        assert_answers(container, image, "names")
        code, _ = container.stop()
    assert code == 0, container.log


def assert_answers(container: Container, image: Image, mode: str) -> None:
    """Ask what kube-scheduler asked: each agent's verbs, and all in one call."""
    names = node_names()
    filtered = container.ask("POST", "/scheduler/filter", recorded("filter", mode))
    assert filtered.status == 200
    stays = filtered.json["NodeNames"] or [
        node["metadata"]["name"] for node in (filtered.json["Nodes"] or {}).get("items", [])
    ]
    failed = filtered.json["FailedNodes"].keys()
    assert filtered.json["Error"] == ""
    assert {*stays, *failed, *filtered.json["FailedAndUnresolvableNodes"]} == {*names}
    if "safe" in image.agents:
        assert "worker-node1" not in stays
    expected = {"": None} | {
        f"priorities/{verb}": scores
        for agent in image.agents
        for verb, scores in SCORES.get(agent, {}).items()
    }
    for verb, scores in expected.items():
        path = f"/scheduler/{verb or 'prioritize'}"
        reply = container.ask("POST", path, recorded("prioritize", mode))
        assert reply.status == 200, path
        by_name = {entry["Host"]: entry["Score"] for entry in reply.json}
        if scores is None:
            assert by_name.keys() == {*names}
        else:
            assert [by_name[name] for name in names] == scores, path


def status_of(container: Container) -> dict[str, str]:
    lines = Path(f"/proc/{container.pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def test_it_has_what_its_agents_need_and_nothing_else_of_ours(image: Image, files: Path) -> None:
    """By the dependencies that their packages declare: no other agent, nothing that tests need."""
    installed = {
        path.name.partition("-")[0].replace("_", "-")
        for path in files.glob("opt/kube-sched-ext/lib/python*/site-packages/*.dist-info")
    }
    ours = {name for name in installed if name.startswith("kube-sched-ext")}
    assert ours == needed(image.agents)
    assert not installed & {"pytest", "ruff", "hatchling", "aiohttp"}


def test_it_cannot_import_other_agents(image: Image, run: Run) -> None:
    """Such as safe where only congestion was asked for."""
    others = [f"kube_sched_ext_{agent}" for agent in AGENTS if agent not in image.agents]
    script = (
        "import importlib.util as it, sys;"
        f"sys.exit([name for name in {others!r} if it.find_spec(name)] or None)"
    )
    container = run("python", "-c", script)
    assert container.wait() == 0, container.log


def test_each_agent_loads(image: Image, run: Run) -> None:
    """What was left out of other packages is needed by none."""
    container = run("kube-sched-ext", "agents")
    assert container.wait() == 0, container.log
    assert re.findall(r"^(\w+):", container.log, re.MULTILINE) == sorted(image.agents)


def test_nothing_in_it_installs_or_compiles(files: Path) -> None:
    """No pip, no uv, no compiler: neither commands nor modules."""
    found = [
        path
        for folder in ("usr/bin", "usr/sbin", "usr/local/bin", "opt/kube-sched-ext/bin")
        for path in (files / folder).glob("*")
        if INSTALLERS.fullmatch(path.name) or COMPILERS.fullmatch(path.name)
    ]
    for name in ("pip", "setuptools", "ensurepip", "uv", "distutils-precedence.pth"):
        found += files.glob(f"usr/**/python*/**/{name}")
        found += files.glob(f"opt/**/{name}")
    assert found == []


def test_nothing_in_it_gives_rights_away(files: Path) -> None:
    """No file that runs as another user, none that everybody may write, nor a folder but tmp."""
    wrong = []
    for path in files.rglob("*"):
        mode = path.lstat().st_mode
        if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWOTH):
            wrong.append(path)
        if stat.S_ISDIR(mode) and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            wrong.append(path)
    assert wrong == []


def test_its_user_owns_nothing(files: Path) -> None:
    """So that not even a writable root could be changed."""
    assert [path for path in files.rglob("*") if path.lstat().st_uid == 65532] == []


def test_bytecode_is_never_checked_against_times(files: Path) -> None:
    """Which builds set back: it would be made anew at each start."""
    compiled = [*files.glob("opt/**/*.pyc")]
    assert compiled
    # PEP 552: flags after the magic number; 0b01 is a hash that nobody checks.
    assert {path.read_bytes()[4:8] for path in compiled} == {b"\x01\0\0\0"}


def test_its_layers_are_small_and_shared(
    image: Image, store: Store, needle: str, tell: Callable[[str], None]
) -> None:
    """And none has anything of the machine that built it."""
    secrets = secrets_of_the_machine(needle)
    unwanted = [it.rstrip("/").encode() for it in (needle, secrets.get("index", "")) if it]
    assert not [it for it in unwanted if it.decode() in image.told]
    with store.exported(image) as layers:
        for layer in layers:
            content = layer.path.read_bytes()
            assert not [it for it in unwanted if it in content], layer.digest
        sizes = [layer.megabytes for layer in layers]
    told = ", ".join(f"{size:.1f}" for size in sizes)
    tell(f"{image.name}: {sum(sizes):.1f} MB over its base, in layers of {told}")
    if len(image.agents) == 1:
        assert sum(sizes) <= LARGEST.get(image.agents[0], LARGEST["safe"])
    # Its hardened base, and what every image needs of others.
    shared = store.base_layers + 2
    assert image.layers[:shared] == store.build("foo").layers[:shared]


def test_the_same_sources_make_the_same_layers(store: Store) -> None:
    """Built anew, from the same base."""
    first = store.build("foo")
    assert store.build("foo", name="again", anew=True).layers == first.layers


def test_an_agent_that_does_not_exist_is_refused(store: Store) -> None:
    """With the names of those that do."""
    with pytest.raises(CommandError) as error:
        store.build("saef")
    assert f"no agent is named saef; there are {', '.join(AGENTS)}" in error.value.output


def test_no_agents_are_refused(store: Store) -> None:
    """An image must be asked for by name."""
    with pytest.raises(CommandError, match="names the agents that go in"):
        store.build(name="none")


def test_what_does_not_have_its_pinned_hash_is_refused(store: Store, tmp_path: Path) -> None:
    """Here the hash is wrong, elsewhere the file would be."""
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("images", "packages", "agents"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignored)
    shutil.copy(ROOT / "requirements-nox.txt", tmp_path)
    pins = (ROOT / "requirements.txt").read_text()
    wrong, changed = re.subn(
        r"^(idna==\S+ \\\n)(?: +--hash=.*\n)+",
        rf"\1    --hash=sha256:{'0' * 64}\n",
        pins,
        flags=re.MULTILINE,
    )
    assert changed == 1
    (tmp_path / "requirements.txt").write_text(wrong)
    with pytest.raises(CommandError) as error:
        store.build("foo", name="tampered", context=tmp_path)
    assert "Hash mismatch for `idna" in error.value.output


@pytest.mark.parametrize("platform", ["x86_64", "aarch64"])
def test_every_dependency_has_a_wheel_on_both_platforms(platform: str, tmp_path: Path) -> None:
    """For the Python of the base that the Dockerfile names: nothing is compiled."""
    [python] = re.findall(
        r"^ARG BASE=.*/python:([0-9.]+)-slim", DOCKERFILE.read_text(), re.MULTILINE
    )
    pytest.importorskip("uv", reason="`nox -s images` installs uv")
    command = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--dry-run",
        "--target",
        tmp_path,
        "--no-deps",
    ]
    command += ["--python-platform", f"{platform}-manylinux_2_36", "--python-version", python]
    command += ["--only-binary", ":all:", "--require-hashes", "-r", ROOT / "requirements.txt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
