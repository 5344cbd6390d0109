"""Which nodes have which images: an index from image to rows."""

from collections.abc import Callable, Iterable
from time import time
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kube_sched_ext import BoundPod, ContainerImage, NodeReader, Rows
from kube_sched_ext_image.references import image_keys

_MAX_SIZE: Final = 2**63 - 1
"""The largest size in bytes that Kubernetes' own type holds."""


class StoredImage:
    """An image as nodes report it, and the rows of the nodes that have it."""

    __slots__ = ("_rows", "holders", "keys", "size")

    def __init__(self, keys: tuple[str, ...], size: int = 0) -> None:
        """Start without nodes; `size` is in bytes, 0 where nobody has told it yet."""
        self.keys = keys
        self.size = size
        self.holders: set[int] = set()
        self._rows: Rows | None = None

    @property
    def rows(self) -> Rows:
        """The holders as an array."""
        if self._rows is None:
            self._rows = np.fromiter(self.holders, np.intp, len(self.holders))
        return self._rows

    def add(self, row: int) -> None:
        """Note that the node in `row` has the image."""
        self.holders.add(row)
        self._rows = None

    def discard(self, row: int) -> None:
        """Note that the node in `row` has it no more."""
        self.holders.discard(row)
        self._rows = None


class _Pull(NamedTuple):
    row: int
    until: float


class ImageStore:
    """The images of nodes by row, found by any of their keys."""

    def __init__(self, pull_seconds: float = 0.0, clock: Callable[[], float] = time) -> None:
        """Start without nodes.

        Args:
            pull_seconds: how long the images of a pod count as present after it got its node.
            clock: seconds since the epoch.
        """
        self.row_count = 1
        self._pull_seconds = pull_seconds
        self._clock = clock
        self._pulls: dict[str, dict[str, _Pull]] = {}
        self._pods_by_row: dict[int, dict[str, tuple[str, ...]]] = {}
        self._images: dict[ContainerImage, StoredImage] = {}
        self._by_key: dict[str, list[StoredImage]] = {}
        self._by_row: dict[int, list[ContainerImage]] = {}

    def put(self, row: int, node: NodeReader) -> None:
        """Take over the images of `node`."""
        self.row_count = max(self.row_count, row + 1)
        images = node.images
        held = self._by_row.get(row)
        if held == images:
            return
        self._by_row[row] = images
        for image in images:
            stored = self._images.get(image)
            if stored is None:
                stored = self._new(image)
            stored.add(row)
        if held:
            self._discard(row, set(held).difference(images))

    def clear(self, row: int) -> None:
        """Forget the node in `row`."""
        self.row_count = max(self.row_count, row + 1)
        self._discard(row, set(self._by_row.pop(row, ())))
        for uid in list(self._pods_by_row.get(row, ())):
            self._forget_pod(row, uid)

    def put_pod(self, row: int, pod: BoundPod) -> None:
        """Count the images of `pod` as present from now on, where it got its node just now."""
        until = pod.bound_at + self._pull_seconds
        if until <= self._clock():
            return
        keys = image_keys(pod.images)
        self._pods_by_row.setdefault(row, {})[pod.uid] = keys
        for key in keys:
            self._pulls.setdefault(key, {})[pod.uid] = _Pull(row, until)

    def remove_pod(self, row: int, pod: BoundPod) -> None:
        """Count the images of `pod` as present only where the node reports them."""
        self._forget_pod(row, pod.uid)

    def _forget_pod(self, row: int, uid: str) -> None:
        pods = self._pods_by_row.get(row, {})
        for key in pods.pop(uid, ()):
            del self._pulls[key][uid]
            if not self._pulls[key]:
                del self._pulls[key]
        if not pods:
            self._pods_by_row.pop(row, None)

    def _pulled(self, key: str) -> StoredImage | None:
        """Return the image that nodes are pulling under `key`, if any is."""
        now = self._clock()
        for uid, pull in list(self._pulls.get(key, {}).items()):
            if pull.until <= now:
                self._forget_pod(pull.row, uid)
        pulls = self._pulls.get(key)
        if not pulls:
            return None
        image = StoredImage((key,))
        for pull in pulls.values():
            image.add(pull.row)
        return image

    def _new(self, image: ContainerImage) -> StoredImage:
        size = min(max(image.size_bytes, 0), _MAX_SIZE)
        stored = self._images[image] = StoredImage(image_keys(image.names or ()), size)
        for key in stored.keys:
            self._by_key.setdefault(key, []).append(stored)
        return stored

    def _discard(self, row: int, images: set[ContainerImage]) -> None:
        for image in images:
            stored = self._images[image]
            stored.discard(row)
            if stored.holders:
                continue
            del self._images[image]
            for key in stored.keys:
                self._by_key[key].remove(stored)
                if not self._by_key[key]:
                    del self._by_key[key]

    def find(self, key: str) -> list[StoredImage]:
        """Return the images that some node has, or is pulling, under `key`."""
        stored = self._by_key.get(key, [])
        pulled = self._pulled(key)
        return stored if pulled is None else [*stored, pulled]

    def presence(self, images: Iterable[StoredImage]) -> NDArray[np.bool_]:
        """Tell for each row whether its node has one of `images`; shape (row_count,)."""
        has = np.zeros(self.row_count, np.bool_)
        for image in images:
            has[image.rows] = True
        return has
