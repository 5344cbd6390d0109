"""A Prometheus that answers as a test tells it, on a real port."""

import json
import ssl
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from kube_sched_ext_telemetry.queries import TIME_LABEL

JSON = dict[str, Any]


def series(value: str | float, at: float = 1000.0, **labels: str) -> JSON:
    """Return one series of a vector."""
    return {"metric": labels, "value": [at, str(value)]}


def sample_time(time: float, at: float = 1000.0, **labels: str) -> JSON:
    """Return the series that tells when a node was sampled."""
    return series(time, at, **labels, **{TIME_LABEL: "1"})


def vector(*result: JSON, **more: Any) -> bytes:
    """Return the body of an answer."""
    data = {"resultType": "vector", "result": list(result)}
    return json.dumps({"status": "success", "data": data, **more}).encode()


def by_name(values: Mapping[str, float], at: float) -> bytes:
    """Return an answer with a value for each node, by its name."""
    return vector(*(series(value, at, node=name) for name, value in values.items()))


class FakePrometheus:
    """Answers each query with `answer(promql)`: status, body, and headers more."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.answer: Callable[[str], tuple[int, bytes]] = lambda _: (200, vector())
        self.headers: dict[str, str] = {}
        self.trickle_seconds = 0.0
        """Time between two bytes of a body."""
        self.paths: list[str] = []
        self.asked: list[JSON] = []
        """The parameters of each query."""
        self.seen: list[Mapping[str, str]] = []
        """The headers of each query."""
        self.released = threading.Event()
        """Set when the test ends: whoever makes a query wait, waits for it no longer."""
        fake = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                fake._serve(self)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"http{'s' * (tls is not None)}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answers(self, *bodies: bytes) -> None:
        """Answer each query with one of `bodies` in turn, then with the last one."""
        left = list(bodies)
        self.answer = lambda _: (200, left.pop(0) if len(left) > 1 else left[0])

    def fails(self, status: int, body: bytes = b"no") -> None:
        """Answer each query with an error."""
        self.answer = lambda _: (status, body)

    def _serve(self, handler: BaseHTTPRequestHandler) -> None:
        split = urlsplit(handler.path)
        self.paths.append(split.path)
        parameters = {name: values[0] for name, values in parse_qs(split.query).items()}
        self.asked.append(parameters)
        self.seen.append(dict(handler.headers))
        status, body = self.answer(parameters.get("query", ""))
        try:
            handler.send_response(status)
            for name, value in self.headers.items():
                handler.send_header(name, value)
            if "Content-Length" not in self.headers:
                handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            if not self.trickle_seconds:
                handler.wfile.write(body)
                return
            for byte in body:
                handler.wfile.write(bytes([byte]))
                self.released.wait(self.trickle_seconds)
        except OSError:
            pass  # whoever asked has given up
