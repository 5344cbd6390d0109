"""From the body of an answer to one column.

This runs in a thread beside the event loop, which waits while Python runs here. So the answer is
decoded a few series at a time, with a pause after each part; msgspec skips what nobody reads.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import compress
from time import sleep
from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from kube_sched_ext import MISSING, FloatArray
from kube_sched_ext_telemetry.errors import PrometheusError
from kube_sched_ext_telemetry.names import host_of
from kube_sched_ext_telemetry.queries import TIME_LABEL, Query

_PART: Final = 250
"""Series that are decoded in one go: about 0.3 ms."""

_PAUSE_SECONDS: Final = 0.0005

Problems = dict[str, str]
"""What is wrong with the data, by a word for it."""


@dataclass(slots=True)
class Column:
    """What one query found: n distinct names, and their values and times of shape (n,)."""

    names: list[str]
    values: FloatArray
    times: FloatArray
    evaluated_at: float
    """Prometheus' clock when it answered; minus infinity where the answer is empty."""
    problems: Problems = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    """Series that do not count, by what is wrong with them."""


class _Data(msgspec.Struct, frozen=True, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    status: str
    data: _Data | None = None
    error: str = ""
    warnings: list[str] | None = None


_ANSWER: Final = msgspec.json.Decoder(_Answer)
_VECTOR: Final = msgspec.json.Decoder(list[msgspec.Raw])


def error_in(body: bytes) -> str:
    """Return the error that Prometheus tells in `body`, or the beginning of whatever it is."""
    try:
        error = _ANSWER.decode(body).error
    except (msgspec.DecodeError, UnicodeDecodeError):
        error = ""
    return error or body[:200].decode(errors="replace").strip()


def _pause() -> None:
    sleep(_PAUSE_SECONDS)


def read_answer(
    body: bytes, query: Query, labels: Sequence[str], pause: Callable[[], None] = _pause
) -> Column:
    """Return the column that `query` has found.

    Args:
        body: of Prometheus' answer to an instant query.
        query: what was asked.
        labels: names of labels; the first that a series has tells its node.
        pause: called between two parts of the work.

    Raises:
        PrometheusError: the answer is none, or not a vector.
    """
    try:
        answer = _ANSWER.decode(body)
        if answer.data is None:
            raise PrometheusError("Refused", error_in(body), is_about_query=True)
        if answer.data.result_type != "vector":
            raise PrometheusError(
                "NotAVector",
                f"{query.text} is a {answer.data.result_type}, not one value for each node",
                is_about_query=True,
            )
        series = _Series(tuple(labels))
        pause()
        result = _VECTOR.decode(answer.data.result)
        for start in range(0, len(result), _PART):
            pause()
            series.add(result[start : start + _PART])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        message = f"the answer is not as Prometheus writes it: {error}"
        raise PrometheusError("Unreadable", message, is_about_query=True) from error
    pause()
    column = series.column(query)
    if answer.warnings:
        column.problems["Warning"] = "; ".join(answer.warnings)
    return column


class _Series:
    """The series of an answer, as far as they are read."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        self._labels = labels
        self._decoder = _decoder(labels)
        self._names: list[str] = []
        self._values: list[float] = []
        self._times: list[float] = []
        self._sampled_at: dict[str, float] = {}
        self._unnamed: list[msgspec.Raw] = []
        self._evaluated_at = -math.inf

    def add(self, part: Sequence[msgspec.Raw]) -> None:
        """Read some more."""
        decode = self._decoder.decode
        for raw in part:
            series = decode(raw)
            *named, is_time = msgspec.structs.astuple(series.metric)
            name = host_of(next(filter(None, named), ""))
            at, text = series.value
            self._evaluated_at = max(self._evaluated_at, at)
            if is_time:
                time = _number(text)
                self._sampled_at[name] = max(time, self._sampled_at.get(name, time))
            elif not name:
                self._unnamed.append(raw)
            else:
                self._names.append(name)
                self._values.append(_number(text))
                self._times.append(at)

    def column(self, query: Query) -> Column:
        """Return what counts of them."""
        values = np.array(self._values, np.float64)
        times = self._times
        if query.sampled:
            times = [self._sampled_at.get(name, MISSING) for name in self._names]
        column = Column(self._names, values, np.array(times), self._evaluated_at)
        if not self._values and not self._unnamed:
            column.problems["Empty"] = f"no series at all: {query.promql}"
        if self._unnamed:
            found = bytes(self._unnamed[0])[:200].decode(errors="replace")
            _tell(
                column,
                "Unnamed",
                len(self._unnamed),
                f"without any of the labels {', '.join(self._labels)}, such as {found}",
            )
        with np.errstate(invalid="ignore"):
            is_usable = np.isfinite(values) & (values >= query.lowest) & (values <= query.highest)
        _keep(column, is_usable, "Unusable", f"not within {query.lowest:g} to {query.highest:g}")
        _keep(column, ~np.isnan(column.times), "Unsampled", f"without a sample of {query.sampled}")
        _keep_newest(column)
        return column


def _keep(column: Column, mask: NDArray[np.bool_], problem: str, words: str) -> None:
    """Leave out all but `mask`."""
    if mask.all():
        return
    first = int(np.argmin(mask))
    example = f"such as {column.values[first]:g} of {column.names[first]}"
    _tell(column, problem, len(mask) - int(mask.sum()), f"{words}, {example}")
    column.names = list(compress(column.names, mask.tolist()))
    column.values, column.times = column.values[mask], column.times[mask]


def _keep_newest(column: Column) -> None:
    """Leave out all but the newest value of each name, of equally new ones the largest."""
    names = column.names
    places = dict(zip(names, range(len(names)), strict=True))
    if len(places) == len(names):
        return
    order = np.lexsort((column.values, column.times)).tolist()
    places = {names[place]: place for place in order}
    [(name, count)] = Counter(names).most_common(1)
    text = f"of a node that has another one, such as {count} of {name}"
    _tell(column, "Duplicate", len(names) - len(places), text)
    kept = np.fromiter(places.values(), np.intp, len(places))
    column.names, column.values, column.times = (
        list(places),
        column.values[kept],
        column.times[kept],
    )


def _tell(column: Column, problem: str, count: int, words: str) -> None:
    column.left_out[problem] += count
    column.problems[problem] = f"{count:,} series {words}"


def _number(text: str) -> float:
    """Return the number in `text`, as Prometheus writes NaN and +Inf too; NaN for anything else."""
    try:
        return float(text)
    except ValueError:
        return MISSING


@lru_cache(maxsize=8)
def _decoder(labels: tuple[str, ...]) -> msgspec.json.Decoder[Any]:
    """Return a decoder of series that reads `labels`, whatever they are called, and no others."""
    fields = {f"label{number}": name for number, name in enumerate((*labels, TIME_LABEL))}
    metric = msgspec.defstruct(
        "Metric", [(field, str, "") for field in fields], rename=fields, gc=False, frozen=True
    )
    series = msgspec.defstruct(
        "Series", [("metric", metric), ("value", tuple[float, str], (-math.inf, "NaN"))], gc=False
    )
    return msgspec.json.Decoder(series)
