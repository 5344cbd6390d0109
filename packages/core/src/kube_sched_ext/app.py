"""The Starlette factory: agents in, paths out."""

from asyncio import get_running_loop
from collections import Counter
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import HTTPExceptionHandler, Receive, Scope, Send

from kube_sched_ext import wire
from kube_sched_ext.agent import Agent
from kube_sched_ext.body import read_body
from kube_sched_ext.calls import Answer, Call
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.errors import AgentError, ConfigurationError, RequestError
from kube_sched_ext.instruments import Instruments, new_instruments
from kube_sched_ext.selection import names_in
from kube_sched_ext.table import NodeTable
from kube_sched_ext.verb_calls import verb_calls
from kube_sched_ext.verbs import Verbs, new_table
from kube_sched_ext.version import VERSION


def create_app(
    agents: Sequence[Agent[Any]],
    *,
    settings: CoreSettings | None = None,
    table: NodeTable | None = None,
    instruments: Instruments | None = None,
) -> Starlette:
    """Return an application that serves the verbs of `agents`.

    Args:
        agents: what to serve; each of their verbs has a path, and all together have one.
        settings: paths, limits and weights; the defaults where left out.
        table: the nodes that names are looked up in, from `new_table(agents, ...)`; none where
            left out, which is enough for whole-node requests.
        instruments: where to log and count; new ones where left out.

    Raises:
        ConfigurationError: two agents or paths have one name, or weights name no priority.
    """
    settings = settings or CoreSettings()
    instruments = instruments or new_instruments(settings.log_level, settings.log_format)
    table = table or new_table(agents, instruments.problems)
    verbs = Verbs(agents, table, settings, instruments)
    return create_app_of(verbs, settings, instruments)


def create_app_of(
    verbs: Verbs,
    settings: CoreSettings,
    instruments: Instruments,
    further_calls: Sequence[Call] = (),
) -> Starlette:
    """Return an application that serves `verbs`, and further calls beside them.

    Raises:
        ConfigurationError: two agents or paths have one name, or weights name no priority.
    """
    calls = [*verb_calls(verbs, settings, instruments.metrics), *further_calls]
    _check(verbs, calls, settings)
    endpoints = {call.path: _Endpoint(call, settings, instruments) for call in calls}
    known = "; known are " + ", ".join(["GET /version", *(f"POST {call.path}" for call in calls)])

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101  # registered for nothing else
        instruments.metrics.refused_requests.labels(str(error.status_code)).inc()
        message = f"{request.method} {request.url.path}: {error.detail}"
        return _error(error.status_code, message + known, error.headers)

    return _App(endpoints, refuse)


def _check(verbs: Verbs, calls: list[Call], settings: CoreSettings) -> None:
    problems = [
        f"agent {name} is given twice"
        for name, count in Counter(agent.name for agent in verbs.agents).items()
        if count > 1
    ]
    problems += [
        f"{path}: is served by {count} verbs; one path can have one"
        for path, count in Counter(call.path for call in calls).items()
        if count > 1 or path == "/version"
    ]
    predicates = {predicate.name for agent in verbs.agents for predicate in agent.predicates}
    problems += [
        f"EXCEPT_PREDICATES: {name} is no predicate that is served; those are "
        + (", ".join(sorted(predicates)) or "none")
        for name in sorted(names_in(settings.except_predicates) - predicates)
    ]
    served = [priority.name for agent in verbs.agents for priority in agent.priorities]
    weights = settings.priority_weights
    problems += [
        f"PRIORITY_WEIGHTS: {name} is no priority that is served; those are "
        + (", ".join(served) or "none")
        for name in weights
        if name not in served
    ]
    if served and not any(weights.get(name, 1) for name in served):
        problems.append("PRIORITY_WEIGHTS: at least one priority must weigh more than 0")
    if problems:
        raise ConfigurationError(problems)


class _Endpoint:
    """One path as an ASGI application."""

    def __init__(self, call: Call, settings: CoreSettings, instruments: Instruments) -> None:
        self._call = call
        self._settings = settings
        self._instruments = instruments
        self._seconds = instruments.metrics.call_seconds.labels(call.verb, call.name)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        call, settings = self._call, self._settings
        try:
            body = await read_body(
                scope,
                receive,
                max_bytes=settings.max_body_bytes,
                seconds=settings.body_timeout_seconds,
            )
            started = perf_counter()
            answer = call.answer(body)
            if not isinstance(answer, Answer):
                answer = await answer
        except RequestError as error:
            await self._refusal(error)(scope, receive, send)
        except AgentError as error:
            await self._failure(error)(scope, receive, send)
        else:
            content = wire.encode(answer.message)
            seconds = perf_counter() - started
            length = str(len(content)).encode()
            headers = [(b"content-type", b"application/json"), (b"content-length", length)]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            await send({"type": "http.response.body", "body": content})
            # The reply leaves when the event loop next turns; what follows makes nobody wait.
            loop = get_running_loop()
            if answer.then is not None:
                loop.call_soon(answer.then)
            loop.call_soon(self._tell, answer, content, seconds)

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

    def _refusal(self, error: RequestError) -> Response:
        call, status = self._call, error.status
        self._instruments.metrics.refused_requests.labels(str(status)).inc()
        self._instruments.log.warning(
            "request refused", verb=call.verb, path=call.path, error=str(error)
        )
        # What is left of the body is not read; the connection cannot be used again.
        unread = status in (408, 413)
        return _error(status, str(error), {"Connection": "close"} if unread else None)

    def _failure(self, error: AgentError) -> Response:
        call = self._call
        self._instruments.metrics.failed_calls.labels(call.verb, call.name).inc()
        self._instruments.log.error(
            "agent failed", verb=call.verb, name=call.name, pod=error.pod, exc_info=error
        )
        if call.verb == "filter":
            reply = wire.ExtenderFilterResult(error=str(error))
            return Response(wire.encode(reply), media_type="application/json")
        return _error(500, str(error))


class _App(Starlette):
    """Starlette, but that calls of verbs go straight to their endpoints.

    Its router and the middleware around it take as long as a verb on hundreds of nodes does. Where
    somebody adds middleware, calls pass through it as all requests do.
    """

    def __init__(self, endpoints: Mapping[str, _Endpoint], refuse: HTTPExceptionHandler) -> None:
        verbs = [Route(path, endpoint, methods=["POST"]) for path, endpoint in endpoints.items()]
        super().__init__(
            routes=[Route("/version", _version), *verbs],
            exception_handlers={HTTPException: refuse},
        )
        self.router.redirect_slashes = False
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and not self.user_middleware:
            endpoint = self._endpoints.get(scope["path"])
            if endpoint is not None:
                await endpoint(scope, receive, send)
                return
        await super().__call__(scope, receive, send)


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    content = wire.encode(wire.ErrorReply(message))
    return Response(content, status, headers, media_type="application/json")


async def _version(_: Request) -> Response:
    return PlainTextResponse(VERSION)
