"""The demo shows what agents answer, and fails where they answer wrongly."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

DEMO = [sys.executable, "-m", "kube_sched_ext_testkit.demo"]


def run_demo(
    data: Path, *arguments: str, nodes: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    command = [*DEMO, "--nodes", str(nodes or data / "nodes.json"), str(data), *arguments]
    return subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def row(output: str, label: str) -> list[list[str]]:
    """Return the cells of each row under `label`."""
    found = re.findall(rf"^ +{re.escape(label)}  +(.*)$", output, re.MULTILINE)
    return [line.split() for line in found]


@pytest.mark.usefixtures("agents_on_path")
def test_tables(data: Path) -> None:
    run = run_demo(data, "rank")
    assert (run.returncode, run.stderr) == (0, "")
    output = run.stdout
    pods = ["no-requests", "test-pod", "article", "preemptor: preemption"]
    assert re.findall(r"=+ Pod default/(.*?) =+", output) == pods
    assert row(output, "verdict rank")[0] == ["reject:", "too", "keep", "keep", "keep"]
    assert row(output, "score image_score") == [["0", "0", "1", "0"]] * 3
    assert row(output, "cpu") == [["3900", "7900", "7900", "1.59e+04"]] * 3
    assert row(output, "has_image") == [["no", "no", "yes", "no"]] * 3
    assert row(output, "no_data") == [["none"] * 4] * 3
    assert row(output, "total") == [["-", "0", "10", "0"]] * 3
    assert output.count("chosen: worker-node2\n") == 3
    assert "images nginx:1.7.9\n" in output
    assert re.findall(r"(worker-node\d) +1 +(.*?) *\n", output) == [
        ("worker-node1", "keep"),
        ("worker-node2", "keep"),
    ]
    assert "Whole-node requests got the same answers as names." in output
    assert "master-node 0, worker-node1 0, worker-node2 1, as published." in " ".join(
        output.split()
    )
    assert "\x1b" not in output
    assert max(map(len, output.splitlines())) <= 80


@pytest.mark.usefixtures("agents_on_path")
def test_narrow_terminal(data: Path) -> None:
    output = run_demo(data, "rank", COLUMNS="40").stdout
    assert max(map(len, output.splitlines())) <= 40
    assert row(output, "score image_score")[:4] == [["0"], ["0"], ["1"], ["0"]]


@pytest.mark.usefixtures("agents_on_path")
def test_no_node_fits_and_equal_nodes(data: Path) -> None:
    output = run_demo(data, "rank", RANK="reject").stdout
    assert output.count("not scheduled: 0/4 nodes are available: 4 too small.") == 3
    assert re.findall(r"worker-node\d +1 +(reject: .*?) *\n", output) == ["reject: rank"] * 2
    output = " ".join(run_demo(data, "even").stdout.split())
    assert (
        "chosen: master-node (equally good: master-node, worker-node1, worker-node2, "
        "worker-node3; kube-scheduler takes any)"
    ) in output
    assert "as published" not in output


@pytest.mark.usefixtures("agents_on_path")
@pytest.mark.parametrize(
    ("agents", "environment", "message"),
    [
        (["rank"], {"RANK": "wrong"}, "image_score for nginx:1.7.9 is {'master-node': 7"),
        (["rank"], {"RANK": "raise"}, "answers 500"),
        (["rank"], {"RANK": "by-mode"}, "by names, but"),
        (["rank"], {"RANK": "exit"}, "serve ended with exit code 3"),
        (["gone"], {}, "not installed: gone"),
        (["broken"], {}, "failed to load: broken: ImportError('on purpose')"),
    ],
)
def test_failures(
    agents: list[str],
    environment: dict[str, str],
    message: str,
    data: Path,
) -> None:
    run = run_demo(data, *agents, **environment)
    assert run.returncode == 1
    assert run.stderr.startswith("demo: ")
    assert message in run.stderr


@pytest.mark.usefixtures("agents_on_path")
def test_recording_of_another_cluster(data: Path, tmp_path: Path) -> None:
    nodes = tmp_path / "nodes.json"
    nodes.write_text(json.dumps({"kind": "List", "items": []}))
    run = run_demo(data, "rank", nodes=nodes)
    assert run.returncode == 1
    told = "filter.names.no-requests.json: nodes that are not in the snapshot: master-node, worker"
    assert told in run.stderr


@pytest.mark.usefixtures("agents_on_path")
def test_terminated_demo_leaves_no_server(data: Path, tmp_path: Path) -> None:
    told = tmp_path / "server.pid"
    command = [*DEMO, "--nodes", str(data / "nodes.json"), str(data), "rank"]
    demo = subprocess.Popen(command, env={**os.environ, "RANK_PID_FILE": str(told)})
    deadline = time.monotonic() + 30
    while not (told.exists() and told.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    demo.send_signal(signal.SIGTERM)
    assert demo.wait(30) == 128 + signal.SIGTERM
    with pytest.raises(ProcessLookupError):
        os.kill(int(told.read_text()), 0)
