"""Request bodies: up to a size, within a time."""

import asyncio

from starlette.types import Receive, Scope

from kube_sched_ext.errors import RequestError


async def read_body(
    scope: Scope, receive: Receive, *, max_bytes: int, seconds: float
) -> bytes | bytearray:
    """Return the whole body.

    Raises:
        RequestError: 413, more than `max_bytes`, of which no more than that is read; 408, not
            complete after `seconds`; 400, the client went away.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and int(value) > max_bytes:
            raise _too_large(max_bytes)
    chunks: list[bytes] = []
    size = 0
    is_complete = False
    try:
        async with asyncio.timeout(seconds):
            while not is_complete:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestError(400, "the client closed the connection within the body")
                chunk = message.get("body", b"")
                size += len(chunk)
                if size > max_bytes:
                    raise _too_large(max_bytes)
                chunks.append(chunk)
                is_complete = not message.get("more_body", False)
    except TimeoutError:
        raise RequestError(408, f"the body was not complete after {seconds:g} s") from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(max_bytes: int) -> RequestError:
    return RequestError(413, f"the body is larger than MAX_BODY_BYTES = {max_bytes}")
