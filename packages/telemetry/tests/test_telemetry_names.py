"""Which node a series is about."""

import pytest
from telemetry_host import node_at

from kube_sched_ext_telemetry.names import host_of, names_of
from kube_sched_ext_testkit.ask import read_node
from kube_sched_ext_testkit.builders import JSON, make_node


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("node-a", "node-a"),
        ("node-a:9100", "node-a"),
        ("node-a.example.internal:9100", "node-a.example.internal"),
        ("10.0.0.7:9100", "10.0.0.7"),
        ("10.0.0.7", "10.0.0.7"),
        ("[fd00::7]:9100", "fd00::7"),
        ("[fd00:0:0::0007]:9100", "fd00::7"),
        ("fd00::7", "fd00::7"),
        ("FD00:0:0:0:0:0:0:7", "fd00::7"),
        ("a:b:c", "a:b:c"),
        ("", ""),
    ],
)
def test_a_label_tells_a_host(text: str, host: str) -> None:
    """With or without a port; IPv6 in its shortest form."""
    assert host_of(text) == host


@pytest.mark.parametrize(
    ("node", "names"),
    [
        (make_node("a"), ["a", "", "", ""]),
        (node_at("a", "10.0.0.1"), ["a", "10.0.0.1", "", ""]),
        (node_at("a", "10.0.0.1", "fd00:0::1"), ["a", "10.0.0.1", "fd00::1", ""]),
        (node_at("a", "a.local", kind="Hostname"), ["a", "a.local", "", ""]),
        (node_at("a", "a", kind="Hostname"), ["a", "", "", ""]),
        (node_at("a", "203.0.113.1", kind="ExternalIP"), ["a", "", "", ""]),
        (node_at("a", "::1", "::2", "::3", "::4"), ["a", "::1", "::2", "::3"]),
    ],
    ids=["name", "IPv4", "both", "host name", "the same", "external", "many"],
)
def test_a_node_answers_to_its_name_and_addresses(node: JSON, names: list[str]) -> None:
    """Those inside the cluster, four in all."""
    assert names_of(read_node(node)) == names
