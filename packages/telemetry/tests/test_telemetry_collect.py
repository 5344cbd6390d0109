"""One refresh: queries, answers, measurements."""

from collections.abc import Sequence

import numpy as np
import pytest
from telemetry_fake import by_name, vector

from kube_sched_ext import FloatArray
from kube_sched_ext_telemetry import Measurements, Query
from kube_sched_ext_telemetry.answer import Column
from kube_sched_ext_telemetry.collect import collect, merged
from kube_sched_ext_telemetry.errors import PrometheusError
from kube_sched_ext_telemetry.measurements import nothing

LABELS = ["node"]
QUERIES = [Query("x", "x_of_nodes"), Query("y", "y_of_nodes"), Query("z", "z_of_nodes")]


class Answers:
    """Bodies or errors in turn."""

    def __init__(self, *answers: bytes | PrometheusError) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    def __call__(self, promql: str) -> bytes:
        self.asked.append(promql)
        answer = self._answers.pop(0)
        if isinstance(answer, PrometheusError):
            raise answer
        return answer


def column(values: dict[str, float], at: float = 1.0) -> Column:
    return Column(list(values), np.array([*values.values()]), np.full(len(values), at), at)


def table(measurements: Measurements, array: FloatArray | None = None) -> dict[str, list[float]]:
    """Return the values of each name that has any."""
    array = measurements.values if array is None else array
    found = {name: array[:, place].tolist() for name, place in measurements.places.items()}
    return {name: values for name, values in found.items() if not np.isnan(values).all()}


def test_each_query_is_asked_once_for_all_nodes() -> None:
    """Its column has what it found, at the time at which it was found."""
    ask = Answers(
        *(by_name({"a": number, "b": 10.0 + number}, 50.0 + number) for number in range(3))
    )
    found = collect(ask, QUERIES, LABELS, nothing(3), clock=lambda: 40.0)
    assert ask.asked == ["x_of_nodes", "y_of_nodes", "z_of_nodes"]
    assert table(found.measurements) == {"a": [0, 1, 2], "b": [10, 11, 12]}
    assert table(found.measurements, found.measurements.times)["a"] == [50, 51, 52]
    assert found.measurements.generation == 1
    assert found.ahead_seconds == 12.0
    assert (len(found.seconds), found.errors) == (3, [])


def test_a_query_that_fails_keeps_its_column() -> None:
    """It grows old by itself; the others are asked all the same."""
    known = collect(
        Answers(*(by_name({"a": 1.0}, 5.0) for _ in range(3))), QUERIES, LABELS, nothing(3)
    ).measurements
    bad = PrometheusError("HTTP 400", "parse error", is_about_query=True)
    ask = Answers(by_name({"b": 2.0}, 6.0), bad, by_name({"a": 3.0}, 6.0))
    found = collect(ask, QUERIES, LABELS, known)
    values, times = (table(found.measurements, it) for it in (
        found.measurements.values, found.measurements.times
    ))  # fmt: skip
    np.testing.assert_array_equal([values["a"], values["b"]], [[np.nan, 1, 3], [2, np.nan, np.nan]])
    np.testing.assert_array_equal([times["a"], times["b"]], [[np.nan, 5, 6], [6, np.nan, np.nan]])
    assert found.errors == [bad]
    assert [it is None for it in found.columns] == [False, True, False]


def test_a_prometheus_that_fails_is_not_asked_further() -> None:
    """The others would fail, too, each after its own time."""
    down = PrometheusError("Unreachable", "gone")
    ask = Answers(down)
    known = nothing(3)
    found = collect(ask, QUERIES, LABELS, known)
    assert len(ask.asked) == 1
    assert found.measurements is known
    assert found.errors == [down]


def test_an_empty_answer_empties_its_column() -> None:
    """Prometheus says that no node has a value now."""
    known = merged(nothing(1), [column({"a": 1.0})])
    found = collect(Answers(vector()), QUERIES[:1], LABELS, known)
    assert table(found.measurements) == {}
    assert np.isnan(found.ahead_seconds)


def test_names_keep_their_places_while_no_name_is_new() -> None:
    """So stores need not look them up again."""
    first = merged(nothing(1), [column({"a": 1.0, "b": 2.0})])
    second = merged(first, [column({"b": 3.0})])
    assert second.places is first.places
    assert table(second) == {"b": [3.0]}
    third = merged(second, [column({"b": 4.0, "c": 5.0})])
    assert table(third) == {"b": [4.0], "c": [5.0]}
    assert table(second) == {"b": [3.0]}


def test_names_that_are_gone_are_forgotten_in_the_end() -> None:
    """A cluster may get new nodes every day."""
    many = merged(nothing(1), [column({f"n{number}": 1.0 for number in range(2000)})])
    few = merged(many, [column({"n0": 1.0})])
    assert len(few.places) == 1
    assert table(few) == {"n0": [1.0]}


@pytest.mark.parametrize("gone", [[0], [1], [0, 1]])
def test_columns_that_were_not_asked_for_move_along(gone: Sequence[int]) -> None:
    """When new names come, those of other columns keep their values."""
    columns: list[Column | None] = [column({"a": 1.0, "b": 2.0}), column({"b": 3.0, "c": 4.0})]
    known = merged(nothing(3), [*columns, column({})])
    for number in gone:
        columns[number] = None
    found = merged(known, [*columns, column({"new": 5.0})])
    expected = {
        "a": [1, np.nan, np.nan],
        "b": [2, 3, np.nan],
        "c": [np.nan, 4, np.nan],
        "new": [np.nan, np.nan, 5],
    }
    actual = table(found)
    assert actual.keys() == expected.keys()
    np.testing.assert_array_equal([actual[name] for name in expected], [*expected.values()])
