"""What a call costs: each agent against a bare handler, whole nodes, and memory.

Every figure of one table comes from one run, in which the calls of all contestants alternate: on
a noisy machine the ratios hold, not the milliseconds.

    nox -s "bench(calls)" -- [--calls 200] [--nodes 5000]
"""

import argparse
import http.client
import json
import operator
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
WARM_UP_CALLS = 20
IMAGES_PER_NODE = 50


def make_cluster(count: int) -> list[dict[str, object]]:
    """Return whole nodes of about 14 KB, each with statistics and 50 images."""
    rng = random.Random(1)  # noqa: S311  # the same cluster in each run
    return [_make_node(index, rng) for index in range(count)]


def _make_node(index: int, rng: random.Random) -> dict[str, object]:
    name = f"node-{index:05d}.eu-central-1.compute.internal"
    free_cpu, free_memory = rng.randint(500, 15000), rng.randint(2**30, 60 * 2**30)
    numbers = rng.sample(range(400), IMAGES_PER_NODE)
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "uid": f"0b2c3d4e-0000-4000-8000-{index:012d}",
            "labels": {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": "zone-a"},
            "annotations": {
                "congestion-factor": str(rng.randint(0, 100)),
                "mean-free-cpu": str(free_cpu),
                "std-free-cpu": str(rng.randint(1, 4000)),
                "forcasted-free-cpu": str(int(free_cpu * 0.9)),
                "mean-free-memory": str(free_memory),
                "std-free-memory": str(rng.randint(1, 2**33)),
                "forcasted-free-memory": str(int(free_memory * 0.9)),
                "requested-cpu": str(15900 - free_cpu),
                "requested-memory": str(60 * 2**30 - free_memory),
            },
        },
        "status": {
            "allocatable": {"cpu": "15900m", "memory": "65436Mi", "pods": "110"},
            "images": [_make_image(number) for number in numbers],
            "conditions": [
                {
                    "type": kind,
                    "status": "False",
                    "reason": f"KubeletHas{kind}",
                    "message": f"kubelet says {kind}. " * 22,
                    "lastHeartbeatTime": "2026-11-21T06:00:00Z",
                }
                for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
            ],
        },
    }


def _make_image(number: int) -> dict[str, object]:
    repository = f"registry.example/platform/team-{number % 20:02d}/service-{number:03d}"
    digest = f"{number:064x}"
    return {
        "names": [f"{repository}@sha256:{digest}", f"{repository}:v1.{number}.0"],
        "sizeBytes": 10_000_000 + number * 1_000_000,
    }


def make_pod(number: int) -> dict[str, object]:
    """Return a pod whose demand differs with `number`, with two images of the cluster."""
    image = "registry.example/platform/team-07/service-007:v1.7.0"
    other = "registry.example/platform/team-13/service-113:v1.113.0"
    requests = {"cpu": f"{100 + number}m", "memory": "512Mi"}
    return {
        "metadata": {"name": f"pod-{number}", "namespace": "default", "uid": f"uid-{number}"},
        "spec": {
            "containers": [
                {"name": "a", "image": image, "resources": {"requests": requests}},
                {"name": "b", "image": other},
            ]
        },
    }


@dataclass
class Contestant:
    """One path of one server, and how long its calls took."""

    label: str
    port: int
    path: str
    body: Callable[[int], bytes]
    seconds: list[float]

    def call(self, connection: http.client.HTTPConnection, number: int) -> None:
        """Make call `number` and note its time."""
        body = self.body(number)
        started = time.perf_counter()
        connection.request("POST", self.path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        self.seconds.append(time.perf_counter() - started)
        if response.status != 200:
            raise SystemExit(f"{self.label}: HTTP {response.status}")


def race(contestants: Sequence[Contestant], calls: int) -> None:
    """Let all contestants make their calls in turn, each on a connection kept alive."""
    connections = [
        http.client.HTTPConnection("127.0.0.1", contestant.port) for contestant in contestants
    ]
    for number in range(WARM_UP_CALLS + calls):
        for contestant, connection in zip(contestants, connections, strict=True):
            contestant.call(connection, number)
    for contestant, connection in zip(contestants, connections, strict=True):
        connection.close()
        del contestant.seconds[:WARM_UP_CALLS]


@contextmanager
def started(command: Sequence[str], port: int, path: str, **env: str) -> Iterator[int]:
    """Run a server until it answers, and stop it at the end; yields its process ID."""
    with subprocess.Popen(command, env=os.environ | env, stderr=subprocess.DEVNULL) as process:
        try:
            _wait(port, path)
            yield process.pid
        finally:
            process.terminate()


def _wait(port: int, path: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port)
            connection.request("GET", path)
            connection.getresponse().read()
            connection.close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise SystemExit(f"nothing answers on port {port}")


def resident_megabytes(pid: int) -> float:
    """Return the resident set of a process in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024 / 1e6
    raise SystemExit("no VmRSS")


def serve(port: int, nodes: Path | None, *agents: str) -> tuple[list[str], dict[str, str]]:
    """Return command and environment of a server for `agents`."""
    command = [sys.executable, "-m", "kube_sched_ext", "serve", *agents]
    if nodes:
        command += ["--nodes", str(nodes)]
    return command, {"HTTP_HOST": "127.0.0.1", "HTTP_PORT": str(port)}


def report(console: Console, title: str, contestants: Sequence[Contestant]) -> None:
    """Print the times of contestants, as ratios of the first."""
    table = Table("call", "p50 ms", "p90 ms", "ratio of p50", title=title)
    base = statistics.median(contestants[0].seconds)
    for contestant in contestants:
        p50 = statistics.median(contestant.seconds)
        p90 = statistics.quantiles(contestant.seconds, n=10)[8]
        table.add_row(contestant.label, f"{p50 * 1e3:.2f}", f"{p90 * 1e3:.2f}", f"{p50 / base:.2f}")
    console.print(table)


PREDICATE, PRIORITY = "/scheduler/predicates/", "/scheduler/priorities/"
PATHS = {
    "foo filter": PREDICATE + "foo",
    "foo prioritize": PRIORITY + "foo",
    "congestion prioritize": PRIORITY + "congestion",
    "image_score prioritize": PRIORITY + "image_score",
    "image_locality prioritize": PRIORITY + "image_locality",
    "safe-overload filter": PREDICATE + "safe-overload",
    "safe-overload prioritize": PRIORITY + "safe-overload",
    "safe-balance prioritize": PRIORITY + "safe-balance",
    "pigeon-holing prioritize": PRIORITY + "pigeon-holing",
}


def main() -> None:
    """Run all benchmarks and print their tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=200)
    parser.add_argument("--nodes", type=int, default=5000)
    options = parser.parse_args()
    console = Console(width=100)
    cluster = make_cluster(options.nodes)
    names = [node["metadata"]["name"] for node in cluster]  # type: ignore[index]

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        snapshot = folder / "nodes.json"
        snapshot.write_text(json.dumps({"kind": "List", "items": cluster}))
        bare_port, port = 18800, 18801
        bare = [sys.executable, str(HERE / "bare.py"), str(bare_port)]
        stack.enter_context(started(bare, bare_port, "/"))
        command, env = serve(port, snapshot, "foo", "congestion", "image", "safe", "pigeon")
        stack.enter_context(started(command, port, "/version", **env))

        def by_names(demand_of: Callable[[int], int]) -> Callable[[int], bytes]:
            # Each pod is asked about in another order of nodes, as kube-scheduler starts each
            # round at another node.
            def body(number: int) -> bytes:
                start = number * 37 % len(names)
                return json.dumps(
                    {
                        "Pod": make_pod(demand_of(number)),
                        "Nodes": None,
                        "NodeNames": names[start:] + names[:start],
                    }
                ).encode()

            return body

        contestants = [Contestant("bare handler", bare_port, "/", by_names(int), [])]
        for index, (label, path) in enumerate(PATHS.items()):
            # Each path has demands of its own, or one would find what another has computed.
            fresh = by_names(partial(operator.add, 100_000 * index))
            contestants.append(Contestant(label, port, path, fresh, []))
        contestants += [
            Contestant(f"{label}, demand asked before", port, path, by_names(lambda _: 1), [])
            for label, path in PATHS.items()
            if label.startswith("safe")
        ]
        race(contestants, options.calls)
        title = f"names mode, {options.nodes} nodes, {options.calls} calls"
        report(console, title, contestants)

        part = cluster[:1000]
        whole = json.dumps({"Pod": make_pod(1), "Nodes": {"metadata": {}, "items": part}}).encode()
        size = len(whole) / len(part) / 1000
        contestants = [
            Contestant(label, port, path, lambda _: whole, []) for label, path in PATHS.items()
        ]
        race(contestants, 20)
        report(console, f"whole nodes, {len(part)} of {size:.1f} KB, 20 calls", contestants)

    table = Table("agents", "resident MB", title=f"memory, {options.nodes} nodes of 50 images")
    with tempfile.TemporaryDirectory() as folder_name:
        snapshot = Path(folder_name) / "nodes.json"
        snapshot.write_text(json.dumps({"kind": "List", "items": cluster}))
        for agents in (["foo"], ["congestion"], ["image"], ["pigeon"], ["safe"]):
            command, env = serve(port, snapshot, *agents)
            with started(command, port, "/version", **env) as pid:
                table.add_row(" ".join(agents), f"{resident_megabytes(pid):.0f}")
    console.print(table)


if __name__ == "__main__":
    main()
