"""Settings of the image agent."""

from typing import Annotated

import msgspec

from kube_sched_ext import setting


class ImageSettings(msgspec.Struct, frozen=True):
    """How images count."""

    spread_nodes: Annotated[
        int,
        setting(
            "IMAGE_SPREAD_NODES",
            "Number of nodes that must have an image for image_locality to count it in full; with "
            "fewer it counts in proportion, so that one warm node is not swamped. 1: always in "
            "full.",
            ge=1,
        ),
    ] = 3
    pull_seconds: Annotated[
        float,
        setting(
            "IMAGE_PULL_SECONDS",
            "Time for which the images of a pod count as present after it got its node: they are "
            "being pulled. 0: they do not. Only a live cluster shows the pods.",
            ge=0,
        ),
    ] = 300.0
