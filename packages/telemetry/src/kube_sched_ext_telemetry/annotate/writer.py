"""Changes to the apiserver: in batches, so many at a time, so many in a second."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from time import monotonic
from typing import Final, Literal, Protocol

from kube_sched_ext_cluster.errors import ApiError, ClusterError, NoAnswerError
from kube_sched_ext_telemetry.annotate.annotations import MANAGER, Annotations
from kube_sched_ext_telemetry.annotate.plan import Change
from kube_sched_ext_telemetry.annotate.settings import AnnotateSettings

Outcome = Literal["written", "gone", "conflict", "failed"]
"""gone: the node is not there any more, or is another one under the same name. conflict: another
field manager has one of the annotations, and ANNOTATE_FORCE is off."""

_NOT_FOUND: Final = 404
_CONFLICT: Final = 409
_INVALID: Final = 422
_LONGEST_PAUSE: Final = 60.0


class Applier(Protocol):
    """Applies annotations; `Api` does."""

    def apply_annotations(
        self, name: str, annotations: Annotations, *, uid: str, manager: str, force: bool
    ) -> None:
        """Make `annotations` all that `manager` has on the node."""


@dataclass(slots=True)
class Written:
    """What became of the changes."""

    counts: Counter[Outcome] = field(default_factory=Counter)
    left: int = 0
    """How many were not tried, because nothing succeeded any more."""
    errors: dict[Outcome, tuple[str, ClusterError]] = field(default_factory=dict)
    """The first node and error of each outcome."""


class Writer:
    """Writes changes, and gives up a round that leads nowhere."""

    def __init__(
        self,
        applier: Applier,
        settings: AnnotateSettings,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """Write through `applier`."""
        self._applier = applier
        self._settings = settings
        self._clock = clock
        self._next_at = clock()
        self._workers = ThreadPoolExecutor(settings.writers, "write")

    async def write(self, changes: Sequence[Change]) -> Written:
        """Write `changes`, until a batch in which something failed and nothing succeeded."""
        written = Written()
        size = self._settings.batch
        for start in range(0, len(changes), size):
            batch = changes[start : start + size]
            outcomes = await self._write_batch(batch, written)
            written.counts.update(outcomes)
            if "failed" in outcomes and "written" not in outcomes:
                written.left = len(changes) - start - len(batch)
                break
        return written

    def close(self) -> None:
        """Write no more; what is under way is finished."""
        self._workers.shutdown(wait=False, cancel_futures=True)

    async def _write_batch(self, batch: Sequence[Change], written: Written) -> list[Outcome]:
        async with asyncio.TaskGroup() as group:
            writes = []
            for change in batch:
                await self._turn()
                writes.append(group.create_task(self._write_one(change)))
        outcomes: list[Outcome] = []
        for change, write in zip(batch, writes, strict=True):
            error = write.result()
            outcomes.append(_outcome(error))
            if error is not None:
                written.errors.setdefault(outcomes[-1], (change.node.name, error))
        return outcomes

    async def _turn(self) -> None:
        """Wait until one more write may begin."""
        while True:
            wait = self._next_at - self._clock()
            if wait <= 0:
                break
            await asyncio.sleep(wait)
        self._next_at = self._clock() + 1 / self._settings.writes_per_second

    async def _write_one(self, change: Change) -> ClusterError | None:
        loop = asyncio.get_running_loop()
        error = await loop.run_in_executor(self._workers, self._apply, change)
        if isinstance(error, ApiError) and error.retry_after:
            pause = min(error.retry_after, _LONGEST_PAUSE)
            self._next_at = max(self._next_at, self._clock() + pause)
        return error

    def _apply(self, change: Change) -> ClusterError | None:
        try:
            self._applier.apply_annotations(
                change.node.name,
                change.annotations,
                uid=change.node.uid,
                manager=MANAGER,
                force=self._settings.force,
            )
        except (ApiError, NoAnswerError) as error:
            return error
        return None


def _outcome(error: ClusterError | None) -> Outcome:
    if error is None:
        return "written"
    if not isinstance(error, ApiError):
        return "failed"
    if "FieldManagerConflict" in error.causes:
        return "conflict"
    is_other = error.code == _INVALID and "metadata.uid" in error.message
    return "gone" if error.code in (_NOT_FOUND, _CONFLICT) or is_other else "failed"
