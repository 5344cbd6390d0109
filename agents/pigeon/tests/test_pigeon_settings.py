"""The settings of pigeon, as users write them."""

from pathlib import Path

import pytest

from kube_sched_ext.settings import environment, load
from kube_sched_ext_pigeon.settings import PigeonSettings


def loaded(**variables: str) -> tuple[PigeonSettings | None, list[str]]:
    """Return settings from environment variables, and what is wrong with them."""
    problems: list[str] = []
    return load(PigeonSettings, [environment(variables)], problems), problems


def test_defaults_are_as_published() -> None:
    """A_BINPACK of cpu and memory, cpu being the prime resource."""
    settings, problems = loaded()
    assert problems == []
    assert settings == PigeonSettings("A_BINPACK", 2, 0, "auto", "nvidia.com/gpu", "")


def test_all_can_be_set(tmp_path: Path) -> None:
    """Under the names that users know."""
    settings, problems = loaded(
        POLICY_OBJECTIVE="CONSOLIDATE",
        NUM_RESOURCES="5",
        POLICY_RESOURCE_INDEX="4",
        PIGEON_USAGE="pods",
        PIGEON_GPU_RESOURCE="amd.com/gpu",
        PIGEON_HISTORY_FILE=str(tmp_path / "history.json"),
    )
    assert problems == []
    assert settings == PigeonSettings(
        "CONSOLIDATE", 5, 4, "pods", "amd.com/gpu", str(tmp_path / "history.json")
    )


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"POLICY_OBJECTIVE": "BEST_FIT"},
            "POLICY_OBJECTIVE: 'BEST_FIT' is not one of A_BINPACK, LOAD_BALANCE, CONSOLIDATE",
        ),
        ({"NUM_RESOURCES": "0"}, "NUM_RESOURCES: '0' is not an integer, at least 1 and up to 5"),
        ({"NUM_RESOURCES": "6"}, "NUM_RESOURCES: '6' is not an integer, at least 1 and up to 5"),
        (
            {"NUM_RESOURCES": "2.5"},
            "NUM_RESOURCES: '2.5' is not an integer, at least 1 and up to 5",
        ),
        (
            {"POLICY_RESOURCE_INDEX": "-1"},
            "POLICY_RESOURCE_INDEX: '-1' is not an integer from 0 to NUM_RESOURCES - 1",
        ),
        (
            {"POLICY_RESOURCE_INDEX": "2"},
            "POLICY_RESOURCE_INDEX: 2 is none of the NUM_RESOURCES=2 resources; allowed are 0, 1",
        ),
        (
            {"POLICY_RESOURCE_INDEX": "1", "NUM_RESOURCES": "1"},
            "POLICY_RESOURCE_INDEX: 1 is none of the NUM_RESOURCES=1 resources; allowed are 0",
        ),
        ({"PIGEON_USAGE": "live"}, "PIGEON_USAGE: 'live' is not one of auto, pods, annotations"),
        (
            {"PIGEON_GPU_RESOURCE": "gpu"},
            "PIGEON_GPU_RESOURCE: 'gpu' is not an extended resource such as nvidia.com/gpu",
        ),
        (
            {"PIGEON_HISTORY_FILE": "/no/such/folder/history.json"},
            "PIGEON_HISTORY_FILE: the folder of '/no/such/folder/history.json' does not exist",
        ),
    ],
)
def test_a_wrong_value_is_an_error_that_lists_what_is_allowed(
    variables: dict[str, str], message: str
) -> None:
    """At start, never a silent default."""
    assert loaded(**variables) == (None, [message])


def test_all_that_is_wrong_is_told_at_once() -> None:
    """One start per mistake would be tedious."""
    settings, problems = loaded(POLICY_OBJECTIVE="?", NUM_RESOURCES="?", POLICY_RESOURCE_INDEX="?")
    assert settings is None
    assert [problem.partition(":")[0] for problem in problems] == [
        "POLICY_OBJECTIVE",
        "NUM_RESOURCES",
        "POLICY_RESOURCE_INDEX",
    ]


def test_what_is_wrong_with_settings_together_is_told_at_once() -> None:
    """Not only the first of it."""
    settings, problems = loaded(POLICY_RESOURCE_INDEX="2", PIGEON_HISTORY_FILE="/no/such/folder/f")
    assert settings is None
    assert [problem.partition(":")[0] for problem in problems] == [
        "POLICY_RESOURCE_INDEX",
        "PIGEON_HISTORY_FILE",
    ]
