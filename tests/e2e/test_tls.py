"""TLS: kube-scheduler and our server know each other by certificates, which change."""

import datetime as dt
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
import trustme
from control_plane import JSON, extender
from e2e_cluster import Cluster
from e2e_programs import wait_for
from e2e_server import Server

NODES = [f"node-{number}" for number in range(10)]
SCHEDULER = "system:kube-scheduler"


class Keys:
    """Certificates of both sides, in files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.server_ca, self.client_ca = trustme.CA(), trustme.CA()
        self.server_ca.cert_pem.write_to_path(folder / "server-ca.crt")
        self.trust(self.client_ca)
        self.renew_server("server-0")
        self.write("client", issue(self.client_ca, SCHEDULER))

    def renew_server(self, name: str) -> None:
        """Give the server another certificate."""
        self.write("server", issue(self.server_ca, name))

    def trust(self, *authorities: trustme.CA) -> None:
        """Let the server trust clients' certificates of these CAs, and of no other."""
        self._replace("client-ca.crt", b"".join(it.cert_pem.bytes() for it in authorities))

    def write(self, name: str, certificate: trustme.LeafCert) -> None:
        """Write a certificate and its key."""
        self._replace(f"{name}.crt", b"".join(it.bytes() for it in certificate.cert_chain_pems))
        self._replace(f"{name}.key", certificate.private_key_pem.bytes())

    def _replace(self, name: str, content: bytes) -> None:
        new = self.folder / f"{name}.new"
        new.write_bytes(content)
        os.replace(new, self.folder / name)  # noqa: PTH105  # the word for what it is

    def settings(self) -> dict[str, str]:
        """Return the settings of a server that clients need a certificate for."""
        return {
            "TLS_CERT_FILE": str(self.folder / "server.crt"),
            "TLS_KEY_FILE": str(self.folder / "server.key"),
            "TLS_CLIENT_CA_FILE": str(self.folder / "client-ca.crt"),
        }

    def extender(self, server: Server, client: str = "client", *, ignorable: bool = False) -> JSON:
        """Return an extender that shows the certificate in the files `client`, if any."""
        tls = {"caFile": str(self.folder / "server-ca.crt")}
        if client:
            tls |= {
                "certFile": str(self.folder / f"{client}.crt"),
                "keyFile": str(self.folder / f"{client}.key"),
            }
        url = f"https://127.0.0.1:{server.port}/scheduler"
        plain = extender(
            url, filter_verb="filter", prioritize_verb="prioritize", ignorable=ignorable
        )
        return {**plain, "enableHTTPS": True, "tlsConfig": tls}


def issue(
    authority: trustme.CA, name: str, ends: dt.timedelta = dt.timedelta(days=1)
) -> trustme.LeafCert:
    """Return a certificate for 127.0.0.1."""
    now = dt.datetime.now(dt.UTC)
    begins = now - dt.timedelta(hours=1)
    return authority.issue_cert(
        "127.0.0.1", common_name=name, not_before=begins, not_after=now + ends
    )


@pytest.fixture
def keys(tmp_path: Path) -> Keys:
    """Certificates that fit."""
    folder = tmp_path / "keys"
    folder.mkdir()
    return Keys(folder)


def _add_nodes(cluster: Cluster) -> None:
    for name in NODES:
        cluster.add_node(name)


def test_kube_scheduler_with_its_certificate_gets_through(cluster: Cluster, keys: Keys) -> None:
    """And only its name is let in."""
    _add_nodes(cluster)
    server = cluster.serve("foo", TLS_CLIENT_NAMES=SCHEDULER, **keys.settings())
    cluster.schedule(keys.extender(server))
    pods = cluster.create_pods(f"pod-{number}" for number in range(5))
    cluster.wait_bound(pods)
    assert (server.calls("filter"), server.calls("prioritize")) == (5, 5)
    assert server.count("kube_sched_ext_failed_handshakes_total") == 0


REFUSED: dict[str, tuple[Callable[[Keys], str], str, str]] = {
    "none": (
        lambda _: "",
        "remote error: tls: certificate required",
        "peer did not return a certificate",
    ),
    "other-ca": (
        lambda keys: _written(keys, issue(trustme.CA(), SCHEDULER)),
        "remote error: tls: unknown certificate authority",
        "unable to get local issuer certificate",
    ),
    "expired": (
        lambda keys: _written(keys, issue(keys.client_ca, SCHEDULER, -dt.timedelta(minutes=1))),
        "remote error: tls: expired certificate",
        "certificate has expired",
    ),
}


def _written(keys: Keys, certificate: trustme.LeafCert) -> str:
    keys.write("other", certificate)
    return "other"


@pytest.mark.parametrize("case", REFUSED)
def test_kube_scheduler_without_a_valid_certificate_does_not(
    cluster: Cluster, keys: Keys, case: str
) -> None:
    """The pod stays pending, and its event says why; where it is ignorable, pods go past us."""
    write, message, reason = REFUSED[case]
    client = write(keys)
    _add_nodes(cluster)
    server = cluster.serve("foo", **keys.settings())
    cluster.schedule(keys.extender(server, client))
    cluster.create_pods(["waits"])
    cluster.wait_event("waits", "FailedScheduling", message)
    assert cluster.placement(["waits"]) == {"waits": ""}
    assert server.count("kube_sched_ext_failed_handshakes_total", reason=reason) >= 1
    cluster.schedule(keys.extender(server, client, ignorable=True))
    cluster.wait_bound(["waits"])
    assert server.calls("filter") == server.calls("prioritize") == 0


def test_a_name_that_is_not_listed_is_refused(cluster: Cluster, keys: Keys) -> None:
    """With 403 in the pod's event."""
    _add_nodes(cluster)
    server = cluster.serve("foo", TLS_CLIENT_NAMES="somebody-else", **keys.settings())
    cluster.schedule(keys.extender(server))
    cluster.create_pods(["waits"])
    cluster.wait_event("waits", "FailedScheduling", "code 403")
    assert server.calls("filter") == 0


def test_plain_http_is_refused(cluster: Cluster, keys: Keys) -> None:
    """With 400 in the pod's event."""
    _add_nodes(cluster)
    server = cluster.serve("foo", **keys.settings())
    cluster.schedule(extender(server.url, filter_verb="filter"))
    cluster.create_pods(["waits"])
    cluster.wait_event("waits", "FailedScheduling", "code 400")
    assert server.calls("filter") == 0


def test_every_certificate_changes_while_200_pods_are_scheduled(
    cluster: Cluster, keys: Keys, tell: Callable[[str], None]
) -> None:
    """The server's; then the clients' CA, as one does it: the next one in, the certificate, the
    former one out. Each pod is bound once.
    """
    _add_nodes(cluster)
    server = cluster.serve("foo", **keys.settings())
    cluster.schedule(keys.extender(server))
    second = trustme.CA()
    changes: list[tuple[int, Callable[[], None]]] = [
        (1, lambda: keys.renew_server("server-1")),
        (2, lambda: keys.trust(keys.client_ca, second)),
        (2, lambda: keys.write("client", issue(second, SCHEDULER))),
        (3, lambda: keys.trust(second)),
    ]
    began = cluster.now()
    are_made = Event()

    def place_pods() -> list[str]:
        """One after the other, until all changes are made and there are 200."""
        pods: list[str] = []
        while len(pods) < 200 or not are_made.is_set():
            pods.append(f"pod-{len(pods):03d}")
            cluster.place(pods[-1])
        return pods

    with ThreadPoolExecutor(1) as worker:
        placed = worker.submit(place_pods)
        try:
            for due, change in changes:
                change()
                wait_for("reload", lambda due=due: _reloads(server) == due, every=0.05)
        finally:
            are_made.set()
        seconds = cluster.now() - began
        pods = placed.result()
    failed = [pod for pod in pods if cluster.events(pod, "FailedScheduling")]
    tell(
        f"all changes in force after {seconds:.2f} s; {len(pods)} pods bound in "
        f"{cluster.now() - began:.2f} s, {len(failed)} of them not at the first attempt"
    )
    cluster.check_bound_once(NODES)
    assert server.calls("filter") >= len(pods)


def _reloads(server: Server) -> float:
    return server.count("kube_sched_ext_certificate_reloads_total", result="done")
