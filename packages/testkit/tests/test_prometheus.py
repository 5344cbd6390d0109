"""Starting the real Prometheus: with programs that stand in for it, as it need not be there."""

import os
import signal
import sys
from pathlib import Path

import pytest

from kube_sched_ext_testkit.prometheus import (
    NodeExporter,
    Prometheus,
    find_program,
    write_history,
)

SERVER = f"""#!{sys.executable}
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

options = dict(it.split("=", 1) for it in sys.argv[1:] if "=" in it)
if "--fail=now" in sys.argv:
    sys.exit("no such option")

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/metrics":
            content = (
                'prometheus_http_requests_total{{code="200",handler="/api/v1/query"}} 3\\n'
                'prometheus_http_requests_total{{code="400",handler="/api/v1/query"}} 1\\n'
                'prometheus_http_requests_total{{code="200",handler="/metrics"}} 9\\n'
            )
        else:
            content = json.dumps({{"data": {{"result": [{{"path": self.path}}]}}}})
        self.send_response(200)
        self.end_headers()
        self.wfile.write(content.encode())

host, port = options["--web.listen-address"].split(":")
HTTPServer((host, int(port)), Handler).serve_forever()
"""
PROMTOOL = f"""#!{sys.executable}
import pathlib, sys
source, data = map(pathlib.Path, sys.argv[-2:])
if "bad" in source.read_text():
    sys.exit("bad sample")
(data / "block").write_text(source.read_text())
"""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install what stands in for the programs, and return a folder to work in."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, content in (
        ("prometheus", SERVER),
        ("prometheus-node-exporter", SERVER),
        ("promtool", PROMTOOL),
    ):
        path = folder / name
        path.write_text(content)
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    work = tmp_path / "work"
    work.mkdir()
    return work


def test_prometheus_answers_until_it_is_stopped_and_again_after_a_start(programs: Path) -> None:
    """On the same port, so that whoever asks it finds it again."""
    with Prometheus(programs, scrapes=["127.0.0.1:9100"], rules="groups: []") as prometheus:
        [answer] = prometheus.query("up == 1")
        assert answer["path"] == "/api/v1/query?query=up+%3D%3D+1"
        assert prometheus.query_count() == 4
        url = prometheus.url
        prometheus.stop()
        prometheus.start()
        assert prometheus.url == url
        assert prometheus.query("up")
    prometheus.stop()
    prometheus.send_signal(signal.SIGCONT)
    assert '"127.0.0.1:9100"' in (programs / "prometheus.yml").read_text()
    assert '"rules.yml"' in (programs / "prometheus.yml").read_text()


def test_a_signal_reaches_it(programs: Path) -> None:
    """Here the one that ends it."""
    with Prometheus(programs) as prometheus:
        prometheus.send_signal(signal.SIGTERM)
        prometheus.stop()


def test_with_tls_its_url_says_so(programs: Path) -> None:
    """Whoever asks it needs to know."""
    prometheus = Prometheus(programs, web_config="tls_server_config:\n  cert_file: x\n")
    assert prometheus.url == f"https://{prometheus.address}"


def test_what_it_says_is_shown_when_it_does_not_start(programs: Path) -> None:
    """Such as an option that it does not know."""
    with pytest.raises(RuntimeError, match="no such option"):
        Prometheus(programs, options=["--fail=now"]).start()


def test_a_node_exporter_is_started_alike(programs: Path) -> None:
    """On a port of its own."""
    with NodeExporter(programs) as exporter:
        assert exporter.get("/").is_success


def test_history_is_written_as_promtool_takes_it(programs: Path) -> None:
    """In OpenMetrics, into the folder of a Prometheus."""
    prometheus = Prometheus(programs)
    write_history(prometheus.data, [('up{a="b"}', 1.5, 1000.25), ("up", float("nan"), 1001)])
    written = (prometheus.data / "block").read_text()
    assert written == 'up{a="b"} 1.5 1000.250\nup nan 1001.000\n# EOF\n'
    with pytest.raises(RuntimeError, match="no such history: bad sample"):
        write_history(prometheus.data, [("bad", 1.0, 1.0)])


@pytest.mark.parametrize(
    ("ci", "outcome"), [("", pytest.skip.Exception), ("true", pytest.fail.Exception)]
)
def test_without_the_program_a_test_skips_but_where_ci_is_true(
    monkeypatch: pytest.MonkeyPatch, ci: str, outcome: type[BaseException]
) -> None:
    """Saying which Debian packages have it."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="promtool is not installed; Debian has prometheus and"):
        find_program("promtool")
