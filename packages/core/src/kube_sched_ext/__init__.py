"""The core of kube-sched-ext: what an agent is made from, and what serves it."""

from kube_sched_ext.agent import (
    Agent,
    LazyExplanation,
    NoSettings,
    Scores,
    Verdict,
    predicate,
    priority,
)
from kube_sched_ext.app import create_app
from kube_sched_ext.errors import UnparsableError
from kube_sched_ext.nodes import Nodes
from kube_sched_ext.objects import ContainerImage, Node, Pod
from kube_sched_ext.reading import MISSING, NodeReader, decimal, int64
from kube_sched_ext.settings import setting
from kube_sched_ext.stores import BoundPod, FloatArray, FloatColumns, NodeStore, PodStore, Rows

__all__ = [
    "MISSING",
    "Agent",
    "BoundPod",
    "ContainerImage",
    "FloatArray",
    "FloatColumns",
    "LazyExplanation",
    "NoSettings",
    "Node",
    "NodeReader",
    "NodeStore",
    "Nodes",
    "Pod",
    "PodStore",
    "Rows",
    "Scores",
    "UnparsableError",
    "Verdict",
    "create_app",
    "decimal",
    "int64",
    "predicate",
    "priority",
    "setting",
]
