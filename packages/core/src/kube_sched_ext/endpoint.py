"""One path: from a body to what goes back, and what is told of it."""

from asyncio import get_running_loop
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from starlette.types import Receive, Scope, Send

from kube_sched_ext import wire
from kube_sched_ext.body import read_body
from kube_sched_ext.calls import Answer, Call
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.errors import AgentError, RequestError
from kube_sched_ext.instruments import Instruments


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply in JSON, and what to do once it is on its way, which makes nobody wait."""

    status: int
    content: bytes
    headers: Sequence[tuple[bytes, bytes]] = ()
    then: Sequence[Callable[[], None]] = ()

    @property
    def all_headers(self) -> list[tuple[bytes, bytes]]:
        """Its headers, in lower case."""
        length = b"%d" % len(self.content)
        own = [(b"content-type", b"application/json"), (b"content-length", length)]
        return [*own, *self.headers]

    def sent(self) -> None:
        """Do what is to be done; the reply leaves when the event loop next turns."""
        loop = get_running_loop()
        for act in self.then:
            loop.call_soon(act)

    async def __call__(self, _: Scope, __: Receive, send: Send) -> None:
        """Send it."""
        headers = self.all_headers
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.content})
        self.sent()


class Endpoint:
    """One path as an ASGI application."""

    def __init__(self, call: Call, settings: CoreSettings, instruments: Instruments) -> None:
        """Answer `call`."""
        self._call = call
        self._instruments = instruments
        self._seconds = instruments.metrics.call_seconds.labels(call.verb, call.name)
        self._body_seconds = settings.body_timeout_seconds
        self.max_body_bytes = settings.max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        try:
            body = await read_body(
                scope, receive, max_bytes=self.max_body_bytes, seconds=self._body_seconds
            )
        except RequestError as error:
            reply = self._refusal(error)
        else:
            found = self.reply(body)
            reply = found if isinstance(found, Reply) else await found
        await reply(scope, receive, send)

    def reply(self, body: bytes | bytearray) -> Reply | Awaitable[Reply]:
        """Return the reply to a whole body; none of the verbs' has to be awaited."""
        started = perf_counter()
        try:
            answer = self._call.answer(body)
        except RequestError as error:
            return self._refusal(error)
        except AgentError as error:
            return self._failure(error)
        if isinstance(answer, Answer):
            return self._success(answer, started)
        return self._awaited(answer, started)

    async def _awaited(self, answer: Awaitable[Answer], started: float) -> Reply:
        try:
            return self._success(await answer, started)
        except RequestError as error:
            return self._refusal(error)
        except AgentError as error:
            return self._failure(error)

    def _success(self, answer: Answer, started: float) -> Reply:
        content = wire.encode(answer.message)
        seconds = perf_counter() - started
        tell = partial(self._tell, answer, content, seconds)
        return Reply(200, content, then=[answer.then, tell] if answer.then else [tell])

    def _tell(self, answer: Answer, content: bytes, seconds: float) -> None:
        call, log = self._call, self._instruments.log
        self._seconds.observe(seconds)
        log.info(
            call.verb,
            agent=call.agents,
            name=call.name,
            pod=answer.pod,
            nodes_in=answer.nodes_in,
            nodes_out=answer.nodes_out,
            ms=round(seconds * 1000, 3),
        )
        if log.enabled("TRACE"):
            log.trace("reply", verb=call.verb, name=call.name, reply=content.decode())

    def _refusal(self, error: RequestError) -> Reply:
        call, status = self._call, error.status
        self._instruments.metrics.refused_requests.labels(str(status)).inc()
        self._instruments.log.warning(
            "request refused", verb=call.verb, path=call.path, error=str(error)
        )
        # What is left of the body is not read; the connection cannot be used again.
        unread = status in (408, 413)
        headers = [(b"connection", b"close")] if unread else []
        return Reply(status, wire.encode(wire.ErrorReply(str(error))), headers)

    def _failure(self, error: AgentError) -> Reply:
        call = self._call
        self._instruments.metrics.failed_calls.labels(call.verb, call.name).inc()
        self._instruments.log.error(
            "agent failed", verb=call.verb, name=call.name, pod=error.pod, exc_info=error
        )
        if call.verb == "filter":
            return Reply(200, wire.encode(wire.ExtenderFilterResult(error=str(error))))
        return Reply(500, wire.encode(wire.ErrorReply(str(error))))
