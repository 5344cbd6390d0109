"""Handshakes that tell the client why they fail."""

import ssl
from contextvars import ContextVar
from typing import Any, Final

FAILURES: Final[ContextVar[list[Exception]]] = ContextVar("FAILURES")
"""Where a handshake that begins in this context puts what made it fail."""

_HTTPS_ONLY: Final = b"This port speaks HTTPS: urlPrefix must start with https://.\n"
_PLAIN_REPLY: Final = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_HTTPS_ONLY), _HTTPS_ONLY)
)


class _Handshake(ssl.SSLObject):
    """A connection's TLS, whose handshake fails only after the client was sent the reason.

    The event loop sends nothing more once a handshake has failed; so the client would see no more
    than that the connection ends.
    """

    outgoing: ssl.MemoryBIO
    failures: list[Exception]

    def do_handshake(self) -> None:
        """Go on with the handshake.

        Raises:
            SSLWantReadError: the client must say more, or has been told that it failed.
            SSLError: it failed, and the client goes on all the same.
        """
        if self.failures:
            raise self.failures[0]
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError as failure:
            self.failures.append(failure)
            if failure.reason == "HTTP_REQUEST":
                self.outgoing.write(_PLAIN_REPLY)
            raise ssl.SSLWantReadError from failure


class ServerContext(ssl.SSLContext):
    """A server's context with such handshakes."""

    sslobject_class = _Handshake
    client_cas: frozenset[bytes] = frozenset()
    """The DER of each CA that it trusts; none where no client needs a certificate."""

    def wrap_bio(
        self, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, *args: Any, **kwargs: Any
    ) -> ssl.SSLObject:
        """Return the TLS of one connection."""
        wrapped = super().wrap_bio(incoming, outgoing, *args, **kwargs)
        assert isinstance(wrapped, _Handshake)  # noqa: S101  # as sslobject_class says
        wrapped.outgoing = outgoing
        wrapped.failures = FAILURES.get([])
        return wrapped


def reason_of(error: ssl.SSLError) -> str:
    """Return why a handshake failed, or a file could not be read, in a few fixed words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    return (error.reason or "unknown").lower().replace("_", " ")
