"""What pods asked for so far: the demand side of A_BINPACK.

With k = min(k + 1, 100) pods counted, the moments of the demands are M <- (1 - 1/k) M + (1/k) new:
plain averages over the first 100 pods, then averages that forget a pod within a few hundred more.
Kept are not M1 = E d and M2 = E dd' themselves but the mean M1 and the covariance M2 - M1 M1',
whose recurrence follows from theirs: taken at the end, the difference loses most digits where all
pods ask for nearly the same, and with them whether the pods vary at all.

A history belongs to one process and one thread.
"""

import os
import tempfile
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Self

import msgspec
import numpy as np
import numpy.typing as npt

__all__ = ["DemandHistory", "HistoryFileError", "Moments", "write_file"]

#: A pod's weight in the moments is at least one in this many.
MAX_COUNT: Final = 100

#: How many UIDs are remembered. A pod that is tried again after this many others counts again.
MAX_UIDS: Final = 10_000

_VERSION: Final = 1


class HistoryFileError(Exception):
    """A history file that can't be read, is damaged, or is for another number of resources."""


@dataclass(frozen=True, slots=True, eq=False)
class Moments:
    """Mean (r,) and covariance (r, r) of the demands, in their units, and the count k, 0..100.

    The arrays are read-only and never change: what a request holds stays as it was.
    """

    mean: npt.NDArray[np.float64]
    covariance: npt.NDArray[np.float64]
    count: int

    @property
    def second(self) -> npt.NDArray[np.float64]:
        """The second moments M2 = E dd' (r, r)."""
        return self.covariance + np.outer(self.mean, self.mean)


class DemandHistory:
    """The moments of the demands of the pods seen, each pod counted once.

    A pod is known by its UID while that is among the last `MAX_UIDS` seen; one without a UID counts
    each time.
    """

    def __init__(self, resources: int) -> None:
        """Start without pods: all moments 0."""
        self._moments = _moments(np.zeros(resources), np.zeros((resources, resources)), 0)
        self._uids: OrderedDict[str, None] = OrderedDict()

    @property
    def moments(self) -> Moments:
        """The moments as of now."""
        return self._moments

    def add(self, uid: str | None, demand: npt.NDArray[np.float64]) -> bool:
        """Count a pod's demand (r,) unless its UID was seen lately; tell whether it counted."""
        old = self._moments
        if demand.shape != old.mean.shape or not np.isfinite(demand).all():
            # One NaN would stay in the moments for ever.
            raise ValueError(f"demand must be {len(old.mean)} finite numbers, not {demand}")
        if uid and self._seen(uid):
            return False
        count = min(old.count + 1, MAX_COUNT)
        weight = 1 / count
        step = demand - old.mean
        self._moments = _moments(
            old.mean + weight * step,
            (1 - weight) * (old.covariance + weight * np.outer(step, step)),
            count,
        )
        return True

    def encode(self) -> bytes:
        """Return the history as JSON, for `write_file` to store, maybe in another thread."""
        return msgspec.json.encode(
            _Stored(
                version=_VERSION,
                count=self._moments.count,
                mean=self._moments.mean.tolist(),
                covariance=self._moments.covariance.tolist(),
                uids=list(self._uids),
            )
        )

    @classmethod
    def decode(cls, data: bytes, resources: int) -> Self:
        """Return the history that `encode` gave; raise HistoryFileError if it isn't one."""
        try:
            stored = msgspec.json.decode(data, type=_Stored)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise HistoryFileError(f"not a demand history: {error}") from error
        history = cls(resources)
        history._moments = stored.moments(resources)
        history._uids = OrderedDict.fromkeys(stored.uids)
        return history

    @classmethod
    def load(cls, path: Path, resources: int) -> Self:
        """Read a history file; without one start anew. HistoryFileError if it is of no use."""
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return cls(resources)
        except OSError as error:
            raise HistoryFileError(f"{path}: {error.strerror}") from error
        try:
            return cls.decode(data, resources)
        except HistoryFileError as error:
            raise HistoryFileError(f"{path}: {error}") from error

    def save(self, path: Path) -> None:
        """Write the history to a file: all of it or, on an error, nothing. Raises OSError."""
        write_file(path, self.encode())

    def _seen(self, uid: str) -> bool:
        """Tell whether the UID was seen lately, and remember it."""
        if uid in self._uids:
            self._uids.move_to_end(uid)
            return True
        self._uids[uid] = None
        if len(self._uids) > MAX_UIDS:
            self._uids.popitem(last=False)
        return False


def write_file(path: Path, data: bytes) -> None:
    """Replace a file's content by data, so that a reader or a crash sees the old or the new."""
    # In the same folder, as only within a file system a rename is atomic.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    """The file's content."""

    version: int
    count: Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)]
    mean: list[float]
    covariance: list[list[float]]
    uids: Annotated[list[str], msgspec.Meta(max_length=MAX_UIDS)]

    def moments(self, resources: int) -> Moments:
        """Return the moments, if they are some of that many resources."""
        if self.version != _VERSION:
            raise HistoryFileError(f"version {self.version}, expected {_VERSION}")
        if _lengths(self.mean, self.covariance) != [resources] * (resources + 2):
            raise HistoryFileError(f"moments of {len(self.mean)} resources, expected {resources}")
        found = _moments(np.array(self.mean), np.array(self.covariance), self.count)
        variances = np.diagonal(found.covariance)
        lopsided = found.covariance != found.covariance.T
        if (found.mean < 0).any() or (variances < 0).any() or lopsided.any():
            raise HistoryFileError("moments that no demands have")
        return found


def _lengths(mean: Sequence[float], covariance: Sequence[Sequence[float]]) -> list[int]:
    return [len(mean), len(covariance), *map(len, covariance)]


def _moments(
    mean: npt.NDArray[np.float64], covariance: npt.NDArray[np.float64], count: int
) -> Moments:
    mean.flags.writeable = False
    covariance.flags.writeable = False
    return Moments(mean, covariance, count)
