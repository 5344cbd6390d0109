"""A container as a kubelet would start it in a restricted pod, without a kubelet."""

import ctypes
import http.client
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

T = TypeVar("T")

_NEW_NETWORK = 0x40000000
_PATIENCE = 30.0


@dataclass(frozen=True)
class Reply:
    """What a server answered."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return json.loads(self.body)


class Container:
    """A container of runc: read-only root, no capabilities, networks and processes of its own."""

    def __init__(
        self,
        folder: Path,
        files: Path,
        config: Mapping[str, Any],
        *,
        command: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        mounts: Mapping[Path, str] | None = None,
    ) -> None:
        """Start it.

        Args:
            folder: where its log and its configuration are written.
            files: its root.
            config: how its image says that it is run.
            command: what runs, instead of what the image says.
            environment: variables beside those of the image.
            mounts: folders that it sees, read-only, and where.
        """
        folder.mkdir()
        self._name = f"kube-sched-ext-{os.getpid()}-{time.monotonic_ns()}"
        self._state = folder / "state"
        self._stop_signal = signal.Signals[config["StopSignal"]]
        self._log = folder / "log"
        self._control("spec", "--bundle", str(folder))
        written = folder / "config.json"
        spec = json.loads(written.read_text())
        uid, gid = map(int, config["User"].split(":"))
        spec["root"] = {"path": str(files), "readonly": True}
        spec["process"] |= {
            "terminal": False,
            "user": {"uid": uid, "gid": gid},
            "args": list(command) or config["Entrypoint"] + config["Cmd"],
            "env": [*config["Env"], *(f"{k}={v}" for k, v in (environment or {}).items())],
            "cwd": config.get("WorkingDir") or "/",
            "capabilities": {},
            "noNewPrivileges": True,
        }
        spec["mounts"] += [
            {"source": str(source), "destination": seen, "options": ["bind", "ro"]}
            for source, seen in (mounts or {}).items()
        ]
        written.write_text(json.dumps(spec))
        with self._log.open("wb") as log:
            command = [
                "runc",
                "--root",
                str(self._state),
                "run",
                "--bundle",
                str(folder),
                self._name,
            ]
            self._runc = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it, if it has not ended."""
        if self._runc.poll() is None:
            self._control("kill", self._name, "KILL")
            self._runc.wait(_PATIENCE)

    @property
    def log(self) -> str:
        """What it has written."""
        return self._log.read_text()

    @property
    def pid(self) -> int:
        """The ID of its first process, as seen from outside."""

        def started() -> int:
            told = self._control("state", self._name)
            return int(json.loads(told.stdout)["pid"]) if told.returncode == 0 else 0

        return self._wait_for("its first process", started)

    def wait_ready(self) -> None:
        """Wait until it says that it is ready."""

        def is_ready() -> bool:
            try:
                return self.ask("GET", "/readyz", port=9080).status == 200
            except OSError:
                return False

        self._wait_for("ready", is_ready)

    def ask(self, method: str, path: str, body: bytes | None = None, port: int = 8080) -> Reply:
        """Return the answer to one request."""
        connection = http.client.HTTPConnection("127.0.0.1", port)
        connection.sock = self.in_its_network(
            lambda: socket.create_connection(("127.0.0.1", port), _PATIENCE)
        )
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            reply = connection.getresponse()
            return Reply(reply.status, reply.read())
        finally:
            connection.close()

    def in_its_network(self, make: Callable[[], T]) -> T:
        """Return what `make` makes in the container's network: sockets stay there."""
        network = Path(f"/proc/{self.pid}/ns/net")

        def enter_and_make() -> T:
            with network.open() as it:
                assert ctypes.CDLL(None).setns(it.fileno(), _NEW_NETWORK) == 0
            return make()

        # A thread may be in another network than the rest of its process.
        with ThreadPoolExecutor(1) as visitor:
            return visitor.submit(enter_and_make).result()

    def stop(self) -> tuple[int, float]:
        """Send its image's stop signal; return its exit code and the seconds it took."""
        before = time.monotonic()
        self._control("kill", self._name, self._stop_signal.name)
        return self.wait(), time.monotonic() - before

    def wait(self) -> int:
        """Return its exit code."""
        return self._runc.wait(_PATIENCE)

    def _control(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["runc", "--root", str(self._state), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def _wait_for(self, what: str, check: Callable[[], T]) -> T:
        deadline = time.monotonic() + _PATIENCE
        while not (value := check()):
            assert self._runc.poll() is None, f"ended before {what}:\n{self.log}"
            assert time.monotonic() < deadline, f"{what}: not within {_PATIENCE:g} s\n{self.log}"
            time.sleep(0.05)
        return value
