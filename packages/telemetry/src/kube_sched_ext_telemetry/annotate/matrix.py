"""From the body of an answer to so many steps of each node."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec
import numpy as np

from kube_sched_ext import MISSING, FloatArray
from kube_sched_ext_telemetry.errors import PrometheusError
from kube_sched_ext_telemetry.names import host_of


@dataclass(slots=True)
class Matrix:
    """What one query found: n distinct names of nodes, and a value for each and each step."""

    names: list[str]
    values: FloatArray
    """Shape (n, steps), NaN where there is none."""
    problems: dict[str, str] = field(default_factory=dict)
    """What is wrong with series that do not count, by a word for it."""


class _Series(msgspec.Struct, frozen=True, gc=False):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Answer(msgspec.Struct, frozen=True):
    data: _Data


_ANSWER: Final = msgspec.json.Decoder(_Answer)
_RESULT: Final = msgspec.json.Decoder(list[_Series])


def read_matrix(
    body: bytes, labels: Sequence[str], *, times: Sequence[int], highest: float
) -> Matrix:
    """Return what Prometheus found at `times`; values below 0 or above `highest` do not count.

    Of several series of one node the larger value counts.

    Args:
        body: of Prometheus' answer.
        labels: names of labels; the first that a series has tells its node.
        times: seconds since the epoch.
        highest: the largest value that is no mistake.

    Raises:
        PrometheusError: the answer is none, or not of this kind.
    """
    try:
        data = _ANSWER.decode(body).data
        if data.result_type != "matrix":
            message = f"a {data.result_type} came, not a value for each node and step"
            raise PrometheusError("NotAMatrix", message, is_about_query=True)
        result = _RESULT.decode(data.result)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"the answer is not as Prometheus writes it: {error}"
        raise PrometheusError("Unreadable", message, is_about_query=True) from error
    columns = {float(time): column for column, time in enumerate(times)}
    places: dict[str, int] = {}
    matrix = Matrix([], np.full((len(result), len(times)), MISSING))
    for series in result:
        name = host_of(next(filter(None, map(series.metric.get, labels)), ""))
        if not name:
            words = f"without any of the labels {', '.join(labels)}, such as {series.metric}"
            matrix.problems.setdefault("unnamed", f"series {words}")
            continue
        if name in places:
            words = f"of a node that has another one, such as {series.metric}"
            matrix.problems.setdefault("duplicate", f"series {words}")
        row = matrix.values[places.setdefault(name, len(places))]
        for time, text in series.values:
            column = columns.get(time)
            value = _number(text)
            if column is None:
                continue
            if not (0.0 <= value <= highest):
                words = f"not within 0 to {highest:g}, such as {text} of {name}"
                matrix.problems.setdefault("unusable", f"values {words}")
            elif math.isnan(row[column]) or value > row[column]:
                row[column] = value
    matrix.names = list(places)
    matrix.values = matrix.values[: len(places)]
    return matrix


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return MISSING
