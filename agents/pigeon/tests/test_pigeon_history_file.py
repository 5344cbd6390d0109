"""The history's file: read at start, written in the background and at exit."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kube_sched_ext_pigeon import history_file
from kube_sched_ext_pigeon.history import DemandHistory
from kube_sched_ext_pigeon.history_file import SECONDS, HistoryFile


class Clock:
    """A clock that stands until it is set."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Return a clock that stands."""
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the file is to be."""
    return tmp_path / "history.json"


@pytest.fixture
def file(path: Path, clock: Clock) -> Iterator[HistoryFile]:
    """Return a history of one resource with a file."""
    file = HistoryFile(path, 1, clock)
    yield file
    file.close()


def count_pod(file: HistoryFile) -> None:
    """Add a pod to the history, as a call does, and wait until what is to be written is."""
    file.history.add(None, np.array([100.0]))
    file.changed()
    assert file._write is not None
    file._write.result(10)


def count_in(path: Path) -> int:
    """Return how many pods the file has counted."""
    return DemandHistory.load(path, 1).moments.count


def test_the_first_pod_is_written_at_once(file: HistoryFile, path: Path) -> None:
    """That shows early whether the file can be written."""
    assert not path.exists()
    count_pod(file)
    assert count_in(path) == 1


def test_further_pods_are_written_every_few_seconds(
    file: HistoryFile, path: Path, clock: Clock
) -> None:
    """All that came until then."""
    for _ in range(3):
        count_pod(file)
    assert count_in(path) == 1
    clock.now += SECONDS
    count_pod(file)
    assert count_in(path) == 4


def test_the_rest_is_written_at_the_end(file: HistoryFile, path: Path) -> None:
    """A clean stop loses nothing."""
    count_pod(file)
    count_pod(file)
    file.close()
    assert count_in(path) == 2


def test_nothing_is_written_where_nothing_came(file: HistoryFile, path: Path) -> None:
    """A process that only looks at its settings leaves the file alone."""
    file.close()
    assert not path.exists()


def test_the_end_of_the_process_is_enough(path: Path) -> None:
    """Nobody has to close the file."""
    script = (
        "import sys, pathlib, numpy\n"
        "from kube_sched_ext_pigeon.history_file import HistoryFile\n"
        "file = HistoryFile(pathlib.Path(sys.argv[1]), 1)\n"
        "for _ in range(3):\n"
        "    file.history.add(None, numpy.array([100.0])); file.changed()\n"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, timeout=60)
    assert count_in(path) == 3


def test_a_restart_goes_on(file: HistoryFile, path: Path) -> None:
    """With the pods counted before."""
    count_pod(file)
    file.close()
    again = HistoryFile(path, 1)
    assert (again.history.moments.count, again.problem) == (1, "")
    again.close()


@pytest.mark.parametrize("content", ["", '{"version": 1', "not a history"])
def test_a_damaged_file_is_reported_and_ignored(
    path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is kept under another name when it is replaced: it may be no history at all."""
    path.write_text(content)
    file = HistoryFile(path, 1)
    assert file.history.moments.count == 0
    assert file.problem.startswith(f"ignored: {path}: not a demand history")
    assert caplog.messages == [f"PIGEON_HISTORY_FILE {file.problem}"]
    assert path.read_text() == content
    count_pod(file)
    file.close()
    assert file.problem == ""
    assert count_in(path) == 1
    assert path.with_name("history.json.damaged").read_text() == content


def test_a_folder_in_its_place_stays(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It cannot be replaced; that is reported, and calls are answered all the same."""
    path.mkdir()
    file = HistoryFile(path, 1)
    count_pod(file)
    file.close()
    assert path.is_dir()
    assert file.problem == f"not saved: {path}: {os.strerror(21)}"
    assert len(caplog.messages) == 2


def test_a_failed_write_is_reported_once_and_tried_again(
    file: HistoryFile,
    path: Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The disk may be full for a while."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(history_file, "write_file", full)
        for _ in range(3):
            count_pod(file)
            clock.now += SECONDS
    assert file.problem == f"not saved: {path}: No space left on device"
    assert caplog.messages == [f"PIGEON_HISTORY_FILE {file.problem}"]
    count_pod(file)
    assert (file.problem, count_in(path)) == ("", 4)


def test_what_could_not_be_written_is_tried_at_the_end(
    file: HistoryFile, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though nothing came since."""
    with monkeypatch.context() as patch:
        patch.setattr(history_file, "write_file", lambda path, _: (path / "none").stat())
        count_pod(file)
    file.close()
    assert count_in(path) == 1


def test_a_call_does_not_wait_for_a_slow_disk(
    file: HistoryFile, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does the history pile up before it: one write at a time."""
    release = threading.Event()
    written = []

    def slow(_: Path, data: bytes) -> None:
        release.wait(10)
        written.append(data)

    monkeypatch.setattr(history_file, "write_file", slow)
    for _ in range(5):
        file.history.add(None, np.array([100.0]))
        file.changed()
        clock.now += SECONDS
    assert written == []
    release.set()
    file.close()
    assert [DemandHistory.decode(data, 1).moments.count for data in written] == [1, 5]
