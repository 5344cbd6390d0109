"""The choice is kube-scheduler's: filters in turn, score x weight x 10, one node without scores."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kube_sched_ext_testkit.builders import make_node, make_pod
from kube_sched_ext_testkit.cycle import choose, schedule
from kube_sched_ext_testkit.errors import ExtenderError
from kube_sched_ext_testkit.scheduler import Extender

NODES = [make_node(name) for name in "abc"]


@pytest.mark.parametrize(
    ("scores", "totals", "best"),
    [
        ([], {"a": 0, "b": 0, "c": 0}, ["a", "b", "c"]),
        ([({"a": 1, "b": 2}, 1)], {"a": 10, "b": 20, "c": 0}, ["b"]),
        ([({"a": 1, "b": 2}, 1), ({"a": 1, "c": 1}, 3)], {"a": 40, "b": 20, "c": 30}, ["a"]),
        ([({"b": 3, "c": 3}, 2)], {"a": 0, "b": 60, "c": 60}, ["b", "c"]),
        ([({"a": 10, "elsewhere": 10}, 0)], {"a": 0, "b": 0, "c": 0}, ["a", "b", "c"]),
    ],
)
def test_choice(
    scores: list[tuple[Mapping[str, int], int]], totals: dict[str, int], best: list[str]
) -> None:
    choice = choose(["a", "b", "c"], scores)
    assert choice.totals == totals
    assert choice.best == best
    assert choice.chosen == best[0]


def test_choice_needs_nodes() -> None:
    with pytest.raises(ValueError, match="empty"):
        choose([], [])


class Recorder:
    """An extender that rejects some nodes, scores the rest and remembers what it was asked."""

    def __init__(
        self, rejected: Mapping[str, str] | None = None, scores: Mapping[str, int] | None = None
    ) -> None:
        self.rejected = rejected or {}
        self.scores = scores
        self.asked: list[tuple[str, list[str]]] = []

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/filter", self.filter, methods=["POST"]),
                Route("/prioritize", self.prioritize, methods=["POST"]),
            ]
        )

    async def filter(self, request: Request) -> Response:
        names = (await request.json())["NodeNames"]
        self.asked.append(("filter", names))
        failed = {name: self.rejected[name] for name in names if name in self.rejected}
        kept = [name for name in names if name not in failed]
        return Response(msgspec.json.encode({"NodeNames": kept, "FailedNodes": failed}))

    async def prioritize(self, request: Request) -> Response:
        names = (await request.json())["NodeNames"]
        self.asked.append(("prioritize", names))
        if self.scores is None:
            return Response(status_code=500)
        scores = [{"Host": name, "Score": self.scores.get(name, 0)} for name in names]
        return Response(msgspec.json.encode(scores))


@pytest.fixture
def connect(
    serve_app: Callable[[Any], str], new_extender: Callable[..., Extender]
) -> Callable[..., Extender]:
    """Ask a Recorder with both verbs."""
    return lambda recorder, **options: new_extender(
        serve_app(recorder.app), filter_verb="filter", prioritize_verb="prioritize", **options
    )


def test_filters_in_turn_then_scores(connect: Callable[..., Extender]) -> None:
    first = Recorder({"a": "full"}, {"b": 1, "c": 2})
    second = Recorder({}, {"b": 1})
    decision = schedule(make_pod(), NODES, [connect(first), connect(second, weight=2)])
    assert first.asked == [("filter", ["a", "b", "c"]), ("prioritize", ["b", "c"])]
    assert second.asked == [("filter", ["b", "c"]), ("prioritize", ["b", "c"])]
    assert decision.reasons == {"a": "full"}
    assert decision.choice is not None
    assert decision.choice.totals == {"b": 30, "c": 20}
    assert decision.choice.chosen == "b"


def test_one_node_left_is_not_scored(connect: Callable[..., Extender]) -> None:
    recorder = Recorder({"a": "full", "c": "full"})
    decision = schedule(make_pod(), NODES, [connect(recorder)])
    assert [verb for verb, _ in recorder.asked] == ["filter"]
    assert decision.choice is not None
    assert decision.choice.chosen == "b"


def test_no_node_left(connect: Callable[..., Extender]) -> None:
    never_asked = Recorder()
    rejecting = Recorder({"a": "full", "b": "too far", "c": "full"})
    decision = schedule(make_pod(), NODES, [connect(rejecting), connect(never_asked)])
    assert never_asked.asked == []
    assert decision.choice is None
    assert decision.event == "0/3 nodes are available: 1 too far, 2 full."


def test_no_node_and_no_reason(
    serve_reply: Callable[..., str], new_extender: Callable[..., Extender]
) -> None:
    decision = schedule(make_pod(), NODES, [new_extender(serve_reply(b"{}"), filter_verb="f")])
    assert decision.event == "0/3 nodes are available:"


def test_failing_priority_is_passed_over(connect: Callable[..., Extender]) -> None:
    decision = schedule(
        make_pod(), NODES, [connect(Recorder(scores=None)), connect(Recorder(scores={"c": 1}))]
    )
    assert decision.choice is not None
    assert decision.choice.chosen == "c"
    assert [str(error).partition(" ")[2] for error in decision.scoring_errors] == ["answers 500: "]


def test_failing_filter_fails_the_pod_unless_ignorable(
    new_extender: Callable[..., Extender], connect: Callable[..., Extender]
) -> None:
    nobody = "http://127.0.0.1:9"
    with pytest.raises(ExtenderError):
        schedule(make_pod(), NODES, [new_extender(nobody, filter_verb="filter")])
    recorder = Recorder({"a": "full"}, {"c": 1})
    ignorable = new_extender(nobody, filter_verb="filter", ignorable=True)
    decision = schedule(make_pod(), NODES, [ignorable, connect(recorder)])
    assert recorder.asked[0] == ("filter", ["a", "b", "c"])
    assert decision.choice is not None
    assert decision.choice.chosen == "c"


def test_extenders_that_ignorable_ones_wait_for(connect: Callable[..., Extender]) -> None:
    last, first = Recorder({}, {}), Recorder({"a": "full"}, {})
    schedule(make_pod(), NODES, [connect(last, ignorable=True), connect(first)])
    assert last.asked[0] == ("filter", ["b", "c"])


def test_extenders_without_interest_are_not_asked(connect: Callable[..., Extender]) -> None:
    recorder = Recorder({"a": "full"}, {})
    decision = schedule(
        make_pod(), NODES, [connect(recorder, managed_resources=["example.com/gpu"])]
    )
    assert recorder.asked == []
    assert decision.choice is not None
    assert decision.choice.best == ["a", "b", "c"]
