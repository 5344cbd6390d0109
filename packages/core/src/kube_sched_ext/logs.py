"""The log: structlog with the published levels, written to a stream by a thread of its own.

A verb never waits for the reader of the log: lines queue up to a limit, and are dropped and
counted beyond it.
"""

import logging
import sys
import threading
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue
from typing import Any, Final, Literal, TextIO

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

Level = Literal["TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "ALERT"]
Format = Literal["json", "console"]

_NUMBERS: Final[dict[str, int]] = {
    "TRACE": 5,
    "DEBUG": 10,
    "INFO": 20,
    "WARNING": 30,
    "ERROR": 40,
    "ALERT": 50,
}
_QUEUED_LINES: Final = 100_000
_GATHERING_SECONDS: Final = 0.02
"""Lines that come within this time are written together."""


class LineWriter:
    """Writes lines to `stream` without ever making the caller wait."""

    def __init__(self, stream: TextIO, level: Level = "INFO") -> None:
        """Write to `stream` what is at least as grave as `level`."""
        self.threshold = _NUMBERS[level]
        self.on_drop: Callable[[], None] = lambda: None
        self._stream = stream
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._drain, name="log", daemon=True)
        self._thread.start()

    def write(self, line: str) -> None:
        """Queue `line`, or drop it where too many wait."""
        if self._lines.qsize() < _QUEUED_LINES:
            self._lines.put(line)
        else:
            self.on_drop()

    def close(self, timeout: float = 2.0) -> None:
        """Write what is queued, for at most `timeout` seconds."""
        self._is_closing.set()
        self._lines.put(None)
        self._thread.join(timeout)

    def _drain(self) -> None:
        line = self._lines.get()
        while line is not None:
            # Woken for each line, this thread would take the processor from the next call.
            self._is_closing.wait(_GATHERING_SECONDS)
            lines = [line]
            try:
                while (line := self._lines.get_nowait()) is not None:
                    lines.append(line)
            except Empty:
                self._emit(lines)
                line = self._lines.get()
            else:
                self._emit(lines)

    def _emit(self, lines: list[str]) -> None:
        try:
            self._stream.write("\n".join(lines) + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            # The reader is gone. There is no better place left to say so.
            for _ in lines:
                self.on_drop()


class Log(structlog.BoundLoggerBase):
    """A logger with the published levels; `bind` gives it context."""

    _logger: LineWriter

    def trace(self, event: str, **context: object) -> None:
        """Log what a decision was made of, and replies."""
        self.at("TRACE", event, context)

    def debug(self, event: str, **context: object) -> None:
        """Log single decisions."""
        self.at("DEBUG", event, context)

    def info(self, event: str, **context: object) -> None:
        """Log what happens."""
        self.at("INFO", event, context)

    def warning(self, event: str, **context: object) -> None:
        """Log what may need a look."""
        self.at("WARNING", event, context)

    def error(self, event: str, **context: object) -> None:
        """Log what failed."""
        self.at("ERROR", event, context)

    def alert(self, event: str, **context: object) -> None:
        """Log what someone must act on now."""
        self.at("ALERT", event, context)

    def enabled(self, level: Level) -> bool:
        """Tell whether lines of `level` are written."""
        return _NUMBERS[level] >= self._logger.threshold

    def at(self, level: Level, event: str, context: Mapping[str, object]) -> None:
        """Log at `level`."""
        if self.enabled(level):
            self._proxy_to_logger("write", event, **{**context, "level": level})


def new_log(
    level: Level = "INFO", form: Format = "json", stream: TextIO | None = None
) -> tuple[Log, LineWriter]:
    """Return a log that writes to `stream` (standard error), and its writer, to be closed."""
    stream = sys.stderr if stream is None else stream
    processors: list[Processor] = [structlog.processors.TimeStamper(fmt="iso", utc=True)]
    if form == "console":
        processors += [_lower_level, structlog.dev.ConsoleRenderer(colors=stream.isatty())]
    else:
        processors += [structlog.processors.format_exc_info, _as_json]
    writer = LineWriter(stream, level)
    return Log(writer, processors, {}), writer


def _as_json(_: WrappedLogger, __: str, event: EventDict) -> str:
    ordered = {key: event[key] for key in ("timestamp", "level", "event")} | dict(event)
    return msgspec.json.encode(ordered, enc_hook=str).decode()


def _lower_level(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    event["level"] = event["level"].lower()
    return event


class StandardLogging(logging.Handler):
    """Hands what libraries log through the standard library to a `Log`."""

    def __init__(self, log: Log) -> None:
        """Write to `log`."""
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Write `record` at the nearest published level."""
        context: dict[str, Any] = {"logger": record.name}
        if record.exc_info:
            context["exc_info"] = record.exc_info
        message = record.getMessage()
        if record.levelno >= logging.CRITICAL:
            self._log.alert(message, **context)
        elif record.levelno >= logging.ERROR:
            self._log.error(message, **context)
        elif record.levelno >= logging.WARNING:
            self._log.warning(message, **context)
        elif record.levelno >= logging.INFO:
            self._log.info(message, **context)
        else:
            self._log.debug(message, **context)


def capture_standard_logging(log: Log) -> None:
    """Send everything that libraries log to `log`, from here on."""
    logging.basicConfig(handlers=[StandardLogging(log)], level=logging.INFO, force=True)
    # It tells its start and stop for each listener; we do so once for both.
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
