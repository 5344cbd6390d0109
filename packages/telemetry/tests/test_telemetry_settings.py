"""What may be set, and what is told of what may not."""

from pathlib import Path

import pytest

from kube_sched_ext.settings import environment, load
from kube_sched_ext_telemetry.settings import TelemetrySettings, url_problems


def problems_with(**variables: str) -> list[str]:
    problems: list[str] = []
    load(TelemetrySettings, [environment(variables)], problems)
    return problems


@pytest.mark.parametrize(
    "url",
    [
        "http://prometheus:9090",
        "https://metrics.example/",
        "http://[fd00::1]:9090",
        "https://thanos.example/tenants/a/prometheus",
        "",
    ],
)
def test_urls_of_prometheus(url: str) -> None:
    """With a path where it has one; none is a matter for the agents that need it."""
    assert url_problems("PROMETHEUS_URL", url) == []


@pytest.mark.parametrize(
    "url",
    [
        "prometheus.secret:9090",
        "ftp://prometheus",
        "http:///secret",
        "http://user:secret@prometheus:9090",
        "http://prometheus:9090/?x=1",
        "http://prometheus:9090/#x",
        "http://prometheus 9090",
    ],
)
def test_what_is_no_url_is_told_and_not_repeated(url: str) -> None:
    """It may hold a password."""
    [problem] = problems_with(PROMETHEUS_URL=url)
    assert problem.startswith("PROMETHEUS_URL: is no URL such as http://prometheus:9090")
    assert url not in problem


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    """Each on a line of its own, with the names of the settings."""
    token = tmp_path / "token"
    token.write_text("t")
    problems = problems_with(
        PROMETHEUS_URL="x",
        PROMETHEUS_USER="me",
        PROMETHEUS_TOKEN_FILE=str(token),
        PROMETHEUS_CA_FILE="/no/such/file",
        PROMETHEUS_KEY_FILE=str(token),
        PROMETHEUS_NODE_LABELS=" , ",
        PROMETHEUS_HEADERS="X-A:b=c,X-B=good",
    )
    assert [problem.partition(" ")[0] for problem in problems] == [
        "PROMETHEUS_CA_FILE:",
        "PROMETHEUS_URL:",
        "PROMETHEUS_USER,",
        "PROMETHEUS_USER,",
        "PROMETHEUS_KEY_FILE:",
        "PROMETHEUS_NODE_LABELS:",
        "PROMETHEUS_HEADERS:",
    ]
    assert "'/no/such/file' is no file that can be read" in problems[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PROMETHEUS_REFRESH_SECONDS", "0.5"),
        ("PROMETHEUS_TIMEOUT_SECONDS", "0"),
        ("PROMETHEUS_HEADERS", "X-Scope-OrgID"),
        ("PROMETHEUS_HEADERS", "X-Scope-OrgID=a\nX-Other: b"),
        ("PROMETHEUS_PASSWORD_FILE", "/etc/hostname"),
    ],
)
def test_values_out_of_range_are_told(name: str, value: str) -> None:
    """With the name of the setting."""
    [problem] = problems_with(**{name: value})
    assert name in problem


def test_labels_and_headers_are_lists() -> None:
    """Blanks around labels do not count."""
    variables = {
        "PROMETHEUS_NODE_LABELS": "node, instance",
        "PROMETHEUS_HEADERS": "X-Scope-OrgID=a|b,X-More=1",
    }
    settings = load(TelemetrySettings, [environment(variables)], [])
    assert settings is not None
    assert settings.labels == ["node", "instance"]
    assert settings.headers == {"X-Scope-OrgID": "a|b", "X-More": "1"}
