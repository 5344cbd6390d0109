"""What a refresh of 5000 nodes costs: until it is in columns, and for the verbs meanwhile.

First the ways to decode an answer, in a thread beside an event loop that wants to turn every
millisecond: how long the loop is held up. Then the real Prometheus and a serving process that
refreshes every second, asked all the time, beside the same process that never refreshes.

    nox -s "bench(telemetry)" -- [--nodes 5000] [--seconds 30]
"""

import argparse
import asyncio
import gc
import http.client
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import httpx
import numpy as np
from rich.console import Console
from rich.table import Table

from kube_sched_ext_telemetry import Query
from kube_sched_ext_telemetry.answer import read_answer
from kube_sched_ext_telemetry.collect import merged
from kube_sched_ext_telemetry.measurements import nothing
from kube_sched_ext_testkit.builders import JSON, make_node
from kube_sched_ext_testkit.prometheus import Prometheus, write_history
from kube_sched_ext_testkit.serving import serve_process

LABELS = ("kubernetes_node", "node", "instance")
COUNTER = 'node_network_receive_bytes_total{device="ens192"'
QUERY = Query("traffic", "rate(...)", lowest=0.0, sampled="...")
EVERY = 0.003


def address(number: int) -> str:
    """Return the internal address of a node."""
    return f"10.{number // 62500}.{number // 250 % 250}.{number % 250 + 1}"


def history(count: int, now: float) -> Iterator[tuple[str, float, float]]:
    """Return ten minutes up to now and ten minutes ahead, each with the labels of an operator."""
    for number in range(count):
        labels = (
            f'container="node-exporter",endpoint="metrics",instance="{address(number)}:9100",'
            f'job="node-exporter",namespace="monitoring",pod="node-exporter-{number:05x}",'
            'service="monitoring-prometheus-node-exporter"'
        )
        for step in range(-20, 21):
            yield f"{COUNTER},{labels}}}", 1e6 * number * (step + 30), now + step * 30.0


def by_nobody(_: bytes) -> object:
    """Decode nothing, for as long as the others take: what is late then is the machine."""
    return time.sleep(0.05)


def by_json(body: bytes) -> object:
    """Decode as prometheus-api-client does."""
    result = json.loads(body)["data"]["result"]
    return {it["metric"]["instance"]: float(it["value"][1]) for it in result}


def by_msgspec(body: bytes) -> object:
    """Decode as here, but all at once."""
    return read_answer(body, QUERY, LABELS, pause=lambda: None)


def in_parts(body: bytes) -> object:
    """Decode as here, to the columns that are delivered."""
    return merged(nothing(1), [read_answer(body, QUERY, LABELS)])


async def lags(work: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    """Return how late the loop turned while `work` ran in a thread, and how long that took."""
    late, took = [], []

    def timed() -> None:
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)

    for _ in range(rounds):
        thread = threading.Thread(target=timed)
        thread.start()
        while thread.is_alive():
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            late.append(time.perf_counter() - before - 0.001)
        await asyncio.sleep(0.02)
    return late, took


def call(connection: http.client.HTTPConnection, body: bytes) -> float:
    """Return how long a call took, in seconds."""
    began = time.perf_counter()
    connection.request("POST", "/scheduler/priorities/networktraffic", body)
    response = connection.getresponse()
    response.read()
    if response.status != http.HTTPStatus.OK:
        raise SystemExit(f"HTTP {response.status}")
    return time.perf_counter() - began


def verbs(port: int, bodies: Sequence[bytes], seconds: float) -> list[list[float]]:
    """Return the times of calls that come at a steady pace, by body."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    times: list[list[float]] = [[] for _ in bodies]
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for own, body in zip(times, bodies, strict=True):
            own.append(call(connection, body))
            time.sleep(EVERY)
    connection.close()
    return times


def metric(ops_url: str, name: str) -> float:
    """Return the mean of a histogram of the process, in milliseconds."""
    text = httpx.get(f"{ops_url}/metrics", trust_env=False).text
    sums = {
        line.split("{")[0].rpartition("_")[2]: float(line.split()[-1])
        for line in text.splitlines()
        if line.startswith((f"{name}_sum", f"{name}_count"))
    }
    return 1e3 * sums["sum"] / sums["count"]


def row(label: str, seconds: Sequence[float], *more: str) -> list[str]:
    """Return a row of a table: median, 99th percentile and worst, in milliseconds."""
    p50, p99 = statistics.median(seconds), float(np.quantile(seconds, 0.99))
    return [label, *(f"{it * 1e3:.1f}" for it in (p50, p99, max(seconds))), *more]


def main() -> None:
    """Measure, and print tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--seconds", type=float, default=30.0)
    options = parser.parse_args()
    console = Console(width=110)
    names = [f"node-{number:05d}.example.internal" for number in range(options.nodes)]
    nodes: list[JSON] = []
    for number, name in enumerate(names):
        node = make_node(name)
        addresses = [{"type": "InternalIP", "address": address(number)}]
        nodes.append(node | {"status": {"addresses": addresses}})
    pod = {"metadata": {"name": "pod"}, "spec": {"containers": []}}
    bodies = [
        json.dumps({"Pod": pod, "Nodes": None, "NodeNames": asked}).encode()
        for asked in (names[:1], names)
    ]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # It would be on another machine; here it gets one core.
        os.environ["GOMAXPROCS"] = "1"
        prometheus = Prometheus(folder)
        write_history(prometheus.data, history(options.nodes, time.time()))
        snapshot = folder / "nodes.json"
        snapshot.write_text(json.dumps({"kind": "List", "items": nodes}))
        with prometheus:
            selector = f"{COUNTER}}}"
            query = Query("traffic", f"rate({selector}[5m])", sampled=selector)
            answer = prometheus.get("/api/v1/query", query=query.text).content
            show_decoding(console, answer)
            environment = {"Address": prometheus.url, "LOG_LEVEL": "WARNING"}
            table = Table("names asked, refresh", "p50 ms", "p99 ms", "worst ms", "calls")
            table.title = f"prioritize beside refreshes of {options.nodes} nodes"
            notes = []
            for label, every in (("never", "100000"), ("each second", "1")):
                environment["PROMETHEUS_REFRESH_SECONDS"] = every
                before = prometheus.query_count()
                with serve_process(
                    "networktraffic", folder=folder, nodes_file=snapshot, environment=environment
                ) as served:
                    port = httpx.URL(served.url_prefix).port or 0
                    verbs(port, bodies, 2.0)
                    for asked, times in zip(
                        ("1", str(options.nodes)), verbs(port, bodies, options.seconds), strict=True
                    ):
                        table.add_row(*row(f"{asked}, {label}", times, str(len(times))))
                    took = metric(served.ops_url, "kube_sched_ext_telemetry_refresh_seconds")
                    waited = metric(served.ops_url, "kube_sched_ext_telemetry_query_seconds")
                queries = prometheus.query_count() - before
                notes.append(
                    f"refresh {label}: {queries} queries, {took:.0f} ms each on average, of which "
                    f"{waited:.0f} ms until the answer"
                )
            console.print(table, *notes, sep="\n")


def show_decoding(console: Console, answer: bytes) -> None:
    """Print how each way to decode `answer` holds up an event loop."""
    gc.collect()
    gc.freeze()
    table = Table("decoded", "loop late: p50 ms", "p99 ms", "worst ms", "took ms (median)")
    table.title = f"an answer of {len(answer) / 1e6:.1f} MB, on {os.cpu_count()} cores"
    for label, decode in (
        ("nothing", by_nobody),
        ("json, in a thread", by_json),
        ("msgspec, in a thread", by_msgspec),
        ("msgspec in parts, in a thread", in_parts),
    ):
        late, took = asyncio.run(lags(partial(decode, answer), 40))
        table.add_row(*row(label, late, f"{statistics.median(took) * 1e3:.0f}"))
    console.print(table)


if __name__ == "__main__":
    main()
