"""kube-sched-ext scheduler-config, as a command."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from core_scheduler_config import PUBLISHED, policy
from core_servers import run_command

Install = Callable[..., dict[str, str]]


def test_it_prints_what_an_installed_agent_needs(install_agents: Install) -> None:
    """YAML to standard output, nothing else anywhere; words from the environment."""
    env = install_agents("plain") | {"PATH_PREFIX": "/mine", "PRIORITIES_PATH": "ranks"}
    result = run_command("scheduler-config", "plain", **env)
    assert (result.returncode, result.stderr) == (0, "")
    [extender] = yaml.safe_load(result.stdout)["extenders"]
    assert extender["urlPrefix"] == "http://127.0.0.1:5401/mine"
    assert extender["filterVerb"] == "predicates/plain"
    assert extender["prioritizeVerb"] == "ranks/plain"


def test_an_agent_is_not_made_for_it(install_agents: Install) -> None:
    """One whose settings are missing here still has its verbs."""
    result = run_command("scheduler-config", "stillborn", **install_agents("stillborn"))
    assert result.returncode == 0


def test_help_tells_each_option() -> None:
    """As the options of serve."""
    text = run_command("scheduler-config", "--help").stdout
    for option in ("--together", "--policy FILE", "--legacy", "--url-prefix", "--tls-ca-file"):
        assert option in text
    assert "scheduler-config" in run_command("--help").stdout


def test_everything_wrong_ends_it_with_2(install_agents: Install) -> None:
    """Each on a line, and no output that a pipe would take for a configuration."""
    env = install_agents("plain", "broken") | {"HTTP_PORT": "0"}
    arguments = ("plain", "broken", "nobody", "--scheduler-name", "")
    result = run_command("scheduler-config", *arguments, **env)
    assert (result.returncode, result.stdout) == (2, "")
    lines = result.stderr.splitlines()
    assert [line.partition(" ")[0] for line in lines] == ["kube-sched-ext:"] * 4
    assert "HTTP_PORT: '0' is not an integer" in result.stderr
    assert "'nobody' is no installed agent; " in result.stderr
    assert "agent broken failed to load" in result.stderr


def test_a_policy_is_read_from_a_file(tmp_path: Path) -> None:
    """Remarks go to standard error, so that the output can be piped into a file."""
    (tmp_path / "extender.yaml").write_text(PUBLISHED)
    result = run_command("scheduler-config", "--policy", str(tmp_path / "extender.yaml"))
    assert result.returncode == 0
    assert len(yaml.safe_load(result.stdout)["extenders"]) == 2
    assert result.stderr.startswith("kube-sched-ext: extenders[0].nodeCacheCapable: false")
    assert "Traceback" not in result.stderr


def test_a_policy_is_read_from_standard_input() -> None:
    """With - for its name."""
    result = subprocess.run(
        [sys.executable, "-m", "kube_sched_ext", "scheduler-config", "--policy", "-"],
        input=json.dumps(policy(priorities=[{"name": "Nothing", "weight": 1}])),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(
        "kube-sched-ext: standard input: priorities[0].name: 'Nothing' is no priority; known are"
    )


@pytest.mark.parametrize(("file", "reason"), [("absent", "No such file"), (".", "Is a directory")])
def test_a_file_that_cannot_be_read_ends_it_with_2(file: str, reason: str, tmp_path: Path) -> None:
    """With the reason."""
    result = run_command("scheduler-config", "--policy", str(tmp_path / file))
    assert result.returncode == 2
    assert f"{tmp_path / file}: cannot be read: {reason}".removesuffix("/.") in result.stderr or (
        f"{tmp_path}: cannot be read: {reason}" in result.stderr
    )


def test_legacy_prints_json_alone(install_agents: Install) -> None:
    """Its notes go to standard error: JSON has no comments."""
    result = run_command("scheduler-config", "plain", "--legacy", **install_agents("plain"))
    assert json.loads(result.stdout)["kind"] == "Policy"
    assert "--policy-config-file=FILE" in result.stderr
