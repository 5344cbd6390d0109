"""What runs beside the verbs."""

from collections.abc import Callable

from core_servers import EXTENSION, Served, ask, free_port, run_command

Serve = Callable[..., Served]
Install = Callable[..., dict[str, str]]

LOOPBACK = {"HTTP_HOST": "127.0.0.1", "HTTP_PORT": str(free_port())}


def test_an_extension_serves_paths_and_runs_until_the_stop(
    serve: Serve, install_agents: Install
) -> None:
    """Its calls are logged as all are; it is told to end when no call is left."""
    served = serve("plain", **install_agents("plain", extension=EXTENSION))
    assert ask(served.port, "POST", "/beside", b"{}").json == {"mood": "well", "loud": False}
    assert b"POST /beside" in ask(served.port, "GET", "/").body
    code, log = served.stop()
    assert code == 0
    events = [line["event"] for line in log if "logger" not in line]
    assert events == ["serving", "bind", "beside is done", "stopped"]


def test_settings_of_an_extension_are_options_too(serve: Serve, install_agents: Install) -> None:
    """What is true or false is a switch."""
    env = install_agents("plain", extension=EXTENSION)
    served = serve("--beside-mood", "fine", "--beside-loud", "plain", **env)
    assert ask(served.port, "POST", "/beside", b"{}").json == {"mood": "fine", "loud": True}
    served = serve("--no-beside-loud", "plain", BESIDE_LOUD="true", **env)
    assert ask(served.port, "POST", "/beside", b"{}").json == {"mood": "well", "loud": False}
    assert "BESIDE_MOOD=well" in run_command("settings", "plain", **env).stdout


def test_an_extension_that_cannot_do_its_part_is_told(install_agents: Install) -> None:
    """Exit code 2."""
    env = install_agents("plain", extension=EXTENSION) | LOOPBACK
    result = run_command("serve", "plain", BESIDE_MOOD="bad", **env)
    assert result.returncode == 2
    assert "BESIDE_MOOD: 'bad' is no mood to start in" in result.stderr


def test_an_extension_that_fails_to_load_is_told(install_agents: Install) -> None:
    """Unlike an agent it could not be seen from outside, so nothing is served without it."""
    env = install_agents("plain", extension="import no_such_module")
    result = run_command("serve", "plain", **env)
    assert result.returncode == 2
    assert "extension beside failed to load: ModuleNotFoundError" in result.stderr


def test_an_extension_that_breaks_ends_the_process(install_agents: Install) -> None:
    """Whoever runs it starts it again, and sees why."""
    env = install_agents("plain", extension=EXTENSION) | LOOPBACK
    result = run_command("serve", "plain", BESIDE_MOOD="worse", **env)
    assert result.returncode == 1
    assert "it went from bad to worse" in result.stderr
