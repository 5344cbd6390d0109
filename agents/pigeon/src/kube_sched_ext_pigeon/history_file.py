"""The demand history's file, written in the background.

An agent has no task in the event loop, and a call must not wait for a disk. So a call that counts
a pod encodes the history now and then, which takes less than a millisecond, and a thread writes
what it gets. Only the calls' own thread reads the history: nothing needs a lock.
"""

import atexit
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Final

from kube_sched_ext_pigeon.history import DemandHistory, HistoryFileError, write_file

SECONDS: Final = 10.0
"""The least time between two writes."""

_LOG: Final = logging.getLogger(__name__)


class HistoryFile:
    """A history that is read from a file, and saved to it every few seconds and at exit."""

    def __init__(self, path: Path, resources: int, clock: Callable[[], float] = monotonic) -> None:
        """Read the file; one that is of no use is reported, and moved aside at the first save."""
        self._path = path
        self._clock = clock
        self._due = clock()
        self._is_changed = False
        self._is_damaged = False
        self._write: Future[None] | None = None
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="pigeon-history")
        self.problem = ""
        """Why the file is not the history, while it is not."""
        try:
            self.history = DemandHistory.load(path, resources)
        except HistoryFileError as error:
            self.history = DemandHistory(resources)
            self._is_damaged = True
            self._report(f"ignored: {error}")
        atexit.register(self.close)

    def changed(self) -> None:
        """Note that the history changed, and have it written if it is time to."""
        self._is_changed = True
        if self._clock() >= self._due and (self._write is None or self._write.done()):
            self._due = self._clock() + SECONDS
            self._is_changed = False
            self._write = self._executor.submit(self._save, self.history.encode())

    def close(self) -> None:
        """Write what is not written yet."""
        atexit.unregister(self.close)
        self._executor.shutdown()
        if self._is_changed or (self._write is not None and self.problem):
            self._save(self.history.encode())

    def _save(self, data: bytes) -> None:
        try:
            if self._is_damaged and self._path.is_file():
                self._path.replace(self._path.with_name(f"{self._path.name}.damaged"))
            self._is_damaged = False
            write_file(self._path, data)
        except OSError as error:
            self._report(f"not saved: {self._path}: {error.strerror}")
        else:
            self.problem = ""

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            _LOG.warning("PIGEON_HISTORY_FILE %s", problem)
        self.problem = problem
