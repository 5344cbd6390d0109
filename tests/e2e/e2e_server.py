"""Our server as its own process."""

import json
import sys
from pathlib import Path
from typing import Any

import urllib3
from e2e_programs import Program, free_port
from prometheus_client.parser import text_string_to_metric_families


class Server(Program):
    """`kube-sched-ext serve`, who may do no more than its kubeconfig lets it."""

    def __init__(self, name: str, folder: Path, *arguments: str, **env: str) -> None:
        """Start; `ready` tells when it can answer."""
        self.port, self.ops_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.port}/scheduler"
        self._http = urllib3.PoolManager(retries=False, timeout=10.0)
        own = {"HTTP_HOST": "127.0.0.1", "HTTP_PORT": str(self.port)}
        super().__init__(
            name,
            [sys.executable, "-m", "kube_sched_ext", "serve", *arguments],
            folder,
            **own,
            OPS_PORT=str(self.ops_port),
            **env,
        )

    def is_ready(self) -> bool:
        """Tell whether it says that it is ready."""
        try:
            return self._ops("/readyz").status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def wait_ready(self) -> None:
        """Wait until it is ready."""
        self.wait_until("ready", self.is_ready)

    def ask(self, path: str, body: dict[str, Any]) -> Any:
        """Return what it answers on a path below its prefix."""
        reply = self._http.request("POST", f"{self.url}/{path}", body=json.dumps(body))
        assert reply.status == 200, reply.data
        return json.loads(reply.data)

    def scores(self, path: str, pod: dict[str, Any], names: list[str]) -> dict[str, int]:
        """Return the scores of nodes for a pod."""
        answer = self.ask(path, {"Pod": pod, "Nodes": None, "NodeNames": names})
        return {entry["Host"]: entry["Score"] for entry in answer}

    def kept(self, path: str, pod: dict[str, Any], names: list[str]) -> list[str]:
        """Return the nodes that pass a filter for a pod."""
        kept: list[str] = self.ask(path, {"Pod": pod, "Nodes": None, "NodeNames": names})[
            "NodeNames"
        ]
        return kept

    def count(self, metric: str, **labels: str) -> float:
        """Return the sum of a metric over all samples that have these labels."""
        families = text_string_to_metric_families(self._ops("/metrics").data.decode())
        return sum(
            sample.value
            for family in families
            for sample in family.samples
            if sample.name == metric and labels.items() <= sample.labels.items()
        )

    def calls(self, verb: str) -> int:
        """Return how many calls of a verb it has answered."""
        return int(self.count("kube_sched_ext_call_seconds_count", verb=verb))

    def mean_milliseconds(self, verb: str) -> float:
        """Return how long a call of a verb took, from its body to its reply."""
        total = self.count("kube_sched_ext_call_seconds_sum", verb=verb)
        return total / max(self.calls(verb), 1) * 1e3

    def stop(self, seconds: float = 15.0) -> None:
        """End it in order."""
        super().stop(seconds)
        self._http.clear()

    def _ops(self, path: str) -> urllib3.BaseHTTPResponse:
        return self._http.request("GET", f"http://127.0.0.1:{self.ops_port}{path}")
