"""A cluster for one test: nodes, pods, our servers and a kube-scheduler."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from control_plane import JSON, ControlPlane, Scheduler
from e2e_programs import Program, wait_for
from e2e_server import Server

from kube_sched_ext_testkit.builders import make_node, make_pod

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
SMALL: Mapping[str, str] = {"cpu": "10m", "memory": "16Mi"}
"""What a pod asks for where it does not matter."""


class Cluster:
    """What a test does with a cluster; `close` leaves it empty."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.api = plane.api
        self.scheduler: Scheduler | None = None
        self._folder = folder
        self._programs: list[Program] = []
        self._created: dict[str, str] = {}
        self._priorities: list[str] = []

    # Programs

    def serve(
        self, *arguments: str, user: str = "watcher", apiserver_port: int = 0, **env: str
    ) -> Server:
        """Start a server of ours that watches the cluster as `user`, and wait until it is ready."""
        name = f"server-{len(self._programs)}"
        kubeconfig = self.plane.kubeconfig(user, apiserver_port)
        options = ("--node-cache", "--kubeconfig", str(kubeconfig))
        server = Server(name, self._folder, *arguments, *options, **env)
        self._programs.append(server)
        server.wait_ready()
        return server

    def schedule(self, *extenders: JSON, profile: JSON | None = None) -> Scheduler:
        """Start kube-scheduler, in place of the one that runs."""
        self.stop_scheduler()
        self.scheduler = self.plane.start_scheduler(self._folder, extenders, profile)
        self._programs.append(self.scheduler)
        return self.scheduler

    def stop_scheduler(self) -> None:
        """Stop kube-scheduler, if one runs."""
        if self.scheduler is not None:
            self.scheduler.stop()
            self._programs.remove(self.scheduler)
            self.scheduler = None

    # Nodes

    def add_node(
        self,
        name: str,
        *,
        annotations: Mapping[str, str] | None = None,
        images: Sequence[tuple[Sequence[str], int]] = (),
        cpu: str = "4",
        memory: str = "8Gi",
        pods: str = "110",
    ) -> None:
        """Create a node."""
        labels = {"kubernetes.io/hostname": name}
        node = make_node(
            name,
            allocatable={"cpu": cpu, "memory": memory, "pods": pods},
            annotations=annotations,
            labels=labels,
            images=images,
        )
        self.api("POST", NODES, node)

    def annotate(self, node: str, **annotations: str) -> None:
        """Set annotations of a node; underscores stand for hyphens."""
        texts = {key.replace("_", "-"): value for key, value in annotations.items()}
        self.api("PATCH", f"{NODES}/{node}", {"metadata": {"annotations": texts}})

    # Pods

    def create_pods(
        self,
        names: Iterable[str],
        *,
        requests: Mapping[str, str] = SMALL,
        image: str = "registry.example/app:1",
        priority_class: str = "",
        node: str = "",
    ) -> list[str]:
        """Create pods alike, on `node` if one is given; return their names."""
        spec: JSON = {"terminationGracePeriodSeconds": 0}
        if node:
            spec["nodeName"] = node
        if priority_class:
            spec["priorityClassName"] = priority_class
        names = list(names)
        bodies = [make_pod(name, requests=requests, images=[image], spec=spec) for name in names]
        created = self.api.each("POST", ((PODS, body) for body in bodies))
        self._created |= {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in created}
        return names

    @contextmanager
    def creating(self, names: Sequence[str]) -> Iterator[None]:
        """Create pods while the block runs."""
        with ThreadPoolExecutor(1) as worker:
            created = worker.submit(self.create_pods, names)
            yield
            created.result()

    def delete_pods(self, names: Iterable[str]) -> None:
        """Delete pods, and wait until they are gone."""
        names = list(names)
        self.api.each("DELETE", ((f"{PODS}/{name}", None) for name in names))
        for name in names:
            self._created.pop(name)
        wait_for("pods gone", lambda: not set(names) & self.pods().keys())

    def pods(self) -> dict[str, JSON]:
        """Return all pods by name."""
        return {pod["metadata"]["name"]: pod for pod in self.api("GET", PODS)["items"]}

    def placement(self, names: Iterable[str]) -> dict[str, str]:
        """Return the nodes of pods; an empty text for those that have none."""
        pods = self.pods()
        return {name: pods[name]["spec"].get("nodeName", "") for name in names}

    def bound_count(self) -> int:
        """Return how many pods have a node."""
        return len(self.pods()) - self._pending_count()

    def wait_bound(self, names: Iterable[str], seconds: float = 60.0) -> dict[str, str]:
        """Wait until these pods have nodes; return them."""
        names = list(names)

        def bound() -> dict[str, str]:
            try:
                placement = self.placement(names)
            except OSError:  # the apiserver restarts
                return {}
            return placement if all(placement.values()) else {}

        return wait_for("pods bound", bound, seconds, every=0.05)

    def place(self, name: str) -> str:
        """Create one pod, wait until it is bound, and return its node."""
        self.create_pods([name])
        return self.wait_bound([name])[name]

    def check_bound_once(self, nodes: Iterable[str], *, all_events: bool = True) -> None:
        """Check that every pod that was created is there, and was bound once, to one of `nodes`.

        The apiserver never changes a pod's node; so what remains to be seen is that none is lost
        or created anew, and that kube-scheduler has not said of one twice that it was bound.
        """
        pods = self.pods()
        assert {name: pod["metadata"]["uid"] for name, pod in pods.items()} == self._created
        assert {pod["spec"].get("nodeName") for pod in pods.values()} <= set(nodes)
        if all_events:  # it writes events behind its work
            wait_for("events", lambda: self._bound_events().keys() >= set(pods), 15, every=0.1)
        assert {it: count for it, count in self._bound_events().items() if count > 1} == {}

    # Events

    def events(self, pod: str, reason: str) -> list[str]:
        """Return the messages of a pod's events for `reason`, the latest last."""
        selector = f"involvedObject.name={pod},reason={reason}"
        items = self.api("GET", f"{EVENTS}?fieldSelector={selector}")["items"]
        items.sort(key=lambda it: int(it["metadata"]["resourceVersion"]))
        return [it["message"] for it in items]

    def wait_event(self, pod: str, reason: str, text: str = "", seconds: float = 30.0) -> str:
        """Return the latest such message with `text` in it."""

        def found() -> str:
            texts = [it for it in self.events(pod, reason) if text in it]
            return texts[-1] if texts else ""

        try:
            return wait_for(f"{reason} of {pod} with {text!r}", found, seconds, every=0.05)
        except AssertionError as error:
            raise AssertionError(f"{error}; there are {self.events(pod, reason)}") from None

    # The end

    def tails(self) -> list[tuple[str, str]]:
        """Return the ends of what all programs logged."""
        programs = [(program.name, program.tail()) for program in self._programs]
        return [*self.plane.tails(), *programs]

    def close(self) -> None:
        """Stop what was started here, and delete all objects; check that no server broke."""
        for program in reversed(self._programs):
            program.stop()
        for path in (PODS, NODES, EVENTS):
            self._empty(path)
        for name in self._priorities:
            self.api("DELETE", f"{PRIORITIES}/{name}")
        for program in self._programs:
            if isinstance(program, Server):
                assert "Traceback" not in program.log.read_text(), program.tail()

    def _empty(self, path: str) -> None:
        self.api("DELETE", f"{path}?gracePeriodSeconds=0")
        wait_for(f"{path} empty", lambda: not self.api("GET", path)["items"])

    def _pending_count(self) -> int:
        return len(self.api("GET", f"{PODS}?fieldSelector=spec.nodeName=")["items"])

    def _bound_events(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for event in self.api("GET", f"{EVENTS}?fieldSelector=reason=Scheduled")["items"]:
            name = event["involvedObject"]["name"]
            counts[name] = counts.get(name, 0) + (event.get("count") or 1)
        return counts

    def delete_events(self) -> None:
        """Delete the events so far."""
        self._empty(EVENTS)

    @staticmethod
    def now() -> float:
        """Return a time to measure from."""
        return time.monotonic()

    def bind_directly(
        self, name: str, node: str, requests: Mapping[str, str], priority_class: str = ""
    ) -> None:
        """Create a pod that has its node from the beginning."""
        self.create_pods([name], requests=requests, priority_class=priority_class, node=node)

    def add_priority(self, name: str, value: int) -> None:
        """Create a priority class."""
        meta = {"metadata": {"name": name}, "value": value}
        self.api("POST", PRIORITIES, meta)
        self._priorities.append(name)
