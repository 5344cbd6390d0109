"""The PromQL that settings stand for."""

import json
import subprocess

import pytest

from kube_sched_ext_networktraffic.queries import traffic_query
from kube_sched_ext_networktraffic.settings import NetworkTrafficSettings
from kube_sched_ext_testkit.prometheus import find_program

RX = 'node_network_receive_bytes_total{device="ens192"}'
TX = 'node_network_transmit_bytes_total{device="ens192"}'
SPEED = 'node_network_speed_bytes{device="ens192"}'


@pytest.mark.parametrize(
    ("settings", "promql"),
    [
        ({}, f"rate({RX}[5m])"),
        ({"function": "sum_over_time"}, f"sum_over_time({RX}[5m])"),
        ({"minutes": 15}, f"rate({RX}[15m])"),
        ({"interface": "eth0"}, 'rate(node_network_receive_bytes_total{device="eth0"}[5m])'),
        ({"direction": "transmit"}, f"rate({TX}[5m])"),
        ({"direction": "both"}, f"rate({RX}[5m]) + rate({TX}[5m])"),
        ({"is_over_speed": True}, f"(rate({RX}[5m])) / ({SPEED} > 0)"),
        (
            {"direction": "both", "is_over_speed": True, "function": "sum_over_time"},
            f"(sum_over_time({RX}[5m]) + sum_over_time({TX}[5m])) / ({SPEED} > 0)",
        ),
        ({"promql": "my_rule", "minutes": 7}, "my_rule"),
    ],
)
def test_settings_make_a_query(settings: dict[str, object], promql: str) -> None:
    """One for all nodes; PromQL of one's own replaces all of it."""
    query = traffic_query(NetworkTrafficSettings(**settings))  # type: ignore[arg-type]  # as named
    assert query.promql == promql
    assert query.lowest == 0.0


@pytest.mark.parametrize(
    ("settings", "sampled"),
    [({}, RX), ({"direction": "transmit"}, TX), ({"direction": "both"}, RX), ({"promql": "x"}, "")],
)
def test_samples_are_as_old_as_their_counter(settings: dict[str, object], sampled: str) -> None:
    """Of PromQL of one's own nothing is known."""
    query = traffic_query(NetworkTrafficSettings(**settings))  # type: ignore[arg-type]  # as named
    assert query.sampled == sampled


@pytest.mark.parametrize("function", ["rate", "sum_over_time"])
@pytest.mark.parametrize("direction", ["receive", "transmit", "both"])
@pytest.mark.parametrize("is_over_speed", [True, False])
def test_prometheus_reads_the_query(function: str, direction: str, *, is_over_speed: bool) -> None:
    """As it is sent, by promtool."""
    promtool = find_program("promtool")
    settings = NetworkTrafficSettings(
        function=function,  # type: ignore[arg-type]  # both are allowed
        direction=direction,  # type: ignore[arg-type]
        is_over_speed=is_over_speed,
    )
    rule = {
        "groups": [{"name": "g", "rules": [{"record": "x", "expr": traffic_query(settings).text}]}]
    }
    done = subprocess.run(
        [promtool, "check", "rules", "/dev/stdin"],
        input=json.dumps(rule),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
