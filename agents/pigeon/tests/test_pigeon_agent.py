"""The pigeon agent, from nodes and pods to scores and verdicts."""

import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_sched_ext import Node, Nodes
from kube_sched_ext.demand import Demand
from kube_sched_ext.table import NodeTable
from kube_sched_ext_pigeon.agent import Pigeon
from kube_sched_ext_pigeon.history import DemandHistory
from kube_sched_ext_pigeon.settings import PigeonSettings
from kube_sched_ext_testkit.ask import (
    Reports,
    ask_predicate,
    ask_priority,
    nodes_for,
    read_node,
    read_pod,
)
from kube_sched_ext_testkit.builders import JSON, make_container, make_node, make_pod
from kube_sched_ext_testkit.contract import check_agent
from kube_sched_ext_testkit.scheduler import Extender
from kube_sched_ext_testkit.serving import serve_agents, serve_process

MI, GI = 2**20, 2**30
GPU = "nvidia.com/gpu"
README = (Path(__file__).parents[1] / "README.md").read_text()
OBJECTIVES = ("A_BINPACK", "LOAD_BALANCE", "CONSOLIDATE")


def pigeon(objective: str = "LOAD_BALANCE", count: int = 2, **settings: Any) -> Pigeon:
    """Return an agent; LOAD_BALANCE, whose scores are the easiest to tell, unless said."""
    return Pigeon(
        PigeonSettings(objective=objective, resource_count=count, **settings)  # type: ignore[arg-type]  # each test names an objective
    )


def make_used(
    name: str = "node",
    cpu: int = 0,
    memory: int = 0,
    pods: int = 0,
    gpu: int | None = 0,
    *,
    cores: str = "10",
) -> JSON:
    """Return a node of 10 cores, 10 GiB, 10 pods and 4 gpus; what is used is annotated.

    `cpu` and `memory` are percentages; with `gpu` None there are no gpus.
    """
    allocatable = {"cpu": cores, "memory": "10Gi", "pods": "10"}
    annotations = {
        "requested-cpu": str(100 * cpu),
        "requested-memory": str(memory * 10 * GI // 100),
        "requested-pods": str(pods),
    }
    if gpu is not None:
        allocatable[GPU] = "4"
        annotations["requested-gpu"] = str(gpu)
    return make_node(name, allocatable=allocatable, annotations=annotations)


def asking(cpu: str = "1", memory: str = "1Gi", *, name: str = "pod", **others: str) -> JSON:
    """Return a pod with requests."""
    return make_pod(name, requests={"cpu": cpu, "memory": memory, **others})


def score(agent: Pigeon, pod: JSON, *nodes: JSON) -> list[int]:
    """Ask priority pigeon-holing."""
    return ask_priority(agent, "pigeon-holing", pod, nodes)


def explained(agent: Pigeon, pod: JSON, nodes: Nodes | Sequence[JSON]) -> Mapping[str, Any]:
    """Return what the scores were made of."""
    seen = nodes if isinstance(nodes, Nodes) else nodes_for(agent, nodes)
    return agent.pigeon_holing(read_pod(pod), seen).explanation


class TestObjectives:
    """Each by hand on a few nodes."""

    NODES = (make_used("a", 0), make_used("b", 20), make_used("c", 50), make_used("d", 95))

    def test_load_balance_prefers_the_least_used(self) -> None:
        """1 + 9 (0.366 - 0.345) / (0.366 - 0.330) = 6.3 for b; d has no room, but counts."""
        agent = pigeon("LOAD_BALANCE")
        used = ([0.1, 0.2, 0.5, 0.95], [0, 0.3, 0.5, 0.95], [0, 0.2, 0.6, 0.95])
        v = explained(agent, asking(), self.NODES)["v"]
        np.testing.assert_allclose(v[:3], [np.std(x) for x in used])
        assert score(agent, asking(), *self.NODES) == [10, 6, 1, 0]

    def test_consolidate_prefers_the_most_used(self) -> None:
        """Mean 0.4375, so that b at 0.3 is 0.314 of the way to empty, d 0.911 of that to full."""
        agent = pigeon("CONSOLIDATE")
        distances = ([0.771, 0.543], [1, 0.314], [1, 0.543, 0.289])
        v = explained(agent, asking(), self.NODES)["v"]
        expected = [
            1 - np.sqrt(np.sum(np.square([*some, *[0.111, 0.911][len(some) - 2 :]])) / 4)
            for some in distances
        ]
        np.testing.assert_allclose(v[:3], expected, atol=1e-3)
        assert score(agent, asking(), *self.NODES) == [1, 5, 10, 0]

    def test_the_prime_resource_is_the_one_looked_at(self) -> None:
        """Nodes used the other way round in memory."""
        nodes = [make_used("a", 0, 50), make_used("b", 50, 0)]
        assert score(pigeon("LOAD_BALANCE"), asking(), *nodes) == [10, 1]
        assert score(pigeon("LOAD_BALANCE", prime=1), asking(), *nodes) == [1, 10]
        assert score(pigeon("CONSOLIDATE", prime=1), asking(), *nodes) == [10, 1]

    def test_a_binpack_makes_nodes_as_different_as_pods_are(self) -> None:
        """A first pod asks for nodes alike; after pods that differ, so should the nodes."""
        nodes = [make_used("a", 10, 10), make_used("b", 30, 30)]
        agent = pigeon("A_BINPACK")
        assert score(agent, asking(name="first"), *nodes) == [10, 1]
        score(agent, asking("10", "10Gi", name="large"), *nodes)
        assert score(agent, asking(name="third"), *nodes) == [1, 10]

    def test_a_binpack_by_hand(self) -> None:
        """One resource, pods of 1 and 3 cores: their variation is 1/2; 2 nodes of 10 cores."""
        agent = pigeon("A_BINPACK", 1)
        nodes = [make_used("a", 10), make_used("b", 30)]
        score(agent, asking("3", name="first"), *nodes)
        # With the pod on a: 0.2 and 0.3, deviation 0.05, mean 0.25; on b: 0.1 and 0.4.
        v = explained(agent, asking("1", name="second"), nodes)["v"]
        np.testing.assert_allclose(v, [abs(0.05 / 0.25 - 0.5), abs(0.15 / 0.25 - 0.5)])

    @pytest.mark.parametrize("objective", OBJECTIVES)
    def test_equal_nodes_score_ten(self, objective: str) -> None:
        """There is nothing to choose."""
        assert score(pigeon(objective), asking(), *map(make_used, "abc")) == [10, 10, 10]

    @pytest.mark.parametrize("objective", OBJECTIVES)
    def test_where_nothing_fits_all_score_zero(self, objective: str) -> None:
        """kube-scheduler asks only about nodes that fit, but others may."""
        assert score(pigeon(objective), asking("11"), *map(make_used, "abc")) == [0, 0, 0]

    @pytest.mark.parametrize("objective", OBJECTIVES)
    def test_no_nodes_have_no_scores(self, objective: str) -> None:
        """kube-scheduler may ask about an empty list."""
        assert score(pigeon(objective), asking()) == []


class TestFit:
    """A pod fits where each resource that counts has enough left."""

    @pytest.mark.parametrize(
        ("count", "pod", "expected"),
        [
            (1, asking("10"), 10),
            (1, asking("10001m"), 0),
            (1, asking("1", "11Gi"), 10),
            (2, asking("1", "11Gi"), 0),
            (2, asking("1", "10Gi"), 10),
            (3, asking(**{GPU: "5"}), 10),
            (4, asking(**{GPU: "5"}), 0),
            (4, asking(**{GPU: "4"}), 10),
            (4, asking(**{"ephemeral-storage": "1Gi"}), 10),
            (5, asking(**{"ephemeral-storage": "1Gi"}), 0),
            (5, asking(**{"ephemeral-storage": "1023Mi"}), 10),
        ],
    )
    def test_only_resources_that_count_matter(self, count: int, pod: JSON, expected: int) -> None:
        """On an empty node; less than one GiB of storage is none."""
        assert score(pigeon(count=count), pod, make_used()) == [expected]

    def test_a_pod_takes_one_place(self) -> None:
        """A full node has none."""
        assert score(pigeon(count=3), asking(), make_used(pods=9), make_used("b", pods=10))[1] == 0

    @pytest.mark.parametrize(
        ("cpu", "free", "fits"), [("0", 10, True), ("0", 9, False), ("9m", 9, True)]
    )
    def test_a_pod_without_requests_needs_ten_millicores(
        self, cpu: str, free: int, *, fits: bool
    ) -> None:
        """That is what it is placed as; one that requests less is taken at its word."""
        annotations = {"requested-cpu": str(1000 - free), "requested-memory": "0"}
        node = make_node("n", allocatable={"cpu": "1", "memory": "1Gi"}, annotations=annotations)
        assert explained(pigeon(), asking(cpu, "0"), [node])["fits"].tolist() == [fits]

    @pytest.mark.parametrize(
        ("requested", "free", "fits"),
        [
            ("0", 16, True),
            ("0", 15, False),
            (str(MI - 1), 15, False),
            (str(MI), 1, True),
            (str(2 * MI - 1), 1, True),
        ],
    )
    def test_a_pod_without_memory_needs_sixteen_mebibytes(
        self, requested: str, free: int, *, fits: bool
    ) -> None:
        """As does one that asks for less than one; above, fractions are cut off."""
        node = make_node(
            "n",
            allocatable={"cpu": "1", "memory": f"{free * MI + 5}"},
            annotations={"requested-cpu": "0", "requested-memory": "5"},
        )
        pod = asking("1m", requested)
        assert explained(pigeon(), pod, [node])["fits"].tolist() == [fits]

    def test_demand_counts_as_the_scheduler_counts_it(self) -> None:
        """Init containers, sidecars and overhead: 1 + 2 cores, or 4 to start, and 0.5 on top."""
        pod = make_pod(
            requests={"cpu": "1"},
            init_containers=[
                make_container(requests={"cpu": "2"}, is_sidecar=True),
                make_container(requests={"cpu": "2"}),
            ],
            spec={"overhead": {"cpu": "500m"}},
        )
        nodes = [make_used("a", 55), make_used("b", 56)]
        assert explained(pigeon(), pod, nodes)["fits"].tolist() == [True, False]

    def test_another_gpu_resource_may_count(self) -> None:
        """Instead of NVIDIA's."""
        node = make_node(
            "n",
            allocatable={"cpu": "8", "memory": "8Gi", "pods": "10", "amd.com/gpu": "1"},
            annotations={f"requested-{name}": "0" for name in ("cpu", "memory", "pods", "gpu")},
        )
        agent = pigeon(count=4, gpu_resource="amd.com/gpu")
        assert score(agent, asking(**{"amd.com/gpu": "1"}), node) == [10]
        assert score(agent, asking(**{"amd.com/gpu": "2"}), node) == [0]
        assert score(agent, asking(**{GPU: "2"}), node) == [10]


class TestMissing:
    """Nodes whose numbers are not known."""

    KNOWN = (make_used("a", 20), make_used("b", 60))

    @pytest.mark.parametrize("objective", OBJECTIVES)
    @pytest.mark.parametrize(
        ("key", "text"),
        [
            ("requested-cpu", "-1"),
            ("requested-cpu", "20.5"),
            ("requested-cpu", "1e3"),
            ("requested-cpu", "9223372036854775808"),
            ("requested-cpu", "9" * 400),
            ("requested-cpu", "abc"),
            ("requested-cpu", ""),
            ("requested-cpu", " 5"),
            ("requested-cpu", "1_000"),
            ("requested-memory", "NaN"),
            ("requested-memory", "1Gi"),
        ],
    )
    def test_an_unparsable_annotation_counts_as_missing(
        self, objective: str, key: str, text: str
    ) -> None:
        """The node scores 0, the others as if it were not there, and it is told."""
        bad = make_node(
            "bad",
            allocatable={"cpu": "10", "memory": "10Gi"},
            annotations={"requested-cpu": "0", "requested-memory": "0", key: text},
        )
        agent, reports = pigeon(objective), Reports()
        nodes = nodes_for(agent, [*self.KNOWN, bad], reports)
        scores = agent.pigeon_holing(read_pod(asking()), nodes)
        assert scores.values.tolist() == [*score(pigeon(objective), asking(), *self.KNOWN), 0]
        v = explained(pigeon(objective), asking(), self.KNOWN)["v"]
        np.testing.assert_array_equal(scores.explanation["v"], [*v, np.nan])
        [(name, value)] = reports.values
        assert (name, value.key, value.value) == ("bad", key, text)
        assert value.expected == "a 64-bit decimal integer of 0 or more"

    @pytest.mark.parametrize("text", ["0", "+0", "-0", "0005", "9223372036854775807"])
    def test_a_64_bit_integer_parses(self, text: str) -> None:
        """With a sign or zeros before it, too."""
        reader = read_node(make_node("n", annotations={"requested-cpu": text}))
        pigeon().row(reader)
        assert reader.unparsable == []

    @pytest.mark.parametrize("missing", ["requested-cpu", "requested-memory", "cpu", "memory"])
    def test_a_number_that_is_not_there_is_not_zero(self, missing: str) -> None:
        """Neither of capacity nor of usage."""
        bad = make_node(
            "bad",
            allocatable={key: "10Gi" for key in ("cpu", "memory") if key != missing},
            annotations={
                key: "0" for key in ("requested-cpu", "requested-memory") if key != missing
            },
        )
        assert score(pigeon(), asking(), *self.KNOWN, bad) == [10, 1, 0]

    def test_an_unparsable_capacity_counts_as_missing(self) -> None:
        """Of a gpu, too, though it is optional."""
        node = make_used("bad")
        node["status"] = {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9", GPU: "many"}}
        assert np.isnan(pigeon(count=4).row(read_node(node))[3])

    def test_an_unparsable_usage_counts_as_missing_where_there_is_no_capacity(self) -> None:
        """Only what is not there at all is 0."""
        node = make_used("bad", gpu=None)
        node["metadata"]["annotations"]["requested-gpu"] = "many"  # type: ignore[index]  # it has some
        assert score(pigeon(count=4), asking(), node) == [0]

    def test_resources_that_do_not_count_may_be_missing(self) -> None:
        """And what is wrong with them is nobody's concern."""
        node = make_node(
            "n",
            allocatable={"cpu": "10", "memory": "?"},
            annotations={"requested-cpu": "0", "requested-pods": "?"},
        )
        agent, reports = pigeon(count=1), Reports()
        nodes = nodes_for(agent, [node], reports)
        assert agent.pigeon_holing(read_pod(asking()), nodes).values.tolist() == [10]
        assert reports.values == []

    @pytest.mark.parametrize("objective", OBJECTIVES)
    def test_an_unknown_node_scores_zero(self, objective: str) -> None:
        """As does a cluster of them."""
        agent = pigeon(objective)
        nodes = nodes_for(agent, self.KNOWN)
        asked = nodes.at(np.array([0, nodes.rows[0], 0, nodes.rows[1]]))
        values = agent.pigeon_holing(read_pod(asking()), asked).values.tolist()
        assert (values[0], values[2]) == (0, 0)
        assert values[1::2] == score(pigeon(objective), asking(), *self.KNOWN)
        nothing = nodes_for(agent, [])
        alone = agent.pigeon_holing(read_pod(asking()), nothing.at(np.zeros(2, np.intp)))
        assert alone.values.tolist() == [0, 0]

    @pytest.mark.parametrize("gpu", [None, 0])
    def test_a_node_without_gpus_is_one_that_does_not_mention_them(self, gpu: int | None) -> None:
        """It takes pods that need none; its annotator may leave the gpu out, too."""
        nodes = [make_used("a", gpu=None), make_used("b", gpu=gpu)]
        agent = pigeon(count=4)
        assert score(agent, asking(), *nodes) == [10, 10]
        assert score(agent, asking(**{GPU: "1"}), *nodes) == [0, 0 if gpu is None else 10]

    def test_a_node_with_gpus_and_no_number_of_used_ones_is_unknown(self) -> None:
        """They may all be in use."""
        node = make_used()
        node["metadata"]["annotations"].pop("requested-gpu")  # type: ignore[index]  # it has some
        assert score(pigeon(count=4), asking(), node) == [0]

    def test_a_node_without_capacity_counts_as_full(self) -> None:
        """To LOAD_BALANCE: 0 of 0 is 1."""
        nodes = [make_used("a", 20), make_used("none", 0, cores="0")]
        v = explained(pigeon(), asking(), nodes)["v"]
        np.testing.assert_allclose(v, [(1 - 0.3) / 2, (1 - 0.2) / 2])
        assert score(pigeon(), asking(), *nodes) == [10, 0]


class TestCluster:
    """The objective is that of the cluster; the ranking that of the nodes asked about."""

    NODES = (make_used("a", 0), make_used("b", 20), make_used("c", 50), make_used("d", 70))

    @pytest.mark.parametrize("objective", OBJECTIVES)
    def test_nodes_not_asked_about_count(self, objective: str) -> None:
        """kube-scheduler asks about a few nodes of a large cluster, in any order."""
        agent = pigeon(objective)
        nodes = nodes_for(agent, self.NODES)
        all_v = explained(agent, asking(), nodes)["v"]
        places = np.array([2, 0])
        made_of = explained(agent, asking(), nodes.at(nodes.rows[places]))
        assert made_of["v"].tolist() == all_v[places].tolist()

    def test_the_best_node_asked_about_scores_ten(self) -> None:
        """Though a better one is not asked about."""
        agent = pigeon()
        nodes = nodes_for(agent, self.NODES)
        asked = nodes.at(nodes.rows[[3, 1]])
        assert agent.pigeon_holing(read_pod(asking()), asked).values.tolist() == [1, 10]

    def test_a_node_that_is_gone_counts_no_more(self) -> None:
        """Its row stays empty until another node takes it."""
        agent = pigeon()
        table = NodeTable({"pigeon": agent.new_store()}, Reports())
        for node in self.NODES:
            table.put(decoded(node))
        table.remove("b")
        asked = table.nodes("pigeon", table.rows(["a", "b", "c"]))
        left = explained(agent, asking(), [self.NODES[0], self.NODES[2], self.NODES[3]])["v"]
        np.testing.assert_array_equal(
            explained(agent, asking(), asked)["v"], [left[0], np.nan, left[1]]
        )


def decoded(node: JSON) -> Node:
    """Return the node as the core has it."""
    return msgspec.json.decode(msgspec.json.encode(node), type=Node)


@dataclass(frozen=True)
class Bound:
    """A pod on a node."""

    uid: str
    node: str
    demand: Demand
    images: Sequence[str] = ()
    bound_at: float = 0.0


def live(agent: Pigeon, nodes: Sequence[JSON], pods: Sequence[Bound] = ()) -> NodeTable:
    """Return a table as a live cluster fills it."""
    table = NodeTable({"pigeon": agent.new_store()}, Reports())
    table.expect_pods()
    for node in nodes:
        table.put(decoded(node))
    for pod in pods:
        table.put_pod(pod)
    return table


class TestUsage:
    """PIGEON_USAGE: from the pods, or from annotations."""

    # The annotations say that a is full, the pods that b is.
    NODES = (make_used("a", 90), make_used("b", 10))
    PODS = (Bound("p", "b", Demand({"cpu": 9000})),)

    @pytest.mark.parametrize(
        ("usage", "is_live", "expected"),
        [
            ("auto", True, [10, 1]),
            ("auto", False, [1, 10]),
            ("pods", True, [10, 1]),
            ("pods", False, [0, 0]),
            ("annotations", True, [1, 10]),
            ("annotations", False, [1, 10]),
        ],
    )
    def test_the_setting_says_which_counts(
        self, usage: str, *, is_live: bool, expected: list[int]
    ) -> None:
        """Without a live cluster there are no pods to see: with `pods` nothing is known then."""
        agent = pigeon(usage=usage)
        if is_live:
            table = live(agent, self.NODES, self.PODS)
            nodes = table.nodes("pigeon", table.rows(["a", "b"]))
        else:
            nodes = nodes_for(agent, self.NODES)
        assert agent.pigeon_holing(read_pod(asking()), nodes).values.tolist() == expected

    @pytest.mark.parametrize(
        ("usage", "keeps"), [("auto", True), ("pods", True), ("annotations", False)]
    )
    def test_pods_are_followed_only_where_they_count(self, usage: str, *, keeps: bool) -> None:
        """A watch of all pods costs memory."""
        assert live(pigeon(usage=usage), []).keeps_pods == keeps

    def test_pods_alone_need_no_annotations(self) -> None:
        """Bad ones are not even read."""
        agent, reports = pigeon(usage="pods"), Reports()
        bad = make_node("n", annotations={"requested-cpu": "bad"})
        nodes_for(agent, [bad], reports)
        assert reports.values == []

    def test_a_pod_counts_at_once_and_until_it_is_gone(self) -> None:
        """No annotator stands between."""
        agent = pigeon()
        table = live(agent, self.NODES)
        nodes = table.nodes("pigeon", table.rows(["a", "b"]))
        assert agent.pigeon_holing(read_pod(asking()), nodes).values.tolist() == [10, 10]
        table.put_pod(Bound("p", "a", Demand({"cpu": 500})))
        assert agent.pigeon_holing(read_pod(asking()), nodes).values.tolist() == [1, 10]
        table.remove_pod("p")
        assert agent.pigeon_holing(read_pod(asking()), nodes).values.tolist() == [10, 10]

    @given(
        bound=st.lists(
            st.tuples(
                st.sampled_from("abc"),
                st.integers(0, 3000),
                st.integers(0, 3 * GI),
                st.integers(0, 2),
                st.integers(0, 20 * GI),
            ),
            max_size=12,
        ),
        objective=st.sampled_from(OBJECTIVES),
        count=st.integers(1, 5),
    )
    def test_pods_and_annotations_score_alike(
        self, bound: list[tuple[str, int, int, int, int]], objective: str, count: int
    ) -> None:
        """An annotator adds up the same pods."""
        keys = ("cpu", "memory", GPU, "ephemeral-storage")
        pods = [
            Bound(str(number), node, Demand(dict(zip(keys, amounts, strict=True))))
            for number, (node, *amounts) in enumerate(bound)
        ]
        allocatable = {"cpu": "10", "memory": "10Gi", "pods": "10", GPU: "4"}
        allocatable["ephemeral-storage"] = "100Gi"
        names = ["cpu", "memory", "gpu", "ephemeral-storage"]
        annotated = []
        for node in "abc":
            here = [pod.demand for pod in pods if pod.node == node]
            annotations = {
                f"requested-{name}": str(sum(demand[key] for demand in here))
                for name, key in zip(names, keys, strict=True)
            } | {"requested-pods": str(len(here))}
            annotated.append(make_node(node, allocatable=allocatable, annotations=annotations))
        plain = [make_node(node, allocatable=allocatable) for node in "abc"]
        pod = asking(**{GPU: "1"})

        by_annotations = pigeon(objective, count)
        by_pods = pigeon(objective, count)
        table = live(by_pods, plain, pods)
        nodes = table.nodes("pigeon", table.rows("abc"))
        assert by_pods.pigeon_holing(read_pod(pod), nodes).values.tolist() == score(
            by_annotations, pod, *annotated
        )


class TestHistory:
    """What pods asked for so far, for A_BINPACK."""

    NODES = (make_used("a", 10, 10), make_used("b", 30, 30))

    def counted(self, agent: Pigeon) -> str:
        """Return what the agent tells of its history."""
        return agent.conditions()["history"]().detail

    def test_a_pod_counts_once(self) -> None:
        """However often it is tried."""
        agent = pigeon("A_BINPACK")
        assert self.counted(agent) == "pods counted: 0"
        for name in ("a", "b", "a", "a"):
            score(agent, asking(name=name), *self.NODES)
        assert self.counted(agent) == "pods counted: 2"

    def test_a_retry_scores_as_the_first_try(self) -> None:
        """On the same cluster, after the same pods."""
        agent = pigeon("A_BINPACK")
        score(agent, asking("8", "1Gi", name="first"), *self.NODES)
        tries = [score(agent, asking(name="second"), *self.NODES) for _ in range(3)]
        assert tries == [tries[0]] * 3

    def test_a_pod_without_a_uid_counts_each_time(self) -> None:
        """Nothing tells it from another one."""
        agent = pigeon("A_BINPACK")
        pod = {"spec": asking()["spec"]}
        for _ in range(3):
            score(agent, pod, *self.NODES)
        assert self.counted(agent) == "pods counted: 3"

    def test_the_first_pod_counts_before_it_is_scored(self) -> None:
        """So the demands do not vary yet, and nodes had better not either."""
        v = explained(pigeon("A_BINPACK", 1), asking(), self.NODES)["v"]
        np.testing.assert_allclose(v, [0.05 / 0.25, 0.15 / 0.25])

    def test_a_pod_counts_where_nothing_fits(self) -> None:
        """It asked."""
        agent = pigeon("A_BINPACK")
        score(agent, asking("11"), *self.NODES)
        assert self.counted(agent) == "pods counted: 1"

    def test_the_count_ends_at_a_hundred(self) -> None:
        """From there on the oldest fade."""
        agent = pigeon("A_BINPACK")
        for number in range(120):
            score(agent, asking(name=str(number)), *self.NODES)
        assert self.counted(agent) == "pods counted: 100 or more"

    @pytest.mark.parametrize("objective", ["LOAD_BALANCE", "CONSOLIDATE"])
    def test_other_objectives_have_none(self, objective: str, tmp_path: Path) -> None:
        """Nor do they write its file."""
        path = tmp_path / "history.json"
        agent = pigeon(objective, history_file=str(path))
        score(agent, asking(), *self.NODES)
        assert agent.conditions() == {}
        assert not path.exists()

    def test_it_survives_a_restart_in_its_file(self, tmp_path: Path) -> None:
        """Scores go on as if nothing had been."""
        path = str(tmp_path / "history.json")
        before, lasting = pigeon("A_BINPACK", history_file=path), pigeon("A_BINPACK")
        for agent in (before, lasting):
            score(agent, asking("8", "2Gi", name="first"), *self.NODES)
        assert before._file is not None
        before._file.close()
        after = pigeon("A_BINPACK", history_file=path)
        assert self.counted(after) == "pods counted: 1"
        pod = asking(name="second")
        assert after._file is not None
        np.testing.assert_array_equal(
            explained(after, pod, self.NODES)["v"], explained(lasting, pod, self.NODES)["v"]
        )
        after._file.close()

    def test_a_damaged_file_is_shown_and_the_agent_runs(self, tmp_path: Path) -> None:
        """It is no reason not to be ready."""
        path = tmp_path / "history.json"
        path.write_text("{")
        agent = pigeon("A_BINPACK", history_file=str(path))
        condition = agent.conditions()["history"]()
        assert (condition.ok, condition.required) == (False, False)
        assert condition.detail.startswith(f"pods counted: 0; ignored: {path}: ")
        score(agent, asking(), *self.NODES)
        assert agent._file is not None
        agent._file.close()
        assert agent.conditions()["history"]().ok


class TestPredicate:
    """pigeon-fits, for those who want pigeon to filter as well."""

    def reason(self, pod: JSON, node: JSON, count: int = 5) -> str | None:
        """Ask about one node."""
        [reason] = ask_predicate(pigeon(count=count), "pigeon-fits", pod, [node])
        return reason

    @pytest.mark.parametrize(
        ("pod", "reason"),
        [
            (asking(), None),
            (asking("11"), "not enough cpu"),
            (asking("1", "11Gi"), "not enough memory"),
            (asking(**{GPU: "5"}), "not enough gpu"),
            (asking(**{"ephemeral-storage": "1Gi"}), "not enough ephemeral storage"),
            (asking("11", "11Gi"), "not enough cpu"),
        ],
    )
    def test_a_reason_per_resource(self, pod: JSON, reason: str | None) -> None:
        """The first that is lacking, without numbers, so that kube-scheduler can add them up."""
        assert self.reason(pod, make_used()) == reason

    def test_a_full_node_has_no_room(self) -> None:
        """As many pods as it may run."""
        assert self.reason(asking(), make_used(pods=10)) == "no room for another pod"

    @pytest.mark.parametrize("count", [1, 2, 3])
    def test_resources_that_do_not_count_reject_nothing(self, count: int) -> None:
        """NUM_RESOURCES says which do."""
        assert self.reason(asking(**{GPU: "5"}), make_used(), count) is None

    def test_what_is_unknown_rejects_nothing(self) -> None:
        """kube-scheduler's own filters have seen the node; what is known counts."""
        assert self.reason(asking(), make_node("n")) is None
        node = make_node("n", allocatable={"memory": "1Gi"}, annotations={"requested-memory": "0"})
        assert self.reason(asking("99", "2Gi"), node) == "not enough memory"

    def test_evictions_can_help(self) -> None:
        """So kube-scheduler may preempt there."""
        assert [verb.preemption_can_help for verb in pigeon().predicates] == [True]

    def test_it_explains_what_is_free(self) -> None:
        """In whole units, of each resource that counts."""
        agent = pigeon(count=4)
        nodes = nodes_for(agent, [make_used("n", 20, 50, 3, 1)])
        explanation = agent.fits(read_pod(asking()), nodes).explanation
        assert {key: free.tolist() for key, free in explanation.items()} == {
            "free_cpu": [8000],
            "free_memory": [5120],
            "free_pods": [7],
            "free_gpu": [3],
        }


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("count", range(1, 6))
def test_the_agent_keeps_the_contract(objective: str, count: int) -> None:
    """On nodes with all that it reads."""
    nodes = [make_used(f"n{used}", used, 100 - used, 5, used // 30) for used in range(0, 100, 7)]
    pods = [asking("2", "1Gi"), asking("1", "4Gi", **{GPU: "1"}), asking("99")]
    check_agent(pigeon(objective, count), nodes, pods)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_parallel_calls_score_as_one_after_the_other(objective: str) -> None:
    """Twenty at a time, each about other nodes."""
    nodes = [make_used(f"n{used}", used, 100 - used) for used in range(100)]
    pods = [asking(f"{number % 5 + 1}", "1Gi", name=f"p{number}") for number in range(60)]
    agent = pigeon(objective)
    with (
        serve_agents(agent, nodes=nodes) as prefix,
        Extender(prefix, prioritize_verb="priorities/pigeon-holing") as extender,
    ):

        def ask(number: int) -> dict[str, int]:
            return extender.prioritize(pods[number], nodes[number:])

        # Now the history has all pods, and no order of them matters any more.
        for number in range(len(pods)):
            ask(number)
        expected = [ask(number) for number in range(len(pods))]
        with ThreadPoolExecutor(20) as executor:
            found = list(executor.map(ask, [*range(len(pods))] * 3))
    assert found == expected * 3


def test_a_process_shows_its_count_and_keeps_it(tmp_path: Path) -> None:
    """On /readyz?verbose, and in the file once it has stopped."""
    history = tmp_path / "history.json"
    with serve_process(
        "pigeon", folder=tmp_path, environment={"PIGEON_HISTORY_FILE": str(history)}
    ) as served:
        with Extender(
            served.url_prefix, prioritize_verb="priorities/pigeon-holing", node_cache_capable=False
        ) as extender:
            for name in ("first", "second"):
                extender.prioritize(asking(name=name), [make_used("a"), make_used("b", 50)])
        ready = httpx.get(f"{served.ops_url}/readyz?verbose", trust_env=False)
    assert "[+]agent/pigeon/history ok: pods counted: 2" in ready.text.splitlines()
    assert DemandHistory.load(history, 2).moments.count == 2


class TestReadme:
    """What the README shows is so."""

    NAMES = ("n1", "n2", "n3", "n4")
    NODES = tuple(make_node(name, allocatable={"cpu": "8", "memory": "32Gi"}) for name in NAMES)
    PODS = (asking("3", "12Gi", name="large"), asking("1", "4Gi", name="small")) * 4

    def placed(self, objective: str) -> tuple[Pigeon, NodeTable, dict[str, int]]:
        """Place the pods, one after the other; cores in use by node."""
        agent = pigeon(objective)
        table = live(agent, self.NODES)
        cores = dict.fromkeys(self.NAMES, 0)
        for number, pod in enumerate(self.PODS):
            read = read_pod({**pod, "metadata": {"uid": str(number)}})
            nodes = table.nodes("pigeon", table.rows(self.NAMES))
            best = self.NAMES[int(agent.pigeon_holing(read, nodes).values.argmax())]
            table.put_pod(Bound(str(number), best, read.demand))
            cores[best] += read.demand.cpu // 1000
        return agent, table, cores

    def test_the_picture(self) -> None:
        """A bar per node and objective."""
        lines = ["    node    " + "  ".join(f"{name:12}" for name in OBJECTIVES)]
        bars = [self.placed(objective)[2] for objective in OBJECTIVES]
        for node in self.NAMES:
            texts = [("#" * cores[node]).ljust(8, ".") for cores in bars]
            lines.append(f"    {node}      " + "  ".join(f"{text:12}" for text in texts))
        assert "\n".join(line.rstrip() for line in lines) in README

    def test_the_table(self) -> None:
        """Objective and score of one more pod, on the nodes as A_BINPACK left them."""
        agent, table, cores = self.placed("A_BINPACK")
        nodes = table.nodes("pigeon", table.rows(self.NAMES))
        pod = read_pod(asking("2", "8Gi", name="ninth"))
        columns = []
        for objective in OBJECTIVES:
            other = agent if objective == "A_BINPACK" else pigeon(objective)
            columns.append(other.pigeon_holing(pod, nodes))
        for place, node in enumerate(self.NAMES):
            parts = [
                f"{scores.explanation['v'][place]:.3f}: {scores.values[place]}"
                for scores in columns
            ]
            assert f"| {node} | {cores[node]} of 8 | {' | '.join(parts)} |" in README

    def test_the_reasons(self) -> None:
        """All are named."""
        verdict = pigeon(count=5).fits(read_pod(asking()), nodes_for(pigeon(count=5), []))
        for reason in verdict.rejected:
            assert re.search(f"`{reason}`", README)
