"""List, then watch: a view that follows what the apiserver has."""

import asyncio
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import Final, Generic, Protocol, Self, TypeVar

import msgspec

from kube_sched_ext.wire import UNDECODABLE
from kube_sched_ext_cluster.api import Collection, Stream, error_of
from kube_sched_ext_cluster.backoff import Backoff
from kube_sched_ext_cluster.errors import ApiError, ClusterError, NoAnswerError
from kube_sched_ext_cluster.events import decode_event, decode_meta, decode_page
from kube_sched_ext_cluster.handover import Handover, Step
from kube_sched_ext_cluster.reports import WatchReports
from kube_sched_ext_cluster.resources import Resource
from kube_sched_ext_cluster.state import WatchState

T = TypeVar("T")
Seen_contra = TypeVar("Seen_contra", contravariant=True)

_OK: Final = 200


class View(Protocol[Seen_contra]):
    """What follows the apiserver; a `NodeTable` is one. It is only called on the event loop."""

    def put(self, seen: Seen_contra, /) -> None:
        """Add an object, or take over its changes; it may come again unchanged."""

    def remove(self, key: str, /) -> None:
        """Forget an object that was put."""


class Source(Protocol):
    """Where lists and watches come from; `Api` is one."""

    def list_page(self, collection: Collection, *, limit: int, next_token: str = "") -> bytes:
        """Return one page of a list."""

    def watch(
        self, collection: Collection, *, version: str, seconds: int, silence_seconds: float
    ) -> Stream:
        """Return what changes after `version`."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The limits of a watch, in seconds."""

    shortest_watch: int = 300
    longest_watch: int = 600
    """How long the apiserver is asked to keep a watch up: chosen anew for each, from this range,
    so that watches that began together do not end together."""
    silence: float = 90.0
    """Nothing may come for so long. A bookmark comes each minute, give or take a second; one that
    is late by half a minute is lost."""
    short: float = 1.0
    """A watch that ended sooner, and brought nothing, counts as a failure."""
    page: int = 250
    """Objects on a page: of nodes with 50 images about 3.5 MB, which take 5 ms to scan."""


class Reflector(Generic[T]):
    """Keeps `view` equal to what the apiserver has.

    A thread lists page by page, then watches from the list's version. It decodes there, and hands
    changes to the event loop in slices. A watch that ends is resumed from the last version seen,
    without a list; where that version is no longer kept, a new list begins, and what is gone from
    it is removed when it is complete, not before. Failures are retried for ever, ever more slowly.
    """

    def __init__(
        self,
        resource: Resource[T],
        source: Source,
        view: View[T],
        reports: WatchReports,
        *,
        timing: Timing | None = None,
        backoff: Backoff | None = None,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """Prepare; `start` begins.

        Args:
            resource: what to watch.
            source: where from.
            view: what to keep up to date.
            reports: who is told.
            timing: limits; the defaults where left out.
            backoff: how long to wait after failures; 0.2 to 30 s where left out.
            wait: waits some seconds; until `stop` at the longest, where left out.
        """
        self.state = WatchState()
        self._resource = resource
        self._source = source
        self._view = view
        self._reports = reports
        self._timing = timing or Timing()
        self._backoff = backoff or Backoff()
        self._stopping = threading.Event()
        self._wait = wait or self._stopping.wait
        # Versions by key: a list hands over only what differs.
        self._known: dict[str, str] = {}
        self._version = ""
        self._malformed_at = ""
        self._is_failing = False
        self._stream: Stream | None = None
        self._stream_lock = threading.Lock()

    def start(self) -> None:
        """Begin, with the running event loop as the one that owns the view."""
        loop = asyncio.get_running_loop()
        self._handover = Handover(
            loop, lambda error: self._reports.refused_by_view(self._resource.name, error)
        )
        self._synced = asyncio.Event()
        self._ended = asyncio.Event()
        self.state.changed_at = self.state.clock()
        self._reports.begin(self._resource.name, self.state)
        # A daemon: a read that cannot be ended must not keep the process.
        threading.Thread(
            target=self._run, args=(loop,), name=f"watch-{self._resource.name}", daemon=True
        ).start()

    async def stop(self, seconds: float = 2.0) -> bool:
        """End the watch and its connection; no change reaches the view from here on.

        Returns whether the thread ended within `seconds`. One that waits for a connection or for
        a page of a list ends with it, at the latest when that times out.
        """
        self._stopping.set()
        self._handover.close()
        with self._stream_lock:
            if self._stream is not None:
                self._stream.shut_down()
        try:
            async with asyncio.timeout(seconds):
                await self._ended.wait()
        except TimeoutError:
            return False
        return True

    async def synced(self) -> None:
        """Wait until the first list is in the view, to its last object."""
        await self._synced.wait()

    async def __aenter__(self) -> Self:
        """Start."""
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop."""
        await self.stop()

    def _run(self, loop: asyncio.AbstractEventLoop) -> None:
        while not self._stopping.is_set():
            seconds = self._attempt()
            if seconds and not self._stopping.is_set():
                self._wait(seconds)
        self._set(loop, self._ended)

    def _set(self, loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
        try:
            loop.call_soon_threadsafe(event.set)
        except RuntimeError:
            # The loop ended before us; nobody waits.
            return

    def _attempt(self) -> float:
        """List if need be, watch until that ends; return the seconds to wait before the next."""
        began_at, began_with = monotonic(), self._version
        try:
            if not self._version:
                self._list()
                began_at, began_with = monotonic(), self._version
            self._watch()
            reason: ClusterError | str = "Closed"
        except NoAnswerError as error:
            is_silent = error.reason == "Timeout" and self.state.connected
            reason = "Silent" if is_silent else error
        except ApiError as error:
            reason = error
        except Exception as error:  # noqa: BLE001  # the view would stand still without a word
            self._version = ""
            self.state.disconnect("Fault", repr(error))
            self._reports.fault(self._resource.name, error)
            return self._backoff.next()
        if self._stopping.is_set():
            return 0.0
        watched = self.state.connected and monotonic() - began_at >= self._timing.short
        if watched or self._version != began_with:
            self._backoff.reset()
        return self._after(reason)

    def _after(self, reason: ClusterError | str) -> float:
        """Tell why a list or a watch ended; return the seconds to wait."""
        name, state = self._resource.name, self.state
        was_connected = state.connected
        is_ordinary = isinstance(reason, str)
        if isinstance(reason, ApiError) and reason.needs_list:
            self._version = ""
            is_ordinary = reason.is_expired
        elif isinstance(reason, NoAnswerError) and reason.reason == "Malformed":
            # What was malformed on its way comes again whole. What is malformed for good is lost.
            if self._malformed_at == self._version:
                self._version = ""
            self._malformed_at = self._version
        elif isinstance(reason, NoAnswerError):
            is_ordinary = reason.reason == "Disconnected" and was_connected
        if is_ordinary and not self._backoff.failures:
            word = reason if isinstance(reason, str) else reason.reason
            state.disconnect(word)
            self._reports.ended(name, word)
            # The first time costs nothing, the second in a row without any progress does.
            self._backoff.next()
            return 0.0
        seconds = self._backoff.next()
        if isinstance(reason, str):
            reason = NoAnswerError("Disconnected", "watches end as soon as they begin")
        elif isinstance(reason, ApiError):
            seconds = max(seconds, min(reason.retry_after, 60.0))
        self._is_failing = True
        state.disconnect(reason.reason, str(reason))
        self._reports.failed(name, reason, state, seconds)
        return seconds

    def _list(self) -> None:
        began_at = monotonic()
        seen: set[str] = set()
        next_token = ""
        while not self._stopping.is_set():
            body = self._source.list_page(
                self._resource, limit=self._timing.page, next_token=next_token
            )
            page = decode_page(body)
            steps: list[Step] = []
            for item in page.items or ():
                self._list_item(item, seen, steps)
            self._handover.send(steps)
            next_token = page.metadata.next_token
            if not next_token:
                break
        else:
            return
        gone = [key for key in self._known if key not in seen]
        for key in gone:
            del self._known[key]
        self._handover.send([*(partial(self._view.remove, key) for key in gone), self._first_list])
        self._version = page.metadata.resource_version
        self.state.heard()
        self.state.lists += 1
        self.state.objects = len(self._known)
        self._reports.listed(self._resource.name, len(seen), len(gone), monotonic() - began_at)

    def _first_list(self) -> None:
        self.state.synced = True
        self._synced.set()

    def _list_item(self, item: msgspec.Raw, seen: set[str], steps: list[Step]) -> None:
        try:
            meta = decode_meta(item)
        except NoAnswerError as error:
            self._unreadable("", error)
            return
        key = self._resource.key(meta)
        seen.add(key)
        if self._known.get(key) != meta.resource_version:
            self._put(key, meta.resource_version, item, steps)

    def _watch(self) -> None:
        timing, state = self._timing, self.state
        stream = self._source.watch(
            self._resource,
            version=self._version,
            seconds=random.randint(timing.shortest_watch, timing.longest_watch),  # noqa: S311  # spreads load, guards nothing
            silence_seconds=timing.silence,
        )
        with stream:
            with self._stream_lock:
                self._stream = stream
            try:
                if self._stopping.is_set():
                    return
                if self._is_failing:
                    self._is_failing = False
                    self._reports.resumed(self._resource.name, state.down_seconds)
                state.connect()
                for lines in stream:
                    self._take(lines)
            finally:
                with self._stream_lock:
                    self._stream = None

    def _take(self, lines: list[bytes]) -> None:
        steps: list[Step] = []
        try:
            for line in lines:
                self._take_line(line, steps)
        finally:
            # The version moved with each line, so what came before a bad one must arrive.
            self._handover.send(steps)
            self.state.objects = len(self._known)

    def _take_line(self, line: bytes, steps: list[Step]) -> None:
        event = decode_event(line)
        if event.type == "ERROR":
            raise error_of(event.object, _OK)
        meta = decode_meta(event.object)
        if event.type == "DELETED":
            key = self._resource.key(meta)
            if self._known.pop(key, None) is not None:
                steps.append(partial(self._view.remove, key))
        elif event.type != "BOOKMARK":
            self._put(self._resource.key(meta), meta.resource_version, event.object, steps)
        self._version = meta.resource_version
        self.state.heard()

    def _put(self, key: str, version: str, item: msgspec.Raw, steps: list[Step]) -> None:
        try:
            seen = self._resource.read(item)
        except UNDECODABLE as error:
            self._unreadable(key, error)
            return
        self._known[key] = version
        steps.append(partial(self._view.put, seen))

    def _unreadable(self, key: str, error: Exception) -> None:
        self.state.unreadable += 1
        self._reports.unreadable(self._resource.name, key, error)
