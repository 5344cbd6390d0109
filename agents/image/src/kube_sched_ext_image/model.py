"""How images on nodes become scores."""

import numpy as np
from numpy.typing import NDArray

MAX_SCORE = 10


def image_scores(references: NDArray[np.bool_], images: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many distinct images each node has, at most 10; shape (n,).

    Args:
        references: whether the node has what the pod calls it, shape (references, n).
        images: whether the node has the image, shape (images, n). Of several references to one
            image the image counts, of several images under one reference the reference.
    """
    distinct = np.minimum(references.sum(axis=0), images.sum(axis=0))
    return np.asarray(np.minimum(distinct, MAX_SCORE))


def exact_localities(
    presence: NDArray[np.bool_],
    sizes: NDArray[np.float64],
    node_counts: NDArray[np.float64],
    spread_nodes: int,
) -> NDArray[np.float64]:
    """Return 10 sum_i size_i w_i [i on k] / sum_i size_i for each node k; shape (n,).

    w_i = min(1, node_count_i / spread_nodes). It is the idea of kube-scheduler's ImageLocality
    without its bounds on size.

    Args:
        presence: whether node k has image i, shape (images, n).
        sizes: bytes of each image, shape (images,).
        node_counts: number of nodes in the cluster that have the image, shape (images,).
        spread_nodes: number of nodes from which on an image counts in full.
    """
    total = sizes.sum()
    if total <= 0:
        return np.zeros(presence.shape[1])
    # Sums of whole numbers are exact, so that halves are halves.
    counted = np.minimum(node_counts, spread_nodes)
    return np.asarray(MAX_SCORE * ((sizes * counted) @ presence) / (spread_nodes * total))


def locality_scores(exact: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return exact localities as integers, halves rounded up."""
    return np.floor(exact + 0.5).astype(np.int64)
