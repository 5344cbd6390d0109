"""The plain YAML: equal to the chart, accepted; the image article's set-up comes to its result."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from control_plane import JSON
from deploy_plane import Rig
from deploy_programs import configuration, environment, of_kind, the
from e2e_programs import free_port
from render import DEPLOY, EXAMPLES, agents_of_chart, combination, examples

NAMES = {
    *(f"extender.{agent}.yaml" for agent in agents_of_chart()),
    "extender.safe.congestion.yaml",
    "extender.safe.pigeon.yaml",
    "extended-scheduler.image.yaml",
    "service-account.yaml",
    "test-pod.yaml",
}


def read(name: str) -> list[JSON]:
    """Return the objects of an example."""
    return [it for it in yaml.safe_load_all((EXAMPLES / name).read_text()) if it]


def test_these_are_there() -> None:
    """By the names that users know."""
    assert {path.name for path in EXAMPLES.iterdir()} == NAMES


def test_they_are_what_the_chart_renders() -> None:
    """`nox -s examples` writes them anew."""
    made = examples()
    assert made.keys() == NAMES - {"test-pod.yaml"}
    for name, text in made.items():
        assert (EXAMPLES / name).read_text() == text, name


@pytest.mark.parametrize("agent", agents_of_chart())
def test_one_account_serves_all_of_them(agent: str) -> None:
    """service-account.yaml is the same whatever the agents."""
    made = combination([agent])["service-account.yaml"]
    assert made == (EXAMPLES / "service-account.yaml").read_text()


@pytest.mark.parametrize("name", sorted(NAMES))
def test_the_apiserver_accepts_them(rig: Rig, name: str) -> None:
    """Object by object, with nothing unknown in them."""
    for item in read(name):
        rig.accepts(item)


@pytest.mark.parametrize(
    ("name", "agents"),
    [
        ("extender.safe.congestion.yaml", ["safe", "congestion"]),
        ("extender.safe.pigeon.yaml", ["safe", "pigeon"]),
        ("extender.image.yaml", ["image"]),
    ],
)
def test_names_and_ports_are_those_that_users_know(name: str, agents: list[str]) -> None:
    """my-scheduler-ctr, my-extender-ctr-1 on 5401, my-extender-ctr-2 on 5402."""
    made = the(read(name), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert [it["name"] for it in made] == [
        "my-scheduler-ctr",
        *(f"my-extender-ctr-{number}" for number in range(1, len(agents) + 1)),
    ]
    assert [it["args"][1] for it in made[1:]] == agents
    ports = [environment(it)["HTTP_PORT"] for it in made[1:]]
    assert ports == [str(5401 + number) for number in range(len(agents))]


def test_the_test_pod_asks_for_the_scheduler_of_the_examples() -> None:
    """Otherwise it would stay pending."""
    [pod] = read("test-pod.yaml")
    [profile] = configuration(read("extender.safe.yaml"))["profiles"]
    assert pod["spec"]["schedulerName"] == profile["schedulerName"]


def render(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run what `nox -s examples -- ...` runs."""
    command = [sys.executable, str(DEPLOY / "render.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_any_other_combination_can_be_printed() -> None:
    """The account first, then the rest, as kubectl applies them."""
    done = render("pigeon", "image", "foo")
    objects = list(yaml.safe_load_all(done.stdout))
    kinds = [it["kind"] for it in objects if it]
    assert kinds[0] == "ServiceAccount"
    assert len(configuration(it for it in objects if it)["extenders"]) == 3


def test_any_other_combination_can_be_written(tmp_path: Path) -> None:
    """Beside its account."""
    assert render("image", "foo", "--into", str(tmp_path)).returncode == 0
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"service-account.yaml", "extender.image.foo.yaml"}


def test_an_unknown_agent_is_named() -> None:
    """With those that there are."""
    done = render("saef")
    assert done.returncode == 2
    assert "no agent: saef; there are congestion, foo, image" in done.stderr


ARTICLE = "extended-scheduler.image.yaml"
NGINX = "nginx:1.7.9"
SMALL = 9_000_000
"""Below what kube-scheduler's own ImageLocality looks at."""


def test_the_article_is_set_up_as_it_says() -> None:
    """A scheduler with its ConfigMap, an extender on the host network, a node port, two pods."""
    objects = read(ARTICLE)
    workloads = {it["metadata"]["name"]: it for it in of_kind(objects, "Deployment")}
    assert set(workloads) == {"extended-scheduler", "image-extender"}
    assert workloads["image-extender"]["spec"]["template"]["spec"]["hostNetwork"] is True
    [port] = the(objects, "Service")["spec"]["ports"]
    assert (port["nodePort"], port["targetPort"]) == (30036, 5401)
    pods = [it["spec"] for it in of_kind(objects, "Pod")]
    assert [it["schedulerName"] for it in pods] == ["extended-scheduler"] * 2
    assert [it["containers"][0]["image"] for it in pods] == [NGINX] * 2


def test_the_article_comes_to_its_result(rig: Rig) -> None:
    """The image is on worker-node2 only: scores 0, 0 and 1, and both pods go there."""
    objects = read(ARTICLE)
    for name in ("master-node", "worker-node1"):
        rig.cluster.add_node(name)
    rig.cluster.add_node("worker-node2", images=[([NGINX], SMALL)])
    rig.install(objects)
    # Nobody plays kube-proxy here: what is asked at the node port comes to the container's port.
    port = free_port()
    address = "image-extender.kube-system.svc:30036"
    agent, scheduler = sorted(
        of_kind(objects, "Deployment"), key=lambda it: it["metadata"]["name"], reverse=True
    )
    rest = [it for it in objects if it["kind"] != "Deployment"]
    rig.run([agent, *rest], ports={5401: port, 6401: port + 1000})
    pods = of_kind(objects, "Pod")
    nodes = ["master-node", "worker-node1", "worker-node2"]
    path = "/my_scheduler_extension/my_new_priorities/image_score"
    scores = rig.scores(f"http://127.0.0.1:{port}{path}", pods[0], nodes)
    assert scores == {"master-node": 0, "worker-node1": 0, "worker-node2": 1}
    rig.run([scheduler, *rest], replaced={address: f"127.0.0.1:{port}"})
    names = [rig.create(pod) for pod in pods]
    assert rig.cluster.wait_bound(names) == dict.fromkeys(names, "worker-node2")
