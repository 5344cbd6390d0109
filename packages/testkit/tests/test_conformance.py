"""The core's own answers conform; each check finds the extender that does not."""

from collections.abc import Callable
from typing import Any, ClassVar

import msgspec
import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from kube_sched_ext import (
    Agent,
    NodeReader,
    Nodes,
    NoSettings,
    Pod,
    Scores,
    Verdict,
    predicate,
    priority,
)
from kube_sched_ext_testkit import conformance
from kube_sched_ext_testkit.conformance import ConformanceError, Target, check_extender, checks_for
from kube_sched_ext_testkit.errors import ExtenderError
from kube_sched_ext_testkit.scheduler import Extender


class Cores(Agent[NoSettings]):
    """Rejects nodes with fewer than two cores, and prefers those with more."""

    name = "cores"
    columns = ("cpu",)

    def row(self, node: NodeReader) -> tuple[float]:
        return (node.allocatable("cpu"),)

    @predicate("cores")
    def enough(self, pod: Pod, nodes: Nodes) -> Verdict:
        return Verdict({"too few cores": nodes.columns[0] < 2000})

    @priority("cores")
    def more(self, pod: Pod, nodes: Nodes) -> Scores:
        cores = np.nan_to_num(nodes.columns[0]) // 1000
        return Scores(np.minimum(cores, 10).astype(np.int64))


@pytest.mark.parametrize("node_cache_capable", [True, False], ids=["names", "whole nodes"])
@pytest.mark.parametrize("check", checks_for(preempt_verb=True), ids=lambda check: check.__name__)
def test_core_conforms(
    check: Callable[[Target], None],
    node_cache_capable: bool,  # noqa: FBT001  # given by name
    serve_agents: Callable[..., str],
    new_extender: Callable[..., Extender],
) -> None:
    extender = new_extender(
        serve_agents(Cores()),
        filter_verb="predicates/cores",
        prioritize_verb="priorities/cores",
        preempt_verb="preemption",
        node_cache_capable=node_cache_capable,
    )
    check(Target(extender))


def test_all_checks_at_once(
    serve_agents: Callable[..., str], new_extender: Callable[..., Extender]
) -> None:
    url = serve_agents(Cores())
    check_extender(Target(new_extender(url, filter_verb="filter", preempt_verb="preemption")))
    check_extender(Target(new_extender(url, prioritize_verb="prioritize")))


class Flawed:
    """An extender that conforms but for its flaw."""

    paths: ClassVar = ["/filter", "/prioritize"]

    def __init__(self, flaw: str) -> None:
        self.flaw = flaw
        self.calls = 0

    @property
    def app(self) -> Starlette:
        methods = ["GET", "POST"] if self.flaw == "GET" else ["POST"]
        paths = ["/{verb}"] if self.flaw == "any path" else self.paths
        return Starlette(
            routes=[Route(path, self.answer, methods=methods) for path in paths],
            exception_handlers={HTTPException: self.refuse},
        )

    async def refuse(self, _: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return JSONResponse({"Error": "no"}, error.status_code)

    async def answer(self, request: Request) -> Response:
        try:
            args = msgspec.json.decode(await request.body(), type=dict[str, Any])
            assert isinstance(args.get("Pod", args.get("pod")), dict)
        except (msgspec.MsgspecError, UnicodeError, AssertionError):
            return self.refusal()
        if self.flaw == "strict keys" and args.keys() - {"Pod", "Nodes", "NodeNames"}:
            return self.refusal()
        if self.flaw != "exact keys":
            args = {key.lower(): value for key, value in args.items()}
        else:
            args = {key.lower(): value for key, value in args.items() if key != key.lower()}
        names = args.get("nodenames") or []
        return self.reply(names, is_filter=request.url.path == "/filter")

    def refusal(self) -> Response:
        if self.flaw == "500":
            return Response(status_code=500)
        if self.flaw == "no error text":
            return JSONResponse({"error": ""}, 400)
        if self.flaw == "text":
            return Response("bad request", 400)
        headers = {"Connection": "close"} if self.flaw == "closes" else {}
        return JSONResponse({"Error": "no"}, 400, headers)

    def reply(self, names: list[str], *, is_filter: bool) -> Response:
        self.calls += 1
        if self.flaw == "no node" and not names:
            return Response(status_code=500)
        if self.flaw == "mixed up" and self.calls > 50:
            names = names[:1]
        if is_filter:
            failed = {"elsewhere": "x"} if self.flaw == "all nodes" else {}
            kept = names[1:] if self.flaw == "no reason" else names
            response = JSONResponse({"NodeNames": kept, "FailedNodes": failed})
        else:
            score = 11 if self.flaw == "high score" else 1
            scored = [*names, *names] if self.flaw == "twice" else names
            response = JSONResponse([{"Host": name, "Score": score} for name in scored])
        if self.flaw == "no length":
            del response.headers["content-length"]
        return response


@pytest.mark.parametrize(
    ("flaw", "check", "message"),
    [
        ("500", conformance.refuses_what_is_no_request, "answers 500, not 400"),
        ("text", conformance.refuses_what_is_no_request, "answers b'bad request', not"),
        ("no error text", conformance.refuses_what_is_no_request, "error"),
        ("GET", conformance.refuses_other_methods, "GET filter: answers 400, not 405"),
        ("any path", conformance.refuses_unknown_paths, "no-such-verb: answers 400, not 404"),
        ("closes", conformance.keeps_connection_after_error, "closed after an error"),
        ("no length", conformance.sends_content_length, "no Content-Length"),
        ("exact keys", conformance.takes_keys_in_any_case, "keys in lower case: answers 200"),
        ("strict keys", conformance.skips_unknown_keys, "unknown keys: answers 400"),
        ("no reason", conformance.filter_accounts_for_each_node, "nor given a reason: node-1"),
        ("all nodes", conformance.filter_accounts_for_each_node, "not in the request: elsewhere"),
        ("no node", conformance.filter_answers_without_nodes, "answers 500"),
        ("high score", conformance.prioritize_scores_each_node, "11, not 0 to 10"),
        ("twice", conformance.prioritize_scores_each_node, "more than once: node-1"),
        ("no node", conformance.prioritize_answers_without_nodes, "answers 500"),
        ("mixed up", conformance.answers_many_at_once, "asked at once with others"),
    ],
)
def test_flaw_is_found(
    flaw: str,
    check: Callable[[Target], None],
    message: str,
    serve_app: Callable[[Any], str],
    new_extender: Callable[..., Extender],
) -> None:
    verbs = {"filter_verb": "filter", "prioritize_verb": "prioritize"}
    check(Target(new_extender(serve_app(Flawed("").app), **verbs)))
    with pytest.raises((ConformanceError, ExtenderError), match=message):
        check(Target(new_extender(serve_app(Flawed(flaw).app), **verbs)))


def test_filter_that_tells_of_nodes_nobody_asked_about(
    serve_reply: Callable[..., str], new_extender: Callable[..., Extender]
) -> None:
    extender = new_extender(
        serve_reply(b'{"Nodes": {"items": [{}]}}'), filter_verb="f", node_cache_capable=False
    )
    with pytest.raises(ExtenderError, match="not in the request"):
        conformance.filter_answers_without_nodes(Target(extender))


def test_everything_found_is_told(
    serve_app: Callable[[Any], str], new_extender: Callable[..., Extender]
) -> None:
    extender = new_extender(serve_app(Flawed("no length").app), filter_verb="filter")
    with pytest.raises(ConformanceError) as caught:
        check_extender(Target(extender))
    found = [line.partition(":")[0] for line in str(caught.value).splitlines()]
    assert found == [
        "sends_content_length",
        "filter_accounts_for_each_node",
        "filter_answers_without_nodes",
        "answers_many_at_once",
    ]


def test_checks_follow_from_verbs() -> None:
    names = {check.__name__ for check in checks_for(filter_verb=False, prioritize_verb=False)}
    assert not {name for name in names if name.startswith(("filter", "prioritize", "preempt"))}
    assert "answers_many_at_once" not in names
