"""The verbs' listener with TLS: who may call, and what happens when certificates change.

Connections are accepted here, not by uvicorn: it knows one context for as long as it runs.
"""

import asyncio
import contextlib
import socket
import ssl
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from kube_sched_ext import wire
from kube_sched_ext.certificates import Certificates, Credentials, Standing
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.handshake import FAILURE
from kube_sched_ext.health import Condition
from kube_sched_ext.instruments import Instruments

_LOOK_SECONDS: Final = 2.0
"""The time between two looks at the files."""
_HANDSHAKE_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 2.0
_LEAVE_SECONDS: Final = 60.0
"""So long before a client's certificate ends, its connections end with their next reply."""
_DISCARD_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is at the other end of a connection, as its certificate says."""

    names: Sequence[str]
    ends: float
    client_ca: bytes
    """The DER of the CA that vouches for it."""

    def is_trusted_by(self, credentials: Credentials, now: float) -> bool:
        """Tell whether its certificate is valid still."""
        return now < self.ends and self.client_ca in credentials.client_cas


class Tls:
    """What all connections share: the certificates in force, and who may call."""

    def __init__(
        self, certificates: Certificates, names: frozenset[str], instruments: Instruments
    ) -> None:
        """Let in clients with a certificate for one of `names`, or any if there are none."""
        self.connections: set[TlsProtocol] = set()
        self._certificates = certificates
        self._names = names
        self._instruments = instruments
        self._failure = ""
        self._told: dict[str, Standing] = {}
        self._show()

    @property
    def credentials(self) -> Credentials:
        """What is in force for new connections."""
        return self._certificates.current

    async def watch(self, seconds: float = _LOOK_SECONDS) -> None:
        """Look at the files every few seconds, and take over what changed, until cancelled."""
        while True:
            self._tell_ends()
            await asyncio.sleep(seconds)
            await self._refresh()
            self._close_untrusted()

    def condition(self) -> Condition:
        """Tell whether the files are in force, and until when they are valid."""
        now = time.time()
        validities = self.credentials.validities.items()
        details = [self._failure] if self._failure else []
        details += [f"{name} {_phrase(it.standing(now))} {it}" for name, it in validities]
        has_ended = any(it.standing(now) == "has ended" for _, it in validities)
        return Condition(not self._failure and not has_ended, ", ".join(details), required=False)

    def objection_to(self, caller: Caller) -> str:
        """Return why `caller` is not answered; nothing if it is."""
        if not self._names or (caller.names and self._names.issuperset(caller.names)):
            return ""
        shown = ", ".join(caller.names) or "none"
        return f"the client certificate's common name ({shown}) is not in TLS_CLIENT_NAMES"

    def refused(self, connection: "TlsProtocol", objection: str) -> None:
        """Count a request that got no answer because of `objection`, and log it once."""
        self._instruments.metrics.refused_requests.labels("403").inc()
        host = connection.client[0] if connection.client else ""
        self._instruments.problems.refused_client(host, objection)

    def failed(self, host: str, error: Exception) -> None:
        """Count a handshake that failed, and log it once."""
        reason = _reason(error)
        self._instruments.metrics.failed_handshakes.labels(reason).inc()
        # A probe of the port goes away without a word; so does a scheduler that is stopped.
        if not isinstance(error, ConnectionError):
            self._instruments.problems.refused_client(host, f"handshake failed: {reason}")

    async def _refresh(self) -> None:
        log, metrics = self._instruments.log, self._instruments.metrics
        try:
            has_changed = await asyncio.to_thread(self._certificates.refresh)
        except ConfigurationError as error:
            # Half of a pair may be written; the other half follows.
            failure = "; ".join(error.problems)
            if failure != self._failure:
                self._failure = failure
                metrics.certificate_reloads.labels("failed").inc()
                log.error("certificates not reloaded; those of before stay", error=failure)
            return
        if has_changed:
            metrics.certificate_reloads.labels("done").inc()
            self._show()
            ends = {name: str(it) for name, it in self.credentials.validities.items()}
            log.info("certificates reloaded", ends=ends)
        elif self._failure:
            log.info("certificates are again as they were when they were loaded")
        self._failure = ""

    def _show(self) -> None:
        gauge = self._instruments.metrics.certificate_ends
        gauge.clear()
        for name, validity in self.credentials.validities.items():
            gauge.labels(name).set(validity.ends)

    def _tell_ends(self) -> None:
        now = time.time()
        for name, validity in self.credentials.validities.items():
            standing = validity.standing(now)
            if standing != self._told.get(name, "valid"):
                at = self._instruments.log.warning
                if standing == "has ended":
                    at = self._instruments.log.alert
                elif standing == "valid":
                    at = self._instruments.log.info
                at(f"certificate {_phrase(standing)} {validity}", setting=name)
            self._told[name] = standing

    def _close_untrusted(self) -> None:
        """End connections whose certificate ended or whose CA is gone, after a call under way."""
        now = time.time()
        for connection in list(self.connections):
            if not connection.caller.is_trusted_by(self.credentials, now):
                connection.shutdown()


class TlsProtocol(HttpToolsProtocol):
    """One connection. Where clients need certificates, it knows who calls."""

    caller: Caller

    def __init__(self, tls: Tls, **uvicorns: Any) -> None:
        """Serve as uvicorn does, whom `tls` lets in."""
        super().__init__(**uvicorns)
        self._tls = tls
        self._leaves_at = float("inf")

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take the connection, once its handshake is done."""
        super().connection_made(transport)
        handshake: ssl.SSLObject = transport.get_extra_info("ssl_object")
        if handshake.context.verify_mode is not ssl.CERT_REQUIRED:
            return
        caller = self.caller = _caller(handshake)
        if not caller.is_trusted_by(self._tls.credentials, time.time()):
            # The CA went while hands were shaken.
            transport.abort()
            return
        self._tls.connections.add(self)
        self._leaves_at = caller.ends - _LEAVE_SECONDS
        if objection := self._tls.objection_to(caller):
            self.app = _refusing(objection, lambda: self._tls.refused(self, objection))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._tls.connections.discard(self)
        super().connection_lost(exc)

    def on_headers_complete(self) -> None:
        """Begin to answer a request."""
        super().on_headers_complete()
        if time.time() >= self._leaves_at:
            # The client comes back with its next certificate, and no call is lost.
            self.cycle.keep_alive = False


class TlsListener:
    """Accepts connections and shakes hands, as one of uvicorn's servers."""

    def __init__(self, tls: Tls, listener: socket.socket, make: Callable[[], TlsProtocol]) -> None:
        """Take connections from `listener`; each gets a protocol that `make` returns."""
        self._tls = tls
        self._listener = listener
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        listener.setblocking(False)

    async def run(self) -> None:
        """Accept connections until cancelled."""
        while True:
            try:
                connection, address = await self._loop.sock_accept(self._listener)
            except OSError as error:
                self._tls.failed("", error)
                # Descriptors ran out: they come back when other connections end.
                await asyncio.sleep(1)
                continue
            task = self._loop.create_task(self._shake_hands(connection, address[0]))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    def close(self) -> None:
        """Let go of handshakes under way."""
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until they are gone."""
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    async def _shake_hands(self, connection: socket.socket, host: str) -> None:
        failures: list[ssl.SSLError] = []
        FAILURE.set(failures)
        try:
            await self._loop.connect_accepted_socket(
                self._make,
                connection,
                ssl=self._tls.credentials.context,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=_CLOSE_SECONDS,
            )
        except OSError as error:
            self._tls.failed(host, failures[0] if failures else error)


def _caller(handshake: ssl.SSLObject) -> Caller:
    shown = handshake.getpeercert() or {}
    names = [
        str(value)
        for part in shown.get("subject", ())
        for key, value in part
        if key == "commonName"
    ]
    ends = ssl.cert_time_to_seconds(str(shown["notAfter"]))
    return Caller(names, ends, _verified_chain(handshake)[-1])


def _verified_chain(handshake: ssl.SSLObject) -> list[bytes]:
    if sys.version_info >= (3, 13):
        return handshake.get_verified_chain()
    inner = handshake._sslobj  # noqa: SLF001  # it became public with Python 3.13
    return [
        ssl.PEM_cert_to_DER_cert(certificate.public_bytes())
        for certificate in inner.get_verified_chain()
    ]


def _refusing(objection: str, refused: Callable[[], None]) -> ASGIApp:
    content = wire.encode(wire.ErrorReply(objection))

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        refused()
        # A client that is still sending its body would not see a reply before the end.
        with contextlib.suppress(TimeoutError, ClientDisconnect):
            async with asyncio.timeout(_DISCARD_SECONDS):
                async for _ in Request(scope, receive).stream():
                    pass
        headers = {"Connection": "close"}
        response = Response(content, 403, headers, media_type="application/json")
        await response(scope, receive, send)

    return refuse


def _phrase(standing: Standing) -> str:
    return {"valid": "valid until", "ends soon": "ends soon:", "has ended": "has ended:"}[standing]


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError):
        return (error.reason or "unknown").lower().replace("_", " ")
    return type(error).__name__
