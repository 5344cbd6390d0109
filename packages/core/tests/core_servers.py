"""Servers for tests: an application in a thread, and the installed command as a process."""

import http.client
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kube_sched_ext.config import CoreSettings
from kube_sched_ext.instruments import Instruments
from kube_sched_ext.logs import Level, new_log
from kube_sched_ext.metrics import Metrics
from kube_sched_ext.problems import Problems
from kube_sched_ext.server import uvicorn_config


@dataclass
class Reply:
    """Status, headers and body of a reply."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> object:
        """The body as JSON."""
        return json.loads(self.body)


def ask(port: int, method: str, path: str, body: bytes | None = None) -> Reply:
    """Make one HTTP call."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, body)
        response = connection.getresponse()
        return Reply(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


@contextmanager
def serving(app: Starlette, protocol: type[HttpToolsProtocol] | None = None) -> Iterator[int]:
    """Serve `app` in a thread, by another protocol if one is given; yields its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn_config(app, CoreSettings())
        config.http = protocol or config.http
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


class Recorder:
    """Instruments that keep what is logged."""

    def __init__(self, level: Level = "INFO") -> None:
        self._stream = io.StringIO()
        log, writer = new_log(level, "json", self._stream)
        metrics = Metrics()
        self.instruments = Instruments(log, writer, metrics, Problems(log, metrics))

    def lines(self, last: str = "", times: int = 1) -> list[dict[str, object]]:
        """Return what was logged, once `last` came `times`; nothing can be logged after.

        A call is told once its reply is on its way.
        """
        deadline = time.monotonic() + 10
        while last and self._stream.getvalue().count(f'"event":"{last}"') < times:
            assert time.monotonic() < deadline, f"{last} is not in {self._stream.getvalue()}"
            time.sleep(0.01)
        self.instruments.writer.close()
        return [json.loads(line) for line in self._stream.getvalue().splitlines()]

    def count(self, metric: str, /, **labels: str) -> float:
        """Return a metric's value."""
        return self.instruments.metrics.registry.get_sample_value(metric, labels) or 0.0


EXTENSION = """
import asyncio
from typing import Annotated
import msgspec
from kube_sched_ext import setting
from kube_sched_ext.calls import Answer, Call
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.extension import Extension

class BesideSettings(msgspec.Struct, frozen=True):
    mood: Annotated[str, setting("BESIDE_MOOD", "How it goes.")] = "well"
    is_loud: Annotated[bool, setting("BESIDE_LOUD", "Whether it tells.")] = False

class Beside(Extension[BesideSettings]):
    name = "beside"
    settings_type = BesideSettings

    def __init__(self, settings, host):
        super().__init__(settings, host)
        if settings.mood == "bad":
            raise ConfigurationError(["BESIDE_MOOD: 'bad' is no mood to start in"])

    def calls(self):
        async def answer(body):
            await asyncio.sleep(0)
            return Answer({"mood": self.settings.mood, "loud": self.settings.is_loud}, "a/b", 1, 1)

        return [Call("bind", "/beside", "", "", answer)]

    async def run(self):
        if self.settings.mood == "worse":
            raise RuntimeError("it went from bad to worse")
        try:
            await asyncio.Event().wait()
        finally:
            self.host.instruments.log.info("beside is done")
"""

AGENTS = {
    "plain": """
        from typing import Annotated
        import msgspec, numpy as np
        from kube_sched_ext import Agent, Scores, Verdict, predicate, priority, setting
        from kube_sched_ext.health import Condition

        class PlainSettings(msgspec.Struct, frozen=True):
            score: Annotated[int, setting("PLAIN_SCORE", "What each node scores.", ge=0, le=10)] = 5

        class Plain(Agent[PlainSettings]):
            '''Scores all nodes alike.'''

            name = "plain"
            settings_type = PlainSettings

            def conditions(self):
                return {"mood": lambda: Condition(ok=True, detail="calm")}

            @predicate("plain")
            def accepts(self, pod, nodes):
                return Verdict()

            @priority("plain")
            def likes(self, pod, nodes):
                return Scores(np.full(len(nodes), self.settings.score))
    """,
    "broken": "import no_such_module",
    "other": """
        import os
        from kube_sched_ext import Agent, NoSettings

        class Other(Agent[NoSettings]):
            name = "not-other"
    """,
    "number": "Number = 5",
    "stillborn": """
        from kube_sched_ext import Agent, NoSettings

        class Stillborn(Agent[NoSettings]):
            name = "stillborn"

            def __init__(self, settings=None):
                raise RuntimeError("not today")
    """,
}


def free_port() -> int:
    """Return a port that nobody listens on, below those that the kernel hands out."""
    for port in range(20000 + os.getpid() % 10000, 32000):
        with socket.socket() as candidate:
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")


def run_command(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command line to its end."""
    return subprocess.run(
        [sys.executable, "-m", "kube_sched_ext", *arguments],
        env=os.environ | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


class Served:
    """A serving process."""

    def __init__(self, *arguments: str, **env: str) -> None:
        self.port, self.ops_port = free_port(), free_port()
        while self.ops_port == self.port:
            self.ops_port += 1
        own = {
            "HTTP_HOST": "127.0.0.1",
            "HTTP_PORT": str(self.port),
            "OPS_PORT": str(self.ops_port),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kube_sched_ext", "serve", *arguments],
            env=os.environ | own | env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 60
        while not self._answers():
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < deadline, "the process does not answer"
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            return ask(self.ops_port, "GET", "/livez").status == 200
        except OSError:
            return False

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, list[dict[str, object]]]:
        """Signal the process; returns its exit code and what it logged."""
        self.process.send_signal(number)
        return self.wait()

    def wait(self) -> tuple[int, list[dict[str, object]]]:
        """Wait for the process; returns its exit code and what it logged."""
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, [json.loads(line) for line in errors.splitlines()]
