"""Request bodies: up to a size, within a time."""

import asyncio

from starlette.requests import ClientDisconnect, Request

from kube_sched_ext.errors import RequestError


async def read_body(request: Request, *, max_bytes: int, seconds: float) -> bytes | bytearray:
    """Return the whole body.

    Raises:
        RequestError: 413, more than `max_bytes`, of which no more than that is read; 408, not
            complete after `seconds`; 400, the client went away.
    """
    declared = request.headers.get("content-length")
    if declared is not None and int(declared) > max_bytes:
        raise _too_large(max_bytes)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > max_bytes:
                    raise _too_large(max_bytes)
                chunks.append(chunk)
    except TimeoutError:
        raise RequestError(408, f"the body was not complete after {seconds:g} s") from None
    except ClientDisconnect:
        raise RequestError(400, "the client closed the connection within the body") from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def _too_large(max_bytes: int) -> RequestError:
    return RequestError(413, f"the body is larger than MAX_BODY_BYTES = {max_bytes}")
