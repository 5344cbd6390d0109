"""The verbs' listener with TLS, by real sockets: who gets in, and what happens on a change."""

import contextlib
import errno
import http.client
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import trustme
from core_tls import (
    BODY,
    PATH,
    TlsServed,
    ask_on,
    chain,
    issue,
    pem,
    wait_until,
)

from kube_sched_ext import https

Start = Callable[..., TlsServed]

STRANGER = trustme.CA()


class Stubborn(socket.socket):
    """A socket that accepts nothing when it is first asked to."""

    has_refused = False

    def accept(self) -> tuple[socket.socket, Any]:
        if not self.has_refused:
            self.has_refused = True
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start servers, which are gone when the test ends."""
    with ExitStack() as stack:
        yield lambda **how: stack.enter_context(TlsServed(tmp_path, **how))


# Who gets in


def test_without_a_client_ca_every_client_is_answered(start: Start) -> None:
    """Over HTTPS, without a certificate of its own."""
    reply = start(client_ca=False).ask()
    assert (reply.status, reply.json) == (200, [])


def test_a_valid_client_certificate_lets_in(start: Start) -> None:
    """Whatever its name, where no names are set."""
    served = start()
    reply = served.ask(served.client("anybody"))
    assert (reply.status, reply.json) == (200, [])


def test_an_intermediate_ca_may_sign_client_certificates(start: Start) -> None:
    """The client shows it."""
    served = start()
    assert served.ask(issue(served.client_ca.create_child_ca())).status == 200


def test_an_intermediate_ca_alone_may_be_the_client_ca(start: Start) -> None:
    """As with Go's programs: what is in the file is trusted, and its parent is not."""
    served = start()
    child = served.client_ca.create_child_ca()
    served.swap(ca_crt=pem(child))
    assert served.ask(issue(child)).status == 200
    with pytest.raises(ssl.SSLError):
        served.ask(served.client())


def test_tls_1_2_is_enough(start: Start) -> None:
    """Nothing below is."""
    served = start()
    context = served.context(served.client())
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    connection = http.client.HTTPSConnection("127.0.0.1", served.port, context=context, timeout=10)
    assert ask_on(connection).status == 200
    connection.close()


REFUSED = [
    (lambda _: None, "TLSV13_ALERT_CERTIFICATE_REQUIRED", "peer did not return a certificate"),
    (lambda _: issue(STRANGER), "TLSV1_ALERT_UNKNOWN_CA", "unable to get local issuer certificate"),
    (
        lambda served: issue(served.client_ca, begins=-9, ends=-3),
        "SSLV3_ALERT_CERTIFICATE_EXPIRED",
        "certificate has expired",
    ),
    (
        lambda served: issue(served.client_ca, begins=60),
        "SSLV3_ALERT_BAD_CERTIFICATE",
        "certificate is not yet valid",
    ),
]


@pytest.mark.parametrize(
    ("certificate_for", "alert", "reason"), REFUSED, ids=["none", "other-ca", "expired", "early"]
)
def test_without_a_valid_client_certificate_no_verb_is_served(
    start: Start,
    certificate_for: Callable[[TlsServed], trustme.LeafCert | None],
    alert: str,
    reason: str,
) -> None:
    """The client is told why; so is the log, once for each host, and the metrics each time."""
    served = start()
    for _ in range(2):
        with pytest.raises(ssl.SSLError) as caught:
            served.ask(certificate_for(served))
        assert caught.value.reason == alert
    wait_until(lambda: served.count_failed(reason) == 2)
    assert served.answered() == 0
    assert [(it["event"], it["host"], it["reason"]) for it in served.log()] == [
        ("client refused", "127.0.0.1", f"handshake failed: {reason}")
    ]


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated")
def test_tls_1_1_is_refused(start: Start) -> None:
    """By its version, whatever the ciphers."""
    served = start(client_ca=False)
    context = served.context()
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with (
        socket.create_connection(("127.0.0.1", served.port), 10) as plain,
        pytest.raises(ssl.SSLError) as caught,
    ):
        context.wrap_socket(plain, server_hostname="127.0.0.1")
    assert caught.value.reason == "TLSV1_ALERT_PROTOCOL_VERSION"
    wait_until(lambda: served.count_failed("unsupported protocol") == 1)


def test_plain_http_is_told_to_come_with_tls(start: Start) -> None:
    """400, in words that its log shows; and nothing is served."""
    served = start()
    connection = http.client.HTTPConnection("127.0.0.1", served.port, timeout=10)
    reply = ask_on(connection)
    connection.close()
    assert reply.status == 400
    assert reply.body == b"This port speaks HTTPS: urlPrefix must start with https://.\n"
    wait_until(lambda: served.count_failed("http request") == 1)
    assert served.answered() == 0


def test_a_probe_of_the_port_is_counted_and_not_logged(start: Start) -> None:
    """It connects, and goes without a word."""
    served = start()
    socket.create_connection(("127.0.0.1", served.port), 10).close()
    wait_until(lambda: served.count_failed("ConnectionResetError") == 1)
    assert served.log() == []


def test_a_client_that_says_nothing_is_let_go(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After some time; others are served meanwhile."""
    monkeypatch.setattr(https, "_HANDSHAKE_SECONDS", 0.5)
    served = start()
    with socket.create_connection(("127.0.0.1", served.port), 10) as silent:
        assert served.ask(served.client()).status == 200
        assert silent.recv(1) == b""
    wait_until(lambda: served.count_failed("ConnectionAbortedError") == 1)


def test_only_listed_common_names_are_answered(start: Start) -> None:
    """Others get 403 with the reason, for each request; nothing reaches an agent."""
    served = start(names=["system:kube-scheduler", "second"])
    assert served.ask(served.client("second")).status == 200
    for _ in range(2):
        reply = served.ask(served.client("nobody"), b" " * 300_000)
        assert (reply.status, reply.headers["connection"]) == (403, "close")
        assert reply.json == {
            "Error": "the client certificate's common name (nobody) is not in TLS_CLIENT_NAMES"
        }
    assert served.answered() == 1
    assert served.recorder.count("kube_sched_ext_refused_requests_total", status="403") == 2
    assert [it["event"] for it in served.log()] == ["client refused"]


def test_a_certificate_without_a_common_name_is_none_of_the_listed(start: Start) -> None:
    """Alternative names say where a server is, not who calls."""
    served = start(names=["system:kube-scheduler"])
    reply = served.ask(served.client_ca.issue_cert("kube-scheduler.example"))
    assert reply.status == 403
    assert b"common name (none)" in reply.body


def test_a_socket_that_cannot_accept_for_a_while_accepts_again(start: Start) -> None:
    """As where descriptors run out; it says so."""
    served = start(socket_type=Stubborn)
    assert served.ask(served.client()).status == 200
    assert [(it["event"], it["error"]) for it in served.log()] == [
        ("connection not accepted", "[Errno 24] Too many open files")
    ]


# What a change does


def test_a_new_certificate_is_shown_to_new_connections(start: Start) -> None:
    """A connection that is open goes on as it is."""
    served = start()
    with served.connection(served.client()) as connection:
        ask_on(connection)
        assert served.shown() == "server-0"
        served.renew("server-1")
        assert served.shown() == "server-1"
        opened = connection.sock
        assert ask_on(connection).status == 200
        assert connection.sock is opened


def test_a_pair_that_is_half_written_is_waited_for(start: Start) -> None:
    """Certificate first, key later; meanwhile those of before serve, and that is said once."""
    served = start()
    second = issue(served.ca, "server-1")
    served.secret.swap(tls_crt=chain(second))
    wait_until(lambda: served.count_reloads("failed") == 1)
    condition = served.tls.condition()
    assert not condition.ok
    assert not condition.required
    assert condition.detail.startswith(
        f"TLS_KEY_FILE: {served.secret / 'tls.key'} is not the key of the certificate in "
    )
    assert served.shown() == "server-0"
    served.swap(tls_key=second.private_key_pem.bytes())
    assert served.shown() == "server-1"
    assert served.tls.condition().ok
    assert served.count_reloads("failed") == 1


@pytest.mark.parametrize("name", ["tls.crt", "tls.key", "ca.crt"])
@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n", b"\xff\xfe"])
def test_what_cannot_be_read_changes_nothing(start: Start, name: str, content: bytes) -> None:
    """And once it is as before, all is well again."""
    served = start()
    path = served.secret.folder / "..data" / name
    before = path.read_bytes()
    path.write_bytes(content)
    wait_until(lambda: not served.tls.condition().ok)
    assert str(served.secret / name) in served.tls.condition().detail
    assert served.ask(served.client()).status == 200
    path.write_bytes(before)
    wait_until(lambda: served.tls.condition().ok)
    assert served.ask(served.client()).status == 200


def test_files_that_go_and_come_back_change_nothing(start: Start) -> None:
    """As a link that is made anew."""
    served = start()
    path, aside = served.secret / "tls.crt", served.secret / "aside"
    path.rename(aside)
    wait_until(lambda: not served.tls.condition().ok)
    assert "cannot be read: No such file or directory" in served.tls.condition().detail
    aside.rename(path)
    wait_until(lambda: served.tls.condition().ok)
    assert served.count_reloads("done") == 0


def test_a_ca_that_is_added_lets_in(start: Start) -> None:
    """Those of before stay."""
    served = start()
    second = trustme.CA()
    with pytest.raises(ssl.SSLError):
        served.ask(issue(second))
    served.swap(ca_crt=pem(served.client_ca, second))
    assert served.ask(issue(second)).status == 200
    assert served.ask(served.client()).status == 200


def test_a_ca_that_is_taken_away_lets_nobody_in(start: Start) -> None:
    """New connections are refused, open ones end; those of a CA that stays go on."""
    served = start()
    second = trustme.CA()
    served.swap(ca_crt=pem(served.client_ca, second))
    with served.connection(served.client()) as leaving, served.connection(issue(second)) as staying:
        ask_on(leaving)
        ask_on(staying)
        opened = staying.sock
        served.swap(ca_crt=pem(second))
        with pytest.raises(ssl.SSLError):
            served.ask(served.client())
        assert leaving.sock.recv(1) == b""
        assert ask_on(staying).status == 200
        assert staying.sock is opened


def test_a_call_under_way_is_finished_before_its_connection_ends(start: Start) -> None:
    """Its CA is taken away between the halves of its body."""
    served = start()
    with served.connection(served.client()) as connection:
        connection.connect()
        head = f"POST {PATH} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n\r\n"
        connection.sock.sendall(head.encode() + BODY[:9])
        # Under way once another one, sent after it, has been answered.
        served.ask(served.client())
        served.swap(ca_crt=pem(STRANGER))
        connection.sock.sendall(BODY[9:])
        reply = connection.sock.makefile("rb").read()
    assert reply.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in reply


def test_a_ca_taken_away_while_hands_are_shaken_lets_nobody_in(start: Start) -> None:
    """The connection was accepted before, and its client certificate came after."""
    served = start()
    context = served.context(served.client())
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(to_client, to_server, server_hostname="127.0.0.1")
    with socket.create_connection(("127.0.0.1", served.port), 10) as plain:
        with pytest.raises(ssl.SSLWantReadError):
            client.do_handshake()
        plain.sendall(to_server.read())
        while True:
            to_client.write(plain.recv(65536))
            try:
                client.do_handshake()
            except ssl.SSLWantReadError:
                continue
            break
        served.swap(ca_crt=pem(STRANGER))
        client.write(f"POST {PATH} HTTP/1.1\r\nContent-Length: {len(BODY)}\r\n\r\n".encode() + BODY)
        plain.sendall(to_server.read())
        with contextlib.suppress(ConnectionResetError):
            assert plain.recv(65536) == b""
    assert served.answered() == 0


@contextlib.contextmanager
def session_of(served: TlsServed, version: ssl.TLSVersion) -> Iterator[Callable[[], ssl.SSLSocket]]:
    """Make a session; yields what opens connections that try to resume it."""
    context = served.context(served.client())
    context.maximum_version = version
    with ExitStack() as stack:

        def connect(session: ssl.SSLSession | None) -> ssl.SSLSocket:
            plain = socket.create_connection(("127.0.0.1", served.port), 10)
            wrapped = context.wrap_socket(plain, server_hostname="127.0.0.1", session=session)
            return stack.enter_context(wrapped)

        first = connect(None)
        # To the end: a session that was cut off is not kept.
        first.sendall(b"GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        first.makefile("rb").read()
        yield lambda: connect(first.session)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_session_of_before_does_not_let_in(start: Start, version: ssl.TLSVersion) -> None:
    """Resuming one would spare the client its certificate."""
    served = start()
    with session_of(served, version) as connect:
        served.swap(ca_crt=pem(STRANGER))
        with pytest.raises(ssl.SSLError):
            connect().recv(1)
    assert served.answered() == 0


def test_with_tls_1_3_no_session_is_resumed(start: Start) -> None:
    """Not even while nothing changes."""
    with session_of(start(), ssl.TLSVersion.TLSv1_3) as connect:
        assert not connect().session_reused


def test_a_session_that_was_resumed_ends_with_its_ca(start: Start) -> None:
    """TLS 1.2 keeps sessions by their number, as long as nothing changes."""
    served = start()
    with session_of(served, ssl.TLSVersion.TLSv1_2) as connect:
        resumed = connect()
        assert resumed.session_reused
        assert not resumed.session.has_ticket
        served.swap(ca_crt=pem(STRANGER))
        assert resumed.recv(1) == b""


def test_a_connection_ends_when_its_clients_certificate_does(start: Start) -> None:
    """Idle or not."""
    served = start()
    with served.connection(issue(served.client_ca, ends=1.5)) as connection:
        connection.connect()
        connection.sock.settimeout(10)
        assert connection.sock.recv(1) == b""


def test_a_connection_leaves_with_a_reply_before_its_clients_certificate_ends(
    start: Start,
) -> None:
    """So that the client comes back with its next one, and no call is lost."""
    served = start()
    reply = served.ask(issue(served.client_ca, ends=50))
    assert (reply.status, reply.headers["connection"]) == (200, "close")
    assert "connection" not in served.ask(served.client()).headers


def test_no_call_fails_during_three_changes(start: Start) -> None:
    """2000 calls on connections that are kept, and on new ones; each change is seen."""
    served = start()
    client = served.client()
    statuses: list[int] = []
    failures: list[Exception] = []

    def call(calls: int, *, keep: bool) -> None:
        with served.connection(client) as connection:
            for _ in range(calls):
                try:
                    statuses.append(ask_on(connection).status)
                except (OSError, http.client.HTTPException) as error:
                    failures.append(error)
                if not keep:
                    connection.close()

    threads = [threading.Thread(target=call, args=(650,), kwargs={"keep": True}) for _ in range(2)]
    threads += [
        threading.Thread(target=call, args=(350,), kwargs={"keep": False}) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    second = trustme.CA()
    for number, due in enumerate((300, 800, 1300), 1):
        wait_until(lambda due=due: len(statuses) + len(failures) >= due, 60)
        third = issue(served.ca, f"server-{number}")
        served.swap(
            tls_crt=chain(third),
            tls_key=third.private_key_pem.bytes(),
            ca_crt=pem(served.client_ca, second) if number == 2 else pem(served.client_ca),
        )
        assert len(statuses) < 2000
        assert served.shown() == f"server-{number}"
    for thread in threads:
        thread.join()
    assert failures == []
    assert statuses == [200] * 2000


# How long it lasts


@pytest.mark.parametrize(
    ("ends", "event", "level", "ok"),
    [
        (9e5, None, None, True),
        (300, "certificate ends soon", "WARNING", True),
        (-1, "certificate has ended", "ALERT", False),
    ],
)
def test_the_end_of_the_certificate_is_seen_ahead(
    start: Start, ends: float, event: str | None, level: str | None, *, ok: bool
) -> None:
    """In the log, a condition that is not required, and a metric."""
    served = start(ends=ends)
    name = "kube_sched_ext_certificate_not_after_timestamp_seconds"
    left = served.recorder.count(name, setting="TLS_CERT_FILE") - time.time()
    assert ends - 2 < left < ends + 1
    assert served.recorder.count(name, setting="TLS_CLIENT_CA_FILE") > time.time() + 9e5
    condition = served.tls.condition()
    assert (condition.ok, condition.required) == (ok, False)
    assert f"TLS_CERT_FILE {event[12:] if event else 'valid'}, until 2" in condition.detail
    told = [(it["event"], it["level"]) for it in served.log()]
    assert told == ([(event, level)] if event else [])
