"""Extenders that misbehave, each in its own way."""

import socketserver
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kube_sched_ext_testkit.serving import serve_app


@pytest.fixture(scope="session")
def data() -> Path:
    """The recorded requests."""
    return Path(__file__).parents[3] / "tests" / "data"


@pytest.fixture(scope="session")
def serve_reply() -> Iterator[Callable[..., str]]:
    """Serve one reply whatever is asked; all replies share a server, each has its own prefix."""
    replies: list[tuple[bytes, int]] = []

    async def reply(request: Request) -> Response:
        body, status = replies[request.path_params["number"]]
        return Response(body, status)

    app = Starlette(routes=[Route("/{number:int}/{verb:path}", reply, methods=["POST"])])
    with serve_app(app) as url:

        def serve(body: bytes, status: int = 200) -> str:
            replies.append((body, status))
            return f"{url}/{len(replies) - 1}"

        yield serve


@contextmanager
def _tcp_server(answer: Callable[[Any], None], tls: ssl.SSLContext | None = None) -> Iterator[str]:
    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while (line := self.rfile.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            self.rfile.read(length)
            answer(self.wfile)

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Clients that are gone are what some tests are about."""

    with Server(("127.0.0.1", 0), Handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def serve_bytes() -> Iterator[Callable[..., str]]:
    """Serve whatever a function writes to the connection."""
    with ExitStack() as stack:
        yield lambda answer, tls=None: stack.enter_context(_tcp_server(answer, tls))


_AGENTS = '''
import os
import sys
import time
from pathlib import Path

import numpy as np

from kube_sched_ext import Agent, Scores, Verdict, predicate, priority

MODE = os.environ.get("RANK", "")
IS_SERVER = "serve" in sys.argv
if IS_SERVER and "RANK_PID_FILE" in os.environ:
    Path(os.environ["RANK_PID_FILE"]).write_text(str(os.getpid()))
    time.sleep(60)
if IS_SERVER and MODE == "exit":
    import atexit
    atexit.register(os._exit, 3)


class Rank(Agent):
    """Likes the one node that has nginx."""

    name = "rank"
    columns = ("cpu", "has_image")

    def row(self, node):
        names = [name for image in node.images for name in image.names]
        return node.allocatable("cpu"), float("docker.io/library/nginx:1.7.9" in names)

    @predicate("rank")
    def large(self, pod, nodes):
        cpu = nodes.columns[0]
        least = 1e9 if MODE == "reject" else 4000
        no_data = np.full(len(nodes), np.nan)
        return Verdict({"too small": cpu < least}, {"cpu": cpu, "no_data": no_data})

    @priority("image_score")
    def has_image(self, pod, nodes):
        if MODE == "raise":
            raise RuntimeError("on purpose")
        has_image = nodes.columns[1]
        scores = has_image + (7 if MODE == "wrong" else 0)
        if MODE == "by-mode":
            scores = nodes.rows
        return Scores(scores.astype(int), {"has_image": has_image > 0})


class Even(Agent):
    """Scores all nodes alike."""

    name = "even"

    @priority("even")
    def even(self, pod, nodes):
        return Scores(np.ones(len(nodes), int))
'''


@pytest.fixture
def agents_on_path(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Install agents for processes that the test starts: rank, even and one that is broken."""
    folder = tmp_path_factory.mktemp("agents")
    (folder / "some_agents.py").write_text(_AGENTS)
    (folder / "broken_agent.py").write_text("raise ImportError('on purpose')\n")
    metadata = folder / "some_agents-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: some-agents\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[kube_sched_ext.agents]\n"
        "rank = some_agents:Rank\neven = some_agents:Even\nbroken = broken_agent:Broken\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(folder))
