"""The image agent."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kube_sched_ext import Agent, Nodes, NodeStore, Pod, Scores, priority
from kube_sched_ext_image import model
from kube_sched_ext_image.references import image_key
from kube_sched_ext_image.settings import ImageSettings
from kube_sched_ext_image.store import ImageStore, StoredImage


class Image(Agent[ImageSettings]):
    """Prefers nodes that already have the images of a pod."""

    name = "image"
    settings_type = ImageSettings

    def new_store(self) -> NodeStore:
        """Keep an index of images instead of columns."""
        return ImageStore(self.settings.pull_seconds)

    @priority("image_score")
    def image_score(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score how many of the pod's distinct container images the node has, at most 10."""
        store = nodes.store(ImageStore)
        by_reference = _wanted(pod.container_images, store)
        references = [store.presence(images)[nodes.rows] for images in by_reference.values()]
        images = [store.presence([image])[nodes.rows] for image in _distinct(by_reference.values())]
        scores = model.image_scores(_stacked(references, nodes), _stacked(images, nodes))
        return Scores(scores, dict(zip(by_reference, references, strict=True)))

    @priority("image_locality")
    def image_locality(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score the share of the pod's image bytes on the node, images on few nodes for less."""
        store = nodes.store(ImageStore)
        by_reference = _wanted([*pod.container_images, *pod.volume_images], store)
        groups = _merged(by_reference)
        by_row = [store.presence(images) for images in groups.values()]
        presence = [has[nodes.rows] for has in by_row]
        exact = model.exact_localities(
            _stacked(presence, nodes),
            np.array([max(image.size for image in images) for images in groups.values()], float),
            np.array([np.count_nonzero(has) for has in by_row], float),
            self.settings.spread_nodes,
        )
        made_of = dict(zip(groups, presence, strict=True))
        return Scores(model.locality_scores(exact), {**made_of, "exact": exact})


def _wanted(references: Iterable[str], store: ImageStore) -> dict[str, list[StoredImage]]:
    """Return the stored images under each distinct reference that some node has."""
    keys = dict.fromkeys(key for reference in references if (key := image_key(reference)))
    return {key: images for key in keys if (images := store.find(key))}


def _distinct(groups: Iterable[list[StoredImage]]) -> dict[StoredImage, None]:
    return dict.fromkeys(image for images in groups for image in images)


def _merged(by_reference: dict[str, list[StoredImage]]) -> dict[str, list[StoredImage]]:
    """Merge references that share an image: a tag and a digest may name the same one."""
    merged: dict[str, list[StoredImage]] = {}
    for reference, images in by_reference.items():
        shared = [name for name, others in merged.items() if not set(images).isdisjoint(others)]
        parts = [merged.pop(name) for name in shared]
        name = shared[0] if shared else reference
        merged[name] = list(_distinct([*parts, images]))
    return merged


def _stacked(arrays: list[NDArray[np.bool_]], nodes: Nodes) -> NDArray[np.bool_]:
    return np.array(arrays) if arrays else np.zeros((0, len(nodes)), np.bool_)
