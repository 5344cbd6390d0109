"""The index of images, after any changes of nodes."""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kube_sched_ext_image.references import image_keys
from kube_sched_ext_image.store import ImageStore
from kube_sched_ext_testkit.ask import read_node
from kube_sched_ext_testkit.builders import make_node

Images = Sequence[tuple[Sequence[str], int]]

NAMES = ("app:1", "app:2", "docker.io/library/app:1", "app@sha256:aa", "web@sha256:aa", "<none>")
KEYS = image_keys(NAMES)
HIGHEST_ROW = 6


def put(store: ImageStore, row: int, images: Images) -> None:
    """Have `store` read a node with these images."""
    store.put(row, read_node(make_node(f"node-{row}", images=images)))


def holders(store: ImageStore, key: str) -> set[int]:
    """Return the rows of the nodes that have an image under `key`."""
    return set(np.flatnonzero(store.presence(store.find(key))).tolist())


def contents(store: ImageStore) -> dict[str, set[tuple[tuple[str, ...], int, frozenset[int]]]]:
    """Return all that can be found, by key."""
    return {
        key: {(image.keys, image.size, frozenset(image.holders)) for image in store.find(key)}
        for key in KEYS
    }


def test_image_is_found_under_each_of_its_names() -> None:
    """By tag and by digest."""
    store = ImageStore()
    put(store, 1, [(["app@sha256:aa", "app:1"], 5)])
    assert store.find("sha256:aa") == store.find("docker.io/library/app:1") != []


def test_unknown_image_is_on_no_node() -> None:
    """Nothing is found, and no row has it."""
    store = ImageStore()
    put(store, 1, [(["app:1"], 5)])
    assert store.find("docker.io/library/web:1") == []
    assert holders(store, "docker.io/library/web:1") == set()


def test_blank_row_has_no_image() -> None:
    """Names that are no known node share row 0."""
    store = ImageStore()
    assert store.presence([]).tolist() == [False]


def test_nodes_may_name_and_measure_an_image_differently() -> None:
    """One tag finds the image of either node, each with its size."""
    store = ImageStore()
    put(store, 1, [(["app:1", "app@sha256:aa"], 5)])
    put(store, 2, [(["app:1"], 7)])
    assert holders(store, "docker.io/library/app:1") == {1, 2}
    assert holders(store, "sha256:aa") == {1}
    assert {image.size for image in store.find("docker.io/library/app:1")} == {5, 7}


def test_changed_node_loses_what_it_no_longer_has() -> None:
    """Its new images replace the old ones; those it keeps stay."""
    store = ImageStore()
    put(store, 1, [(["app:1"], 5), (["app:2"], 5)])
    put(store, 2, [(["app:1"], 5)])
    put(store, 1, [(["app:2"], 5), (["web:1"], 5)])
    assert holders(store, "docker.io/library/app:1") == {2}
    assert holders(store, "docker.io/library/app:2") == {1}
    assert holders(store, "docker.io/library/web:1") == {1}


def test_image_that_no_node_has_is_forgotten() -> None:
    """Nothing stays behind that would count, or fill memory."""
    store = ImageStore()
    put(store, 1, [(["app:1"], 5)])
    store.clear(1)
    assert store.find("docker.io/library/app:1") == []
    assert not store._images
    assert not store._by_key
    assert not store._by_row


def test_row_beyond_all_so_far_may_be_cleared() -> None:
    """A node that could not be read is cleared without having been put."""
    store = ImageStore()
    store.clear(3)
    assert store.presence([]).tolist() == [False] * 4


def test_unreadable_images_leave_the_index_as_it_was() -> None:
    """What is no list of images raises before anything changes."""
    store = ImageStore()
    put(store, 1, [(["app:1"], 5)])
    node = make_node("node-1")
    node["status"] = {"images": [{"names": "app:2"}]}
    with pytest.raises(msgspec.ValidationError):
        store.put(1, read_node(node))
    assert holders(store, "docker.io/library/app:1") == {1}


@pytest.mark.parametrize(("reported", "size"), [(-1, 0), (2**63, 2**63 - 1), (10**400, 2**63 - 1)])
def test_size_is_kept_within_what_kubernetes_can_hold(reported: int, size: int) -> None:
    """A size that is no size must not break the sums over all images."""
    store = ImageStore()
    put(store, 1, [(["app:1"], reported)])
    [image] = store.find("docker.io/library/app:1")
    assert image.size == size


class ChangingNodes(RuleBasedStateMachine):
    """Nodes come, change and go in any order."""

    def __init__(self) -> None:
        """Start without nodes."""
        super().__init__()
        self.store = ImageStore()
        self.nodes: dict[int, Images] = {}

    @rule(
        row=st.integers(1, HIGHEST_ROW),
        images=st.lists(
            st.tuples(st.lists(st.sampled_from(NAMES), max_size=3), st.integers(0, 2)), max_size=4
        ),
    )
    def change(self, row: int, images: Images) -> None:
        """Put a node."""
        put(self.store, row, images)
        self.nodes[row] = images

    @rule(row=st.integers(1, HIGHEST_ROW))
    def remove(self, row: int) -> None:
        """Clear a row, whether a node is there or not."""
        self.store.clear(row)
        self.nodes.pop(row, None)

    @invariant()
    def index_equals_a_fresh_one(self) -> None:
        """What went before leaves no trace."""
        fresh = ImageStore()
        for row, images in self.nodes.items():
            put(fresh, row, images)
        assert contents(self.store) == contents(fresh)
        assert self.store._images.keys() == fresh._images.keys()

    @invariant()
    def holders_are_those_that_name_the_image(self) -> None:
        """As a plain search through all nodes finds them."""
        for key in KEYS:
            assert holders(self.store, key) == naming(key, self.nodes)


def naming(key: str, nodes: Mapping[int, Images]) -> set[int]:
    """Return the rows of the nodes one of whose images has `key` among its names."""
    return {
        row
        for row, images in nodes.items()
        if any(key in image_keys(tuple(names)) for names, _ in images)
    }


TestChangingNodes = ChangingNodes.TestCase
TestChangingNodes.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
