"""From a thread that waits for the network to the event loop that owns the view."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable
from time import perf_counter
from typing import Final

Step = Callable[[], None]
"""One change to the view."""

_WAITING: Final = 1000
_SLICE_SECONDS: Final = 0.002


class Handover:
    """Runs steps on the event loop in the order given, a few milliseconds of them at a time.

    Between two slices the loop does whatever else is due. The thread waits while too many steps
    do: a view that is slow to change slows the reading, and no list piles up in memory.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        failed: Callable[[Exception], None],
        *,
        waiting: int = _WAITING,
        slice_seconds: float = _SLICE_SECONDS,
    ) -> None:
        """Run on `loop`; `failed` is told what a step raised, and the next step follows."""
        self._loop = loop
        self._failed = failed
        self._limit = waiting
        self._slice_seconds = slice_seconds
        self._steps: deque[Step] = deque()
        self._changed = threading.Condition()
        self._is_scheduled = False
        self._is_closed = False

    def send(self, steps: Iterable[Step]) -> None:
        """Run `steps` after all that were sent before; waits for room. Nothing once closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_closed or len(self._steps) < self._limit)
            if self._is_closed:
                return
            self._steps.extend(steps)
            if self._is_scheduled or not self._steps:
                return
            self._is_scheduled = True
        try:
            self._loop.call_soon_threadsafe(self._run)
        except RuntimeError:
            # The loop ended without telling us.
            self.close()

    def close(self) -> None:
        """Drop the steps that wait, and let go of a thread that waits for room."""
        with self._changed:
            self._is_closed = True
            self._steps.clear()
            self._changed.notify_all()

    def _run(self) -> None:
        deadline = perf_counter() + self._slice_seconds
        while (step := self._next()) is not None:
            try:
                step()
            except Exception as error:  # noqa: BLE001  # one bad object must not stop the view
                self._failed(error)
            if perf_counter() >= deadline:
                self._loop.call_soon(self._run)
                return

    def _next(self) -> Step | None:
        with self._changed:
            if len(self._steps) <= self._limit:
                self._changed.notify_all()
            if self._steps:
                return self._steps.popleft()
            self._is_scheduled = False
            return None
