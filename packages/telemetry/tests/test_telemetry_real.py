"""The real Prometheus, and what may go wrong with it."""

import math
import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme
from telemetry_host import (
    Loaded,
    Process,
    node_at,
    refreshes,
    running,
    scores,
    some_more,
    telemetry_of,
    told,
    until,
)

from kube_sched_ext_telemetry import Query
from kube_sched_ext_telemetry.measurements import measured
from kube_sched_ext_testkit.prometheus import NodeExporter, Prometheus, write_history
from kube_sched_ext_testkit.serving import serve_process

pytestmark = pytest.mark.anyio

NewProcess = Callable[..., Process]
COUNT = 500
NODES = [node_at(f"n{it}", f"10.0.{it // 250}.{it % 250}") for it in range(COUNT)]
NAMES = [f"n{it}" for it in range(COUNT)]
# Of the Prometheus documentation: the password is test.
WEB = "basic_auth_users:\n  admin: $2b$12$hNf2lSsxfm0.i4a.1kVpSOVyBCfIB51VRjgBUyv6kdnyTlgWj81Ay\n"


def instance(number: int) -> str:
    return f'instance="10.0.{number // 250}.{number % 250}:9100"'


def history(now: float) -> Iterator[tuple[str, float, float]]:
    """Return some minutes up to now, and some ahead, so that data stays fresh during the tests."""
    odd = (math.nan, math.inf, -math.inf, -1.0, 1e6)
    for number in range(COUNT):
        at = instance(number)
        metrics = [(f"load{{{at}}}", number % 10)]
        if number % 2:
            metrics.append((f"half{{{at}}}", number % 10))
        metrics.append((f"odd{{{at}}}", odd[number] if number < len(odd) else number % 10))
        metrics += [(f'twice{{{at},job="{job}"}}', number % 10 + job) for job in (0, 1)]
        if number:
            metrics.append((f"unnamed{{{at}}}", number % 10))
        for name, value in metrics:
            for step in range(-8, 41):
                yield name, float(value), now + 15.0 * step
    for step in range(-8, 41):
        yield 'unnamed{job="x"}', 1.0, now + 15.0 * step


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that knows 500 nodes."""
    server = Prometheus(tmp_path_factory.mktemp("prometheus"))
    write_history(server.data, history(time.time()))
    with server:
        yield server


def verb_seconds(*processes: Process) -> list[float]:
    """Return the median time of calls that ask about all nodes, made in turn."""
    times: list[list[float]] = [[] for _ in processes]
    for _ in range(30):
        for process, own in zip(processes, times, strict=True):
            began = time.perf_counter()
            scores(process, *NAMES)
            own.append(time.perf_counter() - began)
    return [statistics.median(own) for own in times]


def agent_for(metric: str, **options: Any) -> Loaded:
    return Loaded(Query("load", metric, lowest=0.0, highest=1000.0, sampled=metric), **options)


async def test_all_nodes_are_measured(prometheus: Prometheus, new_process: NewProcess) -> None:
    """By one query for all, found by their addresses, with the times of their last samples."""
    process = new_process(agent_for("load"), nodes=NODES)
    before = prometheus.query_count()
    async with running(telemetry_of(process, prometheus.url, refresh_seconds=100.0)):
        await until(lambda: refreshes(process, "ok") == 1)
        assert scores(process, "n3", "n499") == [3, 9]
        for _ in range(100):
            scores(process, *NAMES)
    assert prometheus.query_count() - before == 1
    assert process.ready().startswith("[+]telemetry/loaded ok: 500 of 500 nodes, newest ")
    age = process.metric("newest_seconds", agent="loaded")
    assert age is not None
    assert 0 <= age <= 16


class Fault:
    """Something wrong with the real Prometheus, what it is called, and how it is mended."""

    def __init__(
        self,
        problem: str,
        words: str,
        metric: str = "load",
        data: float = COUNT,
        expected: Sequence[int] = (5, 5),
        begin: Callable[[Prometheus], object] = lambda _: None,
        end: Callable[[Prometheus], object] = lambda _: None,
        **options: Any,
    ) -> None:
        self.problem, self.words, self.metric, self.options = problem, words, metric, options
        self.data, self.expected = data, expected
        """How many nodes have data, and what n0 and n2 score."""
        self.begin, self.end = begin, end
        is_error = problem in ("Unreachable", "Timeout", "HTTP 400", "NotAVector")
        self.outcome = problem if is_error else "ok"


FAULTS = {
    "stopped": Fault(
        "Unreachable", "Connection refused", data=0, begin=Prometheus.stop, end=Prometheus.start
    ),
    "slow": Fault(
        "Timeout",
        "no answer within 0.5 s",
        data=0,
        begin=lambda it: it.send_signal(signal.SIGSTOP),
        end=lambda it: it.send_signal(signal.SIGCONT),
    ),
    "bad query": Fault("HTTP 400", "parse error", metric="load{", data=0),
    "matrix": Fault("NotAVector", "is a matrix", metric="load[5m]", data=0),
    "half the nodes": Fault("Missing", "250 of 500 nodes lack a value", metric="half", data=250),
    "label missing": Fault(
        "Unnamed", "1 series without any", metric="unnamed", data=COUNT - 1, expected=(2, 2)
    ),
    "duplicates": Fault(
        "Duplicate", "500 series of a node that has another", metric="twice", expected=(1, 3)
    ),
    "odd values": Fault("Unusable", "5 series not within 0 to 1000", metric="odd", data=COUNT - 5),
    "clock ahead": Fault("Clock", "600 s ahead", data=0, clock=lambda: time.time() - 600),
    "clock behind": Fault("Clock", "600 s behind", data=0, clock=lambda: time.time() + 600),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_verbs_go_on_whatever_is_wrong(
    prometheus: Prometheus, new_process: NewProcess, name: str
) -> None:
    """In the same time, by the policy for nodes without data; it is told once."""
    fault = FAULTS[name]
    agent = agent_for(fault.metric, **fault.options)
    if fault.metric in ("load{", "load[5m]"):
        agent.feed.queries = (Query("load", fault.metric),)
    well = agent_for("load")
    well.feed.deliver(measured({name: [1.0] for name in NAMES}, time.time()))
    process, healthy = new_process(agent, nodes=NODES), new_process(well, nodes=NODES)
    fault.begin(prometheus)
    try:
        patience = 0.5 if name == "slow" else 10.0
        async with running(telemetry_of(process, prometheus.url, timeout_seconds=patience)):
            await some_more(process, fault.outcome, 3)
            assert fault.words in process.ready()
            assert process.metric("fresh_nodes", agent="loaded", column="load") == fault.data
            seconds, usual = verb_seconds(process, healthy)
            assert seconds < 2 * usual + 0.002
            assert scores(process, "n0", "n2") == [*fault.expected]
    finally:
        fault.end(prometheus)
    assert told(process.close())[fault.problem] == 1


async def test_a_restart_is_recovered_from(prometheus: Prometheus, new_process: NewProcess) -> None:
    """By itself; meanwhile the last answer counts until it is too old."""
    process = new_process(agent_for("load", max_age_seconds=60.0), nodes=NODES)
    async with running(telemetry_of(process, prometheus.url)):
        await some_more(process, "ok", 1)
        prometheus.stop()
        try:
            await some_more(process, "Unreachable", 3)
            assert scores(process, "n3", "n499") == [3, 9]
            assert "500 of 500 nodes" in process.ready()
        finally:
            prometheus.start()
        await some_more(process, "ok", 2)
        assert process.ready().startswith("[+]telemetry/loaded ok")
    log = process.close()
    assert told(log)["Unreachable"] == 1
    assert told(log, "telemetry problem is over")["Unreachable"] == 1


async def test_passwords_and_certificates_as_prometheus_asks_for_them(
    tmp_path: Path, new_process: NewProcess
) -> None:
    """401 until the password is right; the file is read again for each refresh."""
    ca = trustme.CA()
    issued = ca.issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(tmp_path / "server.pem")
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    pem = tmp_path / "server.pem"
    prometheus = Prometheus(
        tmp_path,
        web_config=f"{WEB}tls_server_config:\n  cert_file: {pem}\n  key_file: {pem}\n",
        client={"verify": ca_context(ca), "auth": httpx.BasicAuth("admin", "test")},
    )
    write_history(
        prometheus.data,
        ((f"load{{{instance(1)}}}", 7.0, time.time() + 15.0 * it) for it in range(-8, 9)),
    )
    password = tmp_path / "password"
    password.write_text("wrong")
    process = new_process(agent_for("load"), nodes=NODES[:2])
    settings = {
        "user": "admin",
        "password_file": str(password),
        "ca_file": str(tmp_path / "ca.pem"),
    }
    with prometheus:
        async with running(telemetry_of(process, prometheus.url, **settings)):
            await some_more(process, "HTTP 401", 2)
            assert scores(process, "n0", "n1") == [5, 5]
            password.write_text("test\n")
            await some_more(process, "ok", 1)
            assert scores(process, "n1") == [7]
    assert told(process.close())["HTTP 401"] == 1


def ca_context(ca: trustme.CA) -> Any:
    import ssl

    context = ssl.create_default_context()
    ca.configure_trust(context)
    return context


async def test_limits_of_prometheus_are_told(tmp_path: Path, new_process: NewProcess) -> None:
    """A query that needs more samples than it may load."""
    prometheus = Prometheus(tmp_path, options=["--query.max-samples=10"])
    write_history(prometheus.data, history(time.time()))
    process = new_process(agent_for("load"), nodes=NODES)
    with prometheus:
        async with running(telemetry_of(process, prometheus.url)):
            await some_more(process, "HTTP 422", 2)
    assert "too many samples" in process.ready()


async def test_this_machine_is_measured(tmp_path: Path, new_process: NewProcess) -> None:
    """By the real node_exporter, scraped by the real Prometheus."""
    folder = tmp_path / "exporter"
    folder.mkdir()
    process = new_process(agent_for("node_load1"), nodes=[node_at("here", "127.0.0.1")])
    with (
        NodeExporter(folder) as exporter,
        Prometheus(tmp_path, scrapes=[exporter.address]) as prometheus,
    ):
        async with running(telemetry_of(process, prometheus.url)):
            await until(lambda: process.ready().startswith("[+]"))
            [[load]] = process.fresh(process.verbs.agents[0], "here")
    assert 0 <= load < 1000


def test_a_stop_does_not_wait_for_prometheus(tmp_path: Path, prometheus: Prometheus) -> None:
    """SIGTERM ends the process at once, in the middle of a refresh."""
    environment = {
        "PROMETHEUS_URL": prometheus.url,
        "PROMETHEUS_TIMEOUT_SECONDS": "30",
        "PYTHONPATH": str(_install_agent(tmp_path)),
    }
    prometheus.send_signal(signal.SIGSTOP)
    try:
        with serve_process("idle", folder=tmp_path, environment=environment) as served:
            served.process.terminate()
            assert served.process.wait(5) == 0
    finally:
        prometheus.send_signal(signal.SIGCONT)
    assert "stopped" in served.log.read_text()


def _install_agent(folder: Path) -> Path:
    """Install an agent that reads Prometheus for a process that the test starts."""
    metadata = folder / "idle-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: idle\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[kube_sched_ext.agents]\nidle = idle:Idle\n")
    (folder / "idle.py").write_text(
        "from kube_sched_ext import Agent\n"
        "from kube_sched_ext_telemetry import Feed, MeasuredColumns, Query\n\n\n"
        "class Idle(Agent):\n"
        '    name = "idle"\n'
        '    feed = Feed([Query("load", "node_load1")])\n\n'
        "    def new_store(self):\n"
        "        return MeasuredColumns(self.feed)\n"
    )
    return folder
