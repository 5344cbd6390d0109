"""What extenders cost the real kube-scheduler, and what a large cluster costs our server.

All contestants run against one control plane, turn by turn: on a noisy machine the ratios hold,
not the milliseconds. Each pod asks for another amount, so that nothing is answered from memory,
but where pods are said to be alike, as those of one Deployment are. No node is at risk, so that
all contestants leave kube-scheduler the same nodes.

    nox -s "bench(throughput)" -- [--nodes 1000] [--pods 250] [--rounds 4] [--no-memory]
"""

import argparse
import os
import random
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
sys.path += [str(HERE), str(HERE.parent / "e2e")]

from calls import make_cluster  # noqa: E402  # found by the line before
from control_plane import BINARY, JSON, ControlPlane, Scheduler, extender  # noqa: E402
from e2e_programs import Program, free_port, wait_for  # noqa: E402
from e2e_server import Server  # noqa: E402

from kube_sched_ext_testkit.builders import make_pod  # noqa: E402

NODES, PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
WARM_UP_PODS = 20
LARGE_NODES, LARGE_PODS = 5000, 20_000
ALGORITHM = "scheduler_scheduling_algorithm_duration_seconds"


@dataclass
class Contestant:
    """One way to run kube-scheduler, and what a pod cost in each round."""

    label: str
    extenders: Sequence[JSON]
    pods: int
    are_alike: bool = False
    milliseconds: list[float] = field(default_factory=list)
    algorithm: list[float] = field(default_factory=list)


def calm_cluster(count: int) -> list[JSON]:
    """Return whole nodes of about 14 KB, none of them at risk of overload."""
    rng = random.Random(2)  # noqa: S311  # the same cluster in each run
    nodes: list[JSON] = make_cluster(count)
    for node in nodes:
        node["metadata"]["annotations"] |= {
            "mean-free-cpu": str(rng.randint(9000, 15000)),
            "std-free-cpu": str(rng.randint(50, 800)),
            "forcasted-free-cpu": str(rng.randint(9000, 15000)),
            "mean-free-memory": str(rng.randint(40, 60) * 2**30),
            "std-free-memory": str(rng.randint(1, 2 * 2**30)),
            "forcasted-free-memory": str(rng.randint(40, 60) * 2**30),
        }
    return nodes


def pod(number: int, prefix: str, *, kind: int = 0, node: str = "") -> JSON:
    """Return a pod whose demand differs with `kind`."""
    spec: JSON = {"terminationGracePeriodSeconds": 0}
    if node:
        spec["nodeName"] = node
    requests = {"cpu": f"{10 + kind % 1000}m", "memory": f"{16 + kind % 100}Mi"}
    return make_pod(f"{prefix}-{number}", requests=requests, spec=spec)


class Bound:
    """Counts pods as they are bound, and keeps the time of the last."""

    def __init__(self, plane: ControlPlane) -> None:
        """Watch from now on."""
        version = plane.api("GET", f"{PODS}?limit=1")["metadata"]["resourceVersion"]
        query = f"watch=true&resourceVersion={version}&fieldSelector=spec.nodeName!%3D"
        self._lines = plane.api.lines(f"{PODS}?{query}")
        self.count, self.at = 0, 0.0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        for line in self._lines:
            if line.startswith(b'{"type":"ADDED"'):
                self.at = time.perf_counter()
                self.count += 1

    @contextmanager
    def awaiting(self, count: int) -> Iterator[None]:
        """Wait until so many more are bound than before the block."""
        wanted = self.count + count
        yield
        wait_for(f"{count} pods bound", lambda: self.count >= wanted, 300, every=0.01)


def run_round(plane: ControlPlane, folder: Path, bound: Bound, contestant: Contestant) -> None:
    """Schedule a batch, which waits as a whole before kube-scheduler sees it."""
    api = plane.api
    scheduler = plane.start_scheduler(folder, contestant.extenders)
    try:
        warm_up = WARM_UP_PODS if contestant.pods > WARM_UP_PODS else 3
        with bound.awaiting(warm_up):
            api.each("POST", ((PODS, pod(number, "warm-up")) for number in range(warm_up)))
        before = scheduler.metrics()
        scheduler.signal(signal.SIGSTOP)
        with bound.awaiting(contestant.pods):
            kinds = [0 if contestant.are_alike else number for number in range(contestant.pods)]
            batch = [pod(number, "pod", kind=kind) for number, kind in enumerate(kinds)]
            api.each("POST", ((PODS, it) for it in batch))
            began = time.perf_counter()
            scheduler.signal(signal.SIGCONT)
        contestant.milliseconds.append((bound.at - began) / contestant.pods * 1e3)
        contestant.algorithm.append(_mean_milliseconds(before, scheduler))
    finally:
        scheduler.stop()
    empty(plane)


def _mean_milliseconds(before: dict[str, float], scheduler: Scheduler) -> float:
    after = scheduler.metrics()
    total, count = (
        after[f"{ALGORITHM}_{part}"] - before[f"{ALGORITHM}_{part}"] for part in ("sum", "count")
    )
    return total / count * 1e3


def empty(plane: ControlPlane) -> None:
    """Delete all pods."""
    plane.api("DELETE", f"{PODS}?gracePeriodSeconds=0")
    wait_for("no pods", lambda: not plane.api("GET", f"{PODS}?limit=1")["items"])


@contextmanager
def yardstick(plane: ControlPlane, folder: Path, kind: str) -> Iterator[str]:
    """Run one of the extenders that are measured against; yields its URL."""
    port = free_port()
    program = Program(kind, [plane.binary, kind, "--listen", f"127.0.0.1:{port}"], folder)
    try:
        program.wait_until("listening", lambda: "listening on" in program.tail())
        yield f"http://127.0.0.1:{port}"
    finally:
        program.stop()


@contextmanager
def serving(plane: ControlPlane, folder: Path, *arguments: str) -> Iterator[tuple[Server, float]]:
    """Run our server as it runs in a cluster; yields it, and the seconds until it was ready."""
    kubeconfig = str(plane.kubeconfig("nudger"))
    began = time.perf_counter()
    server = Server(
        "-".join(["server", *arguments]),
        folder,
        *arguments,
        "--node-cache",
        "--kubeconfig",
        kubeconfig,
        PROMETHEUS_URL="http://127.0.0.1:1",  # for all agents together; nobody is there
    )
    try:
        server.wait_ready()
        yield server, time.perf_counter() - began
    finally:
        server.stop()


def race(
    plane: ControlPlane, folder: Path, options: argparse.Namespace
) -> tuple[list[Contestant], list[tuple[str, str, float]]]:
    """Let all contestants take their turns; return them, and what a call took inside of us."""
    everything = partial(extender, filter_verb="filter", prioritize_verb="prioritize")
    safe = partial(
        extender,
        filter_verb="predicates/safe-overload",
        prioritize_verb="priorities/safe-overload",
    )
    with (
        serving(plane, folder, "safe") as (server, _),
        serving(plane, folder, "foo") as (template, _),
        yardstick(plane, folder, "null-extender") as null_url,
        yardstick(plane, folder, "floor-extender") as floor_url,
    ):
        whole_nodes = everything(null_url, names=False, timeout="30s")
        contestants = [
            Contestant("no extender", [], options.pods),
            Contestant("floor, names", [everything(floor_url)], options.pods),
            Contestant("safe, names", [safe(server.url)], options.pods),
            Contestant("safe, names, pods alike", [safe(server.url)], options.pods, are_alike=True),
            Contestant("null, names", [everything(null_url)], options.pods),
            Contestant("foo, names", [everything(template.url)], options.pods),
            Contestant("null, whole nodes", [whole_nodes], max(options.pods // 20, 5)),
        ]
        bound = Bound(plane)
        for number in range(options.rounds):
            # Nobody always comes after the same one.
            for contestant in contestants[number % 7 :] + contestants[: number % 7]:
                run_round(plane, folder, bound, contestant)
        calls = [
            (name, verb, it.mean_milliseconds(verb))
            for name, it in (("safe", server), ("foo", template))
            for verb in ("filter", "prioritize")
        ]
    return contestants, calls


def report(console: Console, contestants: Sequence[Contestant], title: str) -> None:
    """Print what a pod cost, and how fast each was beside the others."""
    table = Table(
        "contestant", "pods", "ms a pod", "from..to", "algorithm ms", "from..to", title=title
    )
    for it in contestants:
        row = [it.label, str(it.pods * len(it.milliseconds))]
        for values in (it.milliseconds, it.algorithm):
            row += [f"{statistics.median(values):.2f}", f"{min(values):.2f}..{max(values):.2f}"]
        table.add_row(*row)
    console.print(table)
    cost = {it.label: it for it in contestants}
    wanted = {"null, names": 1.0, "floor, names": 0.85, "null, whole nodes": 15.0}
    table = Table("how fast, where the others are 1", *wanted)
    for label in ("safe, names", "safe, names, pods alike"):
        ours = statistics.median(cost[label].milliseconds)
        ratios = [statistics.median(cost[other].milliseconds) / ours for other in wanted]
        table.add_row(label, *(f"{ratio:.2f}" for ratio in ratios))
    table.add_row("wanted, at least", *(f"{least:g}" for least in wanted.values()))
    console.print(table)


def fill(plane: ControlPlane, nodes: Sequence[JSON]) -> None:
    """Create nodes, and all the pods on them."""
    plane.api.each("POST", ((NODES, node) for node in nodes))
    names = [node["metadata"]["name"] for node in nodes]
    pods = (
        pod(number, "bound", kind=number, node=names[number % len(names)])
        for number in range(LARGE_PODS)
    )
    plane.api.each("POST", ((PODS, it) for it in pods))


def measure_memory(console: Console, plane: ControlPlane, folder: Path) -> None:
    """Print what our server takes on a large cluster, and how soon it is ready."""
    table = Table(
        "server", "ready after s", "MB then", "MB at most", "nodes", "pods",
        title=f"our server, {LARGE_NODES} nodes of 50 images and {LARGE_PODS} bound pods",
    )  # fmt: skip
    for arguments in (["safe"], ["safe", "--nudge"], ["--nudge"]):
        with serving(plane, folder, *arguments) as (server, seconds):
            objects = [
                server.count("kube_sched_ext_watch_objects", resource=resource)
                for resource in ("nodes", "pods")
            ]
            table.add_row(
                " ".join(arguments) if arguments[0] == "safe" else "all agents, --nudge",
                f"{seconds:.2f}",
                f"{server.resident_megabytes:.0f}",
                f"{server.peak_megabytes:.0f}",
                *(f"{count:.0f}" for count in objects),
            )
    console.print(table)
    console.print("wanted: at most 250 MB, ready within 5 s")


def main() -> None:
    """Run all, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=250, help="in each of the rounds")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--no-memory", action="store_true")
    options = parser.parse_args()
    binary = os.environ.get(BINARY)
    if not binary:
        raise SystemExit(f"{BINARY} is not set: nox builds that binary and sets it")
    console = Console(width=100)
    with tempfile.TemporaryDirectory(prefix="kube-sched-ext-bench-") as name:
        folder = Path(name)
        plane = ControlPlane(Path(binary).resolve(), folder)
        try:
            plane.start()
            began = time.monotonic()
            plane.api.each("POST", ((NODES, node) for node in calm_cluster(options.nodes)))
            console.print(f"{options.nodes} nodes created in {time.monotonic() - began:.0f} s")
            contestants, calls = race(plane, folder, options)
            report(console, contestants, f"kube-scheduler, {options.nodes} nodes")
            for agent, verb, milliseconds in calls:
                console.print(f"{agent}, {verb}: {milliseconds:.2f} ms from body to reply")
            if not options.no_memory:
                fill(plane, calm_cluster(LARGE_NODES)[options.nodes :])
                measure_memory(console, plane, folder)
        finally:
            plane.stop()


if __name__ == "__main__":
    main()
