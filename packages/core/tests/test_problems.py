"""Each problem is counted, each place told once."""

import pytest
from core_servers import Recorder

from kube_sched_ext.demand import Unparsable

VALUE = Unparsable("key", "x", "a number")


def test_a_node_that_an_agent_cannot_read_is_told_once(recorder: Recorder) -> None:
    """With what the agent raised."""
    for _ in range(2):
        recorder.instruments.problems.unreadable("a", "n1", ZeroDivisionError("by zero"))
    assert recorder.count("kube_sched_ext_unreadable_nodes_total", agent="a") == 2
    [line] = recorder.lines()
    assert (line["agent"], line["node"], line["level"]) == ("a", "n1", "ERROR")
    assert "by zero" in str(line["exception"])


def test_what_was_told_is_remembered_up_to_a_limit(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes come and go; the oldest place is forgotten first."""
    monkeypatch.setattr("kube_sched_ext.problems._REMEMBERED", 2)
    for node in ("n1", "n2", "n3", "n3", "n1"):
        recorder.instruments.problems.unparsable("a", node, VALUE)
    assert [line["node"] for line in recorder.lines()] == ["n1", "n2", "n3", "n1"]
