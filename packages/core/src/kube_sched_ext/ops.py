"""The operations listener: probes and metrics, apart from the verbs."""

from prometheus_client.exposition import choose_encoder
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from kube_sched_ext.health import Health
from kube_sched_ext.metrics import Metrics


def create_ops_app(health: Health, metrics: Metrics) -> Starlette:
    """Return an application with /livez, /readyz, /healthz and /metrics.

    /livez and /healthz answer as long as the event loop turns; /readyz asks `health`, and lists its
    conditions where it fails or is asked `?verbose`.
    """

    async def alive(_: Request) -> Response:
        return PlainTextResponse("ok")

    async def ready(request: Request) -> Response:
        is_ready, conditions = health.ready()
        shown = conditions if "verbose" in request.query_params or not is_ready else "ok"
        return PlainTextResponse(shown, 200 if is_ready else 503)

    async def exposition(request: Request) -> Response:
        encoder, content_type = choose_encoder(request.headers.get("accept", ""))
        return Response(encoder(metrics.registry), headers={"Content-Type": content_type})

    return Starlette(
        routes=[
            Route("/livez", alive),
            Route("/healthz", alive),
            Route("/readyz", ready),
            Route("/metrics", exposition),
        ]
    )
