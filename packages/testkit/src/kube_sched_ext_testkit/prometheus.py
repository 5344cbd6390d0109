"""The real Prometheus and node_exporter on loopback, with whatever history a test needs.

The programs are those of Debian's packages `prometheus` and `prometheus-node-exporter`.
"""

import json
import os
import shutil
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import httpx
import pytest

from kube_sched_ext_testkit.builders import JSON
from kube_sched_ext_testkit.serving import stop

_HOST: Final = "127.0.0.1"
_PATIENCE: Final = 30.0


def find_program(name: str) -> str:
    """Return the path of `name`; skip the test without it, or fail it where CI is true."""
    path = shutil.which(name)
    if path is None:
        why = f"{name} is not installed; Debian has prometheus and prometheus-node-exporter"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    return path


def write_history(data: Path, samples: Iterable[tuple[str, float, float]]) -> None:
    """Write samples into the folder `data` of a Prometheus that is not running.

    Args:
        data: the folder, as `Prometheus.data` names it.
        samples: series, value and time in seconds since the epoch, all of a series together, as in
            `('up{job="node",instance="10.0.0.1:9100"}', 1.0, 1763722800.0)`. Those that lie in the
            future become visible as time goes by.
    """
    promtool = find_program("promtool")
    data.mkdir(parents=True, exist_ok=True)
    text = data.with_suffix(".om")
    with text.open("w") as file:
        file.writelines(f"{series} {value!r} {at:.3f}\n" for series, value, at in samples)
        file.write("# EOF\n")
    command = [promtool, "tsdb", "create-blocks-from", "--quiet", "openmetrics"]
    done = subprocess.run(  # noqa: S603  # found above
        [*command, str(text), str(data)], capture_output=True, text=True, check=False
    )
    text.unlink()
    if done.returncode:
        raise RuntimeError(f"promtool takes no such history: {done.stderr.strip()}")


class _Server(ABC):
    """A program that answers on a port of its own."""

    def __init__(self, name: str, folder: Path, client: Mapping[str, Any]) -> None:
        self._program = find_program(name)
        self._folder = folder
        self._client = dict(client)
        with socket.create_server((_HOST, 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self.log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"{_HOST}:{self.port}"

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://{self.address}"

    def start(self) -> None:
        """Start, also again after `stop`, and wait until it answers."""
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(  # noqa: S603  # found by its name
                [self._program, *self._options()],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
            )
        _wait_until(self._answers, f"{self._program} to answer")

    def stop(self) -> None:
        """Stop, if it runs."""
        if self._process is not None:
            stop(self._process)
            self._process = None

    def send_signal(self, number: int) -> None:
        """Send it a signal, such as SIGSTOP, which makes it slow without an end."""
        if self._process is not None:
            self._process.send_signal(number)

    def get(self, path: str, **params: str) -> httpx.Response:
        """Return what it answers."""
        return httpx.get(f"{self.url}{path}", params=params, trust_env=False, **self._client)

    def _answers(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise RuntimeError(f"{self._program} ended:\n{self.log.read_text().strip()}")
        with suppress(httpx.TransportError):
            return self.get(self._ready_path).is_success
        return False

    _ready_path = "/"

    @abstractmethod
    def _options(self) -> Sequence[str]:
        """Return its command line."""


class NodeExporter(_Server):
    """A node_exporter of this machine."""

    def __init__(self, folder: Path) -> None:
        """Keep its log in `folder`."""
        super().__init__("prometheus-node-exporter", folder, {})

    def _options(self) -> Sequence[str]:
        return [f"--web.listen-address={self.address}"]


class Prometheus(_Server):
    """A Prometheus on a free loopback port; it starts in a with block, or by `start`."""

    _ready_path = "/-/ready"

    def __init__(
        self,
        folder: Path,
        *,
        scrapes: Sequence[str] = (),
        rules: str = "",
        web_config: str = "",
        client: Mapping[str, Any] | None = None,
        options: Sequence[str] = (),
    ) -> None:
        """Keep everything in `folder`.

        Args:
            folder: for its data, its configuration and its log.
            scrapes: addresses that are scraped each second.
            rules: the content of a file of recording rules.
            web_config: the content of its web configuration, for TLS and passwords.
            client: what httpx needs to pass that.
            options: more of its command line.
        """
        super().__init__("prometheus", folder, client or {})
        self.data = folder / "data"
        self._more_options = options
        self._is_tls = "tls_server_config" in web_config
        config: JSON = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "scrape_configs": [{"job_name": "node", "static_configs": [{"targets": [*scrapes]}]}],
            "rule_files": ["rules.yml"] if rules else [],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))
        (folder / "rules.yml").write_text(rules)
        (folder / "web.yml").write_text(web_config)

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"{'https' if self._is_tls else 'http'}://{self.address}"

    def query(self, promql: str) -> list[JSON]:
        """Return the result of an instant query."""
        answer = self.get("/api/v1/query", query=promql).raise_for_status().json()
        result: list[JSON] = answer["data"]["result"]
        return result

    def query_count(self) -> int:
        """Return how many instant queries it has answered, as it counts them itself."""
        lines = self.get("/metrics").text.splitlines()
        counts = [
            float(line.rpartition(" ")[2])
            for line in lines
            if line.startswith("prometheus_http_requests_total{")
            and 'handler="/api/v1/query"' in line
        ]
        return int(sum(counts))

    def _options(self) -> Sequence[str]:
        return [
            f"--config.file={self._folder}/prometheus.yml",
            f"--web.config.file={self._folder}/web.yml",
            f"--web.listen-address={self.address}",
            f"--storage.tsdb.path={self.data}",
            "--log.level=warn",
            *self._more_options,
        ]


def _wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _PATIENCE
    while not is_so():
        if time.monotonic() > deadline:
            raise RuntimeError(f"waited {_PATIENCE:g} s for {what}")
        time.sleep(0.02)
