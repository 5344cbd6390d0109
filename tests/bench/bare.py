"""The yardstick: Starlette that decodes the same request and answers 5 for each name.

python tests/bench/bare.py PORT
"""

import sys

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kube_sched_ext.wire import ExtenderArgs, HostPriority

DECODER = msgspec.json.Decoder(ExtenderArgs)
ENCODER = msgspec.json.Encoder()


async def answer(request: Request) -> Response:
    """Score each name 5."""
    args = DECODER.decode(await request.body())
    scores = [HostPriority(name, 5) for name in args.node_names or ()]
    return Response(ENCODER.encode(scores), media_type="application/json")


async def alive(_: Request) -> Response:
    """Answer that the server is up."""
    return Response(b"")


app = Starlette(routes=[Route("/", answer, methods=["POST"]), Route("/", alive)])

if __name__ == "__main__":
    uvicorn.run(
        app,
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
        timeout_keep_alive=120,
    )
