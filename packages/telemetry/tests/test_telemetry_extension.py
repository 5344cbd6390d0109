"""The telemetry beside the verbs: refreshes, and what is told of them."""

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from telemetry_fake import FakePrometheus, by_name, sample_time, series, vector
from telemetry_host import (
    LOAD,
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

from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext_telemetry import Query
from kube_sched_ext_testkit.builders import make_node

pytestmark = pytest.mark.anyio

NewProcess = Callable[..., Process]
NODES = [make_node(name) for name in "abcd"]
GOOD = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0}


async def test_measurements_come_into_the_verbs(
    fake: FakePrometheus, new_process: NewProcess
) -> None:
    """And are kept up to date."""
    process = new_process(Loaded(), nodes=NODES)
    telemetry = telemetry_of(process, fake.url)
    assert scores(process, "a", "d") == [5, 5]
    assert "nothing measured" in process.ready()
    fake.answer = lambda _: (200, by_name(GOOD, time.time()))
    async with running(telemetry):
        await until(lambda: scores(process, "a", "d") == [1, 4])
        fake.answer = lambda _: (200, by_name({**GOOD, "d": 7.0}, time.time()))
        await until(lambda: scores(process, "a", "d") == [1, 7])
    assert process.ready() == "[+]telemetry/loaded ok: 4 of 4 nodes, newest 0 s"
    assert told(process.close()) == {}


async def test_one_query_for_all_nodes_in_each_refresh(
    fake: FakePrometheus, new_process: NewProcess
) -> None:
    """Per metric; calls of verbs cause none."""
    process = new_process(Loaded(LOAD, Query("free", "free_cpu", sampled="up")), nodes=NODES)
    fake.answers(by_name(GOOD, time.time()))
    async with running(telemetry_of(process, fake.url, refresh_seconds=1000.0)):
        await until(lambda: refreshes(process, "ok") == 1)
        for _ in range(100):
            scores(process, "a", "b", "c", "d")
    times = 'label_replace(timestamp(up), "kube_sched_ext_time", "1", "", "")'
    asked = [it["query"] for it in fake.asked]
    assert asked == ["node_load1", f"(free_cpu) or {times}"]


async def test_an_agents_own_address_wins(fake: FakePrometheus, new_process: NewProcess) -> None:
    """Each agent may have its own Prometheus."""
    fake.answers(by_name(GOOD, time.time()))
    process = new_process(Loaded(address=fake.url))
    async with running(telemetry_of(process, "http://127.0.0.1:1")):
        await until(lambda: refreshes(process, "ok"))


async def test_agents_are_refreshed_at_times_of_their_own(
    fake: FakePrometheus, new_process: NewProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second refresh comes early by chance, so that replicas do not ask together for ever."""
    process = new_process(Loaded())
    monkeypatch.setattr("random.uniform", lambda low, high: (low, high) == (0.5, 1.0) and 0.5)
    began = time.perf_counter()
    async with running(telemetry_of(process, fake.url, refresh_seconds=1.0)):
        await until(lambda: refreshes(process, "ok") == 2)
        second = time.perf_counter() - began
        await until(lambda: refreshes(process, "ok") == 3)
    assert 0.5 <= second < 1.0
    assert time.perf_counter() - began >= 1.5


def bad_series(*more: Any) -> Callable[[str], tuple[int, bytes]]:
    """Return an answer in which all is well but for `more`."""

    def answer(_: str) -> tuple[int, bytes]:
        now = time.time()
        good = [series(value, now, node=name) for name, value in GOOD.items()]
        return 200, vector(*good, *(series(value, now, **labels) for value, labels in more))

    return answer


def slow(fake: FakePrometheus) -> Callable[[str], tuple[int, bytes]]:
    def answer(_: str) -> tuple[int, bytes]:
        fake.released.wait(10)
        return 200, vector()

    return answer


FAULTS: dict[str, tuple[Callable[[FakePrometheus], Any], str, str]] = {
    "slow": (slow, "Timeout", "no answer within 0.5 s"),
    "error": (lambda _: lambda _: (500, b"broken"), "HTTP 500", "broken"),
    "unauthorised": (lambda _: lambda _: (401, b""), "HTTP 401", "answers 401"),
    "bad query": (lambda _: lambda _: (400, b'{"status":"x","error":"oops"}'), "HTTP 400", "oops"),
    "no JSON": (lambda _: lambda _: (200, b"<html>"), "Unreadable", "not as Prometheus"),
    "scalar": (
        lambda _: (
            lambda _: (
                200,
                b'{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}',
            )
        ),
        "NotAVector",
        "is a scalar",
    ),
    "unnamed": (lambda _: bad_series((1, {"host": "x"})), "Unnamed", "load: 1 series without any"),
    "duplicate": (lambda _: bad_series((1, {"node": "a", "job": "x"})), "Duplicate", "2 of a"),
    "NaN": (lambda _: bad_series(("NaN", {"node": "x"})), "Unusable", "such as nan of x"),
    "negative": (lambda _: bad_series((-1, {"node": "x"})), "Unusable", "such as -1 of x"),
    "absurd": (lambda _: bad_series((1001, {"node": "x"})), "Unusable", "such as 1001 of x"),
    "half": (
        lambda _: lambda _: (200, by_name({"a": 1.0, "b": 3.0}, time.time())),
        "Missing",
        "2 of 4 nodes lack a value, such as c, d",
    ),
    "behind": (
        lambda _: lambda _: (200, by_name(GOOD, time.time() - 600)),
        "Clock",
        "Prometheus' clock is 600 s behind ours",
    ),
    "ahead": (
        lambda _: lambda _: (200, by_name(GOOD, time.time() + 600)),
        "Clock",
        "Prometheus' clock is 600 s ahead of ours",
    ),
    "warning": (
        lambda _: (
            lambda _: (
                200,
                vector(
                    *(series(it, time.time(), node=name) for name, it in GOOD.items()),
                    warnings=["partial"],
                ),
            )
        ),
        "Warning",
        "partial",
    ),
}
ERRORS = {"Timeout", "HTTP 500", "HTTP 401", "HTTP 400", "Unreadable", "NotAVector"}
OUTDATED = {"behind", "ahead"}


@pytest.mark.parametrize("fault", FAULTS)
async def test_what_is_wrong_is_told_once_and_so_is_its_end(
    fake: FakePrometheus, new_process: NewProcess, fault: str
) -> None:
    """Not per refresh, not per call; verbs answer all the while, from what is fresh."""
    make_answer, problem, words = FAULTS[fault]
    process = new_process(Loaded(), nodes=NODES)
    fake.answer = make_answer(fake)
    outcome = problem if problem in ERRORS else "ok"
    seconds = 0.5 if fault == "slow" else 10.0
    async with running(telemetry_of(process, fake.url, timeout_seconds=seconds)):
        await some_more(process, outcome, 3)
        assert process.metric("problem", agent="loaded", problem=problem) == 1.0
        assert process.ready().startswith("[!]telemetry/loaded failed, not required: ")
        assert words in process.ready()
        has_data = problem not in ERRORS and fault not in OUTDATED
        first, last = scores(process, "a", "d")
        assert first == (1 if has_data else 5)
        assert last == {"half": 1}.get(fault, 4 if has_data else 5)
        fake.answer = bad_series()
        await some_more(process, "ok")
        assert scores(process, "a", "d") == [1, 4]
        assert process.metric("problem", agent="loaded", problem=problem) == 0.0
        assert process.ready().startswith("[+]telemetry/loaded ok: 4 of 4 nodes")
    log = process.close()
    assert told(log)[problem] == 1
    assert told(log, "telemetry problem is over")[problem] == 1
    [line] = [it for it in log if it["event"] == "telemetry problem" and it["problem"] == problem]
    assert line["level"] == ("ERROR" if problem in ERRORS else "WARNING")
    assert line["agent"] == "loaded"
    assert words in line["detail"]


async def test_a_wrong_clock_makes_samples_old_as_well(
    fake: FakePrometheus, new_process: NewProcess
) -> None:
    """The nodes that this concerns are told of, too."""
    process = new_process(Loaded(), nodes=NODES)
    fake.answer = lambda _: (200, by_name(GOOD, time.time() - 600))
    async with running(telemetry_of(process, fake.url)):
        await some_more(process, "ok")
    assert process.metric("clock_ahead_seconds", agent="loaded") == pytest.approx(-600, abs=5)
    text = "4 of 4 nodes were not sampled within the last 180 s, such as a, b, c"
    assert text in process.ready()
    assert told(process.close()) == {"Clock": 1, "Old": 1}


async def test_samples_are_as_old_as_the_last_scrape(
    fake: FakePrometheus, new_process: NewProcess
) -> None:
    """A value that Prometheus has just computed may be of long ago."""

    def answer(_: str) -> tuple[int, bytes]:
        now = time.time()
        values = [series(value, now, node=name) for name, value in GOOD.items()]
        times = [sample_time(now - 100.0 * age, now, node=it) for age, it in enumerate("abcd")]
        return 200, vector(*values, *times)

    fake.answer = answer
    process = new_process(Loaded(Query("load", "node_load1", sampled="up")), nodes=NODES)
    async with running(telemetry_of(process, fake.url)):
        await some_more(process, "ok")
        [load] = process.fresh(process.verbs.agents[0], *"abcd")
    np.testing.assert_array_equal(load, [1, 2, np.nan, np.nan])
    assert "2 of 4 nodes, newest 0 s; 2 of 4 nodes were not sampled" in process.ready()


async def test_data_grows_old_without_any_refresh(
    fake: FakePrometheus, new_process: NewProcess
) -> None:
    """When Prometheus has gone, the last answer counts until its age passes the maximum."""
    later = 0.0
    process = new_process(Loaded(clock=lambda: time.time() + later), nodes=NODES)
    fake.answer = bad_series()
    async with running(telemetry_of(process, fake.url)):
        await some_more(process, "ok")
        fake.fails(503)
        await some_more(process, "HTTP 503")
        assert scores(process, "a", "d") == [1, 4]
        assert "4 of 4 nodes, newest " in process.ready()
        later = 181.0
        assert scores(process, "a", "d") == [5, 5]
        assert "0 of 4 nodes, newest 18" in process.ready()


async def test_what_was_wrong_with_data_is_not_over_while_queries_fail(
    fake: FakePrometheus, new_process: NewProcess
) -> None:
    """Nobody knows."""
    process = new_process(Loaded(), nodes=NODES)
    fake.answer = bad_series((1, {"host": "x"}))
    async with running(telemetry_of(process, fake.url)):
        await some_more(process, "ok")
        fake.fails(503)
        await some_more(process, "HTTP 503")
        fake.answer = bad_series((1, {"host": "x"}))
        await some_more(process, "ok")
    log = process.close()
    assert told(log) == {"Unnamed": 1, "HTTP 503": 1}
    assert told(log, "telemetry problem is over") == {"HTTP 503": 1}


async def test_one_query_of_two_may_fail(fake: FakePrometheus, new_process: NewProcess) -> None:
    """The other one goes on; a node counts as covered if it has all."""
    process = new_process(Loaded(LOAD, Query("free", "free_cpu(")), nodes=NODES)

    def answer(promql: str) -> tuple[int, bytes]:
        return (400, b"{}") if "(" in promql else (200, by_name(GOOD, time.time()))

    fake.answer = answer
    async with running(telemetry_of(process, fake.url)):
        await some_more(process, "HTTP 400")
        assert scores(process, "a", "d") == [1, 4]
    assert "0 of 4 nodes" in process.ready()
    assert process.metric("fresh_nodes", agent="loaded", column="load") == 4
    assert process.metric("fresh_nodes", agent="loaded", column="free") == 0


async def test_a_fault_of_ours_does_not_end_the_process(
    fake: FakePrometheus, new_process: NewProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told with its traceback, once; the next refresh may be well."""
    process = new_process(Loaded(), nodes=NODES)
    fake.answer = bad_series()
    broken = monkeypatch.context()
    with broken as patch:
        patch.setattr("kube_sched_ext_telemetry.collect.read_answer", lambda *_: 1 / 0)
        async with running(telemetry_of(process, fake.url)):
            await some_more(process, "Fault")
            patch.undo()
            await some_more(process, "ok")
    log = process.close()
    assert told(log) == {"Fault": 1}
    [line] = [line for line in log if line["event"] == "refresh broke"]
    assert "ZeroDivisionError" in line["exception"]


async def test_a_process_without_a_view_of_the_cluster_tells_what_is_measured(
    fake: FakePrometheus, new_process: NewProcess
) -> None:
    """With whole-node requests nobody knows how many there should be."""
    process = new_process(Loaded())
    fake.answer = bad_series()
    async with running(telemetry_of(process, fake.url)):
        await some_more(process, "ok")
    assert process.ready() == "[+]telemetry/loaded ok: 4 nodes, newest 0 s"
    assert process.metric("fresh_nodes", agent="loaded", column="load") == 4


async def test_numbers_of_many_nodes_are_readable(
    fake: FakePrometheus, new_process: NewProcess
) -> None:
    """4,812 of 5,000 nodes, newest 12 s; by their addresses."""
    nodes = [node_at(f"n{it}", f"10.0.{it // 250}.{it % 250}") for it in range(5000)]
    process = new_process(Loaded(), nodes=nodes)
    body = vector(
        *(
            series(1, time.time() - 12, instance=f"10.0.{it // 250}.{it % 250}:9100")
            for it in range(4812)
        )
    )
    fake.answers(body)
    async with running(telemetry_of(process, fake.url)):
        await until(lambda: refreshes(process, "ok"))
    assert "4,812 of 5,000 nodes, newest 12 s; 188 of 5,000 nodes lack a value" in process.ready()


def test_without_any_address_the_settings_are_named(new_process: NewProcess) -> None:
    """The agent's own too, where it has one."""
    agents = [Loaded(address_setting="Address")]
    with pytest.raises(ConfigurationError) as caught:
        telemetry_of(new_process(*agents))
    assert caught.value.problems == (
        "Address, PROMETHEUS_URL: agent loaded reads Prometheus, and no address is set",
    )


async def test_without_queries_there_is_nothing_to_do(new_process: NewProcess) -> None:
    """No address is needed."""
    agent = Loaded()
    agent.feed.queries = ()
    process = new_process(agent)
    await telemetry_of(process).run()
    assert process.ready() == ""


def test_a_process_that_asks_no_prometheus_does_not_pay_for_it() -> None:
    """Neither in time nor in memory."""
    script = (
        "import sys; import kube_sched_ext_telemetry, kube_sched_ext_telemetry.extension; "
        "print([it for it in ('requests', 'urllib3', 'prometheus_api_client', 'scipy') "
        "if it in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
