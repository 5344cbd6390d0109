"""Which nodes are written to, and with what."""

import msgspec
import pytest
from annotate_cluster import make_node, make_pod, managed

from kube_sched_ext_cluster.objects import read_bound_pod
from kube_sched_ext_telemetry.annotate.allocation import Allocation
from kube_sched_ext_telemetry.annotate.annotations import ALLOCATION, USAGE, as_text, is_near
from kube_sched_ext_telemetry.annotate.nodes import AnnotatedNode, nodes_with
from kube_sched_ext_telemetry.annotate.plan import Part, plan

GPU = "nvidia.com/gpu"
NAMES = ("mean-free-cpu", "std-free-cpu")


def read(node: object) -> AnnotatedNode:
    return nodes_with(GPU).read(msgspec.Raw(msgspec.json.encode(node)))


def written(values: dict[str, str], *more: object) -> AnnotatedNode:
    """Return a node with annotations that are all ours."""
    node = make_node("n", values)
    node["metadata"]["managedFields"] = [managed(*values), *more]
    return read(node)


def test_the_names_are_as_published() -> None:
    """The misspelling included."""
    assert set(USAGE) == {
        f"{it}-{resource}"
        for it in ("mean-free", "std-free", "forcasted-free")
        for resource in ("cpu", "memory")
    }
    resources = ("cpu", "memory", "pods", "gpu", "ephemeral-storage")
    assert set(ALLOCATION) == {f"{it}-{r}" for it in ("requested", "free") for r in resources}


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (2000.4, "2000"),
        (0.0, "0"),
        (-0.2, None),
        (1.5e15, "1500000000000000"),
        (float("nan"), None),
        (float("inf"), None),
        (-1.0, None),
    ],
)
def test_numbers_are_whole_and_never_negative_or_nan(number: float, text: str | None) -> None:
    """Digits and nothing else, so that every reader takes them."""
    assert as_text(number) == text


@pytest.mark.parametrize(
    ("there", "now", "tolerance", "near"),
    [
        ("1000", "1010", 0.01, True),
        ("1000", "990", 0.01, True),
        ("1000", "1011", 0.01, False),
        ("1000", "1001", 0.0, False),
        ("1000", "1000", 0.0, True),
        ("0", "1", 0.01, False),
        ("0", "0", 0.01, True),
        ("abc", "1000", 1.0, False),
        ("1e3", "1000", 0.0, True),
    ],
)
def test_what_is_near_is_told_by_the_share_of_what_is_there(
    there: str, now: str, tolerance: float, *, near: bool
) -> None:
    """What does not parse is near nothing."""
    assert is_near(there, now, tolerance) is near


def test_of_a_node_only_what_is_needed_is_read() -> None:
    """Its names in series, what pods may use, and of its annotations those of our names."""
    node = make_node("n", {"mean-free-cpu": "5", "other": "x"}, **{GPU: "2", "memory": "junk"})
    found = read(node)
    assert (found.name, found.uid, found.aliases) == ("n", "uid-n", ("n", "ip-n"))
    assert found.allocatable == {"cpu": 4000.0, "pods": 110.0, "gpu": 2.0}
    assert found.annotations == {"mean-free-cpu": "5"}
    assert found.owned == frozenset()


@pytest.mark.parametrize(
    ("entry", "owned"),
    [
        (managed("mean-free-cpu"), {"mean-free-cpu"}),
        (managed("mean-free-cpu", manager="someone"), set()),
        (managed("mean-free-cpu", operation="Update"), set()),
        ({"manager": "kube-sched-ext-annotate", "operation": "Apply", "fieldsV1": {}}, set()),
        ({"manager": "kube-sched-ext-annotate", "operation": "Apply"}, set()),
    ],
)
def test_ours_is_what_our_manager_has_applied(entry: object, owned: set[str]) -> None:
    """And nothing else under the same names."""
    node = make_node("n")
    node["metadata"]["managedFields"] = [entry]
    assert read(node).owned == owned


@pytest.mark.parametrize(
    ("there", "values", "expected"),
    [
        ({}, {"mean-free-cpu": "7"}, {"mean-free-cpu": "7"}),
        ({"mean-free-cpu": "700"}, {"mean-free-cpu": "707"}, None),
        ({"mean-free-cpu": "700"}, {"mean-free-cpu": "708"}, {"mean-free-cpu": "708"}),
        (
            {"mean-free-cpu": "700", "std-free-cpu": "9"},
            {"mean-free-cpu": "707", "std-free-cpu": "5"},
            {"mean-free-cpu": "707", "std-free-cpu": "5"},
        ),
        (
            {"mean-free-cpu": "700", "std-free-cpu": "9"},
            {"mean-free-cpu": "700"},
            {"mean-free-cpu": "700"},
        ),
        ({"mean-free-cpu": "700"}, {}, {}),
        ({}, {}, None),
        ({"mean-free-cpu": "700"}, None, None),
        ({}, None, None),
    ],
)
def test_a_node_is_written_to_where_something_differs(
    there: dict[str, str], values: dict[str, str] | None, expected: dict[str, str] | None
) -> None:
    """Then with all values as they are now; what is of ours and no longer wanted differs too."""
    change = plan(written(there), [Part(NAMES, values, 0.01)])
    assert (change and change.annotations) == expected


def test_what_is_not_known_now_is_written_again_beside_what_is() -> None:
    """Left out, the apiserver would remove it."""
    node = written({"mean-free-cpu": "700", "requested-cpu": "1"})
    change = plan(node, [Part(USAGE, None), Part(ALLOCATION, {"requested-cpu": "2"})])
    assert change is not None
    assert change.annotations == {"mean-free-cpu": "700", "requested-cpu": "2"}


def test_what_others_have_written_is_not_ours_to_keep_or_to_remove() -> None:
    """Neither where it is not known now, nor where it is not wanted."""
    node = read(make_node("n", {"mean-free-cpu": "700"}))
    assert plan(node, [Part(USAGE, {})]) is None
    change = plan(node, [Part(USAGE, None), Part(ALLOCATION, {"requested-cpu": "2"})])
    assert change is not None
    assert change.annotations == {"requested-cpu": "2"}


def test_a_kind_that_is_switched_off_goes() -> None:
    """It has no part any more."""
    change = plan(written({"mean-free-cpu": "7"}), [])
    assert change is not None
    assert change.annotations == {}


class TestAllocation:
    """What the pods on a node hold, and what they leave."""

    def sums(self, node: AnnotatedNode, *pods: object) -> dict[str, str]:
        allocation = Allocation(GPU)
        for pod in pods:
            allocation.put(read_bound_pod(msgspec.json.encode(pod)))
        return dict(allocation.of(node))

    def test_units_are_those_that_agents_read(self) -> None:
        """Millicores, bytes, pieces."""
        node = read(make_node("n", **{GPU: "2", "ephemeral-storage": "10Gi"}))
        pods = (
            make_pod("a", "n", cpu="250m", memory="1Gi", **{GPU: "1"}),
            make_pod("b", "n", cpu="1", **{"ephemeral-storage": "1Gi"}),
            make_pod("c", "elsewhere", cpu="1"),
        )
        assert self.sums(node, *pods) == {
            "requested-cpu": "1250",
            "free-cpu": "2750",
            "requested-memory": str(2**30),
            "free-memory": str(7 * 2**30),
            "requested-pods": "2",
            "free-pods": "108",
            "requested-gpu": "1",
            "free-gpu": "1",
            "requested-ephemeral-storage": str(2**30),
            "free-ephemeral-storage": str(9 * 2**30),
        }

    def test_a_node_without_pods_has_nothing_requested(self) -> None:
        """Nor does it get annotations of resources that it does not have."""
        assert self.sums(read(make_node("n"))) == {
            "requested-cpu": "0",
            "free-cpu": "4000",
            "requested-memory": "0",
            "free-memory": str(2**33),
            "requested-pods": "0",
            "free-pods": "110",
        }

    def test_what_is_free_is_never_negative_and_unknown_where_the_capacity_is(self) -> None:
        """An overcommitted node has nothing left."""
        node = read(make_node("n", cpu="1", memory="junk"))
        sums = self.sums(node, make_pod("a", "n", cpu="1500m", memory="1"))
        assert (sums["requested-cpu"], sums["free-cpu"]) == ("1500", "0")
        assert sums["requested-memory"] == "1"
        assert "free-memory" not in sums

    def test_pods_move_grow_and_end(self) -> None:
        """Each counts once, with what it holds by now."""
        node, allocation = read(make_node("n")), Allocation(GPU)
        for cpu in ("1", "2"):
            allocation.put(read_bound_pod(msgspec.json.encode(make_pod("a", "n", cpu=cpu))))
        assert allocation.of(node)["requested-cpu"] == "2000"
        allocation.remove("a")
        allocation.remove("never-seen")
        assert allocation.of(node)["requested-pods"] == "0"
        assert not allocation._sums
