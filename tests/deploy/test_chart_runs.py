"""The rendered configuration really runs: containers, ConfigMaps and roles as they are rendered."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
import yaml
from control_plane import JSON
from deploy_plane import Rig
from deploy_programs import rendered
from e2e_programs import free_port

TEST_POD = Path(__file__).parents[2] / "deploy" / "examples" / "test-pod.yaml"
IDLE = {"mean-free-cpu": "3600", "std-free-cpu": "100", "mean-free-memory": str(7 * 2**30)}
HOT = {"mean-free-cpu": "100", "std-free-cpu": "300", "mean-free-memory": str(7 * 2**30)}


def test_safe_and_congestion_place_the_test_pod(rig: Rig) -> None:
    """Safe rejects the node at risk, congestion ranks the others; all with the rendered account."""
    values = {
        "agents.safe": {"enabled": True, "port": free_port()},
        "agents.congestion": {"enabled": True, "port": free_port()},
    }
    objects = rendered(values)
    rig.install(objects)
    rig.cluster.add_node("hot-and-calm", annotations=HOT | {"congestion-factor": "0"})
    rig.cluster.add_node("idle-and-busy", annotations=IDLE | {"congestion-factor": "90"})
    rig.cluster.add_node("idle-and-calm", annotations=IDLE | {"congestion-factor": "10"})
    containers = rig.run(objects)
    assert set(containers) == {"my-scheduler-ctr", "my-extender-ctr-1", "my-extender-ctr-2"}
    name = rig.create(yaml.safe_load(TEST_POD.read_text()))
    assert rig.cluster.wait_bound([name]) == {name: "idle-and-calm"}
    for container in containers.values():
        assert "forbidden" not in container.log.read_text(), "a right is missing"


SERVER_NAME = "it.kube-system.svc"
CLIENT_NAME = "system:kube-scheduler"
AUTHORITY = trustme.CA()
STRANGER = trustme.CA()
LONG_AGO = datetime.now(UTC) - timedelta(days=2)


def mutual_tls() -> list[JSON]:
    """Return safe and congestion as they ask for a client certificate, and may not be left out."""
    agent = {"enabled": True, "ignorable": False}
    return rendered(
        {
            "agents.safe": agent | {"port": free_port()},
            "agents.congestion": agent | {"port": free_port()},
            "tls.enabled": True,
            "tls.secretName": "agents-tls",
            "tls.clients": {"required": True, "names": [CLIENT_NAME]},
            "tls.scheduler.secretName": "scheduler-tls",
        }
    )


def secrets(client: trustme.LeafCert) -> Mapping[str, Mapping[str, bytes]]:
    """Return the secrets, with a certificate for the scheduler."""
    server = AUTHORITY.issue_cert(SERVER_NAME)
    ca = AUTHORITY.cert_pem.bytes()
    return {
        "agents-tls": _pair(server) | {"ca.crt": ca},
        "scheduler-tls": _pair(client) | {"ca.crt": ca},
    }


def _pair(leaf: trustme.LeafCert) -> dict[str, bytes]:
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
    return {"tls.crt": chain, "tls.key": leaf.private_key_pem.bytes()}


def start(
    rig: Rig, objects: Sequence[JSON], client: trustme.LeafCert, replaced: Mapping[str, str]
) -> str:
    """Run all with a client certificate, and create the test pod; return its name."""
    rig.install(objects)
    rig.cluster.add_node("node", annotations=IDLE)
    rig.run(objects, secrets=secrets(client), replaced=replaced)
    return rig.create(yaml.safe_load(TEST_POD.read_text()))


def test_with_its_certificate_kube_scheduler_gets_through(rig: Rig) -> None:
    """Mutual TLS by the rendered files, server name and client name."""
    client = AUTHORITY.issue_cert(common_name=CLIENT_NAME)
    name = start(rig, mutual_tls(), client, {})
    assert rig.cluster.wait_bound([name]) == {name: "node"}


REFUSED = {
    "without one": (
        AUTHORITY.issue_cert(common_name=CLIENT_NAME),
        True,
        "tls: certificate required",
    ),
    "with another CA's": (
        STRANGER.issue_cert(common_name=CLIENT_NAME),
        False,
        "tls: unknown certificate authority",
    ),
    "with an expired one": (
        AUTHORITY.issue_cert(
            common_name=CLIENT_NAME, not_before=LONG_AGO, not_after=LONG_AGO + timedelta(days=1)
        ),
        False,
        "tls: expired certificate",
    ),
    "with another name": (AUTHORITY.issue_cert(common_name="someone"), False, "code 403"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_kube_scheduler_does_not_get_through(rig: Rig, how: str) -> None:
    """The pod stays pending, and its event says what kube-scheduler was told."""
    client, is_left_out, words = REFUSED[how]
    objects = mutual_tls()
    files = {
        f"{key}: /etc/kube-sched-ext/scheduler-tls/{file}\n": "\n"
        for key, file in (("certFile", "tls.crt"), ("keyFile", "tls.key"))
    }
    replaced = files if is_left_out else {}
    name = start(rig, objects, client, replaced)
    message = rig.cluster.wait_event(name, "FailedScheduling")
    assert words in message
    assert rig.cluster.placement([name]) == {name: ""}
