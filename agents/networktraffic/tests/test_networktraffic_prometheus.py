"""The networktraffic agent on the real Prometheus: a day of 500 nodes, and this machine."""

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import pytest

from kube_sched_ext.settings import environment, load
from kube_sched_ext_networktraffic.agent import NetworkTraffic
from kube_sched_ext_networktraffic.settings import NetworkTrafficSettings
from kube_sched_ext_telemetry.collect import collect
from kube_sched_ext_telemetry.prometheus import Prometheus as Source
from kube_sched_ext_telemetry.settings import TelemetrySettings
from kube_sched_ext_testkit.builders import JSON, make_node, make_pod
from kube_sched_ext_testkit.prometheus import NodeExporter, Prometheus, write_history
from kube_sched_ext_testkit.scheduler import Extender
from kube_sched_ext_testkit.serving import ServeProcess, serve_process

DAY = 86400.0
COUNT = 500
COUNTER = "node_network_receive_bytes_total"
ARTICLE = {"article-a": 1_000_000, "article-b": 1_200_000, "article-c": 1_400_000}
"""sum_over_time of these nodes, whose counters stand still."""


def name_of(number: int) -> str:
    return f"node-{number:03d}"


def address_of(number: int) -> str:
    return f"10.9.{number // 250}.{number % 250 + 1}"


def receive_rate(number: int) -> int:
    """Return bytes per second, another one for each node, and the least for the 137th."""
    return 1000 * (1 + (number - 137) % COUNT)


def node_with_address(number: int) -> JSON:
    listed = [{"type": "InternalIP", "address": address_of(number)}]
    return make_node(name_of(number)) | {"status": {"addresses": listed}}


NODES = [node_with_address(number) for number in range(COUNT)]


def history(now: float) -> Iterator[tuple[str, float, float]]:
    """Return a day up to now, and some minutes ahead: data stays fresh during the tests.

    Every node has been up for another time, and transmits the more the less it receives.
    """
    times = [now - DAY + 600.0 * it for it in range(142)]
    times += [now - 900.0 + 15.0 * it for it in range(100)]
    for number in range(COUNT):
        labels = f'device="ens192",instance="{address_of(number)}:9100",job="node"'
        for name, rate in (
            ("receive", receive_rate(number)),
            ("transmit", 1000 * COUNT - receive_rate(number)),
        ):
            series = f"node_network_{name}_bytes_total{{{labels}}}"
            uptime = DAY * (1 + (number * 7) % 50)
            for at in times:
                yield series, float(int(rate * (uptime + at - now + DAY))), at
    for number in range(COUNT):
        labels = f'device="ens192",instance="{address_of(number)}:9100",job="node"'
        for at in times[-100:]:
            yield f"node_network_speed_bytes{{{labels}}}", 1.25e9 if number % 2 else 1.25e8, at
    for name, total in ARTICLE.items():
        series = f'node_network_receive_bytes_total{{device="eth9",kubernetes_node="{name}"}}'
        for at in times[-100:]:
            yield series, total / 20.0, at  # 20 samples are within five minutes


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that knows a day of 500 nodes."""
    server = Prometheus(tmp_path_factory.mktemp("prometheus"))
    write_history(server.data, history(time.time()))
    with server:
        yield server


def wait_until_measured(served: ServeProcess) -> str:
    deadline = time.monotonic() + 20
    while True:
        lines = httpx.get(f"{served.ops_url}/readyz?verbose", trust_env=False).text.splitlines()
        [line] = [line for line in lines if "telemetry/networktraffic" in line]
        if line.startswith("[+]"):
            return line
        assert time.monotonic() < deadline, f"{line}\n{served.log.read_text()}"
        time.sleep(0.05)


def ask(served: ServeProcess, nodes: list[JSON], *, whole: bool = True) -> dict[str, int]:
    with Extender(
        served.url_prefix,
        prioritize_verb="priorities/networktraffic",
        node_cache_capable=not whole,
    ) as extender:
        return extender.prioritize(make_pod(), nodes)


def test_the_numbers_of_the_article(prometheus: Prometheus, tmp_path: Path) -> None:
    """sum_over_time of 1000000, 1200000 and 1400000 score 28.57, 14.29 and 0: 3, 1, 0."""
    variables = {
        "Address": prometheus.url,
        "NetworkInterface": "eth9",
        "TimeRangeInMinutes": "5",
        "NETWORKTRAFFIC_FUNCTION": "sum_over_time",
        "LOG_LEVEL": "TRACE",
    }
    with serve_process("networktraffic", folder=tmp_path, environment=variables) as served:
        line = wait_until_measured(served)
        scores = ask(served, [make_node(name) for name in ARTICLE])
    assert "3 nodes, newest" in line
    assert [*scores.values()] == [3, 1, 0]
    log = served.log.read_text()
    assert '"exact":28.57' in log
    assert '"exact":14.28' in log


@pytest.mark.parametrize("whole", [True, False], ids=["whole nodes", "names"])
@pytest.mark.parametrize(
    ("settings", "best", "worst"),
    [
        ({}, 137, 136),
        ({"NETWORKTRAFFIC_DIRECTION": "transmit"}, 136, 137),
        ({"TimeRangeInMinutes": "10"}, 137, 136),
    ],
    ids=["receive", "transmit", "ten minutes"],
)
def test_the_node_with_the_least_traffic_ranks_highest(
    prometheus: Prometheus,
    tmp_path: Path,
    settings: dict[str, str],
    best: int,
    worst: int,
    *,
    whole: bool,
) -> None:
    """Of 500; however long it has been up. Both modes find nodes by their InternalIP."""
    snapshot = tmp_path / "nodes.json"
    snapshot.write_text(json.dumps({"kind": "List", "items": [] if whole else NODES}))
    variables = {"Address": prometheus.url, **settings}
    with serve_process(
        "networktraffic", folder=tmp_path, nodes_file=snapshot, environment=variables
    ) as served:
        line = wait_until_measured(served)
        scores = ask(served, NODES, whole=whole)
        before = prometheus.query_count()
        for _ in range(20):
            ask(served, NODES, whole=whole)
        assert prometheus.query_count() == before
    assert ("500 nodes, newest" if whole else "500 of 500 nodes, newest") in line
    ranking = sorted(range(COUNT), key=lambda number: -scores[name_of(number)])
    assert scores[name_of(best)] == max(scores.values()) == 10
    assert scores[name_of(worst)] == min(scores.values()) == 0
    assert best in ranking[: COUNT // 10]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, receive_rate),
        ({"NETWORKTRAFFIC_DIRECTION": "both"}, lambda _: 1000 * COUNT),
        (
            {"NETWORKTRAFFIC_OVER_SPEED": "true"},
            lambda number: receive_rate(number) / (1.25e9 if number % 2 else 1.25e8),
        ),
        (
            {"NETWORKTRAFFIC_PROMQL": "sum by (instance) (irate(" + COUNTER + "[2m])) / 2"},
            lambda number: receive_rate(number) / 2,
        ),
    ],
    ids=["receive", "both", "over speed", "own PromQL"],
)
def test_traffic_is_what_the_settings_say(
    prometheus: Prometheus, settings: dict[str, str], expected: Callable[[int], float]
) -> None:
    """In bytes per second, for all nodes by one query."""
    agent = NetworkTraffic(load(NetworkTrafficSettings, [environment(settings)], []))
    with Source(prometheus.url, TelemetrySettings(timeout_seconds=20.0)).connection() as connection:
        found = collect(connection.ask, agent.feed.queries, ["instance"], agent.feed.measurements)
    assert [str(error) for error in found.errors] == []
    agent.feed.deliver(found.measurements)
    places = [found.measurements.places[address_of(number)] for number in range(COUNT)]
    [values] = found.measurements.values[:, places]
    np.testing.assert_allclose(values, [expected(number) for number in range(COUNT)], rtol=1e-3)


def test_this_machine_is_measured(tmp_path: Path) -> None:
    """One of its interfaces, by the real node_exporter."""
    folder = tmp_path / "exporter"
    folder.mkdir()
    listed = [{"type": "InternalIP", "address": "127.0.0.1"}]
    nodes = [make_node("here") | {"status": {"addresses": listed}}, make_node("other")]
    with (
        NodeExporter(folder) as exporter,
        Prometheus(tmp_path, scrapes=[exporter.address]) as prometheus,
    ):
        counters = exporter.get("/metrics").text
        interface = re.findall(r'node_network_receive_bytes_total{device="(.+)"}', counters)[0]
        variables = {
            "Address": prometheus.url,
            "NetworkInterface": interface,
            "PROMETHEUS_REFRESH_SECONDS": "1",
        }
        with serve_process("networktraffic", folder=tmp_path, environment=variables) as served:
            line = wait_until_measured(served)
            scores = ask(served, nodes)
    assert "1 nodes, newest" in line
    assert scores in ({"here": 0, "other": 0}, {"here": 10, "other": 10})
