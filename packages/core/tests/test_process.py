"""The serving process: how it starts, what it shows, how it stops."""

import json
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from core_servers import Served, ask, free_port, run_command

Serve = Callable[..., Served]
Install = Callable[..., dict[str, str]]

BODY = json.dumps({"Pod": {"metadata": {"name": "p"}}, "NodeNames": ["n1", "n2"]}).encode()


@pytest.fixture
def snapshot(tmp_path: Path) -> Path:
    """Return a snapshot of two nodes."""
    file = tmp_path / "nodes.json"
    items = [{"kind": "Node", "metadata": {"name": name}} for name in ("n1", "n2")]
    file.write_text(json.dumps({"kind": "List", "items": items}))
    return file


def test_verbs_and_operations_have_listeners_of_their_own(
    serve: Serve, install_agents: Install, snapshot: Path
) -> None:
    """Neither answers the other's paths."""
    served = serve("plain", "--nodes", str(snapshot), **install_agents("plain"))
    scores = ask(served.port, "POST", "/scheduler/priorities/plain", BODY)
    assert scores.json == [{"Host": "n1", "Score": 5}, {"Host": "n2", "Score": 5}]
    assert ask(served.port, "GET", "/metrics").status == 404
    assert ask(served.ops_port, "POST", "/scheduler/priorities/plain", BODY).status == 404
    assert served.stop()[0] == 0


def test_the_environment_may_take_the_prefix_away(serve: Serve, install_agents: Install) -> None:
    """An empty variable is the way to do so in a container."""
    served = serve("plain", PATH_PREFIX="", **install_agents("plain"))
    assert ask(served.port, "POST", "/filter", BODY).status == 200
    assert served.stop()[0] == 0


def test_probes_and_metrics_tell_how_the_process_stands(
    serve: Serve, install_agents: Install, snapshot: Path
) -> None:
    """A list of conditions on request."""
    served = serve("plain", "--nodes", str(snapshot), **install_agents("plain"))
    for path in ("/livez", "/healthz", "/readyz"):
        reply = ask(served.ops_port, "GET", path)
        assert (reply.status, reply.body) == (200, b"ok")
    listed = ask(served.ops_port, "GET", "/readyz?verbose").body.decode().splitlines()
    assert listed == [
        "[+]agent/plain ok",
        "[+]agent/plain/mood ok: calm",
        "[+]nodes ok: 2 known",
        "[+]shutdown ok",
        "readyz check passed",
    ]
    ask(served.port, "POST", "/scheduler/filter", BODY)
    metrics = ask(served.ops_port, "GET", "/metrics").body.decode()
    assert 'kube_sched_ext_call_seconds_count{name="",verb="filter"} 1.0' in metrics
    assert "kube_sched_ext_known_nodes 2.0" in metrics
    assert 'kube_sched_ext_agent{agent="plain"} 1.0' in metrics


def test_a_broken_agent_is_reported_by_name_and_the_others_run(
    serve: Serve, install_agents: Install
) -> None:
    """In the log, the conditions and the metrics; the process stays ready."""
    served = serve("broken", "plain", **install_agents("broken", "plain"))
    assert ask(served.port, "POST", "/scheduler/predicates/plain", BODY).status == 200
    ready = ask(served.ops_port, "GET", "/readyz?verbose")
    assert ready.status == 200
    assert b"[!]agent/broken failed, not required: ModuleNotFoundError" in ready.body
    assert (
        b'kube_sched_ext_agent{agent="broken"} 0.0' in ask(served.ops_port, "GET", "/metrics").body
    )
    code, log = served.stop()
    assert code == 0
    assert any(
        line["event"] == "agent failed to load" and line["agent"] == "broken" for line in log
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_process_with_code_0(
    serve: Serve, install_agents: Install, number: int
) -> None:
    """And it says so."""
    code, log = serve("plain", **install_agents("plain")).stop(number)
    assert code == 0
    assert [line["event"] for line in log if "logger" not in line] == ["serving", "stopped"]


def test_calls_under_way_are_finished_before_the_stop(
    serve: Serve, install_agents: Install
) -> None:
    """The body's second half may come after the signal; a probe sees the process stop."""
    served = serve("plain", **install_agents("plain"))
    with socket.create_connection(("127.0.0.1", served.port)) as client:
        head = (
            f"POST /scheduler/priorities/plain HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}"
        )
        client.sendall(head.encode() + b"\r\n\r\n" + BODY[:10])
        # The call is under way once another one, sent after it, has been answered.
        ask(served.port, "GET", "/version")
        served.process.send_signal(signal.SIGTERM)
        _await_refusal(served.port)
        ready = ask(served.ops_port, "GET", "/readyz")
        assert ready.status == 503
        assert b"[-]shutdown failed: stopping" in ready.body
        client.sendall(BODY[10:])
        reply = client.makefile("rb").read()
    assert reply.startswith(b"HTTP/1.1 200")
    assert reply.endswith(b'[{"Host":"n1","Score":5},{"Host":"n2","Score":5}]')
    assert served.wait()[0] == 0


def test_a_second_signal_stops_at_once(serve: Serve, install_agents: Install) -> None:
    """Even with a call under way."""
    served = serve("plain", **install_agents("plain"))
    with socket.create_connection(("127.0.0.1", served.port)) as client:
        client.sendall(b"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        ask(served.port, "GET", "/version")
        served.process.send_signal(signal.SIGTERM)
        _await_refusal(served.port)
        assert served.stop()[0] == 0


def _await_refusal(port: int) -> None:
    for _ in range(1000):
        try:
            ask(port, "GET", "/version")
        except OSError:
            return
    raise AssertionError("new connections are still taken")


def test_names_and_ports_that_are_taken_are_told_together(
    install_agents: Install,
) -> None:
    """Exit code 2, with the setting to change."""
    env = install_agents("plain")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run_command(
            "serve", "--http-host", "127.0.0.1", "--http-port", str(port), "--ops-port",
            str(free_port()), "--nodes", "/no/such/file", **env,
        )  # fmt: skip
    assert result.returncode == 2
    assert (
        f"HTTP_PORT: {port} on 127.0.0.1 cannot be bound: Address already in use" in result.stderr
    )
    assert "/no/such/file: cannot be read: No such file or directory" in result.stderr


def test_an_agent_that_two_packages_claim_is_told(install_agents: Install, tmp_path: Path) -> None:
    """Whichever was served, it would be the wrong one for somebody."""
    env = install_agents("plain")
    copy = tmp_path / "site" / "copied_agent-1.dist-info"
    copy.mkdir()
    (copy / "METADATA").write_text("Metadata-Version: 2.1\nName: copied-agent\nVersion: 1\n")
    (copy / "entry_points.txt").write_text("[kube_sched_ext.agents]\nplain = copied:Plain\n")
    (copy.parent / "copied.py").write_text((copy.parent / "agent_plain.py").read_text())
    result = run_command("serve", "plain", HTTP_PORT=str(free_port()), **env)
    assert result.returncode == 2
    assert result.stderr == (
        "kube-sched-ext: agent plain is several, agent_plain:Plain and copied:Plain; "
        "uninstall all but one\n"
    )


def test_a_host_that_is_no_address_is_told(install_agents: Install) -> None:
    """Exit code 2, naming HTTP_HOST."""
    result = run_command(
        "serve", HTTP_HOST="256.0.0.1", HTTP_PORT=str(free_port()), **install_agents("plain")
    )
    assert result.returncode == 2
    assert result.stderr.count("HTTP_HOST: '256.0.0.1' is no address") == 1


def test_every_wrong_setting_is_told_at_once(install_agents: Install, tmp_path: Path) -> None:
    """Of the core, of agents, in the environment, on the command line and in the file."""
    file = tmp_path / "settings.yaml"
    file.write_text("LOG_LEVEL: LOUD\nNO_SUCH: 1\n")
    result = run_command(
        "serve", "plain", "nobody", "--config", str(file), "--ops-port", "x",
        HTTP_PORT="99999", PLAIN_SCORE="11", **install_agents("plain"),
    )  # fmt: skip
    assert result.returncode == 2
    lines = result.stderr.splitlines()
    assert lines[0].startswith("kube-sched-ext: agent nobody is not installed; installed are ")
    assert lines[1:5] == [
        "kube-sched-ext: HTTP_PORT: '99999' is not an integer, at least 1 and up to 65535",
        "kube-sched-ext: OPS_PORT: 'x' is not an integer, at least 0 and up to 65535",
        (
            f"kube-sched-ext: LOG_LEVEL in {file}: 'LOUD' is not one of "
            "TRACE, DEBUG, INFO, WARNING, ERROR, ALERT"
        ),
        "kube-sched-ext: PLAIN_SCORE: '11' is not an integer, at least 0 and up to 10",
    ]
    assert lines[5].startswith(f"kube-sched-ext: NO_SUCH in {file}: no such setting; known are ")
    assert len(lines) == 6


def test_one_file_serves_processes_with_different_agents(
    serve: Serve, install_agents: Install, tmp_path: Path
) -> None:
    """Settings of agents that are installed but not served here are no mistake."""
    env = install_agents("plain", "broken")
    site = Path(env["PYTHONPATH"])
    points = site / "test_agents-1.dist-info" / "entry_points.txt"
    source = (site / "agent_plain.py").read_text().replace("PLAIN_SCORE", "SECOND_SCORE")
    (site / "agent_second.py").write_text(source.replace('name = "plain"', 'name = "second"'))
    points.write_text(points.read_text() + "second = agent_second:Plain\n")
    file = tmp_path / "settings.yaml"
    file.write_text("PLAIN_SCORE: 7\nSECOND_SCORE: 1\n")
    served = serve("plain", CONFIG_FILE=str(file), **env)
    reply = ask(served.port, "POST", "/scheduler/priorities/plain", BODY)
    assert reply.json == [{"Host": "n1", "Score": 7}, {"Host": "n2", "Score": 7}]


def test_settings_of_a_broken_agent_in_the_file_stop_nobody(
    serve: Serve, install_agents: Install, tmp_path: Path
) -> None:
    """Whose names they are cannot be known."""
    file = tmp_path / "settings.yaml"
    file.write_text("BROKEN_LIMIT: 7\n")
    env = install_agents("plain", "broken")
    served = serve("plain", "broken", CONFIG_FILE=str(file), **env)
    assert ask(served.port, "GET", "/version").status == 200


def test_a_file_of_settings_that_is_not_there_is_told(install_agents: Install) -> None:
    """With its path."""
    result = run_command("serve", "--config", "/no/settings.yaml", **install_agents("plain"))
    assert result.returncode == 2
    assert result.stderr == (
        "kube-sched-ext: /no/settings.yaml: cannot be read: No such file or directory\n"
    )


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("broken", "agent broken failed to load: ModuleNotFoundError"),
        ("number", "agent_number:Number is no Agent class"),
        ("stillborn", "agent stillborn failed to load: RuntimeError('not today')"),
        ("other", "agent_other:Other names itself 'not-other', its entry point 'other'"),
    ],
)
def test_without_any_agent_that_loads_nothing_is_served(
    install_agents: Install, agent: str, words: str
) -> None:
    """Exit code 2, with the reason."""
    result = run_command("serve", agent, **install_agents(agent))
    assert result.returncode == 2
    assert words in result.stderr


def test_an_ipv6_address_can_be_given(serve: Serve, install_agents: Install) -> None:
    """As `::1` or mapped."""
    served = serve("plain", HTTP_HOST="::ffff:127.0.0.1", **install_agents("plain"))
    assert ask(served.port, "GET", "/version").status == 200
