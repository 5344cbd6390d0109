"""Images of pods that just got their node count as present: they are being pulled."""

from dataclasses import dataclass, field

import msgspec
import pytest

from kube_sched_ext import Node
from kube_sched_ext.demand import Demand
from kube_sched_ext.table import NodeTable
from kube_sched_ext_image.agent import Image
from kube_sched_ext_image.settings import ImageSettings
from kube_sched_ext_image.store import ImageStore
from kube_sched_ext_testkit.ask import Reports, read_node, read_pod
from kube_sched_ext_testkit.builders import make_node, make_pod

NGINX = "docker.io/library/nginx:1"


@dataclass(frozen=True)
class Bound:
    """A pod on a node."""

    uid: str
    bound_at: float
    images: tuple[str, ...] = ("nginx:1",)
    node: str = "n1"
    demand: Demand = field(default_factory=lambda: Demand({}))


class Clock:
    """A clock that stands until it is set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return a clock that stands at 1000 s."""
    return Clock()


@pytest.fixture
def store(clock: Clock) -> ImageStore:
    """Return a store of one node in row 1; images count for 60 s."""
    store = ImageStore(60.0, clock)
    store.put(1, read_node(make_node("n1")))
    return store


def is_present(store: ImageStore, key: str = NGINX, row: int = 1) -> bool:
    return bool(store.presence(store.find(key))[row])


@pytest.mark.parametrize(
    ("bound_at", "asked_at", "expected"),
    [(1000, 1000, True), (950, 1000, True), (940, 1000, False), (1000, 1059, True)]
    + [(1000, 1060, False)],
)
def test_an_image_counts_for_a_time_after_its_pod_got_the_node(
    store: ImageStore, clock: Clock, bound_at: float, asked_at: float, *, expected: bool
) -> None:
    """From then on the kubelet reports it, or it was never pulled."""
    store.put_pod(1, Bound("p", bound_at))
    clock.now = asked_at
    assert is_present(store) == expected


def test_a_pod_that_is_gone_pulls_nothing(store: ImageStore) -> None:
    """Another pod with the same image still does."""
    one, other = Bound("p", 1000), Bound("q", 1000)
    store.put_pod(1, one)
    store.put_pod(1, other)
    store.remove_pod(1, one)
    assert is_present(store)
    store.remove_pod(1, other)
    store.remove_pod(1, other)
    assert not is_present(store)


def test_a_node_that_is_gone_pulls_nothing(store: ImageStore) -> None:
    """Its row may be another node's soon."""
    store.put_pod(1, Bound("p", 1000))
    store.clear(1)
    store.put(1, read_node(make_node("n2")))
    assert not is_present(store)


@pytest.mark.parametrize(
    ("nodes", "score", "locality"),
    [
        pytest.param([], 1, 0, id="an image nobody reports has no size"),
        pytest.param([make_node("n1", images=[(["nginx:1"], 5)])], 1, 3, id="reported as well"),
        pytest.param([make_node("n2", images=[(["nginx:1"], 5)])], 1, 7, id="on another node too"),
    ],
)
def test_scores_count_what_is_being_pulled(
    nodes: list[dict[str, object]], score: int, locality: int
) -> None:
    """Once, whether or not the node reports it already; its size is what any node reports."""
    agent = Image(ImageSettings(pull_seconds=1e12))
    table = NodeTable({"image": agent.new_store()}, Reports())
    for node in [make_node("n1"), *nodes]:
        table.put(msgspec.json.decode(msgspec.json.encode(node), type=Node))
    table.put_pod(Bound("p", 1000))
    asked = table.nodes("image", table.rows(["n1"]))
    pod = read_pod(make_pod(images=["nginx:1"]))
    assert agent.image_score(pod, asked).values.tolist() == [score]
    assert agent.image_locality(pod, asked).values.tolist() == [locality]


def test_pods_do_not_count_where_the_time_is_zero(clock: Clock) -> None:
    """As for whole-node requests, which show no pods."""
    store = ImageStore(0.0, clock)
    store.put(1, read_node(make_node("n1")))
    store.put_pod(1, Bound("p", 1000))
    assert not is_present(store)
