"""The alerts of deploy/prometheus: tested by promtool, and about what there is."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from kube_sched_ext.config import CoreSettings
from kube_sched_ext.health import Health
from kube_sched_ext.instruments import new_instruments
from kube_sched_ext.verbs import Verbs, new_table
from kube_sched_ext_cluster.api import Api
from kube_sched_ext_cluster.nudge import Nudger
from kube_sched_ext_cluster.reports import WatchReports
from kube_sched_ext_telemetry.annotate.reports import Reports as AnnotateReports
from kube_sched_ext_telemetry.reports import Reports as TelemetryReports
from kube_sched_ext_testkit.prometheus import find_program

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "prometheus"
GUIDE = (ROOT / "docs" / "operations.md").read_text()
ALERTS: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
NAMES = [alert["alert"] for alert in ALERTS]
METRIC = re.compile(r"\bkube_sched_ext_\w+")
SELECTED = re.compile(r"\b(kube_sched_ext_\w+)(?:\{([^}]*)\})?")

each_alert = pytest.mark.parametrize("alert", ALERTS, ids=NAMES)


def collected_registry() -> CollectorRegistry:
    """Return a registry that all parts of our processes have put their metrics into."""
    instruments = new_instruments()
    log, registry = instruments.log, instruments.metrics.registry
    WatchReports(log, registry)
    TelemetryReports(log, registry)
    AnnotateReports(log, registry, Health())
    verbs = Verbs([], new_table([], instruments.problems), CoreSettings(), instruments)
    # Its way to the apiserver is not asked for until it nudges.
    Nudger(verbs, Api.__new__(Api), log, registry, seconds=1.0)
    return registry


def exposed() -> dict[str, set[str]]:
    """Return the labels of each series, by the name that Prometheus shows."""
    found: dict[str, set[str]] = {}
    for collector in collected_registry()._collector_to_names:
        labels = set(getattr(collector, "_labelnames", ()))
        for family in getattr(collector, "describe", list)():
            names = {
                "counter": {f"{family.name}_total": labels},
                "gauge": {family.name: labels},
                "histogram": {
                    f"{family.name}_bucket": labels | {"le"},
                    f"{family.name}_count": labels,
                    f"{family.name}_sum": labels,
                },
            }
            found |= names.get(family.type, {})
    return found


EXPOSED = exposed()


def test_alerts_pass_their_unit_tests() -> None:
    """Those of promtool: each fires, with these words, and rests where nothing is wrong."""
    command = [find_program("promtool"), "test", "rules", "alerts.test.yaml"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_each_alert_is_seen_to_fire(name: str) -> None:
    """A unit test expects it with labels."""
    content = yaml.safe_load((FOLDER / "alerts.test.yaml").read_text())
    expected = [
        case["exp_alerts"]
        for test in content["tests"]
        for case in test.get("alert_rule_test", ())
        if case["alertname"] == name
    ]
    assert any(expected)


@each_alert
def test_alerts_ask_for_metrics_that_exist(alert: dict[str, Any]) -> None:
    """With labels that these have."""
    for metric, selectors in SELECTED.findall(alert["expr"]):
        assert metric in EXPOSED
        asked = set(re.findall(r"(\w+)(?==~|!~|!=|=)", selectors))
        assert asked <= EXPOSED[metric]


def test_bounds_of_alerts_are_bounds_of_the_histogram() -> None:
    """A bucket that is not there would be a silent alert."""
    for alert in ALERTS:
        for metric, bound in re.findall(r'(\w+)_bucket\{le="([^"]*)"', alert["expr"]):
            instruments = new_instruments()
            instruments.metrics.call_seconds.labels("filter", "foo")
            labels = {"verb": "filter", "name": "foo", "le": bound}
            found = instruments.metrics.registry.get_sample_value
            assert found(f"{metric}_bucket", labels) == 0


@each_alert
def test_each_alert_is_graded_and_explained(alert: dict[str, Any]) -> None:
    """By severity, and in the guide under a heading of its name."""
    assert alert["labels"]["severity"] in ("critical", "warning")
    page, _, anchor = alert["annotations"]["runbook"].partition("#")
    assert (ROOT / page).read_text() == GUIDE
    assert anchor == alert["alert"].lower()
    assert f"\n### {alert['alert']}\n" in GUIDE


def test_the_guide_explains_no_other_alert() -> None:
    """Nor names one anywhere."""
    assert re.findall(r"^### (KubeSchedExt\w+)$", GUIDE, re.MULTILINE) == NAMES
    assert set(re.findall(r"KubeSchedExt\w+", GUIDE)) <= set(NAMES)


def test_the_guide_names_metrics_that_exist() -> None:
    """Counters with their ending, histograms with or without one."""
    known = EXPOSED.keys() | {
        name.removesuffix("_bucket") for name in EXPOSED if name.endswith("_bucket")
    }
    assert set(METRIC.findall(GUIDE)) <= known
