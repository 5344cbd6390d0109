"""Pods, as far as agents read them."""

from kube_sched_ext_testkit.ask import read_pod
from kube_sched_ext_testkit.builders import make_container, make_pod


def test_a_pod_is_named_as_kubectl_names_it() -> None:
    """namespace/name; a pod without a namespace is in default."""
    assert str(read_pod(make_pod("p", namespace="ns"))) == "ns/p"
    assert str(read_pod({"metadata": {"name": "p"}})) == "default/p"


def test_container_images_are_those_of_all_kinds_of_containers() -> None:
    """Init containers and ephemeral ones too; as written."""
    pod = make_pod(
        images=["a:1", "b"],
        init_containers=[make_container("c")],
        spec={"ephemeralContainers": [make_container("d@sha256:0")]},
    )
    assert read_pod(pod).container_images == ["a:1", "b", "c", "d@sha256:0"]


def test_volume_images_are_those_of_image_volumes() -> None:
    """Other volumes have none."""
    volumes = [{"name": "x", "image": {"reference": "data:1"}}, {"name": "y", "emptyDir": {}}]
    assert read_pod(make_pod(spec={"volumes": volumes})).volume_images == ["data:1"]


def test_a_pod_of_nulls_has_no_images() -> None:
    """As Go writes nil slices."""
    pod = read_pod({"spec": {"containers": None, "initContainers": None, "volumes": None}})
    assert (pod.container_images, pod.volume_images) == ([], [])
