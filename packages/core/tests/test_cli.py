"""The command line teaches."""

from collections.abc import Callable

import pytest
from core_servers import run_command

from kube_sched_ext.config import CoreSettings
from kube_sched_ext.settings import settings_of
from kube_sched_ext.version import VERSION

Install = Callable[..., dict[str, str]]


def test_settings_lists_all_with_default_and_meaning(install_agents: Install) -> None:
    """Of the core and of each installed agent."""
    result = run_command("settings", **install_agents("plain", "broken"))
    assert result.returncode == 0
    for declared in settings_of(CoreSettings):
        assert f"  {declared.name}={declared.default_text}\n" in result.stdout
    assert "plain:\n  PLAIN_SCORE=5\n" in result.stdout
    assert "What each node scores. [an integer, at least 0 and up to 10]" in result.stdout
    assert "broken: failed to load: ModuleNotFoundError" in result.stderr


def test_settings_of_an_agent_that_is_not_installed_are_refused(install_agents: Install) -> None:
    """With those that are."""
    result = run_command("settings", "nobody", **install_agents("plain"))
    assert result.returncode == 2
    assert result.stderr.startswith("agent nobody is not installed; installed are ")
    assert "plain" in result.stderr


def test_agents_lists_verbs(install_agents: Install) -> None:
    """And the first line of each agent's docstring."""
    result = run_command("agents", **install_agents("plain"))
    assert result.returncode == 0
    assert "plain: Scores all nodes alike.\n  predicate plain\n  priority plain\n" in result.stdout


def test_agents_fails_where_an_agent_does_not_load(install_agents: Install) -> None:
    """So that a build can check its image."""
    result = run_command("agents", **install_agents("plain", "broken"))
    assert result.returncode == 1
    assert "broken: failed to load: ModuleNotFoundError" in result.stderr


def test_serve_has_an_option_for_each_core_setting() -> None:
    """With its variable; files lose their ending."""
    text = run_command("serve", "--help").stdout
    for declared in settings_of(CoreSettings):
        option = declared.name.removesuffix("_FILE").lower().replace("_", "-")
        assert f"--{option} " in text
    assert "--nodes VALUE" in text


def test_the_version_is_that_of_the_package() -> None:
    """On one line."""
    assert run_command("--version").stdout == f"{VERSION}\n"


COMMAND = """
import click

@click.command(short_help="Stands beside.")
@click.argument("word")
def beside(word):
    click.echo(f"beside {word}")
"""


def test_installed_packages_bring_commands(install_agents: Install) -> None:
    """Listed with the others, and run with their arguments."""
    env = install_agents(command=COMMAND)
    assert "beside Stands beside." in " ".join(run_command("--help", **env).stdout.split())
    assert run_command("beside", "us", **env).stdout == "beside us\n"


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (
            "import nowhere",
            "beside failed to load: ModuleNotFoundError(\"No module named 'nowhere'\")",
        ),
        ("beside = 1", "command_beside:beside is no command"),
    ],
)
def test_a_command_that_does_not_load_says_so_when_run(
    install_agents: Install, command: str, error: str
) -> None:
    """The other commands go on."""
    env = install_agents("plain", command=command)
    assert "beside Failed to load." in " ".join(run_command("--help", **env).stdout.split())
    assert run_command("agents", **env).returncode == 0
    result = run_command("beside", "--whatever", "it", **env)
    assert result.returncode == 1
    assert error in result.stderr
