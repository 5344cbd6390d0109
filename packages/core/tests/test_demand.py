"""A pod's demand is what the scheduler counts."""

import pytest

from kube_sched_ext_testkit.ask import read_pod
from kube_sched_ext_testkit.builders import make_container, make_pod

SMALL, LARGE = {"cpu": "100m", "memory": "1Mi"}, {"cpu": "2", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("pod", "cpu", "memory"),
    [
        pytest.param(make_pod(), 0, 0, id="nothing asked"),
        pytest.param(make_pod(requests=SMALL), 100, 2**20, id="one container"),
        pytest.param(
            make_pod(spec={"containers": [make_container(requests=SMALL)] * 3}),
            300,
            3 * 2**20,
            id="containers add up",
        ),
        pytest.param(
            make_pod(requests=SMALL, init_containers=[make_container(requests=LARGE)]),
            2000,
            2**30,
            id="a larger init container counts alone",
        ),
        pytest.param(
            make_pod(requests=LARGE, init_containers=[make_container(requests=SMALL)]),
            2000,
            2**30,
            id="a smaller init container does not count",
        ),
        pytest.param(
            make_pod(
                requests=SMALL, init_containers=[make_container(requests=LARGE, is_sidecar=True)]
            ),
            2100,
            2**30 + 2**20,
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            make_pod(
                requests=SMALL,
                init_containers=[
                    make_container(requests=SMALL, is_sidecar=True),
                    make_container(requests=LARGE),
                ],
            ),
            2100,
            2**30 + 2**20,
            id="an init container starts beside the sidecars before it",
        ),
        pytest.param(
            make_pod(
                requests=SMALL,
                init_containers=[
                    make_container(requests=LARGE),
                    make_container(requests=SMALL, is_sidecar=True),
                ],
            ),
            2000,
            2**30,
            id="an init container starts without the sidecars after it",
        ),
        pytest.param(
            make_pod(requests=LARGE, spec={"resources": {"requests": {"cpu": "50m"}}}),
            50,
            2**30,
            id="the pod's own requests replace the sum",
        ),
        pytest.param(
            make_pod(requests=SMALL, spec={"overhead": {"cpu": "250m", "memory": "16Mi"}}),
            350,
            17 * 2**20,
            id="overhead comes on top",
        ),
        pytest.param(
            make_pod(
                requests=LARGE,
                spec={"resources": {"requests": {"cpu": "1"}}, "overhead": {"cpu": "250m"}},
            ),
            1250,
            2**30,
            id="overhead comes on top of the pod's own requests",
        ),
    ],
)
def test_demand_is_counted_as_by_the_scheduler(
    pod: dict[str, object], cpu: int, memory: int
) -> None:
    """component-helpers' PodRequests, case by case."""
    demand = read_pod(pod).demand
    assert (demand.cpu, demand.memory) == (cpu, memory)


def test_parts_are_added_exactly_and_rounded_once() -> None:
    """Three thirds of a millicore are one, not three."""
    containers = [make_container(requests={"cpu": "0.5m"})] * 4
    pod = make_pod(spec={"containers": containers})
    assert read_pod(pod).demand.cpu == 2


def test_other_resources_count_in_units() -> None:
    """Whatever the pod asks for can be read by its name; what it does not ask for is 0."""
    pod = make_pod(requests={"nvidia.com/gpu": "2", "ephemeral-storage": "1Gi"})
    demand = read_pod(pod).demand
    assert (demand["nvidia.com/gpu"], demand["ephemeral-storage"], demand["pods"]) == (2, 2**30, 0)


def test_pod_level_requests_of_other_resources_do_not_count() -> None:
    """Kubernetes supports cpu, memory and hugepages there."""
    spec = {"resources": {"requests": {"nvidia.com/gpu": "4", "hugepages-2Mi": "2Mi"}}}
    demand = read_pod(make_pod(spec=spec)).demand
    assert (demand["nvidia.com/gpu"], demand["hugepages-2Mi"]) == (0, 2**21)


@pytest.mark.parametrize("text", ["lots", "-1", "1Gb"])
def test_a_request_that_does_not_parse_counts_as_missing_and_is_told(text: str) -> None:
    """The other resources are still counted."""
    pod = make_pod(requests={"cpu": "1", "memory": text})
    demand = read_pod(pod).demand
    assert (demand.cpu, demand.memory) == (1000, 0)
    assert [(value.key, value.value) for value in demand.unparsable] == [("memory", text)]


def test_null_requests_are_no_requests() -> None:
    """Go writes nil maps as null."""
    spec = {"containers": [{"resources": None}, {"resources": {"requests": {"cpu": None}}}]}
    spec |= {"initContainers": None, "overhead": None, "volumes": None}
    assert read_pod(make_pod(spec=spec)).demand.amounts == {}
