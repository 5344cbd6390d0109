"""The few calls that we make to the apiserver: raw bytes in and out, a limit on every wait."""

import http.client
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Final, Protocol, Self
from urllib.parse import quote, urlencode

import msgspec
import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NewConnectionError,
    ReadTimeoutError,
    SSLError,
)

from kube_sched_ext.version import VERSION
from kube_sched_ext_cluster.access import Access
from kube_sched_ext_cluster.errors import ApiError, ClusterError, NoAnswerError

CONNECT_SECONDS: Final = 5.0
"""Time for a connection, TLS included."""

READ_SECONDS: Final = 30.0
"""Time between two pieces of an answer that is no watch."""

_USER_AGENT: Final = f"kube-sched-ext/{VERSION}"
_SUCCESS: Final = range(200, 300)
_UNAUTHORIZED: Final = 401
_MAX_LINE: Final = 32 * 1024 * 1024
_MAX_MESSAGE: Final = 2000
_PIECE: Final = 256 * 1024
# What reading from a connection raises; ValueError where another thread shut it down.
_BROKEN: Final = (HTTPError, http.client.HTTPException, OSError, ValueError)


class _Cause(msgspec.Struct, frozen=True):
    reason: str = ""


class _Details(msgspec.Struct, frozen=True):
    causes: list[_Cause] | None = None


class _Status(msgspec.Struct, frozen=True):
    reason: str = ""
    message: str = ""
    code: int = 0
    details: _Details | None = None


_STATUS: Final = msgspec.json.Decoder(_Status)


def error_of(body: bytes | msgspec.Raw, status: int, retry_after: float = 0.0) -> ApiError:
    """Return the error in a Status.

    Args:
        body: the Status, or what a proxy sent in its place.
        status: the HTTP status that it came with.
        retry_after: seconds that the apiserver asked to wait.
    """
    try:
        told = _STATUS.decode(body)
    except msgspec.MsgspecError:
        told = _Status(message=bytes(body[:_MAX_MESSAGE]).decode(errors="replace"))
    details = told.details or _Details()
    return ApiError(
        status,
        told.reason or http.client.responses.get(status, "Unknown"),
        told.message,
        told.code or status,
        causes=tuple(cause.reason for cause in details.causes or ()),
        retry_after=retry_after,
    )


class Collection(Protocol):
    """What to list and watch."""

    @property
    def path(self) -> str:
        """The path of the collection."""

    @property
    def field_selector(self) -> str:
        """Which of it; empty: all."""


class Stream:
    """The lines of a watch, as they come. One thread reads; any thread may shut it down."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        """Read from `response`."""
        self._response = response

    def __enter__(self) -> Self:
        """Return the stream, which is closed on exit."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection: what is left of a watch is of no use to the next request."""
        self._response.close()

    def __iter__(self) -> Iterator[list[bytes]]:
        """Yield the whole lines that came together; a part of a line at the end is dropped.

        Raises:
            NoAnswerError: the stream broke off, or nothing came for longer than was allowed.
        """
        rest = b""
        try:
            for piece in self._response.stream(_PIECE):
                *lines, rest = (rest + piece).split(b"\n")
                if lines:
                    yield lines
                if len(rest) > _MAX_LINE:
                    raise NoAnswerError("Malformed", f"a line of more than {_MAX_LINE} bytes")
        except _BROKEN as error:
            raise _trouble(error) from error

    def shut_down(self) -> None:
        """End a read that waits, in whatever thread it is."""
        # The stream may have ended at the same moment.
        with suppress(RuntimeError, ValueError, OSError):
            self._response.shutdown()


class Api:
    """The apiserver. Thread-safe; every call waits, so no call belongs on an event loop."""

    def __init__(
        self,
        access: Access,
        *,
        connect_seconds: float = CONNECT_SECONDS,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        """Call through `access`."""
        self._access = access
        self._connect_seconds = connect_seconds
        self._read_seconds = read_seconds

    def list_page(self, collection: Collection, *, limit: int, next_token: str = "") -> bytes:
        """Return one page of a list, as JSON.

        Args:
            collection: what to list.
            limit: objects on the page.
            next_token: `metadata.continue` of the page before; empty for the first page.

        Raises:
            ApiError: refused; 410 where `next_token` is too old.
            NoAnswerError: no answer.
        """
        query = {"limit": str(limit)} | _selector(collection)
        if next_token:
            query["continue"] = next_token
        return self._call("GET", collection.path, query)

    def watch(
        self, collection: Collection, *, version: str, seconds: int, silence_seconds: float
    ) -> Stream:
        """Return what changes after `version`, a line of JSON for each change.

        Args:
            collection: what to watch.
            version: the resourceVersion to start from.
            seconds: how long the apiserver is to keep it up.
            silence_seconds: how long nothing may come, not even a bookmark.

        Raises:
            ApiError: refused; 410 where `version` is too old.
            NoAnswerError: no answer.
        """
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(seconds),
        } | _selector(collection)
        return Stream(self._open("GET", collection.path, query, read_seconds=silence_seconds))

    def get_pod(self, namespace: str, name: str, *, seconds: float) -> bytes:
        """Return the pod, as JSON, within about `seconds`.

        Raises:
            ApiError: refused.
            NoAnswerError: no answer.
        """
        return self._call("GET", _pod_path(namespace, name), seconds=seconds)

    def create_binding(
        self, namespace: str, name: str, *, uid: str, node: str, seconds: float
    ) -> None:
        """Bind the pod that has this UID to `node`, within about `seconds`.

        Raises:
            ApiError: refused; 409 where the pod is bound already, or has another UID.
            NoAnswerError: no answer. The pod may be bound all the same.
        """
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": namespace, "name": name, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = _pod_path(namespace, name) + "/binding"
        self._call("POST", path, body=msgspec.json.encode(binding), seconds=seconds)

    def annotate_node(
        self, name: str, annotations: Mapping[str, str | None], *, resource_version: str = ""
    ) -> None:
        """Set annotations of a node, or remove those that are None; others stay.

        Raises:
            ApiError: refused; 409 where `resource_version` is given and the node has another.
            NoAnswerError: no answer.
        """
        metadata: dict[str, object] = {"annotations": annotations}
        if resource_version:
            metadata["resourceVersion"] = resource_version
        body = msgspec.json.encode({"metadata": metadata})
        self._call(
            "PATCH", _node_path(name), body=body, content_type="application/merge-patch+json"
        )

    def apply_annotations(
        self, name: str, annotations: Mapping[str, str], *, uid: str, manager: str, force: bool
    ) -> None:
        """Make `annotations` all that `manager` has on the node; those of other managers stay.

        Args:
            name: the node.
            annotations: what the node is to have. What `manager` applied before and is not among
                them is removed.
            uid: that of the node. Without it a node that is gone would be made anew.
            manager: the field manager.
            force: take over what other managers have; else that is a conflict.

        Raises:
            ApiError: refused. 409 where the node is gone, or, with the cause
                FieldManagerConflict, where another manager has one of the annotations; 422 where
                the node has another UID.
            NoAnswerError: no answer.
        """
        metadata = {"name": name, "uid": uid, "annotations": annotations}
        body = msgspec.json.encode({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        self._call(
            "PATCH", _node_path(name), query, body=body, content_type="application/apply-patch+yaml"
        )

    def close(self) -> None:
        """Close the connections that nobody uses."""
        self._access.close()

    def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        seconds: float | None = None,
    ) -> bytes:
        response = self._open(
            method, path, query, body=body, content_type=content_type, read_seconds=seconds
        )
        return _whole(response)

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        body: bytes | None = None,
        content_type: str = "application/json",
        read_seconds: float | None = None,
    ) -> urllib3.BaseHTTPResponse:
        host, headers, pool = self._access.connection()
        headers |= {"accept": "application/json", "user-agent": _USER_AGENT}
        if body is not None:
            headers["content-type"] = content_type
        read_seconds = self._read_seconds if read_seconds is None else read_seconds
        try:
            response = pool.request(
                method,
                f"{host}{path}?{urlencode(query)}" if query else f"{host}{path}",
                body=body,
                headers=headers,
                timeout=urllib3.Timeout(
                    connect=min(self._connect_seconds, read_seconds), read=read_seconds
                ),
                # Left alone, urllib3 tries three times in silence, and follows redirects.
                retries=False,
                preload_content=False,
            )
        except _BROKEN as error:
            raise _trouble(error) from error
        if response.status in _SUCCESS:
            return response
        if response.status == _UNAUTHORIZED:
            self._access.refused()
        retry_after = response.headers.get("retry-after", "")
        seconds = float(retry_after) if retry_after.isdecimal() else 0.0
        raise error_of(_whole(response), response.status, seconds)


def explain(error: ClusterError) -> str:
    """Return the apiserver's own words, or what kept it from having any."""
    if isinstance(error, ApiError):
        return error.message or str(error)
    return f"no answer from the apiserver: {error}"


def _whole(response: urllib3.BaseHTTPResponse) -> bytes:
    try:
        body = response.read()
    except _BROKEN as error:
        response.close()
        raise _trouble(error) from error
    response.release_conn()
    return body


def _trouble(error: Exception) -> NoAnswerError:
    if isinstance(error, NewConnectionError | ConnectTimeoutError):
        return NoAnswerError("Unreachable", str(error))
    if isinstance(error, SSLError):
        return NoAnswerError("Untrusted", str(error))
    if isinstance(error, ReadTimeoutError):
        return NoAnswerError("Timeout", str(error))
    return NoAnswerError("Disconnected", str(error))


def _selector(collection: Collection) -> dict[str, str]:
    selector = collection.field_selector
    return {"fieldSelector": selector} if selector else {}


def _node_path(name: str) -> str:
    return f"/api/v1/nodes/{quote(name, safe='')}"


def _pod_path(namespace: str, name: str) -> str:
    return f"/api/v1/namespaces/{quote(namespace, safe='')}/pods/{quote(name, safe='')}"
