"""Against the real etcd, kube-apiserver and Prometheus; our own agents read what was written."""

import asyncio
import json
import math
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from cluster_controlplane import ControlPlane, make_node, make_pod
from cluster_fake import until

from kube_sched_ext import NodeReader
from kube_sched_ext.objects import Node
from kube_sched_ext_testkit.prometheus import Prometheus, write_history

pytestmark = [pytest.mark.control_plane, pytest.mark.timeout(300)]

BINARY = "KUBE_SCHED_EXT_CONTROLPLANE"
NODE = "/api/v1/nodes"
POD = "/api/v1/namespaces/default/pods"
CPUS, INTERVAL = 2, 60
NODES = {f"n{number}": f"10.0.0.{number}" for number in range(1, 5)}
MEMORY = {name: 2e9 + 1e9 * number for number, name in enumerate(NODES)}
IDLE = {name: 0.2 + 0.2 * number for number, name in enumerate(NODES)}
"""The shares of each cpu's time that are idle in the mean."""


class Stage:
    """A cluster whose nodes Prometheus has watched for a day."""

    def __init__(self, plane: ControlPlane, prometheus: Prometheus) -> None:
        self.plane = plane
        self.prometheus = prometheus

    def node(self, name: str) -> dict[str, Any]:
        """Return a node as it is."""
        return self.plane.call("GET", f"{NODE}/{name}")

    def annotations(self, name: str) -> Mapping[str, str]:
        """Return what is on a node."""
        return self.node(name)["metadata"].get("annotations", {})

    def writes(self) -> int:
        """Return how many patches of nodes the apiserver has counted."""
        status, text = self.plane._raw("GET", "/metrics")
        assert status == 200
        return sum(
            int(line.rpartition(" ")[2])
            for line in text.decode().splitlines()
            if line.startswith("apiserver_request_total{")
            and 'resource="nodes"' in line
            and ('verb="APPLY"' in line or 'verb="PATCH"' in line)
        )

    def environment(self, user: str, **variables: str) -> dict[str, str]:
        kept = {name: text for name, text in os.environ.items() if name.startswith("COV")}
        known = {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(self.plane.kubeconfig(user)),
            "PROMETHEUS_URL": self.prometheus.url,
        }
        return kept | known | variables

    def annotate(
        self, *arguments: str, user: str = "annotator", **variables: str
    ) -> tuple[int, str]:
        """Do one round with no more rights than that takes; return exit code and log."""
        done = subprocess.run(
            (sys.executable, "-m", "kube_sched_ext", "annotate", "--once"),
            env=self.environment(user, **variables),
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return done.returncode, done.stderr


def history() -> Iterator[tuple[str, float, float]]:
    """Yield a day of each node: sines of an hour around its mean, and some noise."""
    chance = np.random.default_rng(1)
    end = int(time.time()) // INTERVAL * INTERVAL + 1800
    times = np.arange(end - 86400 - 3600, end, INTERVAL)
    wave = np.sin(times / 3600 * 2 * np.pi)
    for name, address in NODES.items():
        labels = f'instance="{address}:9100"'
        for cpu in range(CPUS):
            shares = IDLE[name] * (1 + 0.1 * wave) + chance.normal(0, 0.01, len(times))
            series = f'node_cpu_seconds_total{{cpu="{cpu}",mode="idle",{labels}}}'
            for total, at in zip(np.cumsum(shares * INTERVAL), times, strict=True):
                yield series, float(total), float(at)
        free = MEMORY[name] * (1 + 0.1 * wave) + chance.normal(0, 1e7, len(times))
        series = f"node_memory_MemAvailable_bytes{{{labels}}}"
        for value, at in zip(free, times, strict=True):
            yield series, float(value), float(at)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Nodes with pods, and a day of them."""
    binary = os.environ.get(BINARY)
    if not binary:
        pytest.skip(f"{BINARY} is not set: the path of a binary with etcd and kube-apiserver")
    with ExitStack() as stack:
        prometheus = Prometheus(tmp_path_factory.mktemp("prometheus"))
        write_history(prometheus.data, history())
        stack.enter_context(prometheus)
        plane = ControlPlane(Path(binary), tmp_path_factory.mktemp("controlplane"))
        stack.callback(plane.stop)
        plane.start()
        for name, address in NODES.items():
            node = make_node(name)
            node["status"]["addresses"] = [{"type": "InternalIP", "address": address}]
            node["metadata"]["annotations"] = {"theirs": "1"}
            plane.call("POST", NODE, node)
        plane.create(POD, [make_pod(f"p{it}", f"n{1 + it % 3}") for it in range(6)])
        yield Stage(plane, prometheus)


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return str(held.getsockname()[1])


def decoded(stage: Stage, name: str) -> Node:
    return msgspec.json.decode(msgspec.json.encode(stage.node(name)), type=Node)


def test_our_own_agents_read_what_was_written(stage: Stage) -> None:
    """Safe the usage, as it was made; pigeon the allocation, as it counts the pods itself."""
    from kube_sched_ext_pigeon.resources import resources
    from kube_sched_ext_safe.agent import Safe

    code, log = stage.annotate()
    assert code == 0, log
    safe = Safe()
    for name in NODES:
        reader = NodeReader(decoded(stage, name))
        row = dict(zip(safe.columns, safe.row(reader), strict=False))
        assert row["mean-free-cpu"] == pytest.approx(1000 * CPUS * IDLE[name], rel=0.02)
        assert row["std-free-cpu"] == pytest.approx(1000 * CPUS * IDLE[name] * 0.07, rel=0.15)
        assert row["mean-free-memory"] == pytest.approx(MEMORY[name], rel=0.02)
        assert row["std-free-memory"] == pytest.approx(MEMORY[name] * 0.0707, rel=0.05)
        for resource, mean in (("cpu", 1000 * CPUS * IDLE[name]), ("memory", MEMORY[name])):
            assert 0.8 < row[f"forcasted-free-{resource}"] / mean < 1.2
        pods = 0 if name == "n4" else 2
        expected = {"cpu": 100 * pods, "memory": 64 * pods, "pods": pods, "gpu": 0, "storage": 0}
        for it in resources("nvidia.com/gpu"):
            assert it.usage(reader, it.capacity(reader)) == expected[it.name], it.name
        assert reader.unparsable == []
        assert all(math.isfinite(value) for value in row.values())


def test_the_next_round_writes_nothing(stage: Stage) -> None:
    """And a later one only to the node that has changed; what others wrote stays."""
    assert stage.annotate()[0] == 0
    writes = stage.writes()
    versions = {name: stage.node(name)["metadata"]["resourceVersion"] for name in NODES}
    assert stage.annotate()[0] == 0
    assert stage.writes() == writes
    stage.plane.call("POST", POD, make_pod("late", "n4"))
    assert stage.annotate()[0] == 0
    assert stage.writes() == writes + 1
    changed = [n for n in NODES if stage.node(n)["metadata"]["resourceVersion"] != versions[n]]
    assert changed == ["n4"]
    assert stage.annotations("n4")["requested-cpu"] == "100"
    assert stage.annotations("n4")["theirs"] == "1"


def test_what_is_switched_off_disappears(stage: Stage) -> None:
    """Without a trace, and comes back."""
    assert stage.annotate(ANNOTATE_USAGE="false")[0] == 0
    assert {key for key in stage.annotations("n1") if "-free-" in key} == set()
    assert stage.annotations("n1")["requested-pods"] == "2"
    assert stage.annotate()[0] == 0
    assert "mean-free-cpu" in stage.annotations("n1")


def test_values_of_others_are_taken_over_only_if_forced(stage: Stage) -> None:
    """Without force they are left alone, and the exit code says so."""
    foreign = {"metadata": {"annotations": {"mean-free-cpu": "1"}}}
    stage.plane.call("PATCH", f"{NODE}/n2", foreign)
    code, log = stage.annotate(ANNOTATE_FORCE="false")
    assert code == 1
    assert "conflict with" in log
    assert stage.annotations("n2")["mean-free-cpu"] == "1"
    assert stage.annotate()[0] == 0
    assert stage.annotations("n2")["mean-free-cpu"] != "1"


@pytest.mark.parametrize(
    ("user", "lacks"), [("watcher", "cannot patch resource"), ("nudger", "pods is forbidden")]
)
def test_a_right_that_lacks_is_named(stage: Stage, user: str, lacks: str) -> None:
    """And the exit code is 1."""
    stage.plane.call("POST", POD, make_pod(f"for-{user}", "n3"))
    code, log = stage.annotate(user=user, ANNOTATE_FREQ="2")
    assert code == 1
    assert lacks in log


@pytest.mark.anyio
async def test_it_goes_on_through_all_troubles(stage: Stage, tmp_path: Path) -> None:
    """Prometheus and the apiserver stop and come back, nodes vanish and are made anew."""
    with (tmp_path / "log").open("w") as log:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kube_sched_ext", "annotate", "--annotate-freq", "1"),
            env=stage.environment("annotator", HTTP_HOST="127.0.0.1", OPS_PORT=free_port()),
            stderr=log,
        )
    try:
        await _until_annotated(stage, "n1", "requested-pods", "2")
        await asyncio.to_thread(stage.prometheus.stop)
        await asyncio.to_thread(stage.plane.stop_apiserver)
        await until(lambda: "watch failed" in (tmp_path / "log").read_text(), 30)
        await asyncio.to_thread(stage.plane.start_apiserver)
        stage.plane.call("POST", POD, make_pod("after", "n1"))
        await _until_annotated(stage, "n1", "requested-pods", "3")
        assert "mean-free-cpu" in stage.annotations("n1")
        stage.plane.call("DELETE", f"{NODE}/n2")
        stage.plane.call("POST", NODE, make_node("n2"))
        await _until_annotated(stage, "n2", "requested-pods", "2")
        stage.plane.call("DELETE", f"{NODE}/n3")
        await asyncio.to_thread(stage.prometheus.start)
        names = {node["metadata"]["name"] for node in stage.plane.call("GET", NODE)["items"]}
        assert names == NODES.keys() - {"n3"}
    finally:
        process.terminate()
        assert await process.wait() == 0
    lines = (tmp_path / "log").read_text().splitlines()
    events = [json.loads(line)["event"] for line in lines]
    assert "view failed to take a change" not in events
    assert events[-1] == "stopped"


async def _until_annotated(stage: Stage, name: str, key: str, text: str) -> None:
    await until(lambda: stage.annotations(name).get(key) == text, 60)
