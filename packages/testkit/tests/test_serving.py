"""Processes are ready when they are handed out, tell why they do not start, and are gone after."""

import os
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from kube_sched_ext_testkit import serving
from kube_sched_ext_testkit.scheduler import Extender


@pytest.mark.usefixtures("agents_on_path")
def test_process_is_ready_then_gone(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What this process is told must not reach the server.
    monkeypatch.setenv("PATH_PREFIX", "/elsewhere")
    with serving.serve_process("rank", folder=tmp_path, nodes_file=data / "nodes.json") as served:
        assert served.url_prefix.endswith("/scheduler")
        verbose = httpx.get(f"{served.ops_url}/readyz?verbose", trust_env=False).text
        assert "nodes ok: 4 known" in verbose
        with Extender(served.url_prefix, prioritize_verb="priorities/image_score") as extender:
            assert extender.prioritize({}, []) == {}
    assert served.process.returncode == 0
    assert '"event":"stopped"' in served.log.read_text()


@pytest.mark.usefixtures("agents_on_path")
def test_a_condition_is_waited_for(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving.serve_process("rank", folder=tmp_path, nodes_file=data / "nodes.json") as served:
        assert serving.wait_until_ok(served, "nodes") == "[+]nodes ok: 4 known"
        monkeypatch.setattr(serving, "_PATIENCE", 0.0)
        with pytest.raises(RuntimeError, match="waited 0 s for telemetry/rank to be ok"):
            serving.wait_until_ok(served, "telemetry/rank")


@pytest.mark.usefixtures("agents_on_path")
def test_environment_of_the_process(tmp_path: Path) -> None:
    environment = {"PATH_PREFIX": "/mine", "LOG_LEVEL": "ERROR"}
    with serving.serve_process("rank", folder=tmp_path, environment=environment) as served:
        assert served.url_prefix.endswith("/mine")
    assert served.log.read_text() == ""


@pytest.mark.usefixtures("agents_on_path")
def test_process_that_does_not_start(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError, match=r"did not start:\n.*no-such-agent"),
        serving.serve_process("no-such-agent", folder=tmp_path),
    ):
        pytest.fail("it did start")


@pytest.mark.usefixtures("agents_on_path")
def test_process_that_is_never_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "_PATIENCE", 0.0)
    with (
        pytest.raises(RuntimeError, match="waited 0 s for serve to be ready"),
        serving.serve_process("rank", folder=tmp_path),
    ):
        pytest.fail("it was ready at once")


def test_process_that_does_not_stop() -> None:
    code = (
        "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        process.stdout.readline()
        assert serving.stop(process, patience=0.1) == -9
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)
