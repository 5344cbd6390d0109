"""Images built by buildah, without a daemon, in a folder that goes with all that is in it."""

import json
import os
import platform
import shutil
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BASE = "KUBE_SCHED_EXT_BASE"
BASE_PACKAGES = "ca-certificates,python3,python3-pip"
OWN_BASE = "localhost/base"
EPOCH = "1700000000"
INDEXES = ("PIP_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX_URL")
CERTIFICATES = ("PIP_CERT", "SSL_CERT_FILE")

_PREFIX = "localhost/"


class CommandError(Exception):
    """A command failed; with its last words."""

    def __init__(self, command: Sequence[str | Path], output: str) -> None:
        """Tell the command and the end of its output."""
        self.output = output
        super().__init__(f"{' '.join(map(str, command))}\n{output[-6000:]}")


@dataclass(frozen=True)
class Layer:
    """One layer of an image: its digest, and its files as a tar."""

    digest: str
    path: Path

    def members(self) -> list[tarfile.TarInfo]:
        """Return what is in it."""
        with tarfile.open(self.path) as files:
            return files.getmembers()

    @property
    def megabytes(self) -> float:
        """The sum of its files' sizes."""
        return sum(member.size for member in self.members()) / 1e6


@dataclass(frozen=True)
class Image:
    """An image: the agents that were asked for, how it runs, and all that buildah tells of it."""

    name: str
    agents: tuple[str, ...]
    config: dict[str, Any]
    layers: tuple[str, ...]
    told: str = field(repr=False)


class Store:
    """Images in a folder of their own."""

    def __init__(self, folder: Path, secrets: dict[str, str]) -> None:
        """Start empty; `secrets` are what builds may use and must not keep."""
        self._folder = folder
        self._secrets = {}
        self._base = ""
        for name, value in secrets.items():
            self._secrets[name] = folder / f"{name}.secret"
            self._secrets[name].write_text(value)
        (folder / "tmp").mkdir()
        self._storage = ["--root", str(folder / "storage"), "--runroot", str(folder / "run")]
        self._storage += ["--storage-driver", "overlay"]
        try:
            self._buildah("info")
        except CommandError:
            # Not everywhere can overlays be mounted, as on an overlay.
            self._storage[-1] = "vfs"

    def prepare_base(self, cache: Path) -> None:
        """Take the base that the environment names, or else make one of the machine's packages."""
        self._base = os.environ.get(BASE) or OWN_BASE
        if self._base != OWN_BASE:
            self._buildah("pull", self._base)
            return
        container = self._buildah("from", "scratch").strip()
        with _debian(cache) as files:
            self._buildah("add", "--quiet", container, str(files), "/")
        self._buildah("commit", "--quiet", "--rm", container, OWN_BASE)

    def build(
        self, *agents: str, name: str = "", context: Path = ROOT, anew: bool = False
    ) -> Image:
        """Build an image of agents, all of it anew if asked; layers that are there are shared.

        Raises:
            CommandError: the build failed.
        """
        name = name or f"kube-sched-ext-{'-'.join(agents)}"
        arguments = {"AGENTS": " ".join(agents), "BASE": self._base}
        secrets = [f"id={name},src={path}" for name, path in self._secrets.items()]
        self._buildah(
            *("build", "--isolation", "chroot", "--format", "oci", "--pull-never"),
            *("--timestamp", EPOCH, "--layers", *["--no-cache"] * anew, "--tag", name),
            *(it for key, value in arguments.items() for it in ("--build-arg", f"{key}={value}")),
            *(it for secret in secrets for it in ("--secret", secret)),
            *("--file", str(context / "images" / "Dockerfile"), str(context)),
        )
        told = self._buildah("inspect", "--type", "image", _PREFIX + name)
        config = json.loads(told)["OCIv1"]
        return Image(name, agents, config["config"], tuple(config["rootfs"]["diff_ids"]), told)

    @property
    def base_layers(self) -> int:
        """How many layers the base has."""
        told = json.loads(self._buildah("inspect", "--type", "image", self._base))
        return len(told["OCIv1"]["rootfs"]["diff_ids"])

    @contextmanager
    def mounted(self, image: Image) -> Iterator[Path]:
        """Mount the files of an image; the value is their folder."""
        container = self._buildah("from", "--pull-never", _PREFIX + image.name).strip()
        try:
            yield Path(self._buildah("mount", container).strip())
        finally:
            self._buildah("rm", container)

    @contextmanager
    def exported(self, image: Image) -> Iterator[list[Layer]]:
        """Write the layers that an image puts on its base to files, first to last."""
        folder = self._folder / "exported"
        self._buildah(
            *("push", "--quiet", "--disable-compression", _PREFIX + image.name, f"dir:{folder}")
        )
        try:
            listed = json.loads((folder / "manifest.json").read_text())["layers"]
            digests = [layer["digest"] for layer in listed]
            # Compressed, nothing could be found in them.
            assert digests == [*image.layers]
            layers = [Layer(it, folder / it.removeprefix("sha256:")) for it in digests]
            yield layers[self.base_layers :]
        finally:
            shutil.rmtree(folder)

    def close(self) -> None:
        """Unmount what is mounted still."""
        self._buildah("rm", "--all")

    def _buildah(self, *arguments: str) -> str:
        # Its own folder for what it keeps between steps, such as caches that steps mount.
        environment = os.environ | {"TMPDIR": str(self._folder / "tmp")}
        return _run("buildah", *self._storage, *arguments, environment=environment)


@contextmanager
def _debian(cache: Path) -> Iterator[Path]:
    """Make a base of the packages that this machine's own mirror has; it is kept for a week."""
    system = platform.freedesktop_os_release()
    release = system["VERSION_CODENAME"]
    week = datetime.now(UTC).strftime("%Gw%V")
    kept = cache / f"base-{release}-{platform.machine()}-{week}.tar"
    if not kept.exists():
        cache.mkdir(parents=True, exist_ok=True)
        for old in cache.glob("base-*.tar"):
            old.unlink()
        made = cache / f"{kept.name}.{os.getpid()}"
        try:
            _bootstrap(release, made)
        except BaseException:
            made.unlink(missing_ok=True)
            raise
        # Whole or not at all: another run may look for it now.
        made.rename(kept)
    yield kept


def _bootstrap(release: str, made: Path) -> None:
    targets = _run("apt-get", "indextargets", "--format", "$(REPO_URI) $(RELEASE) $(COMPONENT)")
    mirrors = [target.split() for target in targets.splitlines()]
    mirror = next(uri for uri, suite, part in mirrors if (suite, part) == (release, "main"))
    folder = made.with_suffix(".folder")
    try:
        options = ("--variant=minbase", f"--include={BASE_PACKAGES}")
        _run("debootstrap", *options, release, str(folder), mirror)
        for path in _of_the_machine(folder):
            path.unlink()
        # Devices are the runtime's to make.
        _run("tar", "-C", str(folder), "--exclude=./dev/*", "-cf", str(made), ".")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _of_the_machine(folder: Path) -> Iterator[Path]:
    """Tell what a base made here knows of where it was made."""
    for name in ("hostname", "resolv.conf", "apt/sources.list"):
        yield from folder.glob(f"etc/{name}")
    for place in ("var/lib/apt/lists", "var/cache/apt", "var/log"):
        yield from (path for path in (folder / place).rglob("*") if path.is_file())


def secrets_of_the_machine(marker: str) -> dict[str, str]:
    """Return the index and the certificates that this machine installs with.

    The certificates have `marker` in them, in a comment.
    """
    index, trusted = _first(*INDEXES), _first(*CERTIFICATES)
    found = {"index": index} if index else {}
    return found | ({"ca": f"{Path(trusted).read_text()}\n# {marker}\n"} if trusted else {})


def _first(*names: str) -> str:
    return next((it for name in names if (it := os.environ.get(name))), "")


def _run(*command: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CommandError(command, done.stdout + done.stderr)
    return done.stdout
