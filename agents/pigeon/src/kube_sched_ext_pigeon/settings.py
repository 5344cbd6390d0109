"""Settings of the pigeon agent, the first three under their published names."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec

from kube_sched_ext import setting


class PigeonSettings(msgspec.Struct, frozen=True):
    """What a good placement is, and where its numbers come from."""

    objective: Annotated[
        Literal["A_BINPACK", "LOAD_BALANCE", "CONSOLIDATE"],
        setting(
            "POLICY_OBJECTIVE",
            "What the cluster should become: nodes that differ from each other as pods do, nodes "
            "used alike, or as many nodes as possible either full or empty.",
        ),
    ] = "A_BINPACK"
    resource_count: Annotated[
        int,
        setting(
            "NUM_RESOURCES",
            "How many resources count, in this order: cpu, memory, pods, gpu, ephemeral storage.",
            ge=1,
            le=5,
        ),
    ] = 2
    prime: Annotated[
        int,
        setting(
            "POLICY_RESOURCE_INDEX",
            "Index of the prime resource, 0 for cpu: the one that LOAD_BALANCE and CONSOLIDATE "
            "look at.",
            ge=0,
            allowed="an integer from 0 to NUM_RESOURCES - 1",
        ),
    ] = 0
    usage: Annotated[
        Literal["auto", "pods", "annotations"],
        setting(
            "PIGEON_USAGE",
            "What a node's usage is: the sum over the pods bound to it, which only a live cluster "
            "shows, or its requested-* annotations. auto: the pods where they are known.",
        ),
    ] = "auto"
    gpu_resource: Annotated[
        str,
        setting(
            "PIGEON_GPU_RESOURCE",
            "The resource that counts as gpu.",
            pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$",
            allowed="an extended resource such as nvidia.com/gpu",
        ),
    ] = "nvidia.com/gpu"
    history_file: Annotated[
        str,
        setting(
            "PIGEON_HISTORY_FILE",
            "File that keeps the demand history of A_BINPACK over a restart; one per process. "
            "Without it each start begins anew.",
        ),
    ] = ""

    def __post_init__(self) -> None:
        """Check what no single field shows."""
        problems = []
        if self.prime >= self.resource_count:
            allowed = ", ".join(map(str, range(self.resource_count)))
            problems.append(
                f"POLICY_RESOURCE_INDEX: {self.prime} is none of the NUM_RESOURCES="
                f"{self.resource_count} resources; allowed are {allowed}"
            )
        if self.history_file and not Path(self.history_file).parent.is_dir():
            problems.append(
                f"PIGEON_HISTORY_FILE: the folder of {self.history_file!r} does not exist"
            )
        if problems:
            raise ValueError("\n".join(problems))
