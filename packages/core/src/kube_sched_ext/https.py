"""The verbs' listener with TLS: who may call, and what happens when certificates change.

Connections are accepted here, not by uvicorn: it knows one context for as long as it runs.
"""

import asyncio
import contextlib
import socket
import ssl
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kube_sched_ext import wire
from kube_sched_ext.certificates import Certificates, Credentials, Standing
from kube_sched_ext.endpoint import Endpoint
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.handshake import FAILURES, ServerContext, reason_of
from kube_sched_ext.health import Condition
from kube_sched_ext.instruments import Instruments
from kube_sched_ext.logs import Level
from kube_sched_ext.protocol import VerbsProtocol

_LOOK_SECONDS: Final = 2.0
"""The time between two looks at the files."""
_HANDSHAKE_SECONDS: Final = 10.0
_CLOSE_SECONDS: Final = 2.0
_LEAVE_SECONDS: Final = 60.0
"""So long before a client's certificate ends, its connections end with their next reply."""
_DISCARD_SECONDS: Final = 10.0
_LEVELS: Final[Mapping[Standing, Level]] = {
    "valid": "INFO",
    "ends soon": "WARNING",
    "has ended": "ALERT",
}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is at the other end of a connection, as its certificate says."""

    names: Sequence[str]
    ends: float
    client_cas: frozenset[bytes]
    """The DER of the CA that vouches for it; of all that may, where a session was resumed."""

    def is_trusted_by(self, credentials: Credentials, now: float) -> bool:
        """Tell whether its certificate is valid still."""
        return now < self.ends and self.client_cas <= credentials.context.client_cas


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
        details += [f"{name} {it.standing(now)}, until {it}" for name, it in validities]
        has_ended = any(it.standing(now) == "has ended" for _, it in validities)
        is_ok = not self._failure and not has_ended
        return Condition(is_ok, ", ".join(details), required=False)

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

    def not_accepted(self, error: OSError) -> None:
        """Log that no connection could be taken."""
        self._instruments.log.error("connection not accepted", error=str(error))

    def failed(self, host: str, error: Exception) -> None:
        """Count a handshake that failed, and log it once."""
        reason = reason_of(error) if isinstance(error, ssl.SSLError) else type(error).__name__
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
                context = {"problems": error.problems}
                log.at("ERROR", "certificates not reloaded; those of before stay", context)
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
                context = {"setting": name, "until": str(validity)}
                self._instruments.log.at(_LEVELS[standing], f"certificate {standing}", context)
            self._told[name] = standing

    def _close_untrusted(self) -> None:
        """End connections whose certificate ended or whose CA is gone, after a call under way."""
        now = time.time()
        for connection in list(self.connections):
            if not connection.caller.is_trusted_by(self.credentials, now):
                connection.shutdown()


class TlsProtocol(VerbsProtocol):
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
        context = handshake.context
        if not isinstance(context, ServerContext) or not context.client_cas:
            return
        caller = self.caller = _caller(handshake, context)
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

    def _answering_at_once(self) -> Endpoint | None:
        return None if self._is_leaving else super()._answering_at_once()

    def _begin(self) -> None:
        super()._begin()
        if self._is_leaving:
            # The client comes back with its next certificate, and no call is lost.
            self.cycle.keep_alive = False

    @property
    def _is_leaving(self) -> bool:
        return time.time() >= self._leaves_at


class TlsListener:
    """Accepts connections and shakes hands, as one of uvicorn's servers."""

    def __init__(self, tls: Tls, listener: socket.socket, make: Callable[[], TlsProtocol]) -> None:
        """Take connections from `listener`; each gets a protocol that `make` returns."""
        self._tls = tls
        self._listener = listener
        self._make = make
        self._loop = asyncio.get_running_loop()
        self._handshakes: set[asyncio.Task[None]] = set()
        listener.setblocking(False)  # noqa: FBT003  # its only argument

    def start(self, group: asyncio.TaskGroup) -> None:
        """Accept connections until closed; what goes wrong with that goes wrong in `group`."""
        self._accepting = group.create_task(self._accept())

    async def _accept(self) -> None:
        while True:
            try:
                connection, address = await self._loop.sock_accept(self._listener)
            except OSError as error:
                self._tls.not_accepted(error)
                # Descriptors ran out: they come back when other connections end.
                await asyncio.sleep(1)
                continue
            task = self._loop.create_task(self._shake_hands(connection, address[0]))
            self._handshakes.add(task)
            task.add_done_callback(self._handshakes.discard)

    def close(self) -> None:
        """Accept no more, and let go of handshakes under way."""
        self._accepting.cancel()
        for task in self._handshakes:
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until they are gone."""
        await asyncio.gather(*self._handshakes, return_exceptions=True)

    async def _shake_hands(self, connection: socket.socket, host: str) -> None:
        failures: list[Exception] = []
        FAILURES.set(failures)
        try:
            await self._loop.connect_accepted_socket(
                self._make,
                connection,
                ssl=self._tls.credentials.context,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=_CLOSE_SECONDS,
            )
        except OSError as error:
            failures.append(error)
        if failures:
            self._tls.failed(host, failures[0])


def _caller(handshake: ssl.SSLObject, context: ServerContext) -> Caller:
    # Its values are nested tuples for some keys, a text for others.
    shown: dict[str, Any] = handshake.getpeercert() or {}
    names = [value for part in shown["subject"] for key, value in part if key == "commonName"]
    client_cas = frozenset(_verified_chain(handshake)[-1:]) or context.client_cas
    return Caller(names, ssl.cert_time_to_seconds(shown["notAfter"]), client_cas)


def _verified_chain(handshake: ssl.SSLObject) -> list[bytes]:
    """Return the DER of the caller's certificate, and so on up to the CA's; none if resumed."""
    if sys.version_info >= (3, 13):
        return handshake.get_verified_chain()
    chain = cast("Any", handshake)._sslobj.get_verified_chain()  # noqa: SLF001  # public with 3.13
    return [ssl.PEM_cert_to_DER_cert(certificate.public_bytes()) for certificate in chain or ()]


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
