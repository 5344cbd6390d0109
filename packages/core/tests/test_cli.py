"""The command line teaches."""

from collections.abc import Callable

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
