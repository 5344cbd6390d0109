"""The client fails where kube-scheduler fails, and where it should have failed."""

import gzip
import json
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import trustme
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kube_sched_ext_testkit.builders import make_container, make_node, make_pod
from kube_sched_ext_testkit.errors import ExtenderError, MisleadingReplyError
from kube_sched_ext_testkit.scheduler import Extender, Victims, is_same, name_of

POD = make_pod(uid="u")


def reply_with(**message: object) -> bytes:
    return json.dumps(message).encode()


NODES = [make_node(name, annotations={"kept": "as it is"}) for name in "abc"]


@pytest.mark.parametrize(
    ("body", "kept", "reasons"),
    [
        pytest.param(reply_with(NodeNames=["a", "c"]), "ac", {}, id="names"),
        pytest.param(reply_with(NodeNames=["c", "a"]), "ca", {}, id="order of the reply"),
        pytest.param(reply_with(nodenames=["a"]), "a", {}, id="keys in any case"),
        pytest.param(reply_with(NodeNames=["a"], nodeNames=["b"]), "b", {}, id="last key counts"),
        pytest.param(
            reply_with(Nodes=None, NodeNames=["a"], FailedNodes=None, Error="", Future=[1]),
            "a",
            {},
            id="null and unknown keys, as Go writes them",
        ),
        pytest.param(
            reply_with(NodeNames=[], FailedNodes={"a": "x"}, FailedAndUnresolvableNodes={"b": "y"}),
            "",
            {"a": "x", "b": "y"},
            id="reasons",
        ),
        pytest.param(
            reply_with(FailedNodes={"a": "x"}, FailedAndUnresolvableNodes={"a": "y"}),
            "",
            {"a": "y"},
            id="unresolvable wins",
        ),
        pytest.param(b"{}", "", {}, id="nothing at all: no node fits"),
        pytest.param(b"null", "", {}, id="null: no node fits"),
        pytest.param(reply_with(Nodes={"Items": NODES[:1]}), "a", {}, id="whole nodes to names"),
        pytest.param(reply_with(Nodes={"items": None}), "", {}, id="no whole node"),
    ],
)
def test_filter_takes(
    body: bytes,
    kept: str,
    reasons: dict[str, str],
    serve_reply: Callable[..., str],
    new_extender: Callable[..., Extender],
) -> None:
    outcome = new_extender(serve_reply(body), filter_verb="filter").filter(POD, NODES)
    assert outcome.kept_names == list(kept)
    assert outcome.reasons == reasons


@pytest.mark.parametrize(
    ("body", "status", "error", "message"),
    [
        pytest.param(b"", 200, ExtenderError, "an empty body", id="empty body"),
        pytest.param(b"{", 200, ExtenderError, "does not decode", id="no JSON"),
        pytest.param(b"[]", 200, ExtenderError, "a list where an object", id="a list"),
        pytest.param(b'"x"', 200, ExtenderError, "a string where an object", id="a string"),
        pytest.param(
            reply_with(Nodes=5), 200, ExtenderError, "a number where an object", id="no node list"
        ),
        pytest.param(
            reply_with(NodeNames="a"), 200, ExtenderError, "does not decode", id="wrong type"
        ),
        pytest.param(b'{"Error": "no"}', 400, ExtenderError, "answers 400", id="status 400"),
        pytest.param(b'{"NodeNames": []}', 201, ExtenderError, "answers 201", id="status 201"),
        pytest.param(
            reply_with(NodeNames=["a"], Error="no view"),
            200,
            ExtenderError,
            "reports an error: no view",
            id="Error",
        ),
        pytest.param(
            reply_with(NodeNames=["a", "z"]),
            200,
            ExtenderError,
            "not in the request: z",
            id="unknown node kept",
        ),
        pytest.param(
            reply_with(FailedNodes={"z": "x"}),
            200,
            MisleadingReplyError,
            "not in the request: z",
            id="unknown node rejected",
        ),
        pytest.param(
            reply_with(NodeNames=["a", "a"]),
            200,
            MisleadingReplyError,
            "more than once: a",
            id="node kept twice",
        ),
        pytest.param(
            reply_with(NodeNames=["a"], FailedNodes={"a": "x"}),
            200,
            MisleadingReplyError,
            "keeps and rejects a",
            id="node kept and rejected",
        ),
    ],
)
def test_filter_fails(
    body: bytes,
    status: int,
    error: type[ExtenderError],
    message: str,
    serve_reply: Callable[..., str],
    new_extender: Callable[..., Extender],
) -> None:
    extender = new_extender(serve_reply(body, status), filter_verb="filter")
    with pytest.raises(ExtenderError, match=message) as caught:
        extender.filter(POD, NODES)
    assert type(caught.value) is error


def changed(**changes: object) -> dict[str, Any]:
    return {**NODES[0], **changes}


@pytest.mark.parametrize(
    ("items", "kept"),
    [
        pytest.param([NODES[2], NODES[0]], "ca", id="unchanged"),
        pytest.param(
            [changed(spec={}, status={"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}})],
            "a",
            id="zero values, as Go adds them",
        ),
    ],
)
def test_whole_nodes_may_gain_zero_values_only(
    items: list[object],
    kept: str,
    serve_reply: Callable[..., str],
    new_extender: Callable[..., Extender],
) -> None:
    url = serve_reply(reply_with(Nodes={"items": items}))
    extender = new_extender(url, filter_verb="filter", node_cache_capable=False)
    assert extender.filter(POD, NODES).kept_names == list(kept)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        pytest.param([changed(spec={"unschedulable": True})], "changed node a", id="more"),
        pytest.param([{"metadata": {"name": "a"}}], "changed node a", id="less"),
        pytest.param([make_node("z")], "not in the request: z", id="unknown"),
        pytest.param([NODES[0], NODES[0]], "more than once: a", id="twice"),
    ],
)
def test_changed_whole_nodes_mislead(
    items: list[object],
    message: str,
    serve_reply: Callable[..., str],
    new_extender: Callable[..., Extender],
) -> None:
    url = serve_reply(reply_with(Nodes={"items": items}))
    extender = new_extender(url, filter_verb="filter", node_cache_capable=False)
    with pytest.raises(MisleadingReplyError, match=message):
        extender.filter(POD, NODES)


def test_names_answer_whole_nodes_with_none_fitting(
    serve_reply: Callable[..., str], new_extender: Callable[..., Extender]
) -> None:
    url = serve_reply(reply_with(NodeNames=["a"]))
    extender = new_extender(url, filter_verb="filter", node_cache_capable=False)
    assert extender.filter(POD, NODES).kept == []


def score(host: str, value: object) -> dict[str, object]:
    return {"Host": host, "Score": value}


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        ([score("a", 0), score("b", 10)], {"a": 0, "b": 10}),
        ([{"host": "a", "SCORE": 3, "more": 1}], {"a": 3}),
        ([{"Host": "a"}], {"a": 0}),
        ([], {}),
        (None, {}),
    ],
)
def test_prioritize_takes(
    reply: object,
    scores: dict[str, int],
    serve_reply: Callable[..., str],
    new_extender: Callable[..., Extender],
) -> None:
    extender = new_extender(serve_reply(json.dumps(reply).encode()), prioritize_verb="prioritize")
    assert extender.prioritize(POD, NODES) == scores


@pytest.mark.parametrize(
    ("reply", "error", "message"),
    [
        ([score("a", 11)], MisleadingReplyError, "scores a 11, not 0 to 10"),
        ([score("a", -1)], MisleadingReplyError, "scores a -1, not 0 to 10"),
        ([score("z", 1)], MisleadingReplyError, "not in the request: z"),
        ([score("a", 1), score("a", 1)], MisleadingReplyError, "more than once: a"),
        ([score("a", 1.5)], ExtenderError, "does not decode"),
        ([score("a", 5.0)], ExtenderError, "does not decode"),
        ([score("a", "5")], ExtenderError, "does not decode"),
        ({"a": 5}, ExtenderError, "does not decode"),
        ([5], ExtenderError, "a number where an object"),
    ],
)
def test_prioritize_fails(
    reply: object,
    error: type[ExtenderError],
    message: str,
    serve_reply: Callable[..., str],
    new_extender: Callable[..., Extender],
) -> None:
    extender = new_extender(serve_reply(json.dumps(reply).encode()), prioritize_verb="prioritize")
    with pytest.raises(ExtenderError, match=message) as caught:
        extender.prioritize(POD, NODES)
    assert type(caught.value) is error


VICTIM_A = make_pod("victim-a", uid="uid-a")
VICTIM_B = make_pod("victim-b", uid="uid-b")
CANDIDATES = {"a": Victims([VICTIM_A], 1), "b": Victims([VICTIM_B])}


def by_node(**victims: object) -> bytes:
    return reply_with(NodeNameToMetaVictims=victims)


@pytest.mark.parametrize("node_cache_capable", [True, False], ids=["names", "whole nodes"])
@pytest.mark.parametrize(
    ("body", "remaining"),
    [
        (
            by_node(a={"Pods": [{"UID": "uid-a"}], "NumPDBViolations": 2}),
            {"a": Victims([VICTIM_A], 2)},
        ),
        (b'{"nodenametometavictims": {"b": {"pods": [{"uid": "uid-b"}]}}}', {"b": CANDIDATES["b"]}),
        (b"{}", {}),
        (reply_with(NodeNameToMetaVictims=None), {}),
    ],
)
def test_preempt_takes(
    body: bytes,
    remaining: dict[str, Victims],
    node_cache_capable: bool,  # noqa: FBT001  # given by name
    serve_reply: Callable[..., str],
    new_extender: Callable[..., Extender],
) -> None:
    extender = new_extender(
        serve_reply(body), preempt_verb="preempt", node_cache_capable=node_cache_capable
    )
    assert extender.preempt(POD, CANDIDATES) == remaining


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (by_node(a={"Pods": []}), "returns a without victims"),
        (by_node(a={}), "returns a without victims"),
        (by_node(a={"Pods": [{"UID": "uid-b"}]}), "not on a: uid-b"),
        (by_node(z={"Pods": [{"UID": "uid-a"}]}), "z, which is no known node"),
        # kube-scheduler itself crashes on these two.
        (by_node(a=None), "does not decode"),
        (by_node(a={"Pods": [None]}), "does not decode"),
        (reply_with(NodeNameToMetaVictims=[]), "does not decode"),
    ],
)
def test_preempt_fails(
    body: bytes,
    message: str,
    serve_reply: Callable[..., str],
    new_extender: Callable[..., Extender],
) -> None:
    extender = new_extender(serve_reply(body), preempt_verb="preempt")
    with pytest.raises(ExtenderError, match=message):
        extender.preempt(POD, CANDIDATES)


def test_preempt_drops_nodes_without_victims_of_ignorable_extenders(
    serve_reply: Callable[..., str], new_extender: Callable[..., Extender]
) -> None:
    url = serve_reply(by_node(a={"Pods": []}, b={"Pods": [{"UID": "uid-b"}]}))
    extender = new_extender(url, preempt_verb="preempt", ignorable=True)
    assert extender.preempt(POD, CANDIDATES) == {"b": CANDIDATES["b"]}


def test_preempt_may_pick_other_pods_and_nodes_of_the_cluster(
    serve_reply: Callable[..., str], new_extender: Callable[..., Extender]
) -> None:
    url = serve_reply(by_node(c={"Pods": [{"UID": "uid-c"}]}))
    other = make_pod("other", uid="uid-c")
    extender = new_extender(url, preempt_verb="preempt")
    assert extender.preempt(POD, CANDIDATES, {"c": [other]}) == {"c": Victims([other])}


def test_bind_sends_pod_and_node(
    serve_app: Callable[[Any], str], new_extender: Callable[..., Extender]
) -> None:
    bodies = []

    async def record(request: Request) -> Response:
        bodies.append(await request.json())
        return Response(b'{"Error": ""}')

    url = serve_app(Starlette(routes=[Route("/bind", record, methods=["POST"])]))
    new_extender(url, bind_verb="bind").bind(POD, "a")
    assert bodies == [{"PodName": "pod", "PodNamespace": "default", "PodUID": "u", "Node": "a"}]


def test_bind_fails_with_what_the_extender_reports(
    serve_reply: Callable[..., str], new_extender: Callable[..., Extender]
) -> None:
    extender = new_extender(serve_reply(b'{"error": "node is gone"}'), bind_verb="bind")
    with pytest.raises(ExtenderError, match="reports an error: node is gone"):
        extender.bind(POD, "a")


def test_verbs_that_the_extender_has_not(new_extender: Callable[..., Extender]) -> None:
    extender = new_extender("http://127.0.0.1:9")
    assert extender.filter(POD, NODES).kept == NODES
    assert extender.prioritize(POD, NODES) == {}
    with pytest.raises(ExtenderError, match="no preempt verb"):
        extender.preempt(POD, CANDIDATES)
    with pytest.raises(ExtenderError, match="no bind verb"):
        extender.bind(POD, "a")


HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("pieces", "error", "message"),
    [
        pytest.param(
            [HEADERS + b"Transfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n"],
            MisleadingReplyError,
            "no Content-Length",
            id="chunked",
        ),
        pytest.param(
            [HEADERS + b"Connection: close\r\n\r\n[]"],
            MisleadingReplyError,
            "no Content-Length",
            id="no length",
        ),
        pytest.param([], ExtenderError, "cannot be asked", id="dropped connection"),
        pytest.param([b"not HTTP\r\n\r\n"], ExtenderError, "cannot be asked", id="not HTTP"),
        pytest.param(
            [HEADERS + b"Content-Length: 9\r\n\r\n[]"],
            ExtenderError,
            "cannot be asked",
            id="cut short",
        ),
        pytest.param(
            [HEADERS + b"Content-Length: 100\r\n\r\n", *[b" "] * 40],
            ExtenderError,
            "took more than 0.3 s",
            id="a trickle",
        ),
    ],
)
def test_transport_fails(
    pieces: list[bytes],
    error: type[ExtenderError],
    message: str,
    serve_bytes: Callable[..., str],
    new_extender: Callable[..., Extender],
) -> None:
    def answer(connection: Any) -> None:
        for piece in pieces:
            connection.write(piece)
            time.sleep(0.05)

    extender = new_extender(serve_bytes(answer), prioritize_verb="prioritize", timeout=0.3)
    with pytest.raises(ExtenderError, match=message) as caught:
        extender.prioritize(POD, NODES)
    assert type(caught.value) is error


def test_silence_fails_after_the_timeout(
    serve_bytes: Callable[..., str], new_extender: Callable[..., Extender]
) -> None:
    url = serve_bytes(lambda _: time.sleep(0.5))
    extender = new_extender(url, prioritize_verb="prioritize", timeout=0.1)
    with pytest.raises(ExtenderError, match=r"took more than 0\.1 s"):
        extender.prioritize(POD, NODES)


def test_nobody_listening_fails(new_extender: Callable[..., Extender]) -> None:
    extender = new_extender("http://127.0.0.1:9", filter_verb="filter")
    with pytest.raises(ExtenderError, match="cannot be asked"):
        extender.filter(POD, NODES)


def test_compressed_replies_are_read(
    serve_bytes: Callable[..., str], new_extender: Callable[..., Extender]
) -> None:
    body = gzip.compress(b'[{"Host": "a", "Score": 1}]')
    length = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    url = serve_bytes(lambda connection: connection.write(HEADERS + length + body))
    assert new_extender(url, prioritize_verb="p").prioritize(POD, NODES) == {"a": 1}


def test_proxies_are_not_asked(
    serve_reply: Callable[..., str],
    new_extender: Callable[..., Extender],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert new_extender(serve_reply(b"[]"), prioritize_verb="p").prioritize(POD, NODES) == {}


@pytest.mark.parametrize(
    ("file", "node_cache_capable"),
    [
        (f"{verb}.{mode}.{pod}.json", mode == "names")
        for verb in ("filter", "prioritize")
        for mode in ("names", "full")
        for pod in ("test-pod", "no-requests")
    ],
)
def test_asks_as_recorded(
    file: str,
    node_cache_capable: bool,  # noqa: FBT001  # given by name
    data: Path,
    new_extender: Callable[..., Extender],
) -> None:
    recorded = json.loads((data / file).read_text())
    names = [{"metadata": {"name": name}} for name in recorded["NodeNames"] or ()]
    nodes = names or recorded["Nodes"]["items"]
    extender = new_extender("http://127.0.0.1", node_cache_capable=node_cache_capable)
    assert extender.args(recorded["Pod"], nodes) == recorded


@pytest.mark.parametrize("mode", ["names", "full"])
def test_asks_to_preempt_as_recorded(
    mode: str, data: Path, new_extender: Callable[..., Extender]
) -> None:
    recorded = json.loads((data / f"preempt.{mode}.preemptor.json").read_text())
    if mode == "names":
        candidates = {
            node: Victims([{"metadata": {"uid": pod["UID"]}} for pod in victims["Pods"]])
            for node, victims in recorded["NodeNameToMetaVictims"].items()
        }
    else:
        candidates = {
            node: Victims(victims["Pods"])
            for node, victims in recorded["NodeNameToVictims"].items()
        }
    extender = new_extender("http://127.0.0.1", node_cache_capable=mode == "names")
    assert extender.preemption_args(recorded["Pod"], candidates) == recorded


def test_url_and_headers(
    serve_app: Callable[[Any], str], new_extender: Callable[..., Extender]
) -> None:
    seen = {}

    async def record(request: Request) -> Response:
        seen.update(request.headers)
        return Response(b"[]")

    url = serve_app(Starlette(routes=[Route("/prefix/some/verb", record, methods=["POST"])]))
    new_extender(f"{url}/prefix//", prioritize_verb="some/verb").prioritize(POD, NODES)
    assert seen["content-type"] == "application/json"
    assert seen["accept-encoding"] == "gzip"
    assert seen["connection"] == "keep-alive"


GPU = {"requests": {"example.com/gpu": "1"}}


@pytest.mark.parametrize(
    ("pod", "is_of_interest"),
    [
        (make_pod(), False),
        ({}, False),
        (make_pod(requests={"example.com/gpu": "1"}), True),
        (make_pod(init_containers=[make_container(requests={"example.com/gpu": "1"})]), True),
        ({"spec": {"containers": [{"resources": {"limits": {"example.com/gpu": "1"}}}]}}, True),
        ({"spec": {"containers": [{"resources": None}], "resources": GPU}}, False),
    ],
)
def test_managed_resources(
    pod: dict[str, object],
    is_of_interest: bool,  # noqa: FBT001  # a column of the table
    new_extender: Callable[..., Extender],
) -> None:
    managed = new_extender("http://127.0.0.1", managed_resources=["example.com/gpu"])
    assert managed.is_interested(pod) is is_of_interest
    assert new_extender("http://127.0.0.1").is_interested(pod) is True


def test_https_needs_whom_to_trust(
    serve_bytes: Callable[..., str], new_extender: Callable[..., Extender]
) -> None:
    authority = trustme.CA()
    ours = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(ours)
    url = serve_bytes(
        lambda connection: connection.write(HEADERS + b"Content-Length: 2\r\n\r\n[]"), ours
    )
    trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(trusting)
    assert new_extender(url, prioritize_verb="p", tls=trusting).prioritize(POD, NODES) == {}
    with pytest.raises(ExtenderError, match="CERTIFICATE_VERIFY_FAILED"):
        new_extender(url, prioritize_verb="p").prioritize(POD, NODES)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ({"a": 1}, {"a": 1, "b": {"c": [], "d": None, "e": False}}, True),
        ({"a": [{"b": None}]}, {"a": [{}]}, True),
        ({"a": True}, {"a": False}, False),
        ({"a": ["x"]}, {"a": []}, False),
        ({"a": ["x", "y"]}, {"a": ["y", "x"]}, False),
    ],
)
def test_same_to_go(
    one: dict[str, object],
    other: dict[str, object],
    same: bool,  # noqa: FBT001  # a column of the table
) -> None:
    assert is_same(one, other) is same


def test_nameless() -> None:
    assert name_of({}) == ""
