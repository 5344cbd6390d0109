"""The foo agent."""

import numpy as np

from kube_sched_ext import Agent, Nodes, NoSettings, Pod, Scores, Verdict, predicate, priority


class Foo(Agent[NoSettings]):
    """Accepts every node and scores each 1."""

    name = "foo"

    @predicate("foo")
    def accepts(self, pod: Pod, nodes: Nodes) -> Verdict:
        """Reject no node."""
        return Verdict()

    @priority("foo")
    def likes(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score each node 1."""
        return Scores(np.ones(len(nodes), np.int64))
