"""uvicorn's protocol, but for calls that can be answered at once."""

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from kube_sched_ext.app import VerbsApp
from kube_sched_ext.endpoint import Endpoint, Reply


class VerbsProtocol(HttpToolsProtocol):
    """One connection, which answers a verb's call as soon as all of it is there.

    uvicorn's task, queues and timeouts for a request take longer than a verb on hundreds of nodes
    does. What comes in pieces or has to wait goes its way, as does all that is no plain call.
    """

    _endpoint: Endpoint | None = None
    """What will answer the request under way, if that goes as hoped."""
    _pieces: list[bytes]

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        super().data_received(data)
        if self._endpoint is not None:
            # The rest is on its way, or not: uvicorn waits for it.
            self._begin_as_usual()

    def on_message_begin(self) -> None:
        """Begin to read a request."""
        self._endpoint = None
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Choose the way of a request."""
        self._endpoint = self._answering_at_once()
        if self._endpoint is None:
            self._begin()
        else:
            self._pieces = []

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if self._endpoint is None:
            super().on_body(body)
        else:
            self._pieces.append(body)

    def on_message_complete(self) -> None:
        """Answer a request that came as a whole."""
        endpoint = self._endpoint
        if endpoint is not None:
            body = b"".join(self._pieces)
            if len(body) <= endpoint.max_body_bytes and self._answer(endpoint, body):
                self._endpoint = None
                return
            self._begin_as_usual()
        super().on_message_complete()

    def _answering_at_once(self) -> Endpoint | None:
        """Return what answers the request under way if nothing else is under way or asked for."""
        parser, app = self.parser, self.app
        if (
            not isinstance(app, VerbsApp)
            or parser.get_method() != b"POST"
            or parser.get_http_version() != "1.1"
            or not parser.should_keep_alive()
            or parser.should_upgrade()
            or self.expect_100_continue
            or self.flow.write_paused
        ):
            return None
        # It is None before the first request that goes uvicorn's way, whatever its type says.
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            return None
        return app.at_once(self.url)

    def _begin(self) -> None:
        """Let uvicorn answer the request under way."""
        super().on_headers_complete()

    def _begin_as_usual(self) -> None:
        self._endpoint = None
        self._begin()
        for piece in self._pieces:
            super().on_body(piece)

    def _answer(self, endpoint: Endpoint, body: bytes) -> bool:
        try:
            reply = endpoint.reply(body)
        except Exception:  # noqa: BLE001  # comes again, where uvicorn logs it and answers 500
            return False
        assert isinstance(reply, Reply)  # noqa: S101  # VerbsApp promises it
        headers = [*self.server_state.default_headers, *reply.all_headers]
        lines = [b"%b: %b\r\n" % header for header in headers]
        head = b"".join([STATUS_LINE[reply.status], *lines, b"\r\n"])
        self.transport.write(head + reply.content)
        reply.sent()
        self.on_response_complete()
        return True
