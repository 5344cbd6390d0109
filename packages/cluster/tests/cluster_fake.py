"""An apiserver of nodes that lists and watches as the real one, and fails as a test tells it."""

import asyncio
import contextlib
import json
import socket
import socketserver
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any, Self
from urllib.parse import parse_qsl, urlsplit

from kubernetes.client import Configuration

from kube_sched_ext_cluster.access import Access
from kube_sched_ext_cluster.api import Api

JSON = dict[str, Any]


def status(code: int, reason: str, message: str = "told so", **more: Any) -> JSON:
    """Return a Status as the apiserver writes it."""
    told = {"reason": reason, "message": message, "code": code}
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure"} | told | more


GONE = status(410, "Expired", "too old resource version: 1 (5)")


@dataclass
class Reply:
    """A scripted answer to one request."""

    code: int = 200
    body: JSON | str = ""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Lines:
    """A scripted watch: these lines, then an end."""

    lines: list[JSON | str] = field(default_factory=list)
    end: str = "close"
    """close: as watches end; cut: in the middle of a line; hang: never."""


@dataclass(frozen=True)
class Request:
    """What was asked."""

    verb: str
    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: str


def event(kind: str, version: int, name: str = "", value: int = 0) -> JSON:
    """Return a line of a watch."""
    return {"type": kind, "object": node(name, version, value)}


def node(name: str, version: int, value: int = 0) -> JSON:
    """Return a node; `value` stands for its content."""
    meta = {"name": name, "resourceVersion": str(version), "annotations": {"value": str(value)}}
    return {"kind": "Node", "metadata": meta}


class FakeApiserver:
    """Nodes, their versions, and the faults to come."""

    def __init__(self) -> None:
        """Start without nodes, at version 1."""
        self.changed = threading.Condition()
        self.nodes: dict[str, tuple[int, int]] = {}
        self.version = 1
        self.log: list[tuple[int, JSON]] = []
        self.compacted = 0
        self.script: dict[str, deque[Reply | Lines]] = defaultdict(deque)
        self.requests: list[Request] = []
        self.before: Callable[[Request], None] = lambda _: None
        self.generation = 0
        self.is_over = False
        self._snapshots: dict[int, list[JSON]] = {}
        self._connections: set[socket.socket] = set()

    def __enter__(self) -> Self:
        """Listen on a free port of 127.0.0.1."""
        handler = type("Handler", (_Handler,), {"apiserver": self})
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, and cut all connections."""
        with self.changed:
            self.is_over = True
            self.changed.notify_all()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        for connection in list(self._connections):
            _cut(connection)

    def api(self, **limits: float) -> Api:
        """Return access to it."""
        return Api(Access(lambda: Configuration(host=self.url)), **limits)

    def put(self, name: str, value: int = 0) -> None:
        """Add or change a node."""
        with self.changed:
            self.version += 1
            kind = "MODIFIED" if name in self.nodes else "ADDED"
            self.nodes[name] = (self.version, value)
            self._tell(event(kind, self.version, name, value))

    def delete(self, name: str) -> None:
        """Remove a node, if it is there."""
        with self.changed:
            if name in self.nodes:
                self.version += 1
                _, value = self.nodes.pop(name)
                self._tell(event("DELETED", self.version, name, value))

    def say(self, line: JSON | str) -> None:
        """Send a line to the watches that are open now, and to no other."""
        with self.changed:
            self.log.append((-1, line))  # type: ignore[arg-type]
            self.changed.notify_all()

    def bookmark(self) -> None:
        """Send a bookmark."""
        self.say(event("BOOKMARK", self.version))

    def compact(self) -> None:
        """Forget what changed so far; versions before now are too old."""
        with self.changed:
            self.compacted = self.version
            self._snapshots.clear()

    def end_watches(self) -> None:
        """Let the watches end."""
        with self.changed:
            self.generation += 1
            self.changed.notify_all()

    def cut(self) -> None:
        """Break all connections."""
        with self.changed:
            for connection in list(self._connections):
                _cut(connection)
            self.generation += 1
            self.changed.notify_all()

    def asked(self, verb: str) -> list[Request]:
        """Return the requests of one verb so far."""
        return [it for it in self.requests if it.verb == verb]

    def values(self) -> dict[str, int]:
        """Return the content of all nodes."""
        with self.changed:
            return {name: value for name, (_, value) in self.nodes.items()}

    def _tell(self, line: JSON) -> None:
        self.log.append((self.version, line))
        self.changed.notify_all()

    def page(self, query: dict[str, str]) -> Reply:
        """Return the page that is asked for."""
        limit = int(query.get("limit", "0")) or 1_000_000
        with self.changed:
            version, _, start = query.get("continue", f"{self.version}:0").partition(":")
            at = int(version)
            if "continue" not in query:
                names = sorted(self.nodes)
                self._snapshots[at] = [node(name, *self.nodes[name]) for name in names]
            if at not in self._snapshots:
                return Reply(410, GONE)
            items = self._snapshots[at]
            end = int(start) + limit
            metadata = {"resourceVersion": version}
            if end < len(items):
                metadata["continue"] = f"{version}:{end}"
            return Reply(200, {"metadata": metadata, "items": items[int(start) : end]})

    def lines_after(self, version: int) -> Iterator[JSON | str]:
        """Yield what changes after `version`, until the watches are to end."""
        with self.changed:
            generation, place = self.generation, 0
            missed = [line for at, line in self.log if at > version]
            place = len(self.log)
        yield from missed
        while True:
            with self.changed:
                self.changed.wait_for(
                    lambda: self.is_over or self.generation != generation or len(self.log) > place  # noqa: B023  # waited for in this very turn
                )
                if self.is_over or self.generation != generation:
                    return
                fresh = [line for _, line in self.log[place:]]
                place = len(self.log)
            yield from fresh


class _Handler(BaseHTTPRequestHandler):
    apiserver: FakeApiserver
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.apiserver._connections.add(self.connection)

    def finish(self) -> None:
        self.apiserver._connections.discard(self.connection)
        with contextlib.suppress(OSError):
            super().finish()

    def handle(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            super().handle()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        verb = "watch" if "watch" in query else "list" if parts.path.count("/") == 3 else "get"
        request = self._request(verb, "")
        scripted = self._scripted(request)
        if isinstance(scripted, Reply):
            self._reply(scripted)
        elif verb == "list":
            self._reply(self.apiserver.page(query))
        elif isinstance(scripted, Lines):
            self._stream(iter(scripted.lines), scripted.end)
        else:
            version = int(query["resourceVersion"])
            if version < self.apiserver.compacted:
                self._reply(Reply(410, GONE))
            else:
                self._stream(self.apiserver.lines_after(version), "close")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        scripted = self._scripted(self._request(self.command.lower(), body))
        if isinstance(scripted, Lines):
            self.close_connection = True
            if scripted.end == "hang":
                self._hang()
            _cut(self.connection)
        else:
            self._reply(scripted or Reply(201, status(201, "", status="Success")))

    def do_PATCH(self) -> None:
        self.do_POST()

    def _request(self, verb: str, body: str) -> Request:
        parts = urlsplit(self.path)
        headers = {key.lower(): value for key, value in self.headers.items()}
        query = dict(parse_qsl(parts.query))
        request = Request(verb, self.command, parts.path, query, headers, body)
        self.apiserver.before(request)
        self.apiserver.requests.append(request)
        return request

    def _scripted(self, request: Request) -> Reply | Lines | None:
        verb = request.verb
        if verb == "list" and "continue" in request.query and self.apiserver.script["page"]:
            verb = "page"
        script = self.apiserver.script[f"{verb} {request.path}"] or self.apiserver.script[verb]
        return script.popleft() if script else None

    def _reply(self, reply: Reply) -> None:
        body = (reply.body if isinstance(reply.body, str) else json.dumps(reply.body)).encode()
        self.send_response(reply.code)
        for name, value in ({"Content-Length": str(len(body))} | reply.headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, lines: Iterator[JSON | str], end: str) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for line in lines:
            text = line if isinstance(line, str) else json.dumps(line)
            self._chunk(text + "\n")
        if end == "hang":
            self._hang()
        if end == "close":
            self.wfile.write(b"0\r\n\r\n")
            return
        self._chunk('{"type": "ADDED", "object": {"metadata": {"name": "ha')
        self.close_connection = True
        _cut(self.connection)

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _hang(self) -> None:
        with self.apiserver.changed:
            self.apiserver.changed.wait_for(lambda: self.apiserver.is_over, 30)


def _cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


async def until(check: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until `check` is true."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "not in time"
        await asyncio.sleep(0.002)
