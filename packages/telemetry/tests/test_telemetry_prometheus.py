"""Prometheus' API over HTTP: who we are, and what goes wrong."""

import base64
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from telemetry_fake import FakePrometheus, series, vector

from kube_sched_ext_telemetry.errors import PrometheusError
from kube_sched_ext_telemetry.prometheus import Prometheus
from kube_sched_ext_telemetry.settings import TelemetrySettings


def ask(url: str, promql: str = "up", **settings: Any) -> bytes:
    with Prometheus(url, TelemetrySettings(**settings)).connection() as connection:
        return connection.ask(promql)


def error_of(url: str, **settings: Any) -> PrometheusError:
    with pytest.raises(PrometheusError) as caught:
        ask(url, **settings)
    return caught.value


def test_the_body_comes_as_it_is(fake: FakePrometheus) -> None:
    """Of one instant query, evaluated when Prometheus gets it."""
    body = vector(series(1, node="ä"))
    fake.answers(body)
    assert ask(fake.url, 'up{a="b c&d"}', timeout_seconds=2.5) == body
    assert fake.paths == ["/api/v1/query"]
    assert fake.asked == [{"query": 'up{a="b c&d"}', "timeout": "2.5"}]


@pytest.mark.parametrize("suffix", ["/tenants/a/prometheus", "/tenants/a/prometheus/"])
def test_the_api_may_be_below_a_path(fake: FakePrometheus, suffix: str) -> None:
    """With or without a slash at its end."""
    ask(fake.url + suffix)
    assert fake.paths == ["/tenants/a/prometheus/api/v1/query"]


def test_further_headers_are_sent(fake: FakePrometheus) -> None:
    """As for tenants."""
    ask(fake.url, headers={"X-Scope-OrgID": "team-a|team-b"})
    assert fake.seen[0]["X-Scope-OrgID"] == "team-a|team-b"


def test_the_token_is_read_anew_for_each_refresh(fake: FakePrometheus, tmp_path: Path) -> None:
    """Kubernetes replaces projected tokens every hour."""
    token = tmp_path / "token"
    prometheus = Prometheus(fake.url, _settings_with(token))
    for value in ("first\n", "second"):
        token.write_text(value)
        with prometheus.connection() as connection:
            connection.ask("up")
    sent = [headers["Authorization"] for headers in fake.seen]
    assert sent == ["Bearer first", "Bearer second"]


def _settings_with(token: Path) -> TelemetrySettings:
    token.write_text("")
    return TelemetrySettings(token_file=str(token))


def test_user_and_password_are_sent(fake: FakePrometheus, tmp_path: Path) -> None:
    """Without the line's end that editors leave in a file; in UTF-8."""
    password = tmp_path / "password"
    password.write_text("sécret\n")
    ask(fake.url, user="mé", password_file=str(password))
    scheme, _, text = fake.seen[0]["Authorization"].partition(" ")
    assert (scheme, base64.b64decode(text).decode()) == ("Basic", "mé:sécret")


def test_nothing_of_a_netrc_is_sent(
    fake: FakePrometheus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who we are is told by settings alone."""
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login a password b\n")
    monkeypatch.setenv("NETRC", str(netrc))
    ask(fake.url)
    assert "Authorization" not in fake.seen[0]


@pytest.mark.parametrize("content", ["", "a\nb", "a\x00b", None])
def test_a_file_without_a_token_is_told_by_its_path(
    fake: FakePrometheus, tmp_path: Path, content: str | None
) -> None:
    """Its content is not repeated; nothing is asked."""
    token = tmp_path / "token"
    settings = _settings_with(token)
    token.unlink() if content is None else token.write_text(content)
    with (
        Prometheus(fake.url, settings).connection() as connection,
        pytest.raises(PrometheusError, match=str(token)) as caught,
    ):
        connection.ask("up")
    assert (caught.value.reason, caught.value.is_about_query) == ("Credentials", False)
    assert fake.asked == []


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    """Somebody who vouches for certificates."""
    return trustme.CA()


@pytest.fixture
def secure(ca: trustme.CA) -> Iterator[FakePrometheus]:
    """A Prometheus that asks for certificates."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert("127.0.0.1").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    ca.configure_trust(context)
    with FakePrometheus(context) as server:
        yield server


@pytest.mark.parametrize("is_one_file", [True, False])
def test_both_sides_may_show_certificates(
    secure: FakePrometheus, ca: trustme.CA, tmp_path: Path, *, is_one_file: bool
) -> None:
    """With the key in the certificate's file, or in one of its own."""
    ca_file, own, key = tmp_path / "ca.pem", tmp_path / "own.pem", tmp_path / "key.pem"
    issued = ca.issue_cert("agent")
    ca.cert_pem.write_to_path(ca_file)
    if is_one_file:
        issued.private_key_and_cert_chain_pem.write_to_path(own)
    else:
        issued.cert_chain_pems[0].write_to_path(own)
        issued.private_key_pem.write_to_path(key)
    body = ask(
        secure.url,
        ca_file=str(ca_file),
        certificate_file=str(own),
        key_file="" if is_one_file else str(key),
    )
    assert body == vector()


def test_a_certificate_that_nobody_vouches_for_is_refused(secure: FakePrometheus) -> None:
    """There is no setting to trust it nevertheless."""
    error = error_of(secure.url)
    assert (error.reason, error.is_about_query) == ("TLS", False)
    assert "certificate verify failed" in str(error)


def test_nobody_there() -> None:
    """What is told is the same each time, so that it is told once."""
    url = "http://127.0.0.1:1"
    error = error_of(url)
    assert (error.reason, error.is_about_query) == ("Unreachable", False)
    assert str(error) == f"no answer from {url}: [Errno 111] Connection refused"


@pytest.mark.parametrize("is_trickling", [True, False])
def test_a_slow_answer_is_given_up(fake: FakePrometheus, *, is_trickling: bool) -> None:
    """Also one that goes on for ever, a little at a time."""

    def answer(_: str) -> tuple[int, bytes]:
        if not is_trickling:
            fake.released.wait(10)
        return 200, vector()

    fake.answer = answer
    fake.trickle_seconds = 0.05 if is_trickling else 0.0
    began = time.perf_counter()
    error = error_of(fake.url, timeout_seconds=0.3)
    assert time.perf_counter() - began < 5
    assert (error.reason, error.is_about_query) == ("Timeout", False)
    assert str(error) == f"{fake.url}: no answer within 0.3 s"


BAD_QUERY = b'{"status":"error","errorType":"bad_data","error":"parse error: unexpected end"}'


@pytest.mark.parametrize(
    ("status", "body", "words", "is_about_query"),
    [
        (400, BAD_QUERY, "parse error: unexpected end", True),
        (422, BAD_QUERY, "parse error", True),
        (401, b"Unauthorized\n", "answers 401 Unauthorized: Unauthorized", False),
        (403, b"", "answers 403 Forbidden: ", False),
        (404, b"<html>not here", "<html>not here", False),
        (500, b"\xff" * 500, "\ufffd" * 200, False),
        (503, BAD_QUERY, "answers 503", False),
        (204, b"", "answers 204", False),
    ],
)
def test_errors_are_told_as_prometheus_tells_them(
    fake: FakePrometheus, status: int, body: bytes, words: str, *, is_about_query: bool
) -> None:
    """Only where it is about the query, others may fare better. Nothing is tried again."""
    fake.fails(status, body)
    error = error_of(fake.url)
    assert (error.reason, error.is_about_query) == (f"HTTP {status}", is_about_query)
    assert words in str(error)
    assert len(fake.asked) == 1


def test_a_redirect_is_followed(fake: FakePrometheus) -> None:
    """As those of gateways that ask for a slash, or for https."""
    answers = [(308, b""), (200, vector())]
    fake.answer = lambda _: answers.pop(0)
    fake.headers["Location"] = f"{fake.url}/elsewhere"
    assert ask(fake.url) == vector()
    assert fake.paths == ["/api/v1/query", "/elsewhere"]


def test_an_answer_beyond_all_measure_is_given_up(
    fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query of the wrong metric must not fill the memory."""
    monkeypatch.setattr("kube_sched_ext_telemetry.prometheus._MAX_BYTES", 1000)
    fake.answers(b" " * 1001)
    error = error_of(fake.url)
    assert (error.reason, error.is_about_query) == ("TooLarge", True)


def test_a_broken_answer_is_no_answer(fake: FakePrometheus) -> None:
    """One whose end does not come."""
    fake.answers(vector())
    fake.headers["Content-Length"] = "100000"
    error = error_of(fake.url, timeout_seconds=0.5)
    assert error.reason == "Timeout"


def test_a_connection_that_ends_early_is_told(fake: FakePrometheus) -> None:
    """What came until then does not count."""
    fake.answers(vector())
    fake.headers |= {"Content-Length": "100000", "Connection": "close"}
    error = error_of(fake.url)
    assert error.reason == "Unreachable"
    assert "IncompleteRead" in str(error)
