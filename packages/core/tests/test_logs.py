"""The log never makes a verb wait."""

import io
import json
import logging
import threading

import pytest

from kube_sched_ext.logs import Level, StandardLogging, new_log


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("TRACE", ["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "ALERT"]),
        ("INFO", ["INFO", "WARNING", "ERROR", "ALERT"]),
        ("ALERT", ["ALERT"]),
    ],
)
def test_lines_below_the_level_are_not_written(level: Level, shown: list[str]) -> None:
    """In the published order of levels."""
    stream = io.StringIO()
    log, writer = new_log(level, "json", stream)
    for write in (log.trace, log.debug, log.info, log.warning, log.error, log.alert):
        write("x", n=1)
    writer.close()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [line["level"] for line in lines] == shown
    assert all(line["event"] == "x" and line["n"] == 1 and line["timestamp"] for line in lines)


def test_the_console_format_is_for_people() -> None:
    """No JSON, no colours where there is no terminal."""
    stream = io.StringIO()
    log, writer = new_log("INFO", "console", stream)
    log.bind(agent="foo").info("filter", pod="a/b")
    writer.close()
    line = stream.getvalue()
    assert "[info" in line
    assert "agent=foo" in line
    assert "\x1b" not in line


def test_a_value_that_json_does_not_know_is_written_as_text() -> None:
    """A log line must not fail."""
    stream = io.StringIO()
    log, writer = new_log("INFO", "json", stream)
    log.info("x", value=complex(1, 2))
    writer.close()
    assert json.loads(stream.getvalue())["value"] == "(1+2j)"


class Blocked(io.StringIO):
    """A stream whose reader is asleep until it is woken."""

    def __init__(self) -> None:
        super().__init__()
        self.awake = threading.Event()

    def write(self, text: str) -> int:
        """Wait for the reader."""
        self.awake.wait()
        return super().write(text)


def test_lines_that_nobody_reads_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller goes on; what was queued is written later."""
    monkeypatch.setattr("kube_sched_ext.logs._QUEUED_LINES", 2)
    stream = Blocked()
    log, writer = new_log("INFO", "json", stream)
    dropped: list[int] = []
    writer.on_drop = lambda: dropped.append(1)
    for number in range(50):
        log.info("x", n=number)
    stream.awake.set()
    writer.close()
    written = len(stream.getvalue().splitlines())
    assert dropped
    assert written + len(dropped) == 50


def test_closing_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process must be able to stop although its log is stuck."""
    monkeypatch.setattr("kube_sched_ext.logs._QUEUED_LINES", 1)
    stream = Blocked()
    log, writer = new_log("INFO", "json", stream)
    for _ in range(5):
        log.info("x")
    writer.close(timeout=0.01)
    stream.awake.set()


def test_a_reader_that_is_gone_stops_nobody() -> None:
    """Its lines are dropped."""
    stream = io.StringIO()
    log, writer = new_log("INFO", "json", stream)
    dropped: list[int] = []
    writer.on_drop = lambda: dropped.append(1)
    stream.close()
    log.info("x")
    writer.close()
    assert dropped == [1]


@pytest.mark.parametrize(
    ("number", "level"),
    [
        (logging.CRITICAL, "ALERT"),
        (logging.ERROR, "ERROR"),
        (logging.WARNING, "WARNING"),
        (logging.INFO, "INFO"),
        (logging.DEBUG, "DEBUG"),
    ],
)
def test_what_libraries_log_goes_the_same_way(number: int, level: str) -> None:
    """With the logger's name, and the exception where there is one."""
    stream = io.StringIO()
    log, writer = new_log("TRACE", "json", stream)
    record = logging.makeLogRecord({"name": "lib", "levelno": number, "msg": "%s!", "args": ("x",)})
    StandardLogging(log).emit(record)
    try:
        raise ValueError("bad")  # noqa: TRY301
    except ValueError as error:
        record.exc_info = (ValueError, error, None)
    StandardLogging(log).emit(record)
    writer.close()
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["event"], first["level"], first["logger"]) == ("x!", level, "lib")
    assert "ValueError: bad" in second["exception"]
