"""Prometheus' HTTP API, through prometheus-api-client over a session of ours.

Imported late: a process that asks no Prometheus does not pay for it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, Final

import requests
import urllib3
from prometheus_api_client import PrometheusConnect
from requests.auth import AuthBase, HTTPBasicAuth

from kube_sched_ext_telemetry.answer import error_in
from kube_sched_ext_telemetry.errors import PrometheusError
from kube_sched_ext_telemetry.settings import TelemetrySettings

_PART_BYTES: Final = 65536
_MAX_BYTES: Final = 256 * 1024 * 1024
_OK: Final = 200
_BAD_QUERY: Final = (400, 422)


class Prometheus:
    """Answers of one Prometheus, or of what speaks as it does."""

    def __init__(self, url: str, settings: TelemetrySettings) -> None:
        """Ask at `url`, as `settings` say."""
        self.url = url.rstrip("/")
        self._settings = settings

    @contextmanager
    def connection(self) -> Iterator["Connection"]:
        """Connect for a few queries; certificates and keys are read anew each time."""
        settings = self._settings
        with requests.Session() as session:
            session.headers.update(settings.headers)
            session.verify = settings.ca_file or True
            if settings.certificate_file:
                own = (settings.certificate_file, settings.key_file)
                session.cert = own if settings.key_file else settings.certificate_file
            yield Connection(self.url, session, settings)


class Connection:
    """Connections to Prometheus that are kept for a few queries."""

    def __init__(self, url: str, session: requests.Session, settings: TelemetrySettings) -> None:
        """Ask at `url` over `session`."""
        self._url = url
        self._session = session
        self._settings = settings
        seconds = settings.timeout_seconds
        # Its default is to try three times more, while nobody hears of it.
        self._client = PrometheusConnect(
            url, retry=urllib3.Retry(0), session=session, auth=_Identity(settings), timeout=seconds
        )
        # What it does with an answer is to decode it as slowly as Python can; see `answer`.
        session.hooks["response"].append(self._take_body)
        self._deadline = 0.0

    def ask(self, promql: str) -> bytes:
        """Return the body of the answer to an instant query.

        Raises:
            PrometheusError: there is none.
        """
        seconds = self._settings.timeout_seconds
        self._deadline = monotonic() + seconds
        try:
            body: bytes = self._client.custom_query(promql, params={"timeout": f"{seconds:g}"})
        except requests.exceptions.SSLError as error:
            raise PrometheusError("TLS", f"{self._url}: {_root(error)}") from error
        except (requests.exceptions.RequestException, urllib3.exceptions.HTTPError) as error:
            root = _root(error)
            if isinstance(root, TimeoutError):
                raise self._late() from error
            raise PrometheusError("Unreachable", f"no answer from {self._url}: {root}") from error
        except (OSError, UnicodeDecodeError) as error:
            # Of a file: a token's or a password's, and requests tells so of certificates, too.
            raise PrometheusError("Credentials", str(error)) from error
        return body

    def _take_body(self, response: requests.Response, **_: Any) -> requests.Response:
        """Read the whole body in time, and make it the result as it is."""
        if response.is_redirect:
            return response
        with response:
            body = b"".join(self._parts(response))
        if response.status_code != _OK:
            status = response.status_code
            raise PrometheusError(
                f"HTTP {status}",
                f"{self._url} answers {status} {response.reason}: {error_in(body)}",
                is_about_query=status in _BAD_QUERY,
            )
        return _Undecoded(body)

    def _parts(self, response: requests.Response) -> Iterator[bytes]:
        size = 0
        # Whatever is there: other ways to read wait until a part is full, however slowly it fills.
        while part := response.raw.read1(_PART_BYTES, decode_content=True):
            yield part
            size += len(part)
            if monotonic() > self._deadline:
                raise self._late()
            if size > _MAX_BYTES:
                message = f"{self._url}: the answer is larger than {_MAX_BYTES:,} bytes"
                raise PrometheusError("TooLarge", message, is_about_query=True)

    def _late(self) -> PrometheusError:
        seconds = self._settings.timeout_seconds
        return PrometheusError("Timeout", f"{self._url}: no answer within {seconds:g} s")


class _Undecoded(requests.Response):
    """An answer whose result is its body."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.status_code = _OK
        self._content = body

    def json(self, **_: Any) -> dict[str, dict[str, bytes]]:
        return {"data": {"result": self.content}}


class _Identity(AuthBase):
    """Tells who we are, by what is in the files now.

    It takes part where there is nothing to tell, too: the user's .netrc would be asked otherwise.
    """

    def __init__(self, settings: TelemetrySettings) -> None:
        self._settings = settings

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        settings = self._settings
        if settings.token_file:
            request.headers["Authorization"] = f"Bearer {_secret_in(settings.token_file)}"
        elif settings.user:
            password = _secret_in(settings.password_file)
            return HTTPBasicAuth(settings.user.encode(), password.encode())(request)
        return request


def _secret_in(path: str) -> str:
    """Return the line in a file; errors further down would repeat it where it is no good."""
    text = Path(path).read_text().strip()
    if not text or not text.isprintable():
        raise PrometheusError("Credentials", f"{path}: holds no token or password")
    return text


def _root(error: BaseException) -> BaseException:
    """Return what `error` began with: the rest tells of our own objects."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    return error
