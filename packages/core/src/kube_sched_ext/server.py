"""Two listeners in one event loop, and their clean stop."""

import asyncio
import errno
import os
import signal
import socket
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
import uvloop
from starlette.applications import Starlette

from kube_sched_ext.config import CoreSettings
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.health import Condition, Health
from kube_sched_ext.https import Tls, TlsListener, TlsProtocol
from kube_sched_ext.protocol import VerbsProtocol

_BACKLOG: Final = 2048
_NO_IPV6: Final = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)


def bind(host: str, port: int, setting: str) -> socket.socket:
    """Return a listening socket; on all interfaces, IPv4 and IPv6, where `host` is empty.

    Raises:
        ConfigurationError: the address cannot be bound; names `setting`.
    """
    try:
        return _listen_on(host, port) if host else _listen_on_all(port)
    except socket.gaierror as error:
        raise ConfigurationError([f"HTTP_HOST: {host!r} is no address: {error.strerror}"]) from None
    except OSError as error:
        place = f"{port} on {host or 'all interfaces'}"
        reason = os.strerror(error.errno or 0)
        raise ConfigurationError([f"{setting}: {place} cannot be bound: {reason}"]) from None


def _listen_on(host: str, port: int) -> socket.socket:
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
    return socket.create_server((host, port), family=family, backlog=_BACKLOG, dualstack_ipv6=both)


def _listen_on_all(port: int) -> socket.socket:
    try:
        return _listen_on("::", port)
    except OSError as error:
        # Where a network namespace has no IPv6, whether or not the kernel has.
        if error.errno not in _NO_IPV6:
            raise
    return _listen_on("0.0.0.0", port)  # noqa: S104  # documented default of HTTP_HOST


Background = Callable[[], Coroutine[Any, Any, None]]
"""What runs beside the listeners, until cancelled."""


class _Server(uvicorn.Server):
    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn would raise the signal again after its stop; `_serve` handles signals for both.
        yield


class _TlsServer(_Server):
    def __init__(self, config: uvicorn.Config, tls: Tls, group: asyncio.TaskGroup) -> None:
        super().__init__(config)
        self._tls = tls
        self._group = group

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # uvicorn would listen with one context for as long as it runs.
        await super().startup(sockets=[])
        for listener in sockets or ():
            accepting = TlsListener(self._tls, listener, self._protocol)
            accepting.start(self._group)
            self.servers.append(accepting)  # type: ignore[arg-type]  # which it only closes

    def _protocol(self) -> TlsProtocol:
        return TlsProtocol(
            self._tls,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
        )


def run(
    verbs: tuple[Starlette, socket.socket],
    ops: tuple[Starlette, socket.socket],
    settings: CoreSettings,
    health: Health,
    background: Sequence[Background] = (),
    tls: Tls | None = None,
) -> None:
    """Serve both applications on their sockets until SIGTERM or SIGINT.

    What is in the `background` runs beside them, and is cancelled once no call is left. What it
    raises ends the process. With `tls` the verbs are served to those whom it lets in.

    On the signal calls under way are finished, for at most SHUTDOWN_SECONDS, and no new ones taken;
    the operations listener goes last, so that probes see the process stop. A second signal ends
    all at once.
    """
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(verbs, ops, settings, health, background, tls))


async def _serve(
    verbs: tuple[Starlette, socket.socket],
    ops: tuple[Starlette, socket.socket],
    settings: CoreSettings,
    health: Health,
    background: Sequence[Background],
    tls: Tls | None,
) -> None:
    group = asyncio.TaskGroup()
    config, ops_server = (
        uvicorn_config(verbs[0], settings),
        _Server(uvicorn_config(ops[0], settings)),
    )
    verbs_server = _TlsServer(config, tls, group) if tls else _Server(config)
    servers = (verbs_server, ops_server)

    def stop() -> None:
        if verbs_server.should_exit:
            for server in servers:
                server.force_exit = True
        verbs_server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    health.add(
        "shutdown",
        lambda: Condition(not verbs_server.should_exit, "stopping" * verbs_server.should_exit),
    )
    async with group:
        group.create_task(ops_server.serve([ops[1]]))
        tasks = [group.create_task(start()) for start in background]
        await verbs_server.serve([verbs[1]])
        for task in tasks:
            task.cancel()
        ops_server.should_exit = True


def uvicorn_config(app: Starlette, settings: CoreSettings) -> uvicorn.Config:
    """Return how uvicorn is to serve `app`, without TLS."""
    return uvicorn.Config(
        app,
        http=VerbsProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=settings.keep_alive_seconds,
        timeout_graceful_shutdown=settings.shutdown_seconds,
    )
