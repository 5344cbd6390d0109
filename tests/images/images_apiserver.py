"""An apiserver that has the recorded nodes, and never anything new."""

import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

from images_workspace import DATA

PORT = 6443
KUBECONFIG = {
    "apiVersion": "v1",
    "kind": "Config",
    "clusters": [{"name": "it", "cluster": {"server": f"http://127.0.0.1:{PORT}"}}],
    "users": [{"name": "agents", "user": {"token": "none"}}],
    "contexts": [{"name": "it", "context": {"cluster": "it", "user": "agents"}}],
    "current-context": "it",
}


def listen() -> socket.socket:
    """Return the socket to serve on."""
    return socket.create_server(("127.0.0.1", PORT))


class Apiserver(ThreadingHTTPServer):
    """Lists nodes and pods, and holds watches open until it is closed."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket) -> None:
        """Serve on a socket that listens."""
        super().__init__(("127.0.0.1", PORT), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.is_over = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.is_over.set()
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: Apiserver

    def do_GET(self) -> None:
        asked = urlsplit(self.path)
        if "watch" in parse_qs(asked.query):
            self.send_response(200)
            self.end_headers()
            self.server.is_over.wait()
            return
        kind = {"/api/v1/nodes": "Node", "/api/v1/pods": "Pod"}.get(asked.path)
        if kind is None:
            self.send_error(404)
            return
        nodes = json.loads((DATA / "nodes.json").read_text())["items"]
        self._answer({
            "kind": f"{kind}List",
            "apiVersion": "v1",
            "metadata": {"resourceVersion": "1"},
            "items": nodes if kind == "Node" else [],
        })  # fmt: skip

    def _answer(self, answer: dict[str, Any]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        pass
