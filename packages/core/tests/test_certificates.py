"""Certificates in files: what is right, how long, and what is told of the rest."""

import datetime as dt
import http.client
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from core_servers import Served, ask, free_port, run_command
from core_tls import chain, client_context, issue, pem
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kube_sched_ext.certificates import Certificates, Standing, Validity, certificates_of
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.settings import environment, load

Serve = Callable[..., Served]
Install = Callable[..., dict[str, str]]

CA, CLIENT_CA = trustme.CA(), trustme.CA()
SERVER, OTHER = issue(CA, "server"), issue(CA, "other")
RSA = CA.issue_cert("127.0.0.1", key_type=trustme.KeyType.RSA)


def locked(certificate: trustme.LeafCert) -> bytes:
    """Return a key that needs a password."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    return key.private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"password")
    )


def for_clients_only() -> tuple[bytes, bytes]:
    """Return a certificate for the use of clients, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "client")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.public_bytes(Encoding.PEM), private


GOOD = {
    "tls.crt": chain(SERVER),
    "tls.key": SERVER.private_key_pem.bytes(),
    "ca.crt": pem(CLIENT_CA),
}


@pytest.fixture
def files(tmp_path: Path) -> Callable[..., tuple[Path, Path, Path]]:
    """Write files; returns the paths of certificate, key and client CA."""

    def write(**changed: bytes | None) -> tuple[Path, Path, Path]:
        contents = GOOD | {name.replace("_", "."): content for name, content in changed.items()}
        for name, content in contents.items():
            if content is not None:
                (tmp_path / name).write_bytes(content)
        return tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt"

    return write


def test_texts_around_certificates_are_passed_over(files: Callable[..., tuple[Path, ...]]) -> None:
    """As openssl and lists of CAs write them, in any encoding."""
    bundle = b"# M\xc3\xbcller, M\xfcller\n" + pem(CA) + b"\nsubject=x\n" + pem(CLIENT_CA)
    credentials = Certificates(*files(ca_crt=bundle)).current
    assert len(credentials.context.client_cas) == 2


def test_a_client_certificate_itself_may_be_trusted(
    files: Callable[..., tuple[Path, ...]],
) -> None:
    """In place of a CA; it has no validity of its own to be shown."""
    credentials = Certificates(*files(ca_crt=chain(OTHER))).current
    assert set(credentials.validities) == {"TLS_CERT_FILE"}


def test_of_several_client_cas_the_first_to_end_is_shown(
    files: Callable[..., tuple[Path, ...]],
) -> None:
    """It is the one to be replaced."""
    short = trustme.CA()
    short_ends = Certificates(*files(ca_crt=pem(short))).current.validities["TLS_CLIENT_CA_FILE"]
    both = Certificates(*files(ca_crt=pem(CLIENT_CA, short))).current
    assert both.validities["TLS_CLIENT_CA_FILE"].ends <= short_ends.ends


DAY = 86400.0


@pytest.mark.parametrize(
    ("begins", "ends", "now", "standing"),
    [
        (0, 90 * DAY, 80 * DAY, "valid"),
        (0, 90 * DAY, 81 * DAY, "ends soon"),
        (0, 90 * DAY, 90 * DAY - 1, "ends soon"),
        (0, 90 * DAY, 90 * DAY, "has ended"),
        (0, 3650 * DAY, 3619 * DAY, "valid"),
        (0, 3650 * DAY, 3620 * DAY, "ends soon"),
        (0, DAY, 21 * 3600, "valid"),
        (0, DAY, 22 * 3600, "ends soon"),
    ],
)
def test_a_certificate_ends_soon_in_its_last_tenth_or_30_days(
    begins: float, ends: float, now: float, standing: Standing
) -> None:
    """Whichever is shorter."""
    assert Validity(begins, ends).standing(now) == standing


def test_a_certificate_that_has_ended_may_be_served(
    files: Callable[..., tuple[Path, ...]],
) -> None:
    """Its successor can be taken over by a process that runs, not by one that will not start."""
    expired = issue(CA, begins=-60, ends=-30)
    paths = files(tls_crt=chain(expired), tls_key=expired.private_key_pem.bytes())
    assert Certificates(*paths).current.validities["TLS_CERT_FILE"].standing(2e9) == "has ended"


WRONG = [
    ({"tls_crt": None}, "TLS_CERT_FILE: {}/tls.crt cannot be read: No such file or directory"),
    ({"tls_key": None}, "TLS_KEY_FILE: {}/tls.key cannot be read: No such file or directory"),
    ({"ca_crt": None}, "TLS_CLIENT_CA_FILE: {}/ca.crt cannot be read: No such file or directory"),
    ({"tls_crt": b""}, "TLS_CERT_FILE: {}/tls.crt holds no certificate in PEM"),
    ({"ca_crt": b""}, "TLS_CLIENT_CA_FILE: {}/ca.crt holds no certificate in PEM"),
    (
        {"ca_crt": GOOD["ca.crt"] + GOOD["ca.crt"][:100]},
        "TLS_CLIENT_CA_FILE: {}/ca.crt ends within a certificate",
    ),
    (
        {"tls_crt": GOOD["tls.key"]},
        "TLS_CERT_FILE: {}/tls.crt holds no certificate in PEM",
    ),
    (
        {"ca_crt": GOOD["ca.crt"] + GOOD["ca.crt"].replace(b"MII", b"MIX")},
        "TLS_CLIENT_CA_FILE: {}/ca.crt: certificate 2 of 2 cannot be read",
    ),
    ({"tls_key": b""}, "TLS_KEY_FILE: {}/tls.key holds no key in PEM without a password"),
    (
        {"tls_key": locked(SERVER)},
        "TLS_KEY_FILE: {}/tls.key holds no key in PEM without a password",
    ),
    (
        {"tls_key": OTHER.private_key_pem.bytes()},
        "TLS_KEY_FILE: {0}/tls.key is not the key of the certificate in {0}/tls.crt",
    ),
    (
        {"tls_key": RSA.private_key_pem.bytes()},
        "TLS_KEY_FILE: {0}/tls.key is not the key of the certificate in {0}/tls.crt",
    ),
]


@pytest.mark.parametrize(("changed", "problem"), WRONG)
def test_what_is_wrong_with_files_is_told_with_setting_and_path(
    files: Callable[..., tuple[Path, ...]],
    tmp_path: Path,
    changed: dict[str, bytes | None],
    problem: str,
) -> None:
    """And what is wrong, one line each."""
    paths = files(**changed)
    with pytest.raises(ConfigurationError) as caught:
        Certificates(*paths)
    [line] = caught.value.problems
    assert line.startswith(problem.format(tmp_path))


def test_a_certificate_that_no_client_can_use_is_told(
    files: Callable[..., tuple[Path, ...]], tmp_path: Path
) -> None:
    """As one that only clients may show."""
    certificate, key = for_clients_only()
    with pytest.raises(ConfigurationError) as caught:
        Certificates(*files(tls_crt=certificate, tls_key=key))
    assert str(caught.value) == (
        f"TLS_CERT_FILE: {tmp_path / 'tls.crt'} is of no use to any client: "
        "unsuitable certificate purpose"
    )


def test_a_file_that_goes_between_two_looks_at_it_is_told(
    files: Callable[..., tuple[Path, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can be read, and then not be loaded."""
    paths = files()

    def unlink_first(context: ssl.SSLContext, *given: Any) -> None:
        paths[0].unlink()
        load_cert_chain(context, *given)

    load_cert_chain = ssl.SSLContext.load_cert_chain
    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", unlink_first)
    with pytest.raises(ConfigurationError) as caught:
        Certificates(*paths)
    reason = "cannot be read: No such file or directory"
    assert str(caught.value) == f"TLS_CERT_FILE: {paths[0]} {reason}"


def test_all_that_is_wrong_is_told_at_once(files: Callable[..., tuple[Path, ...]]) -> None:
    """One line for each file."""
    with pytest.raises(ConfigurationError) as caught:
        Certificates(*files(tls_crt=b"", tls_key=None, ca_crt=b""))
    assert [line.partition(":")[0] for line in caught.value.problems] == [
        "TLS_CERT_FILE",
        "TLS_KEY_FILE",
        "TLS_CLIENT_CA_FILE",
    ]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["TLS_CERT_FILE"], "TLS_KEY_FILE: is not set; TLS_CERT_FILE is, and needs it"),
        (["TLS_KEY_FILE"], "TLS_CERT_FILE: is not set; TLS_KEY_FILE is, and needs it"),
        (["TLS_CLIENT_CA_FILE"], "TLS_CERT_FILE: is not set; TLS_CLIENT_CA_FILE is, and needs it"),
        (
            ["TLS_CERT_FILE", "TLS_KEY_FILE", "TLS_CLIENT_NAMES"],
            "TLS_CLIENT_CA_FILE: is not set; TLS_CLIENT_NAMES is, and needs it",
        ),
    ],
)
def test_a_setting_that_needs_another_says_so(given: list[str], problem: str) -> None:
    """Half of TLS is none."""
    problems: list[str] = []
    layer = environment(dict.fromkeys(given, "/x"))
    assert load(CoreSettings, [layer], problems) is None
    assert problems == [problem]


def test_without_a_certificate_there_is_no_tls() -> None:
    """The default."""
    assert certificates_of(CoreSettings()) is None


# The process


def test_a_process_whose_files_are_wrong_does_not_start(
    install_agents: Install, files: Callable[..., tuple[Path, ...]]
) -> None:
    """Exit code 2, with all lines."""
    certificate, key, client_ca = files(tls_key=OTHER.private_key_pem.bytes(), ca_crt=b"")
    result = run_command(
        "serve", "plain", "--http-host", "127.0.0.1", "--http-port", str(free_port()),
        "--tls-cert", str(certificate), "--tls-key", str(key), "--tls-client-ca", str(client_ca),
        **install_agents("plain"),
    )  # fmt: skip
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        (f"kube-sched-ext: TLS_KEY_FILE: {key} is not the key of the certificate in {certificate}"),
        f"kube-sched-ext: TLS_CLIENT_CA_FILE: {client_ca} holds no certificate in PEM",
    ]


def test_a_process_serves_verbs_with_tls_and_operations_without(
    serve: Serve, install_agents: Install, files: Callable[..., tuple[Path, ...]]
) -> None:
    """Probes and Prometheus have no certificate; an idle connection does not hold up the stop."""
    certificate, key, client_ca = files()
    served = serve(
        "plain",
        TLS_CERT_FILE=str(certificate),
        TLS_KEY_FILE=str(key),
        TLS_CLIENT_CA_FILE=str(client_ca),
        TLS_CLIENT_NAMES="system:kube-scheduler",
        **install_agents("plain"),
    )
    ready = ask(served.ops_port, "GET", "/readyz?verbose").body.decode()
    assert "[+]tls ok: TLS_CERT_FILE valid, until 2" in ready
    assert b"kube_sched_ext_certificate_not" in ask(served.ops_port, "GET", "/metrics").body
    client = http.client.HTTPSConnection(
        "127.0.0.1", served.port, timeout=20, context=client_context(CA, issue(CLIENT_CA))
    )
    body = b'{"Pod": {"metadata": {"name": "p"}}, "NodeNames": ["n1"]}'
    client.request("POST", "/scheduler/priorities/plain", body)
    assert client.getresponse().read() == b'[{"Host":"n1","Score":5}]'
    started = time.monotonic()
    code, log = served.stop()
    client.close()
    assert code == 0
    assert time.monotonic() - started < 10
    assert [it["event"] for it in log if "logger" in it] == []


def test_a_process_without_tls_has_no_word_of_it(serve: Serve, install_agents: Install) -> None:
    """Neither condition nor metric."""
    served = serve("plain", **install_agents("plain"))
    assert b"tls" not in ask(served.ops_port, "GET", "/readyz?verbose").body
    metrics = ask(served.ops_port, "GET", "/metrics").body
    assert b"kube_sched_ext_certificate_not_after_timestamp_seconds{" not in metrics
