"""Servers to test against: an application in this process, or the real thing in its own."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx
import msgspec
import uvicorn

from kube_sched_ext import Agent, Node, create_app
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.instruments import new_instruments
from kube_sched_ext.settings import settings_of
from kube_sched_ext.verbs import new_table
from kube_sched_ext_testkit.builders import JSON

T = TypeVar("T")

_HOST: Final = "127.0.0.1"
_PATIENCE: Final = 30.0


@contextmanager
def serve_app(app: Any) -> Iterator[str]:
    """Serve an ASGI application on a free loopback port; its URL is the value."""
    with socket.create_server((_HOST, 0)) as listener:
        config = uvicorn.Config(app, ws="none", lifespan="off", log_config=None, access_log=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            _wait_until(lambda: server.started or not thread.is_alive(), "the server to start")
            yield f"http://{_HOST}:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(_PATIENCE)


@contextmanager
def serve_agents(
    *agents: Agent[Any], nodes: Sequence[JSON] = (), settings: CoreSettings | None = None
) -> Iterator[str]:
    """Serve agents that know `nodes` by name; the value is the prefix of all their URLs."""
    settings = settings or CoreSettings()
    instruments = new_instruments(settings.log_level, settings.log_format)
    table = new_table(agents, instruments.problems)
    for node in nodes:
        table.put(msgspec.json.decode(msgspec.json.encode(node), type=Node))
    app = create_app(agents, settings=settings, table=table, instruments=instruments)
    with ExitStack() as stack:
        stack.callback(instruments.writer.close)
        yield stack.enter_context(serve_app(app)) + settings.path_prefix


@dataclass(frozen=True, slots=True)
class ServeProcess:
    """A running `kube-sched-ext serve`: where it answers, what it logs to, and the process."""

    url_prefix: str
    ops_url: str
    log: Path
    process: subprocess.Popen[bytes]


@contextmanager
def serve_process(
    *agents: str,
    folder: Path,
    nodes_file: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[ServeProcess]:
    """Run `kube-sched-ext serve` on free loopback ports, ready to be asked; stopped afterwards.

    Args:
        agents: their names; all that are installed where none is given.
        folder: where its log is written.
        nodes_file: the snapshot of the cluster that names are looked up in.
        environment: settings of the process, over those that the agents find in this one's.

    Raises:
        RuntimeError: it did not become ready.
    """
    ports = _free_ports(2)
    own = {declared.name for declared in settings_of(CoreSettings)}
    variables = {key: value for key, value in os.environ.items() if key not in own}
    variables |= {"HTTP_HOST": _HOST, "HTTP_PORT": str(ports[0]), "OPS_PORT": str(ports[1])}
    variables |= {"NODES_FILE": str(nodes_file)} if nodes_file else {}
    variables |= environment or {}
    log = folder / "serve.log"
    command = [sys.executable, "-m", "kube_sched_ext", "serve", *agents]
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603  # our own server
            command, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    prefix = variables.get("PATH_PREFIX", CoreSettings().path_prefix)
    served = ServeProcess(
        f"http://{_HOST}:{ports[0]}{prefix}", f"http://{_HOST}:{ports[1]}", log, process
    )
    try:
        _wait_until_ready(served)
        yield served
    finally:
        stop(process)


def wait_until_ok(served: ServeProcess, condition: str) -> str:
    """Return the line of `/readyz?verbose` that shows `condition` as ok, once it does.

    `telemetry/NAME` is ok as soon as agent NAME has measurements.

    Raises:
        RuntimeError: it does not.
    """

    def shown() -> str:
        answer = httpx.get(f"{served.ops_url}/readyz", params={"verbose": ""}, trust_env=False)
        return next((it for it in answer.text.splitlines() if it.startswith(start)), "")

    start = f"[+]{condition} "
    return _wait_until(shown, f"{condition} to be ok")


def stop(process: subprocess.Popen[bytes], patience: float = 5.0) -> int:
    """End `process`, by force after `patience` seconds; return its exit code."""
    process.terminate()
    try:
        return process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _wait_until_ready(served: ServeProcess) -> None:
    def is_ready() -> bool:
        if served.process.poll() is not None:
            raise RuntimeError(f"serve did not start:\n{served.log.read_text().strip()}")
        try:
            return httpx.get(f"{served.ops_url}/readyz", trust_env=False).is_success
        except httpx.TransportError:
            return False

    _wait_until(is_ready, "serve to be ready")


def _wait_until(check: Callable[[], T], what: str) -> T:
    deadline = time.monotonic() + _PATIENCE
    while not (value := check()):
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {_PATIENCE:g} s for {what}")
        time.sleep(0.02)
    return value


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server((_HOST, 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]
