"""The Starlette factory: agents in, paths out."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import HTTPExceptionHandler, Receive, Scope, Send

from kube_sched_ext import wire
from kube_sched_ext.agent import Agent
from kube_sched_ext.calls import Call
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.endpoint import Endpoint
from kube_sched_ext.errors import ConfigurationError
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
    own_calls = verb_calls(verbs, settings, instruments.metrics)
    calls = [*own_calls, *further_calls]
    _check(verbs, calls, settings)
    endpoints = {call.path: Endpoint(call, settings, instruments) for call in calls}
    known = "; known are " + ", ".join(["GET /version", *(f"POST {call.path}" for call in calls)])

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)  # noqa: S101  # registered for nothing else
        instruments.metrics.refused_requests.labels(str(error.status_code)).inc()
        message = f"{request.method} {request.url.path}: {error.detail}"
        return _error(error.status_code, message + known, error.headers)

    return VerbsApp(endpoints, refuse, [call.path for call in own_calls])


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


class VerbsApp(Starlette):
    """Starlette, but that calls of verbs go straight to their endpoints.

    Its router and the middleware around it take as long as a verb on hundreds of nodes does. Where
    somebody adds middleware, calls pass through it as all requests do.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        refuse: HTTPExceptionHandler,
        at_once: Collection[str],
    ) -> None:
        """Serve `endpoints` by path; those of `at_once` need nothing awaited."""
        verbs = [Route(path, endpoint, methods=["POST"]) for path, endpoint in endpoints.items()]
        super().__init__(
            routes=[Route("/version", _version), *verbs],
            exception_handlers={HTTPException: refuse},
        )
        self.router.redirect_slashes = False
        self._endpoints = endpoints
        self._at_once = {path.encode(): endpoints[path] for path in at_once}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "http" and scope["method"] == "POST" and not self.user_middleware:
            endpoint = self._endpoints.get(scope["path"])
            if endpoint is not None:
                await endpoint(scope, receive, send)
                return
        await super().__call__(scope, receive, send)

    def at_once(self, path: bytes) -> Endpoint | None:
        """Return what answers POSTs to `path` without any waiting, if there is such a thing."""
        return None if self.user_middleware else self._at_once.get(path)


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    content = wire.encode(wire.ErrorReply(message))
    return Response(content, status, headers, media_type="application/json")


async def _version(_: Request) -> Response:
    return PlainTextResponse(VERSION)
