"""`kube-sched-ext annotate`, as it is called."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from annotate_cluster import make_node, make_pod, managed
from annotate_prometheus import Measured
from cluster_fake import FakeApiserver, Reply, status
from telemetry_fake import FakePrometheus

COMMAND = (sys.executable, "-m", "kube_sched_ext", "annotate")
USAGE = {
    "mean-free-cpu": "1000",
    "std-free-cpu": "10",
    "mean-free-memory": "4000",
    "std-free-memory": "0",
}
ALLOCATION = {
    "requested-cpu": "1000",
    "free-cpu": "3000",
    "requested-memory": "0",
    "free-memory": str(2**33),
    "requested-pods": "1",
    "free-pods": "109",
}


class Installed:
    """The command, with a cluster and a Prometheus to talk to."""

    def __init__(self, apiserver: FakeApiserver, prometheus: FakePrometheus, folder: Path) -> None:
        self.apiserver = apiserver
        self.measured = Measured(prometheus)
        self.folder = folder
        kubeconfig = {
            "current-context": "test",
            "clusters": [{"name": "c", "cluster": {"server": apiserver.url}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
            "contexts": [{"name": "test", "context": {"cluster": "c", "user": "u"}}],
        }
        (folder / "kubeconfig").write_text(json.dumps(kubeconfig))
        self.variables = {
            "PATH": os.environ["PATH"],
            "KUBECONFIG": str(folder / "kubeconfig"),
            "PROMETHEUS_URL": prometheus.url,
            "ANNOTATE_CPU_QUERY": "cpu",
            "ANNOTATE_MEMORY_QUERY": "memory",
            "ANNOTATE_WINDOW_SECONDS": "600",
            "ANNOTATE_HORIZON_SECONDS": "0",
        } | {name: text for name, text in os.environ.items() if name.startswith("COV")}

    def has(self, *nodes: dict[str, Any], pods: tuple[dict[str, Any], ...] = ()) -> None:
        """Let the cluster list these once."""
        for resource, items in (("nodes", nodes), ("pods", pods)):
            for item in items:
                item["metadata"]["resourceVersion"] = "1"
            body = {"metadata": {"resourceVersion": "1"}, "items": items}
            self.apiserver.script[f"list /api/v1/{resource}"].append(Reply(200, body))

    def run(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Call the command, and return when it has ended."""
        return subprocess.run(
            (*COMMAND, *arguments),
            env=self.variables | variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def written(self) -> dict[str, Mapping[str, str]]:
        """Return the annotations that were applied, by node."""
        bodies = [json.loads(it.body) for it in self.apiserver.asked("patch")]
        return {body["metadata"]["name"]: body["metadata"]["annotations"] for body in bodies}


@pytest.fixture
def installed(apiserver: FakeApiserver, fake: FakePrometheus, tmp_path: Path) -> Installed:
    """The command, and what it talks to."""
    return Installed(apiserver, fake, tmp_path)


@pytest.fixture
def apiserver() -> Iterator[FakeApiserver]:
    """A small apiserver that does as it is told."""
    with FakeApiserver() as server:
        yield server


def test_one_round_for_a_cron_job(installed: Installed) -> None:
    """Everything is written, by server-side apply, and the exit code says so."""
    installed.has(make_node("n", {"theirs": "1"}), pods=(make_pod("p", "n", cpu="1"),))
    done = installed.run("--once")
    assert (done.returncode, done.stdout) == (0, "")
    assert installed.written() == {"n": USAGE | ALLOCATION}
    [request] = installed.apiserver.asked("patch")
    assert request.query == {"fieldManager": "kube-sched-ext-annotate", "force": "true"}
    assert json.loads(done.stderr.splitlines()[-1])["written"] == 1


def test_a_dry_run_prints_and_writes_nothing(installed: Installed) -> None:
    """A line of JSON for each node that would be written to."""
    old = make_node("old", {"requested-gpu": "1"})
    old["metadata"]["managedFields"] = [managed("requested-gpu")]
    installed.has(make_node("n"), old)
    installed.measured.nodes = ["n"]
    done = installed.run("--dry-run", "--no-annotate-allocation")
    assert done.returncode == 0
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"node": "n", "annotations": USAGE, "removed": []},
        {"node": "old", "annotations": {}, "removed": ["requested-gpu"]},
    ]
    assert installed.written() == {}


def test_a_prometheus_that_is_down_costs_the_usage_only(installed: Installed) -> None:
    """The exit code tells of it, and what an earlier round wrote stays."""
    node = make_node("n", {"mean-free-cpu": "5"})
    node["metadata"]["managedFields"] = [managed("mean-free-cpu")]
    installed.has(node, pods=(make_pod("p", "n", cpu="1"),))
    installed.measured.status = 503
    done = installed.run("--once")
    assert done.returncode == 1
    assert "prometheus failed" in done.stderr
    assert installed.written() == {"n": ALLOCATION | {"mean-free-cpu": "5"}}


def test_a_refused_write_is_told(installed: Installed) -> None:
    """With the right that lacks."""
    installed.has(make_node("n"))
    told = status(403, "Forbidden", 'User "x" cannot patch resource "nodes"')
    installed.apiserver.script["patch"].append(Reply(403, told))
    done = installed.run("--once")
    assert done.returncode == 1
    assert 'cannot patch resource \\"nodes\\"' in done.stderr


def test_a_cluster_that_cannot_be_read_is_told(installed: Installed) -> None:
    """Within ANNOTATE_FREQ seconds."""
    forbidden = Reply(403, status(403, "Forbidden", 'User "x" cannot list resource "nodes"'))
    installed.apiserver.script["list /api/v1/nodes"] += [forbidden] * 20
    done = installed.run("--once", "--annotate-freq", "1")
    assert done.returncode == 1
    assert 'cannot list resource \\"nodes\\"' in done.stderr
    assert installed.written() == {}


@pytest.mark.parametrize(
    ("arguments", "variables", "problems"),
    [
        ((), {"PROMETHEUS_URL": ""}, ["PROMETHEUS_URL: is not set"]),
        (
            ("--annotate-freq", "0"),
            {"ANNOTATE_STALE": "x"},
            ["ANNOTATE_FREQ: '0' is not", "ANNOTATE_STALE: 'x' is not"],
        ),
        ((), {"KUBECONFIG": "/nowhere"}, ["no access to a cluster: /nowhere"]),
        ((), {"CONFIG_FILE": "/nowhere"}, ["/nowhere: cannot be read"]),
        (("--http-host", "192.0.2.1"), {}, ["OPS_PORT: 1080 on 192.0.2.1 cannot be bound"]),
    ],
)
def test_what_is_wrong_is_listed(
    installed: Installed, arguments: list[str], variables: Mapping[str, str], problems: list[str]
) -> None:
    """All of it, before anything is done; exit code 2."""
    done = installed.run(*arguments, **variables)
    assert done.returncode == 2
    for line, problem in zip(done.stderr.splitlines(), problems, strict=True):
        assert line.startswith(f"kube-sched-ext: {problem}")


def test_a_file_may_hold_the_settings(installed: Installed) -> None:
    """The environment wins over it, and a name that nothing declares is an error."""
    path = installed.folder / "config.yaml"
    path.write_text("ANNOTATE_ALLOCATION: false\nNODE_CACHE: false\n")
    installed.has(make_node("n"))
    assert installed.run("--once", "--config", str(path)).returncode == 0
    assert installed.written() == {"n": USAGE}
    path.write_text("ANNOTATE_ALOCATION: false\n")
    done = installed.run("--once", CONFIG_FILE=str(path))
    assert (done.returncode, "no such setting" in done.stderr) == (2, True)


def test_help_teaches(installed: Installed) -> None:
    """What is written, with which rights, and what the exit codes mean."""
    text = installed.run("--help").stdout
    for word in ("mean-free-cpu", "patch on nodes", "Exit code 0", "--annotate-freq VALUE"):
        assert word in text
    assert "--prometheus-refresh-seconds" not in text


def test_without_its_extra_it_says_what_to_install(installed: Installed) -> None:
    """The other commands go on."""
    blocked = "import sys; sys.modules['kube_sched_ext_cluster'] = None; "
    script = blocked + "from kube_sched_ext.cli import main; main()"
    run = lambda *arguments: subprocess.run(  # noqa: E731  # said once
        (sys.executable, "-c", script, *arguments),
        env=installed.variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "pip install 'kube-sched-ext-telemetry[annotate]'" in run("annotate", "--once").stderr
    assert run("--help").returncode == 0


def test_it_runs_until_it_is_told_to_stop(installed: Installed) -> None:
    """Health and metrics are on OPS_PORT; SIGTERM ends it at once, with exit code 0."""
    installed.has(make_node("n"))
    patched = threading.Event()
    installed.apiserver.before = lambda it: patched.set() if it.verb == "patch" else None
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    arguments = ("--ops-port", str(port), "--http-host", "127.0.0.1", "--no-annotate-allocation")
    process = subprocess.Popen(
        (*COMMAND, *arguments), env=installed.variables, stderr=subprocess.PIPE, text=True
    )
    try:
        assert patched.wait(30)
        ready = httpx.get(f"http://127.0.0.1:{port}/readyz?verbose", trust_env=False)
        metrics = httpx.get(f"http://127.0.0.1:{port}/metrics", trust_env=False)
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=10)
    assert process.returncode == 0
    assert ready.status_code == 200
    assert "[+]watch/nodes ok: 1 known" in ready.text
    assert "[+]annotate/prometheus ok" in ready.text
    assert "kube_sched_ext_annotate_writes_total" in metrics.text
    events = [json.loads(line)["event"] for line in log.splitlines()]
    assert (events[0], events[-1]) == ("annotating", "stopped")
