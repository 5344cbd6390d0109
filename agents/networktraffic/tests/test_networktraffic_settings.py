"""Settings of the networktraffic agent."""

from pathlib import Path

import pytest

from kube_sched_ext.settings import environment, load, read_file
from kube_sched_ext_networktraffic.settings import NetworkTrafficSettings


def loaded(**variables: str) -> tuple[NetworkTrafficSettings | None, list[str]]:
    problems: list[str] = []
    return load(NetworkTrafficSettings, [environment(variables)], problems), problems


def test_the_names_are_those_of_the_article() -> None:
    """Matched exactly, capitals and all; others are other variables."""
    settings, problems = loaded(
        Address="http://prometheus:9090",
        NetworkInterface="eth0",
        TimeRangeInMinutes="3",
        networkinterface="eth1",
        TIMERANGEINMINUTES="7",
    )
    assert problems == []
    assert settings is not None
    assert (settings.address, settings.interface, settings.minutes) == (
        "http://prometheus:9090",
        "eth0",
        3,
    )


def test_a_file_has_the_same_names(tmp_path: Path) -> None:
    """As top-level keys."""
    path = tmp_path / "settings.yaml"
    path.write_text("Address: http://prometheus:9090\nTimeRangeInMinutes: 10\n")
    settings = load(NetworkTrafficSettings, [read_file(path)], [])
    assert settings is not None
    assert (settings.address, settings.minutes) == ("http://prometheus:9090", 10)


def test_the_defaults_are_those_of_the_article_but_for_the_function() -> None:
    """A sum over a counter ranks by uptime."""
    settings = NetworkTrafficSettings()
    assert (settings.interface, settings.minutes) == ("ens192", 5)
    assert (settings.function, settings.direction) == ("rate", "receive")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Address", "prometheus:9090"),
        ("Address", "http://me:secret@prometheus"),
        ("NetworkInterface", 'eth0"} or up{x="'),
        ("NetworkInterface", "a name too long for one"),
        ("NetworkInterface", "a\\b"),
        ("TimeRangeInMinutes", "0"),
        ("TimeRangeInMinutes", "1.5"),
        ("TimeRangeInMinutes", "5m"),
        ("NETWORKTRAFFIC_FUNCTION", "irate"),
        ("NETWORKTRAFFIC_DIRECTION", "sideways"),
        ("NETWORKTRAFFIC_MAX_AGE_SECONDS", "0"),
        ("NETWORKTRAFFIC_MISSING", "median"),
    ],
)
def test_what_cannot_be_is_told_with_its_name(name: str, value: str) -> None:
    """At start."""
    settings, [problem] = loaded(**{name: value})
    assert settings is None
    assert problem.startswith(f"{name}: ")
