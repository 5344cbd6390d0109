"""Calls on the wire: whole or in pieces, one after the other or all at once."""

import json
import re
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from core_servers import ask, serving
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kube_sched_ext import (
    Agent,
    Nodes,
    NoSettings,
    Pod,
    Scores,
    Verdict,
    create_app,
    predicate,
    priority,
)
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.verbs import Verbs
from kube_sched_ext_testkit.builders import make_pod

Serve = Callable[[Starlette], int]

FILTER, PRIORITIZE = "/scheduler/predicates/even", "/scheduler/priorities/even"


class Even(Agent[NoSettings]):
    """Treats all nodes alike."""

    name = "even"

    @predicate("even")
    def accepts(self, pod: Pod, nodes: Nodes) -> Verdict:
        """Reject nothing, but fail for some pods."""
        if pod.metadata.name == "bad":
            raise ValueError("no")
        return Verdict()

    @priority("even")
    def likes(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score 7."""
        return Scores(np.full(len(nodes), 7))


def body_of(*names: str, pod: str = "pod") -> bytes:
    """Return a body as kube-scheduler writes it."""
    message = {"Pod": make_pod(pod), "Nodes": None, "NodeNames": names}
    return json.dumps(message, separators=(",", ":")).encode()


def request(
    path: str = FILTER, body: bytes | None = None, *headers: str, version: str = "1.1"
) -> bytes:
    """Return a request as Go writes it."""
    body = body_of("n1", "n2") if body is None else body
    lines = [
        f"POST {path} HTTP/{version}",
        "Host: 127.0.0.1:8080",
        "User-Agent: Go-http-client/1.1",
        f"Content-Length: {len(body)}",
        "Content-Type: application/json",
        *headers,
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Client:
    """A connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def send(self, *pieces: bytes) -> None:
        """Send each piece when the one before has been read."""
        for number, piece in enumerate(pieces):
            if number:
                time.sleep(0.02)
            self.socket.sendall(piece)

    def receive(self) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers but for the date, and body of the next reply."""
        status = int(self.file.readline().split()[1])
        headers: dict[str, str] = {}
        while (line := self.file.readline().decode().strip()) != "":
            name, _, value = line.partition(": ")
            headers[name] = value
        headers.pop("date", None)
        return status, headers, self.file.read(int(headers.get("content-length", 0)))

    def close(self) -> None:
        """End the connection."""
        self.file.close()
        self.socket.close()

    def is_closed(self) -> bool:
        """Tell whether nothing more comes."""
        return self.file.read() == b""


Connect = Callable[[int], Client]


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Open connections until the test ends."""
    with ExitStack() as stack:
        yield lambda port: stack.enter_context(closing(Client(port)))


@pytest.fixture
def port(serve_app: Serve) -> int:
    """Return where the agent is served."""
    return serve_app(create_app([Even()]))


@pytest.fixture
def tasks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the paths of the requests for which uvicorn has made a task."""
    paths = []
    start = HttpToolsProtocol._start_asgi_task

    def note(protocol: HttpToolsProtocol, cycle: Any, app: Any) -> None:
        paths.append(cycle.scope["path"])
        start(protocol, cycle, app)

    monkeypatch.setattr(HttpToolsProtocol, "_start_asgi_task", note)
    return paths


def test_a_call_in_one_piece_is_answered_without_a_task(
    port: int, connect: Connect, tasks: list[str]
) -> None:
    """Each time on the same connection."""
    client = connect(port)
    for path in (FILTER, PRIORITIZE, FILTER, "/scheduler/filter", "/scheduler/prioritize"):
        client.send(request(path))
        assert client.receive()[0] == 200
    assert tasks == []


CALL = request(PRIORITIZE)
HEAD_SIZE = CALL.index(b"\r\n\r\n") + 4


@pytest.mark.parametrize(
    "cuts",
    [
        [1],
        [10],
        [HEAD_SIZE - 3],
        [HEAD_SIZE],
        [HEAD_SIZE + 1],
        [HEAD_SIZE + 50],
        [len(CALL) - 1],
        [20, HEAD_SIZE, HEAD_SIZE + 20],
        [HEAD_SIZE, HEAD_SIZE + 20, len(CALL) - 1],
    ],
)
def test_a_call_in_pieces_has_the_same_reply(
    port: int, connect: Connect, tasks: list[str], cuts: Sequence[int]
) -> None:
    """To the last header; once its body comes in pieces it is uvicorn's."""
    client = connect(port)
    client.send(CALL)
    whole = client.receive()
    assert whole[2] == b'[{"Host":"n1","Score":7},{"Host":"n2","Score":7}]'
    bounds = [0, *cuts, len(CALL)]
    pieces = [CALL[start:end] for start, end in pairwise(bounds)]
    client.send(*pieces)
    assert client.receive() == whole
    assert tasks == [PRIORITIZE] * any(cut >= HEAD_SIZE for cut in cuts)
    client.send(CALL)
    assert client.receive() == whole


MIXED = [
    (request(FILTER), 200),
    (request(PRIORITIZE, body_of("a", "b", "c")), 200),
    (b"GET /version HTTP/1.1\r\nHost: x\r\n\r\n", 200),
    (request(FILTER, b"nonsense"), 400),
    (request(FILTER, body_of("n1", pod="bad")), 200),
    (request("/scheduler/nowhere"), 404),
    (request(FILTER + "?timeout=5s"), 200),
    (request("/scheduler/%70redicates/even"), 200),
    (request(PRIORITIZE, body_of()), 200),
    (request(FILTER, b""), 400),
    (request(FILTER), 200),
]


def test_calls_sent_at_once_are_answered_in_order(port: int, connect: Connect) -> None:
    """Each as if it came alone, whichever way it goes."""
    alone = []
    for data, status in MIXED:
        client = connect(port)
        client.send(data)
        alone.append(client.receive())
        assert alone[-1][0] == status
    client = connect(port)
    client.send(b"".join(data for data, _ in MIXED))
    assert [client.receive() for _ in MIXED] == alone


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, int]]:
    """Return where the agent is served by our protocol, and by uvicorn's."""
    with (
        serving(create_app([Even()])) as ours,
        serving(create_app([Even()]), HttpToolsProtocol) as uvicorns,
    ):
        yield ours, uvicorns


chunked = (
    f"POST {PRIORITIZE} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    + b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (CALL[HEAD_SIZE:-9], CALL[-9:]))
    + b"0\r\n\r\n"
)
LAST = request(FILTER, None, "Connection: close")


@given(
    data=st.lists(st.sampled_from([data for data, _ in MIXED] + [chunked, b"\r\n"]), max_size=6),
    end=st.sampled_from([LAST, request(version="1.0")]),
    cuts=st.lists(st.floats(0, 1), max_size=5),
)
@settings(max_examples=150, deadline=None)
def test_however_calls_come_their_replies_are_those_of_uvicorn(
    ports: tuple[int, int], data: list[bytes], end: bytes, cuts: list[float]
) -> None:
    """Byte by byte, but for the date."""
    stream = b"".join([*data, end])
    bounds = sorted({0, len(stream), *(int(cut * len(stream)) for cut in cuts)})
    replies = []
    for port in ports:
        with closing(Client(port)) as client:
            for start, stop in pairwise(bounds):
                client.socket.sendall(stream[start:stop])
                time.sleep(0.001)
            replies.append(re.sub(rb"date: [^\r]*\r\n", b"", client.file.read()))
    assert replies[0] == replies[1]


def test_a_call_that_comes_with_the_end_of_another_waits_for_it(
    port: int, connect: Connect
) -> None:
    """The one in pieces is answered first."""
    client = connect(port)
    first, second = request(PRIORITIZE, body_of("a")), request(PRIORITIZE, body_of("b"))
    client.send(first[:-5], first[-5:] + second)
    assert [client.receive()[2] for _ in range(2)] == [
        b'[{"Host":"a","Score":7}]',
        b'[{"Host":"b","Score":7}]',
    ]


def test_who_does_not_read_for_a_while_gets_all_replies(port: int, connect: Connect) -> None:
    """In order, once it reads."""
    client = connect(port)
    names = [f"node-{number:04}" for number in range(2000)]
    data = [request(PRIORITIZE, body_of(str(number), *names)) for number in range(100)]
    client.socket.settimeout(0.5)
    sent = 0
    for piece in data:
        try:
            client.socket.sendall(piece)
        except TimeoutError:
            break
        sent += 1
    client.socket.settimeout(20)
    for number in range(sent):
        status, _, body = client.receive()
        assert status == 200
        assert body.startswith(b'[{"Host":"%d",' % number)
    assert sent > 10


@pytest.mark.parametrize(
    ("header", "version"), [("Connection: close", "1.1"), ("Accept: */*", "1.0")]
)
def test_a_connection_ends_after_a_call_that_is_its_last(
    port: int, connect: Connect, header: str, version: str
) -> None:
    """As the client wishes."""
    client = connect(port)
    client.send(request(FILTER, None, header, version=version))
    status, headers, _ = client.receive()
    assert (status, headers["connection"]) == (200, "close")
    assert client.is_closed()


def test_a_client_that_wants_to_be_told_to_go_on_is(port: int, connect: Connect) -> None:
    """As curl wants for large bodies."""
    client = connect(port)
    data = request(FILTER, None, "Expect: 100-continue")
    head = data.index(b"\r\n\r\n") + 4
    client.send(data[:head])
    assert client.receive()[0] == 100
    client.send(data[head:])
    assert client.receive()[0] == 200


@pytest.mark.parametrize("size", [100, 101])
def test_a_body_without_a_length_is_taken_up_to_the_limit(
    serve_app: Serve, connect: Connect, size: int
) -> None:
    """In one piece, too."""
    port = serve_app(create_app([Even()], settings=CoreSettings(max_body_bytes=100)))
    client = connect(port)
    body = b'{"NodeNames":["n1"],"Pod":{}}'.ljust(size)
    head = f"POST {FILTER} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    client.send(head + b"%x\r\n%b\r\n0\r\n\r\n" % (size, body))
    assert client.receive()[0] == (200 if size == 100 else 413)


def test_a_fault_of_ours_is_500_and_the_next_call_is_answered(
    port: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Told once, with where it was."""
    with monkeypatch.context() as patch:
        patch.setattr(Verbs, "filter", lambda *_: 1 / 0)
        assert ask(port, "POST", FILTER, body_of("n1")).status == 500
    [record] = [it for it in caplog.records if it.exc_info]
    assert "ZeroDivisionError" in (record.exc_text or str(record.exc_info))
    assert ask(port, "POST", FILTER, body_of("n1")).status == 200


class Stamp:
    """Middleware that marks replies."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on."""

        async def stamped(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-stamp"] = "yes"
            await send(message)

        await self.app(scope, receive, stamped)


def test_calls_pass_through_middleware(serve_app: Serve) -> None:
    """Whatever somebody adds."""
    app = create_app([Even()])
    app.add_middleware(Stamp)
    assert ask(serve_app(app), "POST", FILTER, body_of("n1")).headers["x-stamp"] == "yes"


def test_each_reply_has_a_date(port: int, connect: Connect) -> None:
    """And says what it is, and how long."""
    client = connect(port)
    client.send(CALL)
    lines = [client.file.readline() for _ in range(5)]
    assert re.fullmatch(
        rb"HTTP/1.1 200 OK\r\ndate: \w{3}, \d\d \w{3} \d{4} [\d:]{8} GMT\r\n(server: uvicorn\r\n)?"
        rb"content-type: application/json\r\ncontent-length: 49\r\n(\r\n)?",
        b"".join(lines),
    )
