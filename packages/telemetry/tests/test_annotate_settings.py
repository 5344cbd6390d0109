"""What the writer may be told."""

import pytest

from kube_sched_ext.settings import Layer, load
from kube_sched_ext_telemetry.annotate.settings import AnnotateSettings


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"ANNOTATE_SAMPLE_SECONDS": "7"}, "ANNOTATE_STEP_SECONDS: 300 is no multiple of"),
        ({"ANNOTATE_WINDOW_SECONDS": "1000"}, "ANNOTATE_WINDOW_SECONDS: 1000 is no multiple of"),
        ({"ANNOTATE_HORIZON_SECONDS": "10"}, "ANNOTATE_HORIZON_SECONDS: 10 is no multiple of"),
        ({"ANNOTATE_MAX_AGE_SECONDS": "300"}, "ANNOTATE_MAX_AGE_SECONDS: 300 is not above"),
        ({"ANNOTATE_USAGE": "no", "ANNOTATE_ALLOCATION": "no"}, "'no' is not true or false"),
        ({"ANNOTATE_USAGE": "0", "ANNOTATE_ALLOCATION": "0"}, "one must be true"),
        ({"ANNOTATE_STALE": "ignore"}, "is not one of remove, keep"),
        ({"ANNOTATE_FREQ": "0"}, "'0' is not a number, at least 1"),
        ({"ANNOTATE_TOLERANCE": "2"}, "at least 0 and up to 1"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, str], problem: str) -> None:
    """With the setting's name and what would do."""
    problems: list[str] = []
    assert load(AnnotateSettings, [Layer("{name}", given)], problems) is None
    assert problem in "\n".join(problems)


def test_the_defaults_go_together() -> None:
    """And a forecast can be switched off."""
    problems: list[str] = []
    assert load(AnnotateSettings, [], problems)
    assert load(AnnotateSettings, [Layer("{name}", {"ANNOTATE_HORIZON_SECONDS": "0"})], problems)
    assert problems == []
