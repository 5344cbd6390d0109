"""A cluster to play with: the control plane, fake nodes, our agents, and a kubeconfig.

    nox -s cluster [-- --nodes SNAPSHOT] [AGENT ...]

There are no kubelets: pods get a node, and stay Pending there.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

from control_plane import ADMIN, BINARY, JSON, ControlPlane, extender
from e2e_programs import Program
from e2e_server import Server

SNAPSHOT = Path(__file__).parent.parent / "data" / "nodes.json"
HELP = """
    export KUBECONFIG={kubeconfig}
    alias kubectl='{binary} kubectl'

    kubectl get nodes
    kubectl annotate node {node} congestion-factor=0 --overwrite
    kubectl run web --image=registry.example/web:1
    kubectl get pods -o wide
    kubectl describe pod web

The agents: {url} ({agents}); what they count: {metrics}
Logs: {folder}
Ctrl-C ends all, and deletes what is there.
"""


def fake_nodes(snapshot: Path) -> list[JSON]:
    """Return the nodes of `kubectl get nodes -o json`, as they can be created anew."""
    nodes: list[JSON] = []
    for item in json.loads(snapshot.read_text())["items"]:
        meta = {
            key: item["metadata"][key]
            for key in ("name", "labels", "annotations")
            if key in item["metadata"]
        }
        nodes.append({"metadata": meta, "spec": {}, "status": item.get("status", {})})
    return nodes


def play(folder: Path, binary: Path, snapshot: Path, agents: list[str]) -> None:
    """Run all of it until a signal."""
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    plane = ControlPlane(binary, folder)
    programs: list[Program] = []
    try:
        _say("starting etcd and kube-apiserver ...")
        plane.start()
        nodes = fake_nodes(snapshot)
        plane.api.each("POST", (("/api/v1/nodes", node) for node in nodes))
        kubeconfig = str(plane.kubeconfig("nudger"))
        options = ("--node-cache", "--nudge", "--log-format=console", "--kubeconfig", kubeconfig)
        # Agents that read Prometheus start without one, too, and treat all nodes alike.
        prometheus = os.environ.get("PROMETHEUS_URL", "http://127.0.0.1:9090")
        server = Server("agents", folder, *agents, *options, PROMETHEUS_URL=prometheus)
        programs.append(server)
        server.wait_ready()
        ours = extender(
            server.url,
            filter_verb="filter",
            prioritize_verb="prioritize",
            preempt_verb="preemption",
            weight=5,
        )
        programs.append(plane.start_scheduler(folder, [ours]))
        text = HELP.format(
            kubeconfig=plane.kubeconfig(ADMIN),
            binary=binary,
            node=nodes[0]["metadata"]["name"],
            url=server.url,
            agents=", ".join(agents) or "all that are installed",
            metrics=f"http://127.0.0.1:{server.ops_port}/metrics",
            folder=folder,
        )
        _say(text)
        while not ended.wait(1):
            for program in programs:
                program.check_alive()
    finally:
        _say("ending ...")
        for program in reversed(programs):
            program.stop()
        plane.stop()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Read the command line, and play."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("agents", nargs="*", help="all that are installed, where left out")
    parser.add_argument("--nodes", type=Path, default=SNAPSHOT, help="kubectl get nodes -o json")
    options = parser.parse_args()
    binary = os.environ.get(BINARY)
    if not binary:
        raise SystemExit(f"{BINARY} is not set: `nox -s cluster` builds that binary and sets it")
    with tempfile.TemporaryDirectory(prefix="kube-sched-ext-cluster-") as folder:
        play(Path(folder), Path(binary).resolve(), options.nodes, options.agents)


if __name__ == "__main__":
    main()
