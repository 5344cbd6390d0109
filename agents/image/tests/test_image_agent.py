"""The image agent, from pods and nodes to scores."""

import json
from pathlib import Path

import numpy as np
import pytest

from kube_sched_ext_image.agent import Image
from kube_sched_ext_image.settings import ImageSettings
from kube_sched_ext_testkit.ask import ask_priority, nodes_for, read_pod
from kube_sched_ext_testkit.builders import JSON, make_container, make_node, make_pod

RECORDED = Path(__file__).parents[3] / "tests" / "data" / "nodes.json"
MB = 10**6
NGINX = "docker.io/library/nginx:1.7.9"
DIGEST = "sha256:ebf59a00ea9e6fcf8aca47cb023bcd44eef225636746fad4d157af09151c8541"


def image_score(pod: JSON, *nodes: JSON) -> list[int]:
    """Ask for image_score with default settings."""
    return ask_priority(Image(), "image_score", pod, nodes)


def image_locality(pod: JSON, *nodes: JSON, spread_nodes: int = 1) -> list[int]:
    """Ask for image_locality; images count in full unless `spread_nodes` says otherwise."""
    agent = Image(ImageSettings(spread_nodes=spread_nodes))
    return ask_priority(agent, "image_locality", pod, nodes)


def node_with(*names: str, size: int = 100 * MB, node: str = "node") -> JSON:
    """Return a node with one image of one name for each of `names`."""
    return make_node(node, images=[([name], size) for name in names])


def test_image_score_reproduces_the_article() -> None:
    """nginx:1.7.9 is on worker-node2 only: 0, 0 and 1 (worker-node3 is not in the article)."""
    nodes = json.loads(RECORDED.read_text())["items"]
    assert image_score(make_pod(images=["nginx:1.7.9"]), *nodes) == [0, 0, 1, 0]


@pytest.mark.parametrize(
    "reference",
    [
        "nginx:1.7.9",
        "docker.io/nginx:1.7.9",
        "index.docker.io/library/nginx:1.7.9",
        f"nginx@{DIGEST}",
        f"nginx:1.7.9@{DIGEST}",
        f"nginx:mistaken@{DIGEST}",
    ],
)
def test_image_score_finds_an_image_by_any_reference(reference: str) -> None:
    """Short or in full, by tag or by digest."""
    node = make_node("node", images=[([f"docker.io/library/nginx@{DIGEST}", NGINX], 20 * MB)])
    assert image_score(make_pod(images=[reference]), node) == [1]


def test_image_score_counts_an_image_that_the_pod_uses_twice_once() -> None:
    """The pod's images are distinct ones, however they are written."""
    pod = make_pod(images=["nginx:1.7.9", NGINX, "docker.io/nginx:1.7.9"])
    assert image_score(pod, node_with(NGINX)) == [1]


def test_image_score_counts_aliases_on_a_node_once() -> None:
    """Two tags of one image are one image, even if the pod uses both and the digest."""
    pod = make_pod(images=["web:1", "web:stable", f"web@{DIGEST}"])
    aliases = make_node("a", images=[(["web:1", "web:stable", f"web@{DIGEST}"], 20 * MB)])
    apart = node_with("web:1", "web:stable", node="b")
    assert image_score(pod, aliases, apart) == [1, 2]


def test_image_score_counts_one_image_per_reference() -> None:
    """A node that claims to have two images under one tag has one of the pod's."""
    node = make_node("node", images=[(["web:1"], 1), (["web:1", "web:2"], 2)])
    assert image_score(make_pod(images=["web:1"]), node) == [1]


def test_image_score_counts_init_and_ephemeral_containers() -> None:
    """All containers must be pulled for."""
    pod = make_pod(
        images=["web:1"],
        init_containers=[make_container("init:1"), make_container("proxy:1", is_sidecar=True)],
        spec={"ephemeralContainers": [{"name": "debug", "image": "debug:1"}]},
    )
    assert image_score(pod, node_with("web:1", "init:1", "proxy:1", "debug:1")) == [4]


def test_image_score_leaves_image_volumes_out() -> None:
    """It counts container images."""
    pod = make_pod(
        images=["web:1"], spec={"volumes": [{"name": "data", "image": {"reference": "data:1"}}]}
    )
    assert image_score(pod, node_with("web:1", "data:1")) == [1]


def test_image_score_is_at_most_ten() -> None:
    """kube-scheduler takes no more."""
    names = [f"web:{number}" for number in range(12)]
    assert image_score(make_pod(images=names), node_with(*names)) == [10]


@pytest.mark.parametrize("lost", ["<none>", "<none>:<none>", "<none>@<none>"])
def test_image_without_a_name_matches_nothing(lost: str) -> None:
    """Not even a pod that asks for it so."""
    assert image_score(make_pod(images=[lost, ""]), node_with(lost)) == [0]


def test_image_score_explains_which_images_are_where() -> None:
    """A boolean array for each reference that some node has."""
    agent = Image()
    pod = read_pod(make_pod(images=["web:1", "db:1", "absent:1"]))
    nodes = [node_with("web:1", node="a"), node_with("web:1", "db:1", node="b"), make_node("c")]
    explanation = agent.image_score(pod, nodes_for(agent, nodes)).explanation
    assert {key: has.tolist() for key, has in explanation.items()} == {
        "docker.io/library/web:1": [True, True, False],
        "docker.io/library/db:1": [False, True, False],
    }


def test_image_locality_is_the_share_of_the_pods_bytes() -> None:
    """300 MB of 400 MB, 100 MB of 400 MB, all, none."""
    pod = make_pod(images=["large:1", "small:1"])
    large, small = (["large:1"], 300 * MB), (["small:1"], 100 * MB)
    nodes = [
        make_node("large", images=[large]),
        make_node("small", images=[small]),
        make_node("both", images=[large, small]),
        make_node("none"),
    ]
    assert image_locality(pod, *nodes) == [8, 3, 10, 0]  # 7.5 and 2.5 are rounded up


def test_image_locality_damps_images_that_few_nodes_have() -> None:
    """On 1, 2, 3 and 4 nodes of a cluster, with IMAGE_SPREAD_NODES=3."""
    pod = make_pod(images=["web:1"])
    warm = [node_with("web:1", node=f"warm-{number}") for number in range(4)]
    first_scores = [
        image_locality(pod, *warm[:count], make_node("cold"), spread_nodes=3)[0]
        for count in range(1, 5)
    ]
    assert first_scores == [3, 7, 10, 10]


def test_image_locality_counts_the_nodes_of_the_cluster_not_of_the_request() -> None:
    """kube-scheduler asks about the nodes that its filters left: one of three warm ones here."""
    agent = Image(ImageSettings(spread_nodes=3))
    nodes = nodes_for(agent, [node_with("web:1", node=f"warm-{number}") for number in range(3)])
    asked = nodes.at(nodes.rows[:1])
    assert agent.image_locality(read_pod(make_pod(images=["web:1"])), asked).values.tolist() == [10]


def test_image_locality_leaves_out_images_nobody_reports() -> None:
    """Their size is unknown, so the rest counts in full."""
    pod = make_pod(images=["web:1", "unheard-of:1"])
    assert image_locality(pod, node_with("web:1")) == [10]


def test_image_locality_scores_zero_where_no_image_is_known() -> None:
    """Every node has to pull all."""
    assert image_locality(make_pod(images=["unheard-of:1"]), node_with("web:1")) == [0]


def test_image_locality_counts_image_volumes() -> None:
    """As kube-scheduler's own ImageLocality."""
    pod = make_pod(
        images=["web:1"],
        spec={"volumes": [{"name": "data", "image": {"reference": "data:1"}}, {"name": "scratch"}]},
    )
    nodes = [node_with("web:1", node="web"), node_with("data:1", node="data", size=300 * MB)]
    assert image_locality(pod, *nodes) == [3, 8]


def test_image_locality_counts_a_tag_and_its_digest_once() -> None:
    """One image of 300 MB under three references, and one of 100 MB."""
    pod = make_pod(images=["web:1", f"web@{DIGEST}", "web:stable", "small:1"])
    nodes = [
        make_node("web", images=[(["web:1", "web:stable", f"web@{DIGEST}"], 300 * MB)]),
        node_with("small:1", node="small"),
    ]
    assert image_locality(pod, *nodes) == [8, 3]


def test_image_locality_merges_references_that_a_third_one_joins() -> None:
    """Two tags turn out to be one image only by the node that has both under one digest."""
    pod = make_pod(images=["web:1", "web:2", f"web@{DIGEST}", "small:1"])
    nodes = [
        make_node("a", images=[(["web:1", f"web@{DIGEST}"], 300 * MB)]),
        make_node("b", images=[(["web:2", f"web@{DIGEST}"], 300 * MB)]),
        node_with("small:1", node="small"),
    ]
    assert image_locality(pod, *nodes) == [8, 8, 3]


def test_image_locality_takes_the_largest_size_reported() -> None:
    """300 MB here, 200 MB there: 300 MB of 400 MB in either place."""
    pod = make_pod(images=["web:1", "small:1"])
    nodes = [
        node_with("web:1", node="a", size=300 * MB),
        node_with("web:1", node="b", size=200 * MB),
        node_with("small:1", node="small"),
    ]
    assert image_locality(pod, *nodes) == [8, 8, 3]


def test_image_locality_explains_presence_and_the_exact_score() -> None:
    """Which image is where, and the score before rounding."""
    agent = Image()
    pod = read_pod(make_pod(images=["web:1"]))
    nodes = nodes_for(agent, [node_with("web:1", node="warm"), make_node("cold")])
    explanation = agent.image_locality(pod, nodes).explanation
    assert explanation["docker.io/library/web:1"].tolist() == [True, False]
    np.testing.assert_allclose(explanation["exact"], [10 / 3, 0])


@pytest.mark.parametrize("priority", ["image_score", "image_locality"])
def test_no_nodes_have_no_scores(priority: str) -> None:
    """kube-scheduler may ask about an empty list."""
    assert ask_priority(Image(), priority, make_pod(images=["web:1"]), []) == []


def test_recorded_nodes_score_as_the_readme_says() -> None:
    """20 MB on one node, 120 MB on one node and 100 MB on three."""
    nodes = json.loads(RECORDED.read_text())["items"]
    pod = make_pod(images=["nginx:1.7.9", "redis:8", "quay.io/prometheus/node-exporter:v1.9.0"])
    assert image_score(pod, *nodes) == [0, 1, 3, 1]
    assert image_locality(pod, *nodes, spread_nodes=3) == [0, 4, 6, 4]
