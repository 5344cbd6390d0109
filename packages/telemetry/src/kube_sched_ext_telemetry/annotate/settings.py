"""Settings of the statistics writer."""

from typing import Annotated, Literal

import msgspec

from kube_sched_ext import setting


class AnnotateSettings(msgspec.Struct, frozen=True):
    """What is written, from what, and how fast."""

    freq_seconds: Annotated[
        float,
        setting("ANNOTATE_FREQ", "Time between the starts of two rounds, in seconds.", ge=1),
    ] = 60.0
    has_usage: Annotated[
        bool,
        setting(
            "ANNOTATE_USAGE",
            "Write the usage annotations, from Prometheus: mean-free-*, std-free-* and "
            "forcasted-free-* of cpu and memory.",
        ),
    ] = True
    has_allocation: Annotated[
        bool,
        setting(
            "ANNOTATE_ALLOCATION",
            "Write the allocation annotations, from the pods bound to each node: requested-* and "
            "free-* of cpu, memory, pods, gpu and ephemeral-storage.",
        ),
    ] = True
    cpu_query: Annotated[
        str,
        setting(
            "ANNOTATE_CPU_QUERY",
            "PromQL of a node's free cpu at one moment, in millicores. It must keep a label that "
            "names the node.",
        ),
    ] = '1000 * sum without (cpu, mode) (rate(node_cpu_seconds_total{mode="idle"}[5m]))'
    memory_query: Annotated[
        str,
        setting(
            "ANNOTATE_MEMORY_QUERY",
            "PromQL of a node's free memory at one moment, in bytes. It must keep a label that "
            "names the node.",
        ),
    ] = "node_memory_MemAvailable_bytes"
    window_seconds: Annotated[
        int,
        setting(
            "ANNOTATE_WINDOW_SECONDS", "How far back mean, deviation and forecast look.", ge=600
        ),
    ] = 86400
    sample_seconds: Annotated[
        int, setting("ANNOTATE_SAMPLE_SECONDS", "Time between two samples of the queries.", ge=1)
    ] = 15
    step_seconds: Annotated[
        int,
        setting(
            "ANNOTATE_STEP_SECONDS",
            "How often Prometheus is asked. Each answer sums up the samples since the one before, "
            "so that a day's statistics need no query over a day.",
            ge=15,
        ),
    ] = 300
    horizon_seconds: Annotated[
        int,
        setting(
            "ANNOTATE_HORIZON_SECONDS",
            "How far ahead the forecast looks: it is the mean of that time. 0: no forecast.",
            ge=0,
        ),
    ] = 3600
    max_age_seconds: Annotated[
        float,
        setting(
            "ANNOTATE_MAX_AGE_SECONDS",
            "Age of a node's newest step above which its usage annotations are no longer true, "
            "and time without a watch on pods above which the allocation annotations are not.",
            gt=0,
        ),
    ] = 900.0
    stale: Annotated[
        Literal["remove", "keep"],
        setting(
            "ANNOTATE_STALE",
            "What becomes of annotations that are no longer true: none at all, or the last known.",
        ),
    ] = "remove"
    tolerance: Annotated[
        float,
        setting(
            "ANNOTATE_TOLERANCE",
            "By which share of itself a usage annotation may be off before the node is written to.",
            ge=0,
            le=1,
        ),
    ] = 0.02
    gpu_resource: Annotated[
        str, setting("ANNOTATE_GPU_RESOURCE", "The resource that counts as gpu.")
    ] = "nvidia.com/gpu"
    force: Annotated[
        bool,
        setting(
            "ANNOTATE_FORCE",
            "Take over annotations of these names that another field manager has written; else "
            "nodes that have some are left alone, and told.",
        ),
    ] = True
    batch: Annotated[
        int,
        setting(
            "ANNOTATE_BATCH",
            "Nodes in a batch. A round ends with a batch in which no write succeeded; the next "
            "round goes on.",
            ge=1,
        ),
    ] = 50
    writers: Annotated[
        int, setting("ANNOTATE_WRITERS", "How many nodes are written to at a time.", ge=1, le=32)
    ] = 8
    writes_per_second: Annotated[
        float, setting("ANNOTATE_WRITES_PER_SECOND", "Most writes that begin in a second.", gt=0)
    ] = 100.0

    def __post_init__(self) -> None:
        """Check what no single field shows."""
        problems = []
        if self.step_seconds % self.sample_seconds:
            problems.append(
                f"ANNOTATE_STEP_SECONDS: {self.step_seconds} is no multiple of "
                f"ANNOTATE_SAMPLE_SECONDS={self.sample_seconds}"
            )
        for name, seconds in (
            ("ANNOTATE_WINDOW_SECONDS", self.window_seconds),
            ("ANNOTATE_HORIZON_SECONDS", self.horizon_seconds),
        ):
            if seconds % self.step_seconds:
                problems.append(
                    f"{name}: {seconds} is no multiple of ANNOTATE_STEP_SECONDS={self.step_seconds}"
                )
        if self.max_age_seconds <= self.step_seconds:
            problems.append(
                f"ANNOTATE_MAX_AGE_SECONDS: {self.max_age_seconds:g} is not above "
                f"ANNOTATE_STEP_SECONDS={self.step_seconds}, the time between two steps"
            )
        if not (self.has_usage or self.has_allocation):
            problems.append("ANNOTATE_USAGE, ANNOTATE_ALLOCATION: one must be true")
        if problems:
            raise ValueError("\n".join(problems))
