# ruff: noqa: INP001  # a script of the Dockerfile, with the standard library alone
"""The steps of the Dockerfile that are more than one command."""

import compileall
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Final

SECRETS: Final = Path("/run/secrets")
WORKSPACE: Final = Path("/run/build/workspace")
TOOLS: Final = Path("/run/build/tools")
WHEELS: Final = Path("/run/build/wheels")
PINS: Final = Path("/run/build/pins")
CACHE: Final = Path("/run/build/cache")
HOME: Final = Path("/opt/kube-sched-ext")
USER: Final = 65532

# kube-scheduler asks by names, which an agent looks up in its own view of the cluster.
EVERYWHERE: Final = ("cluster",)

# The kubernetes client carries itself a second time, for asyncio. No part of this project imports
# that half, and nothing else needs aiohttp.
WITHOUT: Final = ("aiohttp", "aiohttp-retry")
UNUSED: Final = ("kubernetes/aio", "**/tests")
# Imported one by one when they are asked for, which no agent does: 23 MB of bytecode.
NOT_COMPILED: Final = re.compile(r"/kubernetes/client/(api|models)/")

INSTALLERS: Final = (
    *("pip", "pip-*", "setuptools", "setuptools-*", "wheel", "wheel-*"),
    *("pkg_resources", "_distutils_hack", "distutils-precedence.pth"),
)
INSTALLER_COMMANDS: Final = ("pip*", "wheel*", "easy_install*")


def fetch_tools() -> None:
    """Install uv, pinned with hashes."""
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-compile")
    pins = TOOLS / "requirements-nox.txt"
    _run(*pip, "--root-user-action=ignore", "--require-hashes", "--target", TOOLS, "-r", pins)


def build_wheels() -> None:
    """Build each package of the workspace, and list the wheels with their hashes."""
    pins = WORKSPACE / "requirements.txt"
    for pyproject in sorted(WORKSPACE.glob("*/*/pyproject.toml")):
        hashed = ("--build-constraints", pins, "--require-hashes")
        _uv("build", "--quiet", "--wheel", *hashed, "--out-dir", WHEELS, pyproject.parent)
    lines = []
    for wheel in sorted(WHEELS.glob("*.whl")):
        # What is installed from a file tells its time.
        os.utime(wheel, (0, 0))
        name = wheel.name.partition("-")[0].replace("_", "-")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        lines.append(f"{name} @ file://{wheel}#sha256={digest}\n")
    (WHEELS / "wheels.txt").write_text("".join(lines))


def resolve(*agents: str) -> None:
    """Write what an image needs: versions of requirements.txt, and our wheels."""
    known = sorted(pyproject.parent.name for pyproject in WORKSPACE.glob("agents/*/pyproject.toml"))
    if unknown := [name for name in agents if name not in known]:
        sys.exit(f"AGENTS: no agent is named {', '.join(unknown)}; there are {', '.join(known)}")
    pins, wheels = WORKSPACE / "requirements.txt", WHEELS / "wheels.txt"
    without = PINS / "without.txt"
    PINS.mkdir(parents=True)
    without.write_text("\n".join(WITHOUT))
    found = _uv(
        *("pip", "compile", "--quiet", "--no-header", "--no-annotate", "--excludes", without),
        *("--constraint", pins, "--constraint", wheels, "-"),
        given="\n".join(f"kube-sched-ext-{name}" for name in (*EVERYWHERE, *agents)),
    ).splitlines()
    hashes = dict(
        re.findall(r"^(\S+==\S+).*\n((?: +--hash=.*\n)+)", pins.read_text(), re.MULTILINE)
    )
    own = [line for line in found if " @ " in line]
    others = [f"{pin} \\\n{hashes.get(pin, '')}" for pin in found if pin not in own]
    (PINS / "third-party.txt").write_text("".join(others))
    (PINS / "own.txt").write_text("\n".join(own))


def install(listed: Path) -> None:
    """Install what `resolve` listed; without a hash nothing is."""
    if not HOME.exists():
        _uv("venv", "--quiet", "--python", sys.executable, HOME)
    hashed = ("--require-hashes", "--no-deps", "--only-binary", ":all:")
    _uv("pip", "install", "--quiet", "--python", HOME, *hashed, "--requirement", listed)
    for left_over in (".lock", ".gitignore", "CACHEDIR.TAG"):
        (HOME / left_over).unlink(missing_ok=True)
    [packages] = HOME.glob("lib/python*/site-packages")
    for path in [path for pattern in UNUSED for path in packages.glob(pattern)]:
        shutil.rmtree(path, ignore_errors=True)
    for source in sorted(packages.rglob("*.py")):
        # What an earlier layer has compiled stays there. Hashes instead of times: the same sources
        # make the same bytes, and nothing is compared when an agent starts.
        compiled = (
            source.parent / "__pycache__" / f"{source.stem}.{sys.implementation.cache_tag}.pyc"
        )
        if not compiled.exists() and not NOT_COMPILED.search(str(source)):
            mode = PycInvalidationMode.UNCHECKED_HASH
            compileall.compile_file(source, quiet=2, invalidation_mode=mode)


def harden() -> None:
    """Take out what installs software and what changes users, and add the user of the agents."""
    doomed = [Path(sysconfig.get_path("stdlib")) / "ensurepip"]
    for folder in Path("/usr").rglob("*-packages"):
        doomed += [path for pattern in INSTALLERS for path in folder.glob(pattern)]
    for folder in (Path("/usr/bin"), Path("/usr/local/bin")):
        doomed += [path for pattern in INSTALLER_COMMANDS for path in folder.glob(pattern)]
    for path in doomed:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    for top in ("/etc", "/opt", "/usr", "/var"):
        for path in Path(top).rglob("*"):
            mode = path.lstat().st_mode
            if stat.S_ISREG(mode) and mode & (stat.S_ISUID | stat.S_ISGID):
                path.chmod(stat.S_IMODE(mode) & ~(stat.S_ISUID | stat.S_ISGID))
    with Path("/etc/passwd").open("a") as users, Path("/etc/group").open("a") as groups:
        users.write(f"agents:x:{USER}:{USER}::/nonexistent:/usr/sbin/nologin\n")
        groups.write(f"agents:x:{USER}:\n")


def _uv(*arguments: str | Path, given: str = "") -> str:
    return _run(TOOLS / "bin" / "uv", *arguments, given=given)


def _run(*command: str | Path, given: str = "") -> str:
    """Run a command that may use the building machine's index and certificates; return its output.

    They come as secrets, and so are in no layer and no history.
    """
    environment = os.environ | {
        "UV_CACHE_DIR": str(CACHE),
        "UV_LINK_MODE": "copy",
        "UV_NO_CONFIG": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    if index := _secret("index"):
        environment |= {"UV_DEFAULT_INDEX": index, "PIP_INDEX_URL": index}
    if _secret("ca"):
        environment |= dict.fromkeys(("SSL_CERT_FILE", "PIP_CERT"), str(SECRETS / "ca"))
    done = subprocess.run(  # noqa: S603  # our own commands
        command, input=given, env=environment, stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout


def _secret(name: str) -> str:
    path = SECRETS / name
    return path.read_text().strip() if path.exists() else ""


STEPS: Final[dict[str, Callable[..., None]]] = {
    "fetch-tools": fetch_tools,
    "build-wheels": build_wheels,
    "resolve": resolve,
    "install": lambda listed: install(Path(listed)),
    "harden": harden,
}

if __name__ == "__main__":
    STEPS[sys.argv[1]](*sys.argv[2:])
