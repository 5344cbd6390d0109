"""The recording rules for large clusters, and the settings that use them."""

import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kube_sched_ext.settings import load, read_file, unknown_names
from kube_sched_ext_safe.queries import queries
from kube_sched_ext_safe.settings import SafeSettings
from kube_sched_ext_testkit.prometheus import find_program

FOLDER = Path(__file__).parents[3] / "deploy" / "prometheus"


@pytest.mark.timeout(600)
def test_rules_pass_their_unit_tests() -> None:
    """Those of promtool: a day of points, evaluated each minute."""
    command = [find_program("promtool"), "test", "rules", "safe.rules.test.yaml"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_settings_ask_for_what_the_rules_record() -> None:
    """Each query is one recorded series, and each recorded statistic is asked for."""
    layer = read_file(FOLDER / "safe.settings.yaml")
    assert unknown_names(layer, [SafeSettings]) == []
    problems: list[str] = []
    settings = load(SafeSettings, [layer], problems)
    assert settings is not None, problems
    content: dict[str, Any] = yaml.safe_load((FOLDER / "safe.rules.yaml").read_text())
    recorded = {
        rule["record"] + "".join(f'{{{key}="{value}"}}' for key, value in rule["labels"].items())
        if "labels" in rule
        else rule["record"]
        for group in content["groups"][1:]
        for rule in group["rules"]
    }
    asked = queries(msgspec.structs.replace(settings, is_empirical=True))
    assert {it.promql for it in asked} == recorded
    assert {it.sampled for it in asked} <= recorded
