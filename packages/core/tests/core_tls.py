"""TLS for tests: files as Kubernetes lays them out, a server in a thread, clients of all kinds."""

import asyncio
import datetime as dt
import http.client
import itertools
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import trustme
import uvloop
from core_servers import Recorder, Reply

from kube_sched_ext import Agent, Nodes, NoSettings, Pod, Scores, create_app, priority, server
from kube_sched_ext.certificates import Certificates
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.https import Tls

PATH = "/scheduler/priorities/five"
BODY = json.dumps({"Pod": {"metadata": {"name": "p"}}, "Nodes": {"items": []}}).encode()
_LOOK_SECONDS = 0.02


class Five(Agent[NoSettings]):
    """Scores 5."""

    name = "five"

    @priority("five")
    def likes(self, pod: Pod, nodes: Nodes) -> Scores:
        return Scores(np.full(len(nodes), 5))


def wait_until(check: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until `check` says yes."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.005)


def issue(
    authority: trustme.CA,
    name: str = "system:kube-scheduler",
    *,
    begins: float = -3600.0,
    ends: float = 86400.0,
) -> trustme.LeafCert:
    """Return a certificate for 127.0.0.1 that is valid between two times, as seconds from now."""
    now = dt.datetime.now(dt.UTC)
    return authority.issue_cert(
        "127.0.0.1",
        common_name=name,
        not_before=now + dt.timedelta(seconds=begins),
        not_after=now + dt.timedelta(seconds=ends),
    )


def pem(*authorities: trustme.CA) -> bytes:
    """Return the certificates of CAs as one file holds them."""
    return b"".join(it.cert_pem.bytes() for it in authorities)


def chain(certificate: trustme.LeafCert) -> bytes:
    """Return a certificate and the intermediate ones above it, as one file holds them."""
    return b"".join(it.bytes() for it in certificate.cert_chain_pems)


class Secret:
    """A volume as a kubelet writes it: names that lead through `..data`, which is swapped."""

    def __init__(self, folder: Path, files: Mapping[str, bytes]) -> None:
        self.folder = folder
        folder.mkdir()
        self._files = dict(files)
        self._versions = itertools.count()
        self.swap()
        for name in files:
            (folder / name).symlink_to(f"..data/{name}")

    def swap(self, **files: bytes) -> None:
        """Change files in one instant; underscores stand for dots."""
        self._files |= {name.replace("_", "."): content for name, content in files.items()}
        version = self.folder / f"..{next(self._versions)}"
        version.mkdir()
        for name, content in self._files.items():
            (version / name).write_bytes(content)
        link = self.folder / "..data_tmp"
        link.symlink_to(version.name)
        os.replace(link, self.folder / "..data")  # noqa: PTH105  # the word for what it is

    def __truediv__(self, name: str) -> Path:
        """Return where a file is."""
        return self.folder / name


class TlsServed:
    """A server in a thread, whose certificate one CA signed and whose clients' another one."""

    def __init__(
        self,
        folder: Path,
        *,
        client_ca: bool = True,
        names: Iterable[str] = (),
        ends: float = 9e5,
        socket_type: type[socket.socket] = socket.socket,
    ) -> None:
        self.ca, self.client_ca = trustme.CA(), trustme.CA()
        first = issue(self.ca, "server-0", ends=ends)
        files = {"tls.crt": chain(first), "tls.key": first.private_key_pem.bytes()}
        if client_ca:
            files["ca.crt"] = pem(self.client_ca)
        self.secret = Secret(folder / "tls", files)
        self.recorder = Recorder()
        self.certificates = Certificates(
            self.secret / "tls.crt",
            self.secret / "tls.key",
            self.secret / "ca.crt" if client_ca else None,
        )
        self.tls = Tls(self.certificates, frozenset(names), self.recorder.instruments)
        self.settings = CoreSettings()
        listener = socket.create_server(("127.0.0.1", 0))
        self._listener = socket_type(fileno=listener.detach())
        self.port: int = self._listener.getsockname()[1]
        self._is_made = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._run())

    async def _run(self) -> None:
        app = create_app([Five()], settings=self.settings, instruments=self.recorder.instruments)
        async with asyncio.TaskGroup() as group:
            self._server = server._TlsServer(
                server.uvicorn_config(app, self.settings), self.tls, group
            )
            self._is_made.set()
            watch = group.create_task(self.tls.watch(_LOOK_SECONDS))
            await self._server.serve([self._listener])
            watch.cancel()

    def __enter__(self) -> Self:
        """Start."""
        self._thread.start()
        assert self._is_made.wait(10)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def stop(self) -> None:
        """Stop the server, if it has not been stopped."""
        self._server.should_exit = True
        self._thread.join()

    def log(self) -> list[dict[str, object]]:
        """Stop the server; return what it logged beside calls."""
        self.stop()
        return [it for it in self.recorder.lines() if it["event"] != "prioritize"]

    def client(self, name: str = "system:kube-scheduler") -> trustme.LeafCert:
        """Return a certificate of a client that is let in."""
        return issue(self.client_ca, name)

    def context(self, certificate: trustme.LeafCert | None = None) -> ssl.SSLContext:
        """Return a client's context."""
        return client_context(self.ca, certificate)

    @contextmanager
    def connection(
        self, certificate: trustme.LeafCert | None = None
    ) -> Iterator[http.client.HTTPSConnection]:
        """Return a connection, not yet made."""
        context = self.context(certificate)
        connection = http.client.HTTPSConnection(
            "127.0.0.1", self.port, timeout=10, context=context
        )
        try:
            yield connection
        finally:
            connection.close()

    def ask(self, certificate: trustme.LeafCert | None = None, body: bytes = BODY) -> Reply:
        """Make one call on a connection of its own."""
        with self.connection(certificate) as connection:
            return ask_on(connection, body)

    def shown(self) -> str:
        """Return the common name of the certificate that the server shows."""
        context = self.context(self.client())
        with (
            socket.create_connection(("127.0.0.1", self.port), 10) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped,
        ):
            return common_name(wrapped)

    def answered(self) -> float:
        """Return how many calls an agent has seen."""
        return self.recorder.count(
            "kube_sched_ext_call_seconds_count", verb="prioritize", name="five"
        )

    def count_failed(self, reason: str) -> float:
        """Return how many handshakes failed for a reason."""
        return self.recorder.count("kube_sched_ext_failed_handshakes_total", reason=reason)

    def count_reloads(self, result: str) -> float:
        """Return how many changes of files had a result."""
        return self.recorder.count("kube_sched_ext_certificate_reloads_total", result=result)

    def renew(self, name: str) -> None:
        """Show another certificate, and wait until that is in force."""
        certificate = issue(self.ca, name)
        self.swap(tls_crt=chain(certificate), tls_key=certificate.private_key_pem.bytes())

    def swap(self, **files: bytes) -> None:
        """Change files, and wait until the change is in force."""
        before = self.count_reloads("done")
        self.secret.swap(**files)
        wait_until(lambda: self.count_reloads("done") == before + 1)


def ask_on(connection: http.client.HTTPConnection, body: bytes = BODY) -> Reply:
    """Make one call."""
    connection.request("POST", PATH, body)
    response = connection.getresponse()
    return Reply(response.status, dict(response.getheaders()), response.read())


def client_context(ca: trustme.CA, certificate: trustme.LeafCert | None = None) -> ssl.SSLContext:
    """Return the context of a client that trusts `ca`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    ca.configure_trust(context)
    if certificate:
        certificate.configure_cert(context)
    return context


def common_name(wrapped: ssl.SSLSocket) -> str:
    """Return the common name of the other side."""
    subject = (wrapped.getpeercert() or {})["subject"]
    return next(value for part in subject for key, value in part if key == "commonName")
