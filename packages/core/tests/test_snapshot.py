"""A snapshot is what kubectl prints."""

import json
from pathlib import Path

import pytest
from core_servers import Recorder

from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.snapshot import load_snapshot
from kube_sched_ext.table import NodeTable

DATA = Path(__file__).parents[3] / "tests" / "data"


@pytest.fixture
def table(recorder: Recorder) -> NodeTable:
    """Return an empty table."""
    return NodeTable({}, recorder.instruments.problems)


def test_the_recorded_cluster_is_loaded(table: NodeTable) -> None:
    """All four nodes."""
    load_snapshot(DATA / "nodes.json", table)
    assert len(table) == 4
    assert "worker-node3" in table


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "the list: Input data was truncated"),
        ("{", "the list: "),
        ("[]", "the list: Expected `object`"),
        ('{"kind": "Node", "items": []}', "is a Node, not a List"),
        ('{"kind": "List", "items": [{"kind": "Pod"}]}', r"items\[0\]: is a Pod, not a Node"),
        ('{"kind": "List", "items": [{"metadata": {}}]}', r"items\[0\]: .*`name`"),
        ('{"kind": "List", "items": ' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_anything_else_is_refused_with_its_place(
    tmp_path: Path, table: NodeTable, content: str, words: str
) -> None:
    """The file, the item, what is wrong."""
    file = tmp_path / "nodes.json"
    file.write_text(content)
    with pytest.raises(ConfigurationError, match=words) as caught:
        load_snapshot(file, table)
    assert str(file) in str(caught.value)


def test_a_folder_is_refused(tmp_path: Path, table: NodeTable) -> None:
    """With the reason."""
    with pytest.raises(ConfigurationError, match="Is a directory"):
        load_snapshot(tmp_path, table)


def test_a_list_of_nodes_as_the_apiserver_has_it_is_loaded(
    tmp_path: Path, table: NodeTable
) -> None:
    """Kind NodeList, items without a kind."""
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps({"kind": "NodeList", "items": [{"metadata": {"name": "a"}}]}))
    load_snapshot(file, table)
    assert "a" in table
