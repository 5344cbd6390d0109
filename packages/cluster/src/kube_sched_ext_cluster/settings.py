"""Settings of the live cluster."""

import os
from typing import Annotated

import msgspec

from kube_sched_ext import setting
from kube_sched_ext_cluster.access import in_cluster


class ClusterSettings(msgspec.Struct, frozen=True):
    """What is done with a live cluster, and how it is reached."""

    node_cache: Annotated[
        bool,
        setting(
            "NODE_CACHE",
            "Watch the cluster's nodes, so that kube-scheduler may ask by names "
            "(nodeCacheCapable: true). On by default in a pod.",
        ),
    ] = in_cluster(os.environ)
    kubeconfig: Annotated[
        str,
        setting(
            "KUBECONFIG",
            "Kubeconfig to reach the cluster with; if not set, the pod's service account, or "
            "~/.kube/config.",
        ),
    ] = ""
    context: Annotated[
        str, setting("KUBE_CONTEXT", "Context in the kubeconfig; if not set, its current one.")
    ] = ""
    watch_down_seconds: Annotated[
        float,
        setting(
            "WATCH_DOWN_SECONDS",
            "Time without a watch after which that is shown as a failed condition and logged as an "
            "error. The agents go on answering from what they know.",
            gt=0,
        ),
    ] = 60.0
    is_binding: Annotated[
        bool, setting("BIND", "Serve the bind verb; one extender only may be asked to bind.")
    ] = False
    bind_word: Annotated[
        str,
        setting(
            "BIND_PATH",
            "Word for the bind verb.",
            pattern=r"^[A-Za-z0-9._~-]+\Z",
            allowed="a word of letters, digits, dots, hyphens, underscores and tildes",
        ),
    ] = "bind"
    is_nudging: Annotated[
        bool,
        setting(
            "NUDGE",
            "Annotate a node that was rejected for a pod and would now pass, so that "
            "kube-scheduler tries the pod again. Needs NODE_CACHE.",
        ),
    ] = False
    nudge_seconds: Annotated[
        float,
        setting("NUDGE_SECONDS", "Least time between two nudges, of all replicas together.", gt=0),
    ] = 2.0
