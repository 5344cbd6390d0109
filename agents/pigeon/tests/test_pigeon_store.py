"""The sums over the pods on nodes, after any changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kube_sched_ext import MISSING, NodeReader, PodStore
from kube_sched_ext.demand import Demand
from kube_sched_ext_pigeon.resources import resources
from kube_sched_ext_pigeon.store import PodColumns
from kube_sched_ext_testkit.ask import read_node
from kube_sched_ext_testkit.builders import make_node

MI, GI = 2**20, 2**30
GPU = "nvidia.com/gpu"
HIGHEST_ROW = 4


@dataclass(frozen=True)
class Bound:
    """A pod on a node."""

    uid: str
    demand: Demand
    node: str = "n1"
    images: Sequence[str] = ()
    bound_at: float = 0.0


def pod(uid: str = "p", **amounts: int) -> Bound:
    """Return a pod that holds these amounts; `gpu` and `storage` stand for their keys."""
    keys = {"gpu": GPU, "storage": "ephemeral-storage"}
    return Bound(uid, Demand({keys.get(name, name): amount for name, amount in amounts.items()}))


def put(store: PodColumns, row: int) -> None:
    """Have `store` read a node."""
    store.put(row, read_node(make_node(f"n{row}")))


@pytest.fixture
def store() -> PodColumns:
    """Return a store of all five resources with a node in row 1."""
    store = empty_store()
    put(store, 1)
    return store


def empty_store() -> PodColumns:
    """Return a store of all five resources, and the length of each node's name."""

    def read(node: NodeReader) -> list[float]:
        return [len(node.name)]

    return PodColumns(["length"], read, resources(GPU))


def test_the_core_takes_it_for_a_store_of_pods(store: PodColumns) -> None:
    """Or it would not be told of any."""
    assert isinstance(store, PodStore)


def test_a_node_without_pods_holds_nothing(store: PodColumns) -> None:
    """As does what is no known node."""
    assert store.held[[0, 1]].tolist() == [[0] * 5] * 2


def test_amounts_are_in_whole_units(store: PodColumns) -> None:
    """Millicores, MiB, pods, pieces, GiB."""
    store.put_pod(1, pod(cpu=250, memory=512 * MI, gpu=2, storage=3 * GI))
    assert store.held[1].tolist() == [250, 512, 1, 2, 3]


def test_fractions_add_up_before_they_are_cut_off(store: PodColumns) -> None:
    """Two halves are one."""
    store.put_pod(1, pod("p", memory=MI // 2, storage=GI // 2))
    assert store.held[1].tolist() == [0, 0, 1, 0, 0]
    store.put_pod(1, pod("q", memory=MI // 2, storage=GI // 2))
    assert store.held[1].tolist() == [0, 1, 2, 0, 1]


def test_a_pod_without_requests_is_a_pod_that_holds_nothing_else(store: PodColumns) -> None:
    """kube-scheduler counts it so, and so do the annotations; a minimum is for placing only."""
    store.put_pod(1, pod())
    assert store.held[1].tolist() == [0, 0, 1, 0, 0]


def test_a_pod_that_comes_again_replaces_what_it_was(store: PodColumns) -> None:
    """As after a resize."""
    store.put_pod(1, pod(cpu=250))
    store.put_pod(1, pod(cpu=100))
    assert store.held[1].tolist() == [100, 0, 1, 0, 0]


def test_a_pod_that_is_gone_holds_nothing(store: PodColumns) -> None:
    """It takes away what it added, whatever it says when it goes; once."""
    store.put_pod(1, pod(cpu=250))
    store.remove_pod(1, pod(cpu=999))
    store.remove_pod(1, pod(cpu=999))
    assert store.held[1].tolist() == [0] * 5


def test_a_changed_node_keeps_its_pods(store: PodColumns) -> None:
    """A kubelet updates its node every few minutes."""
    store.put_pod(1, pod(cpu=250))
    put(store, 1)
    assert store.held[1].tolist() == [250, 0, 1, 0, 0]


def test_a_row_of_another_node_starts_anew(store: PodColumns) -> None:
    """Rows are used again."""
    store.put_pod(1, pod(cpu=250))
    store.clear(1)
    assert np.isnan(store.values[1]).all()
    put(store, 1)
    assert store.held[1].tolist() == [0] * 5
    store.remove_pod(1, pod(cpu=250))
    assert store.held[1].tolist() == [0] * 5


def test_a_row_beyond_all_so_far_may_be_cleared(store: PodColumns) -> None:
    """A node that could not be read is cleared without having been put."""
    store.clear(7)
    assert store.held[7].tolist() == [0] * 5


def test_nothing_is_lost_beside_a_huge_pod(store: PodColumns) -> None:
    """In floats one mebibyte beside 2**63 bytes would be nothing, and stay so."""
    store.put_pod(1, pod("huge", memory=2**63 - 1, cpu=2**63 - 1))
    store.put_pod(1, pod("small", memory=MI, cpu=1))
    store.remove_pod(1, pod("huge"))
    assert store.held[1].tolist() == [1, 1, 1, 0, 0]


AMOUNTS = st.sampled_from([0, 1, 999, MI - 1, MI, GI - 1, GI, 2**53 + 1, 2**63 - 1])
KEYS = ("cpu", "memory", GPU, "ephemeral-storage", "hugepages-2Mi")


class ChangingPods(RuleBasedStateMachine):
    """Nodes and pods come, change and go in any order."""

    def __init__(self) -> None:
        """Start without nodes."""
        super().__init__()
        self.store = empty_store()
        self.pods: dict[int, dict[str, Demand]] = {}

    @rule(row=st.integers(1, HIGHEST_ROW))
    def put_node(self, row: int) -> None:
        """Add or change a node."""
        put(self.store, row)
        self.pods.setdefault(row, {})

    @rule(row=st.integers(1, HIGHEST_ROW))
    def remove_node(self, row: int) -> None:
        """Clear a row, whether a node is there or not."""
        self.store.clear(row)
        self.pods.pop(row, None)

    @rule(
        row=st.integers(1, HIGHEST_ROW),
        uid=st.sampled_from("abc"),
        amounts=st.dictionaries(st.sampled_from(KEYS), AMOUNTS),
    )
    def put_pod(self, row: int, uid: str, amounts: Mapping[str, int]) -> None:
        """Add or change a pod, where there is a node."""
        if row in self.pods:
            self.store.put_pod(row, Bound(uid, Demand(amounts)))
            self.pods[row][uid] = Demand(amounts)

    @rule(row=st.integers(1, HIGHEST_ROW), uid=st.sampled_from("abc"))
    def remove_pod(self, row: int, uid: str) -> None:
        """Remove a pod, whether it is there or not."""
        self.store.remove_pod(row, Bound(uid, Demand({})))
        self.pods.get(row, {}).pop(uid, None)

    @invariant()
    def sums_equal_fresh_ones(self) -> None:
        """What went before leaves no trace."""
        for row in range(1, len(self.store.held)):
            demands = self.pods.get(row, {}).values()
            expected = [
                sum(demand["cpu"] for demand in demands),
                sum(demand["memory"] for demand in demands) // MI,
                len(demands),
                sum(demand[GPU] for demand in demands),
                sum(demand["ephemeral-storage"] for demand in demands) // GI,
            ]
            assert self.store.held[row].tolist() == list(map(float, expected))

    @invariant()
    def the_columns_of_nodes_are_there(self) -> None:
        """As without pods."""
        lengths = [self.store.values[row, 0] for row in range(1, len(self.store.values))]
        expected = [2.0 if row in self.pods else MISSING for row in range(1, len(lengths) + 1)]
        np.testing.assert_array_equal(lengths, expected)


TestChangingPods = ChangingPods.TestCase
TestChangingPods.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
