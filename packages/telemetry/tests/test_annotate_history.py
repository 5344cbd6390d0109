"""A day of steps, and what it comes to."""

import json
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from kube_sched_ext import FloatArray
from kube_sched_ext_telemetry.annotate.history import Found, History
from kube_sched_ext_telemetry.annotate.matrix import read_matrix
from kube_sched_ext_telemetry.errors import PrometheusError

NAN = float("nan")
LABELS = ("node", "instance")


def found(**rows: Sequence[float]) -> Found:
    """Return values by name."""
    return list(rows), np.array([*rows.values()], np.float64) if rows else np.empty((0, 1))


NOTHING = (found(), found())


def steps_of(samples: FloatArray, size: int) -> tuple[FloatArray, FloatArray]:
    """Return mean and deviation of each `size` samples of a row."""
    parts = samples.reshape(len(samples), -1, size)
    return parts.mean(axis=2), parts.std(axis=2)


@pytest.mark.parametrize("size", [1, 20])
def test_the_windows_statistics_are_those_of_its_samples(size: int) -> None:
    """Exactly, as one query over the whole window would find them."""
    samples = np.random.default_rng(1).normal(4000, 300, (3, 12 * size))
    means, deviations = steps_of(samples, size)
    history = History(12)
    names = ["a", "b", "c"]
    for first, count in ((100, 5), (105, 1), (106, 6)):
        part = slice(first - 100, first - 100 + count)
        pair = (names, means[:, part]), (names, deviations[:, part])
        history.add(first, count, [pair, NOTHING])
    statistics = history.statistics(0)
    mean, deviation, coming = statistics.values[0]
    assert mean == pytest.approx(samples.mean(axis=1))
    assert deviation == pytest.approx(samples.std(axis=1))
    assert np.isnan(coming).all()
    assert np.isnan(statistics.values[1]).all()
    assert statistics.newest.tolist() == [[111] * 3, [-1] * 3]


def test_only_the_window_counts() -> None:
    """Older steps fall out of it, also where steps between were never measured."""
    history = History(4)
    for step, value in ((1, 1000.0), (2, 1000.0), (3, 10.0), (5, 20.0)):
        history.add(step, 1, [(found(n=[value]), found(n=[0.0])), NOTHING])
    statistics = history.statistics(0)
    assert statistics.values[0, 0].tolist() == [pytest.approx((1000 + 10 + 20) / 3)]
    history.add(7, 1, [(found(n=[30.0]), found(n=[0.0])), NOTHING])
    assert history.statistics(0).values[0, 0].tolist() == [25.0]
    history.add(100, 1, [(found(n=[40.0]), found(n=[0.0])), NOTHING])
    assert history.statistics(0).values[0, 0].tolist() == [40.0]


def test_a_name_that_was_not_measured_in_the_whole_window_is_forgotten() -> None:
    """Whoever has another one keeps its numbers."""
    history = History(2)
    history.add(1, 1, [(found(old=[1.0], kept=[2.0]), found()), NOTHING])
    assert set(history.statistics(0).places) == {"old", "kept"}
    for step in (2, 3):
        history.add(step, 1, [(found(new=[3.0], kept=[2.0]), found()), NOTHING])
    statistics = history.statistics(0)
    assert set(statistics.places) == {"kept", "new"}
    assert statistics.of(0, statistics.places["kept"])["mean-free-cpu"] == "2"
    assert statistics.of(0, statistics.places["new"])["mean-free-cpu"] == "3"


def test_the_newest_step_with_a_value_tells_the_age() -> None:
    """Of each name and resource for itself."""
    history = History(10)
    history.add(
        1, 3, [(found(a=[1, 1, 1], b=[1, NAN, NAN]), found()), (found(a=[1, 1, NAN]), found())]
    )
    assert history.statistics(0).newest.tolist() == [[3, 1], [2, -1]]


def test_what_is_not_known_is_not_written() -> None:
    """A forecast needs more steps than there are, and memory was never measured."""
    history = History(300)
    history.add(1, 2, [(found(a=[1000.4, 2000.4]), found(a=[3.0, 3.0])), NOTHING])
    statistics = history.statistics(12)
    assert statistics.of(0, 0) == {"mean-free-cpu": "1500", "std-free-cpu": "500"}
    assert statistics.of(1, 0) == {}


def test_a_history_without_steps_knows_nobody() -> None:
    """As when Prometheus has nothing."""
    assert History(3).statistics(12).places == {}


def answer(*series: tuple[Mapping[str, str], Mapping[float, str]], kind: str = "matrix") -> bytes:
    result = [
        {"metric": metric, "values": [[time, text] for time, text in values.items()]}
        for metric, values in series
    ]
    return json.dumps(
        {"status": "success", "data": {"resultType": kind, "result": result}}
    ).encode()


def read(
    *series: tuple[Mapping[str, str], Mapping[float, str]],
) -> tuple[Mapping[str, object], str]:
    """Return the values by name, and the words for what is wrong."""
    matrix = read_matrix(answer(*series), LABELS, times=range(300, 1200, 300), highest=1e9)
    values = np.where(np.isnan(matrix.values), None, matrix.values).tolist()
    return dict(zip(matrix.names, values, strict=True)), ",".join(matrix.problems)


def test_steps_are_found_by_their_times() -> None:
    """Those that are missing are not filled, and others do not count."""
    series = ({"instance": "10.0.0.1:9100"}, {300: "1", 900: "3", 1200: "4"})
    assert read(series) == ({"10.0.0.1": [1, None, 3]}, "")


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf", "-1", "1e10", "lots"])
def test_absurd_values_count_as_missing(text: str) -> None:
    """And are told."""
    assert read(({"node": "n"}, {300: "5", 600: text})) == ({"n": [5, None, None]}, "unusable")


def test_of_two_series_of_a_node_the_larger_value_counts() -> None:
    """Step by step, whatever their order."""
    one, other = {300: "1", 600: "5"}, {300: "2", 600: "4", 900: "6"}
    for first, second in ((one, other), (other, one)):
        names = {"node": "n", "job": "a"}, {"node": "n", "job": "b"}
        assert read((names[0], first), (names[1], second)) == ({"n": [2, 5, 6]}, "duplicate")


def test_a_series_that_names_no_node_does_not_count() -> None:
    """An empty label is none."""
    found = read(({"node": "", "job": "a"}, {300: "1"}), ({"node": "n"}, {300: "2"}))
    assert found == ({"n": [2, None, None]}, "unnamed")


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (answer(kind="vector"), "NotAMatrix"),
        (b"<html>", "Unreadable"),
        (b'{"status":"success"}', "Unreadable"),
        (answer(({"node": "n"}, {300: "1"})).replace(b"300", b'"x"'), "Unreadable"),
        (b"\xff", "Unreadable"),
    ],
)
def test_what_is_no_such_answer_is_refused(body: bytes, reason: str) -> None:
    """In a word that stays the same."""
    with pytest.raises(PrometheusError) as caught:
        read_matrix(body, LABELS, times=[300], highest=1.0)
    assert caught.value.reason == reason
    assert caught.value.is_about_query
