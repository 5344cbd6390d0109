"""How much of the cluster is measured, and how recently."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kube_sched_ext import Nodes
from kube_sched_ext_telemetry.feed import Feed
from kube_sched_ext_telemetry.store import MeasuredColumns

_EXAMPLES: Final = 3


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many nodes have fresh data, of how many, and how old the newest is."""

    nodes: int
    """Nodes that are known; 0 where the cluster is not."""
    by_column: NDArray[np.intp]
    """Nodes with fresh data, by query; shape (q,)."""
    complete: int
    """Nodes with fresh data of every query."""
    newest_seconds: float
    """NaN where nothing is measured."""

    def __str__(self) -> str:
        """Say it in a few words: `4,812 of 5,000 nodes, newest 12 s`."""
        if np.isnan(self.newest_seconds):
            return "nothing measured"
        of_all = f" of {self.nodes:,}" if self.nodes else ""
        return f"{self.complete:,}{of_all} nodes, newest {self.newest_seconds:.0f} s"


class View:
    """A feed seen from the cluster."""

    def __init__(self, feed: Feed, cluster: Callable[[], Nodes]) -> None:
        """Look at `feed`; `cluster` returns all known nodes as its agent sees them."""
        self.feed = feed
        self._cluster = cluster

    def coverage(self) -> Coverage:
        """Return how things stand now."""
        feed, cluster = self.feed, self._cluster()
        measurements = feed.measurements
        if len(cluster):
            fresh = cluster.store(MeasuredColumns).fresh(cluster.rows)
        else:
            fresh = feed.fresh(measurements.values, measurements.times)
        is_there = ~np.isnan(fresh)
        times = measurements.times[~np.isnan(measurements.times)]
        newest = feed.clock() - float(times.max()) if len(times) else np.nan
        return Coverage(len(cluster), is_there.sum(axis=1), int(is_there.all(axis=0).sum()), newest)

    def problems(self) -> dict[str, str]:
        """Return what known nodes lack, by a word for it."""
        cluster = self._cluster()
        if not len(cluster):
            return {}
        store = cluster.store(MeasuredColumns)
        is_missing = np.isnan(store.measured[cluster.rows]).any(axis=1)
        is_old = np.isnan(store.fresh(cluster.rows)).any(axis=0) & ~is_missing
        found = {}
        for problem, mask, words in (
            ("Missing", is_missing, "lack a value"),
            ("Old", is_old, f"were not sampled within the last {self.feed.max_age_seconds:g} s"),
        ):
            if mask.any():
                names = [store.name(int(row)) for row in cluster.rows[mask][:_EXAMPLES]]
                found[problem] = (
                    f"{int(mask.sum()):,} of {len(cluster):,} nodes {words}, such as "
                    + ", ".join(names)
                )
        return found
