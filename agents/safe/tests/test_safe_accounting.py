"""The demand of pods bound after their node's statistics were taken, from annotations."""

from collections.abc import Mapping

import msgspec
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from safe_pods import Bound, Clock, bound

from kube_sched_ext import Node, PodStore
from kube_sched_ext.table import NodeTable
from kube_sched_ext_safe.agent import Safe
from kube_sched_ext_safe.settings import SafeSettings
from kube_sched_ext_safe.store import AnnotationPodStore, Loads
from kube_sched_ext_testkit.ask import Reports, read_pod
from kube_sched_ext_testkit.builders import make_node, make_pod

SAMPLED_AT = 1000.25
FREE = {"mean-free-cpu": "600", "mean-free-memory": "600"}


class View:
    """The agent's view of a cluster whose nodes have 1000 millicores and 1000 bytes."""

    def __init__(self) -> None:
        self.clock = Clock(SAMPLED_AT)
        self.agent = Safe()
        loads = Loads(forecast_weight=0.2, threshold=0.9)
        store = AnnotationPodStore(Safe.columns, self.agent.row, loads, self.clock)
        self.table = NodeTable({"safe": store}, Reports())

    def put(self, annotations: Mapping[str, str], name: str = "node", **more: str) -> None:
        """Show a node, as it is now."""
        allocatable = {"cpu": "1", "memory": "1000"}
        node = make_node(name, allocatable=allocatable, annotations=annotations, labels=more)
        self.table.put(msgspec.json.decode(msgspec.json.encode(node), type=Node))

    def used(self, name: str = "node", cpu: int = 0) -> tuple[float, float]:
        """Return the millicores and bytes that count as used with a pod of `cpu`."""
        pod = read_pod(make_pod(requests={"cpu": f"{cpu}m"}))
        made_of = self.agent.balances(
            pod, self.table.nodes("safe", self.table.rows([name]))
        ).explanation
        return tuple(round(float(made_of[f"mu_{it}"][0]) * 1000, 6) for it in ("cpu", "memory"))


@pytest.fixture
def view() -> View:
    """Return a view of one node, sampled at 1000.25 s: 400 of 1000 are used."""
    view = View()
    view.put(FREE)
    return view


@pytest.mark.parametrize(
    ("at", "used"),
    [
        (999, 400),
        (1000, 500),  # Kubernetes tells whole seconds: it may have been 1000.9
        (1001, 500),
        (9999, 500),
        (0, 400),  # no time is known
    ],
)
def test_pods_bound_after_the_sample_count(view: View, at: float, used: float) -> None:
    """Those bound before are part of what was measured."""
    view.table.put_pod(bound(at=at))
    assert view.used() == (used, 400)


def test_each_resource_counts_for_itself_and_beside_the_pod_that_is_asked_about(view: View) -> None:
    """400 measured, 100 and 50 new, 200 asked for."""
    view.table.put_pod(bound("a", at=1001, cpu=100, memory=30))
    view.table.put_pod(bound("b", at=1002, cpu=50, memory=0))
    assert view.used(cpu=200) == (750, 430)


def test_utilisation_ends_at_one_however_many_pods_are_bound(view: View) -> None:
    """As that of any demand."""
    view.table.put_pod(bound(at=1001, cpu=5000))
    assert view.used() == (1000, 400)


def test_next_sample_shows_the_pods_itself(view: View) -> None:
    """Those bound by then; one of the very second goes on counting."""
    view.table.put_pod(bound("old", at=1005))
    view.table.put_pod(bound("new", at=1010, cpu=10))
    view.clock.now = 1010.9
    view.put({**FREE, "mean-free-cpu": "500"})
    assert view.used() == (510, 400)
    view.table.put_pod(bound("late", at=1009))  # as a watch that is behind may tell
    assert view.used() == (510, 400)


@pytest.mark.parametrize(
    "changed", ["mean-free-cpu", "std-free-cpu", "forcasted-free-cpu", "mean-free-memory"]
)
def test_change_of_any_statistic_is_a_sample(view: View, changed: str) -> None:
    """Annotators write them together, and a mean may stay as it was."""
    view.table.put_pod(bound(at=1005))
    view.clock.now = 1010
    view.put({**FREE, changed: "600.5"})
    assert view.used()[0] == pytest.approx(400, abs=0.6)


def test_change_of_the_node_alone_is_no_sample(view: View) -> None:
    """Kubelets change nodes all the time."""
    view.table.put_pod(bound(at=1005))
    view.clock.now = 1010
    view.put(FREE, zone="b")
    view.put({**FREE, "congestion-factor": "5"})
    assert view.used() == (500, 400)


def test_first_sight_is_a_sample() -> None:
    """Nobody knows how old the statistics are that a server finds when it starts."""
    view = View()
    view.table.put_pod(bound("before", at=990))
    view.table.put_pod(bound("after", at=1005, cpu=10))
    view.put(FREE)
    assert view.used() == (410, 400)


def test_pods_that_end_count_no_longer(view: View) -> None:
    """Whether they finish, are deleted, or shrink."""
    for uid in ("a", "b"):
        view.table.put_pod(bound(uid, at=1005))
    view.table.remove_pod("a")
    assert view.used() == (500, 400)
    view.table.put_pod(bound("b", at=1005, cpu=30))
    assert view.used() == (430, 400)
    view.table.remove_pod("b")
    assert view.used() == (400, 400)


def test_node_that_comes_back_is_sampled_anew(view: View) -> None:
    """Its row may have been another's in between."""
    view.table.put_pod(bound(at=1005))
    view.table.remove("node")
    view.clock.now = 1010
    view.put(FREE, name="other")
    assert view.used("other") == (400, 400)
    view.put(FREE)
    assert view.used() == (400, 400)


def test_only_the_node_of_a_pod_changes(view: View) -> None:
    """Also where the others' answers are remembered."""
    view.put(FREE, name="other")
    assert view.used() == view.used("other") == (400, 400)
    view.table.put_pod(bound(at=1005))
    assert (view.used(), view.used("other")) == ((500, 400), (400, 400))


def test_new_pods_change_verdict_and_scores(view: View) -> None:
    """Sixty of a hundred millicores each overload the node, at no deviation."""
    pod = read_pod(make_pod())

    def asked() -> tuple[bool, int, int]:
        nodes = view.table.nodes("safe", view.table.rows(["node"]))
        verdict = view.agent.rejects_overload(pod, nodes).rejected
        overload, balance = view.agent.avoids_overload(pod, nodes), view.agent.balances(pod, nodes)
        is_rejected = any(mask[0] for mask in verdict.values())
        return is_rejected, int(overload.values[0]), int(balance.values[0])

    assert asked() == (False, 10, 8)
    for number in range(6):
        view.table.put_pod(bound(str(number), at=1001))
    assert asked() == (True, 0, 5)


def test_setting_turns_it_off() -> None:
    """Then nobody need watch pods."""
    assert isinstance(Safe().new_store(), PodStore)
    assert not isinstance(Safe(SafeSettings(counts_new_pods=False)).new_store(), PodStore)


class Accounting(RuleBasedStateMachine):
    """Any changes, in any order, against a plain reading of what is to be counted."""

    names = st.sampled_from(["a", "b", "c"])

    def __init__(self) -> None:
        super().__init__()
        self.view = View()
        self.now = 1000
        self.free: dict[str, int] = {}
        self.sampled_at: dict[str, int] = {}
        self.pods: dict[str, Bound] = {}

    @rule(seconds=st.integers(1, 5))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        self.view.clock.now = self.now + 0.5

    @rule(name=names, free=st.integers(300, 303))
    def put_node(self, name: str, free: int) -> None:
        self.view.clock.now = self.now + 0.5
        if self.free.get(name) != free:
            self.sampled_at[name] = self.now
        self.free[name] = free
        self.view.put({"mean-free-cpu": str(free), "mean-free-memory": "600"}, name=name)

    @rule(name=names)
    def remove_node(self, name: str) -> None:
        self.free.pop(name, None)
        self.view.table.remove(name)

    @rule(
        uid=st.sampled_from(["p", "q", "r", "s"]),
        node=names,
        age=st.integers(-3, 5),
        cpu=st.integers(0, 90),
    )
    def put_pod(self, uid: str, node: str, age: int, cpu: int) -> None:
        self.pods[uid] = bound(uid, at=self.now - age, cpu=cpu, node=node)
        self.view.table.put_pod(self.pods[uid])

    @rule(uid=st.sampled_from(["p", "q", "r", "s"]))
    def remove_pod(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.view.table.remove_pod(uid)

    @invariant()
    def unmeasured_demand_counts(self) -> None:
        for name, free in self.free.items():
            new = sum(
                pod.demand.cpu
                for pod in self.pods.values()
                if pod.node == name and pod.bound_at >= self.sampled_at[name]
            )
            assert self.view.used(name) == (1000 - free + new, 400)


Accounting.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestAccounting = Accounting.TestCase


def test_blank_row_stays_blank(view: View) -> None:
    """Nodes that are not known have no statistics, whatever pods are said to be there."""
    view.table.put_pod(bound(at=1005, node="unknown"))
    assert np.isnan(view.used("unknown")).all()
