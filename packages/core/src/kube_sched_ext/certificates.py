"""Certificates from files: what the verbs' listener shows, whose clients it lets in."""

import re
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, Literal, Self

from kube_sched_ext.config import CoreSettings
from kube_sched_ext.configuration import attempt
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.handshake import ServerContext, reason_of

_PEM_BEGIN: Final = "-----BEGIN CERTIFICATE-----"
_PEM: Final = re.compile(f"{_PEM_BEGIN}[^-]+-----END CERTIFICATE-----")
_NO_CHECK_TIME: Final = ssl.VerifyFlags(0x200000)
"""X509_V_FLAG_NO_CHECK_TIME, for which Python has no name."""
_SOON_SHARE: Final = 0.1
_SOON_MOST: Final = 30 * 86400.0

_OTHER_KEY: Final = {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}
"""What OpenSSL says of a key that is right but for another certificate."""

_CERT: Final = "TLS_CERT_FILE"
_KEY: Final = "TLS_KEY_FILE"
_CLIENT_CA: Final = "TLS_CLIENT_CA_FILE"

Standing = Literal["valid", "ends soon", "has ended"]


@dataclass(frozen=True, slots=True)
class Validity:
    """From when and until when a certificate is valid, in seconds since the epoch."""

    begins: float
    ends: float

    @classmethod
    def of(cls, certificate: Mapping[str, object]) -> Self:
        """Return that of `certificate`, as Python's ssl describes one."""
        begins, ends = (str(certificate[key]) for key in ("notBefore", "notAfter"))
        return cls(ssl.cert_time_to_seconds(begins), ssl.cert_time_to_seconds(ends))

    def standing(self, now: float) -> Standing:
        """Tell how it stands: soon is the last tenth of its life, but no more than 30 days."""
        if now >= self.ends:
            return "has ended"
        soon = min((self.ends - self.begins) * _SOON_SHARE, _SOON_MOST)
        return "ends soon" if now >= self.ends - soon else "valid"

    def __str__(self) -> str:
        """Return the end, as Kubernetes writes times."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.ends))


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the files held when they were read."""

    context: ServerContext
    validities: Mapping[str, Validity]
    """By setting; of several client CAs that one which ends first."""


_Stamp = Sequence[object]


class Certificates:
    """The files of a certificate, its key and the client CA; `current` is what is in force."""

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None) -> None:
        """Read the files.

        Raises:
            ConfigurationError: everything that keeps them from being served.
        """
        self._certificate = certificate
        self._key = key
        self._client_ca = client_ca
        self._stamp = self._read_stamp()
        self.current = self._load()

    def refresh(self) -> bool:
        """Read the files again if one of them changed; tell whether `current` did.

        Raises:
            ConfigurationError: they cannot be served as they are; `current` stays, and the next
                call tries again.
        """
        # Taken before the files are read: what changes in between is read again.
        stamp = self._read_stamp()
        if stamp == self._stamp:
            return False
        self.current = self._load()
        self._stamp = stamp
        return True

    def _read_stamp(self) -> _Stamp:
        paths = [self._certificate, self._key, *([self._client_ca] if self._client_ca else ())]
        return [_stamp(path) for path in paths]

    def _load(self) -> Credentials:
        problems: list[str] = []
        loaded = attempt(problems, self._load_pair)
        authorities = None
        if self._client_ca:
            authorities = attempt(problems, partial(_read_pem, _CLIENT_CA, self._client_ca))
        if loaded is None or problems:
            raise ConfigurationError(problems)
        context, validity = loaded
        validities = {_CERT: validity}
        if authorities:
            _demand_certificates(context, authorities)
            validities |= _first_to_end(context)
        return Credentials(context, validities)

    def _load_pair(self) -> tuple[ServerContext, Validity]:
        problems: list[str] = []
        chain = attempt(problems, partial(_read_pem, _CERT, self._certificate))
        attempt(problems, partial(_read, _KEY, self._key))
        if chain is None or problems:
            raise ConfigurationError(problems)
        context = _new_context()
        try:
            context.load_cert_chain(self._certificate, self._key, _refuse_password)
        except ssl.SSLError as error:
            raise ConfigurationError([self._key_problem(error)]) from None
        except OSError as error:
            # Both could be read a moment ago.
            raise ConfigurationError([_unreadable(_CERT, self._certificate, error)]) from None
        try:
            described = _shown_certificate(context, chain[0])
        except ssl.SSLError as error:
            reason = reason_of(error)
            line = f"{_CERT}: {self._certificate} is of no use to any client: {reason}"
            raise ConfigurationError([line]) from None
        return context, Validity.of(described)

    def _key_problem(self, error: ssl.SSLError) -> str:
        if error.reason in _OTHER_KEY:
            return f"{_KEY}: {self._key} is not the key of the certificate in {self._certificate}"
        return f"{_KEY}: {self._key} holds no key in PEM without a password: {reason_of(error)}"


def certificates_of(settings: CoreSettings) -> Certificates | None:
    """Return the certificates that `settings` name, None where they ask for no TLS.

    Raises:
        ConfigurationError: everything that keeps them from being served.
    """
    if not settings.tls_cert_file:
        return None
    client_ca = Path(settings.tls_client_ca_file) if settings.tls_client_ca_file else None
    return Certificates(Path(settings.tls_cert_file), Path(settings.tls_key_file), client_ca)


def _stamp(path: Path) -> _Stamp | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns


def _read(setting: str, path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError as error:
        raise ConfigurationError([_unreadable(setting, path, error)]) from None


def _unreadable(setting: str, path: Path, error: OSError) -> str:
    return f"{setting}: {path} cannot be read: {error.strerror}"


def _read_pem(setting: str, path: Path) -> list[str]:
    text = _read(setting, path)
    blocks = _PEM.findall(text)
    if not blocks:
        raise ConfigurationError([f"{setting}: {path} holds no certificate in PEM"])
    if text.count(_PEM_BEGIN) > len(blocks):
        raise ConfigurationError([f"{setting}: {path} ends within a certificate"])
    for number, block in enumerate(blocks, 1):
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=block)
        except (ssl.SSLError, ValueError) as error:
            place = f"certificate {number} of {len(blocks)}"
            line = f"{setting}: {path}: {place} cannot be read: {error}"
            raise ConfigurationError([line]) from None
    return blocks


def _refuse_password() -> str:
    # Left alone, OpenSSL would ask for it on the terminal.
    return ""


def _new_context() -> ServerContext:
    context = ServerContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Whoever comes back shows a certificate again; kube-scheduler keeps its connections.
    context.num_tickets = 0
    context.options |= ssl.OP_NO_TICKET | ssl.OP_NO_RENEGOTIATION
    return context


def _demand_certificates(context: ServerContext, authorities: Sequence[str]) -> None:
    context.verify_mode = ssl.CERT_REQUIRED
    # An intermediate CA alone is enough, as it is for Kubernetes' own programs.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata="\n".join(authorities))
    context.client_cas = frozenset(ssl.PEM_cert_to_DER_cert(pem) for pem in authorities)


def _first_to_end(context: ssl.SSLContext) -> Iterator[tuple[str, Validity]]:
    validities = [Validity.of(dict(authority)) for authority in context.get_ca_certs()]
    if validities:
        yield _CLIENT_CA, min(validities, key=lambda it: it.ends)


def _shown_certificate(context: ssl.SSLContext, leaf: str) -> Mapping[str, object]:
    """Return the certificate that a client is shown, by a handshake in memory.

    Nothing else in the standard library reads a certificate; and what is shown so, works.
    """
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.check_hostname = False
    client_context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    client_context.load_verify_locations(cadata=leaf)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    for side in (client, server, client):
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return client.getpeercert() or {}
