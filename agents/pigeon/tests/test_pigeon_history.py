"""The demand history: moments, each pod once, the file."""

import os
from fractions import Fraction
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_sched_ext_pigeon import history as module
from kube_sched_ext_pigeon.history import DemandHistory, HistoryFileError

STORED = {
    "version": 1,
    "count": 2,
    "mean": [2.0, 6.0],
    "covariance": [[1.0, 2.0], [2.0, 4.0]],
    "uids": ["a", "b"],
}


@pytest.fixture
def history() -> DemandHistory:
    """Two pods: means 2 and 6, deviations 1 and 2, fully correlated."""
    history = DemandHistory(2)
    history.add("a", np.array([1.0, 4.0]))
    history.add("b", np.array([3.0, 8.0]))
    return history


class TestMoments:
    """M <- (1 - 1/k) M + (1/k) new, k = min(k + 1, 100)."""

    def test_start_at_nothing(self) -> None:
        """Before the first pod there is neither mean nor variation."""
        moments = DemandHistory(2).moments

        assert (moments.mean.tolist(), moments.covariance.tolist()) == ([0, 0], [[0, 0], [0, 0]])
        assert moments.count == 0

    def test_average_the_pods(self, history: DemandHistory) -> None:
        """Up to 100 pods the moments are plain averages."""
        moments = history.moments

        assert moments.mean.tolist() == [2, 6]
        assert moments.covariance.tolist() == [[1, 2], [2, 4]]
        assert moments.second.tolist() == [[5, 14], [14, 40]]
        assert moments.count == 2

    def test_forget(self) -> None:
        """From the 100th pod on a new one weighs 1/100, whatever the number before it."""
        history = DemandHistory(1)
        for _ in range(500):
            history.add(None, np.array([0.0]))
        history.add(None, np.array([100.0]))

        assert history.moments.count == 100
        assert history.moments.mean == pytest.approx([1])
        assert history.moments.second == pytest.approx(np.array([[100.0]]))

    def test_equal_pods_do_not_vary(self) -> None:
        """Not even by rounding: a tiny variation would be a demand to pack."""
        history = DemandHistory(2)
        for _ in range(1000):
            history.add(None, np.array([0.1, 1e9 / 7]))

        assert history.moments.covariance.tolist() == [[0, 0], [0, 0]]

    @given(st.lists(st.tuples(*[st.integers(0, 10**6)] * 2), min_size=1, max_size=150))
    def test_follow_the_recurrence(self, demands: list[tuple[int, int]]) -> None:
        """Mean and covariance are those of the first and second moments, in exact fractions."""
        history = DemandHistory(2)
        first, second, mixed = [Fraction(0)] * 2, [Fraction(0)] * 2, Fraction(0)
        for count, (a, b) in enumerate(demands, 1):
            history.add(None, np.array([a, b], float))
            w = Fraction(1, min(count, 100))
            first = [(1 - w) * first[0] + w * a, (1 - w) * first[1] + w * b]
            second = [(1 - w) * second[0] + w * a * a, (1 - w) * second[1] + w * b * b]
            mixed = (1 - w) * mixed + w * a * b

        moments = history.moments
        expected = [float(m - f**2) for m, f in zip(second, first, strict=True)]
        scale = float(max(second)) or 1.0
        assert moments.mean == pytest.approx([float(m) for m in first], rel=1e-12)
        assert np.diagonal(moments.covariance) == pytest.approx(expected, rel=1e-9, abs=1e-9)
        assert moments.covariance[0, 1] == pytest.approx(
            float(mixed - first[0] * first[1]), rel=1e-9, abs=1e-14 * scale
        )

    def test_stay_as_they_were_taken(self, history: DemandHistory) -> None:
        """A request goes on with the moments it took, whatever is added meanwhile."""
        taken = history.moments
        history.add("c", np.array([100.0, 100.0]))

        assert taken.mean.tolist() == [2, 6]
        with pytest.raises(ValueError, match="read-only"):
            taken.mean[0] = 1

    @pytest.mark.parametrize(
        "demand",
        [[1.0], [1.0, 2.0, 3.0], [1.0, float("nan")], [1.0, float("inf")]],
        ids=["too few", "too many", "NaN", "infinite"],
    )
    def test_refuse_what_is_no_demand(self, history: DemandHistory, demand: list[float]) -> None:
        """It would spoil the moments for ever; the pod may come again with a proper one."""
        with pytest.raises(ValueError, match="2 finite numbers"):
            history.add("c", np.array(demand))

        assert history.moments.mean.tolist() == [2, 6]
        assert history.add("c", np.array([1.0, 1.0]))


class TestOncePerPod:
    """A pod that is tried again was counted already."""

    def test_a_uid_counts_once(self, history: DemandHistory) -> None:
        """Not each retry."""
        assert not history.add("a", np.array([1.0, 4.0]))

        assert history.moments.count == 2

    @pytest.mark.parametrize("uid", [None, ""])
    def test_a_pod_without_a_uid_counts_each_time(self, uid: str | None) -> None:
        """Nothing tells it from another one."""
        history = DemandHistory(1)

        assert [history.add(uid, np.array([1.0])) for _ in range(3)] == [True, True, True]
        assert history.moments.count == 3

    def test_the_uids_longest_unseen_are_forgotten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Memory is bounded; a pod that keeps being tried stays known."""
        monkeypatch.setattr(module, "MAX_UIDS", 2)
        history, demand = DemandHistory(1), np.array([1.0])

        counted = {uid: history.add(uid, demand) for uid in ("old", "retried")}
        counted["retried again"] = history.add("retried", demand)
        history.add("old", demand)
        history.add("retried", demand)
        history.add("new", demand)

        assert counted == {"old": True, "retried": True, "retried again": False}
        assert not history.add("retried", demand)
        assert history.add("old", demand)


class TestFile:
    """A history outlives its process if it has a file."""

    def test_comes_back_as_it_was(self, history: DemandHistory, tmp_path: Path) -> None:
        """Moments to the last bit, and the pods already counted."""
        history.add("c", np.array([0.1, 1 / 3]))
        path = tmp_path / "history.json"
        history.save(path)

        loaded = DemandHistory.load(path, 2)

        assert loaded.encode() == history.encode()
        assert loaded.moments.mean.tolist() == history.moments.mean.tolist()
        assert [loaded.add(uid, np.ones(2)) for uid in ("c", "d")] == [False, True]

    def test_starts_anew_without_a_file(self, tmp_path: Path) -> None:
        """The first start is no error."""
        assert DemandHistory.load(tmp_path / "none.json", 3).moments.count == 0

    def test_adding_writes_nothing(self, history: DemandHistory, tmp_path: Path) -> None:
        """A request never waits for a disk."""
        path = tmp_path / "history.json"
        history.save(path)
        before = path.read_bytes()

        DemandHistory.load(path, 2).add("c", np.ones(2))

        assert path.read_bytes() == before

    def test_replaces_the_old_file(self, history: DemandHistory, tmp_path: Path) -> None:
        """Nothing else is left in the folder."""
        path = tmp_path / "history.json"
        path.write_text("old")

        history.save(path)

        assert [entry.name for entry in tmp_path.iterdir()] == ["history.json"]
        assert DemandHistory.load(path, 2).moments.count == 2

    def test_a_failed_write_leaves_the_old_file(
        self, history: DemandHistory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A full disk costs the new history, not the old one, and leaves no litter."""

        def full(_: int) -> None:
            raise OSError(28, "No space left on device")

        path = tmp_path / "history.json"
        path.write_text("old")
        monkeypatch.setattr(os, "fsync", full)

        with pytest.raises(OSError, match="No space left"):
            history.save(path)

        assert path.read_text() == "old"
        assert [entry.name for entry in tmp_path.iterdir()] == ["history.json"]

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            pytest.param(b"", "not a demand history", id="empty"),
            pytest.param(b'{"version": 1, "count"', "not a demand history", id="cut off"),
            pytest.param(b"\xff\xfe\x00", "not a demand history", id="not text"),
            pytest.param(b"[]", "not a demand history", id="another type"),
            pytest.param(b"{}", "version", id="nothing in it"),
        ],
    )
    def test_reports_a_damaged_file(self, tmp_path: Path, content: bytes, message: str) -> None:
        """By a type of its own and with the path: the caller decides to go on without."""
        path = tmp_path / "history.json"
        path.write_bytes(content)

        with pytest.raises(HistoryFileError, match=message) as caught:
            DemandHistory.load(path, 2)

        assert str(path) in str(caught.value)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"version": 2}, "version 2, expected 1"),
            ({"count": -1}, "count"),
            ({"count": 101}, "count"),
            ({"count": "2"}, "count"),
            ({"mean": [1.0]}, "moments of 1 resources, expected 2"),
            ({"covariance": [[1.0, 0.0]]}, "expected 2"),
            ({"covariance": [[1.0, 0.0], [0.0]]}, "expected 2"),
            ({"covariance": [[1.0, 2.0], [3.0, 4.0]]}, "no demands have"),
            ({"covariance": [[-1.0, 0.0], [0.0, 1.0]]}, "no demands have"),
            ({"mean": [-1.0, 1.0]}, "no demands have"),
            ({"mean": [None, 1.0]}, "mean"),
            ({"uids": [1]}, "uids"),
            ({"uids": ["x"] * 10_001}, "uids"),
            ({"more": 1}, "more"),
        ],
        ids=[
            "another version",
            "negative count",
            "count too large",
            "count not a number",
            "another mean",
            "another covariance",
            "ragged covariance",
            "lopsided covariance",
            "negative variance",
            "negative mean",
            "null",
            "uid not text",
            "too many uids",
            "unknown key",
        ],
    )
    def test_reports_a_file_of_another_shape(
        self, changes: dict[str, object], message: str
    ) -> None:
        """Such as one kept from before NUM_RESOURCES changed."""
        with pytest.raises(HistoryFileError, match=message):
            DemandHistory.decode(msgspec.json.encode(STORED | changes), 2)

    def test_reads_what_is_well_formed(self) -> None:
        """The case that the malformed ones vary."""
        found = DemandHistory.decode(msgspec.json.encode(STORED), 2)

        assert found.moments.mean.tolist() == [2, 6]

    def test_reports_what_cannot_be_read(self, tmp_path: Path) -> None:
        """A folder in the file's place, for one."""
        with pytest.raises(HistoryFileError, match="directory"):
            DemandHistory.load(tmp_path, 2)
