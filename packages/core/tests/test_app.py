"""The application: paths, verbs, bad input."""

import json
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import msgspec
import numpy as np
import pytest
from core_servers import Recorder, ask
from starlette.applications import Starlette

from kube_sched_ext import (
    Agent,
    LazyExplanation,
    NodeReader,
    Nodes,
    NoSettings,
    Pod,
    Scores,
    Verdict,
    create_app,
    predicate,
    priority,
    setting,
)
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.logs import Level as LogLevel
from kube_sched_ext.objects import Node
from kube_sched_ext.verbs import UNKNOWN_NODE, Verbs, new_table
from kube_sched_ext.version import VERSION
from kube_sched_ext.wire import decode_args
from kube_sched_ext_testkit.builders import JSON, make_node, make_pod

Serve = Callable[[Starlette], int]


class LevelSettings(msgspec.Struct, frozen=True):
    """What is too high."""

    limit: Annotated[int, setting("LIMIT", "The highest level that stays.")] = 5


class Level(Agent[LevelSettings]):
    """Reads one annotation: rejects levels above a limit, scores the level."""

    name = "level"
    settings_type = LevelSettings
    columns = ("level",)

    def row(self, node: NodeReader) -> Sequence[float]:
        """Read the level."""
        return (node.annotation("level"),)

    @predicate("level")
    def rejects(self, pod: Pod, nodes: Nodes) -> Verdict:
        """Reject what is above the limit."""
        [levels] = nodes.columns
        return Verdict({"level too high": levels > self.settings.limit}, {"level": levels})

    @priority("level")
    def likes(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score the level."""
        [levels] = nodes.columns
        return Scores(np.nan_to_num(levels, nan=0).astype(int), {"level": levels})


class Even(Agent[NoSettings]):
    """Rejects even levels, which evictions can help."""

    name = "even"
    columns = ("level",)

    def row(self, node: NodeReader) -> Sequence[float]:
        """Read the level."""
        return (node.annotation("level"),)

    @predicate("even", preemption_can_help=True)
    def rejects(self, pod: Pod, nodes: Nodes) -> Verdict:
        """Reject 4 for one reason, and all even levels for another."""
        [levels] = nodes.columns
        return Verdict({"four": levels == 4, "even": levels % 2 == 0})

    @priority("ten")
    def likes(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score 10."""
        return Scores(np.full(len(nodes), 10))


class Raising(Agent[NoSettings]):
    """Raises for a pod named after the fact."""

    name = "raising"

    @predicate("raising")
    def rejects(self, pod: Pod, nodes: Nodes) -> Verdict:
        """Raise, or accept."""
        if pod.metadata.name == "trouble":
            raise RuntimeError("out of luck")
        return Verdict()

    @priority("raising")
    def likes(self, pod: Pod, nodes: Nodes) -> Scores:
        """Raise, or score out of range."""
        self.rejects(pod, nodes)
        return Scores(np.full(len(nodes), 11 if pod.metadata.name == "wild" else 1))


LEVELS = {"n1": 1, "n4": 4, "n6": 6, "n9": 9}
CLUSTER = [make_node(name, annotations={"level": str(level)}) for name, level in LEVELS.items()]


@pytest.fixture
def app_of(recorder: Recorder) -> Callable[..., Starlette]:
    """Make applications that know CLUSTER."""

    def make(*agents: Agent[Any], **settings: Any) -> Starlette:
        table = new_table(agents, recorder.instruments.problems)
        for node in CLUSTER:
            table.put(msgspec.json.decode(msgspec.json.encode(node), type=Node))
        return create_app(
            agents,
            settings=CoreSettings(**settings),
            table=table,
            instruments=recorder.instruments,
        )

    return make


def by_name(*names: str, pod: JSON | None = None) -> bytes:
    return json.dumps({"Pod": pod or make_pod(), "Nodes": None, "NodeNames": names}).encode()


def whole(*nodes: JSON) -> bytes:
    return json.dumps(
        {"Pod": make_pod(), "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": None}
    ).encode()


def scores_of(reply: object) -> dict[str, int]:
    assert isinstance(reply, list)
    return {entry["Host"]: entry["Score"] for entry in reply}


def test_a_filter_answers_names_with_names(serve_app: Serve, app_of: Any) -> None:
    """Those that stay, in their order, and why the others do not."""
    port = serve_app(app_of(Level()))
    reply = ask(port, "POST", "/scheduler/predicates/level", by_name("n9", "n4", "n6", "n1"))
    assert reply.json == {
        "Nodes": None,
        "NodeNames": ["n4", "n1"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"n9": "level too high", "n6": "level too high"},
        "Error": "",
    }
    assert reply.headers["content-length"] == str(len(reply.body))
    assert reply.headers["content-type"] == "application/json"


def test_a_filter_answers_whole_nodes_with_the_same_bytes(serve_app: Serve, app_of: Any) -> None:
    """Later plugins read them."""
    kept = b'{ "metadata" : {"name":"w1","annotations":{"level":"1"}},\n "x": [1.50, "\\u00e9"] }'
    dropped = b'{"metadata":{"name":"w9","annotations":{"level":"9"}}}'
    body = b'{"Pod":{},"Nodes":{"metadata":{"a":1},"items":[' + dropped + b"," + kept + b"]}}"
    reply = ask(serve_app(app_of(Level())), "POST", "/scheduler/predicates/level", body)
    assert b'"items":[' + kept + b"]" in reply.body
    parsed: Any = reply.json
    assert parsed["NodeNames"] is None
    assert parsed["FailedAndUnresolvableNodes"] == {"w9": "level too high"}


def test_a_predicate_that_evictions_can_help_uses_failed_nodes(
    serve_app: Serve, app_of: Any
) -> None:
    """And a node shows the first of its reasons."""
    port = serve_app(app_of(Even()))
    reply: Any = ask(port, "POST", "/scheduler/predicates/even", by_name(*LEVELS)).json
    assert reply["FailedNodes"] == {"n4": "four", "n6": "even"}
    assert reply["FailedAndUnresolvableNodes"] == {}


@pytest.mark.parametrize("body", [by_name(*LEVELS), whole(*CLUSTER)], ids=["names", "whole"])
def test_a_priority_scores_each_node(serve_app: Serve, app_of: Any, body: bytes) -> None:
    """Alike in both modes."""
    reply = ask(serve_app(app_of(Level())), "POST", "/scheduler/priorities/level", body)
    assert scores_of(reply.json) == LEVELS


def test_all_predicates_are_asked_in_turn(serve_app: Serve, app_of: Any) -> None:
    """What one rejects the next is not asked about; each reason is kept."""
    port = serve_app(app_of(Level(), Even()))
    reply: Any = ask(port, "POST", "/scheduler/filter", by_name(*LEVELS)).json
    assert reply["NodeNames"] == ["n1"]
    assert reply["FailedAndUnresolvableNodes"] == {"n6": "level too high", "n9": "level too high"}
    assert reply["FailedNodes"] == {"n4": "four"}


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ({}, {"n1": 6, "n4": 7, "n6": 8, "n9": 10}),
        ({"level": 3}, {"n1": 3, "n4": 6, "n6": 7, "n9": 9}),
        ({"ten": 0}, LEVELS),
    ],
)
def test_all_priorities_make_the_weighted_mean(
    serve_app: Serve, app_of: Any, weights: dict[str, int], expected: dict[str, int]
) -> None:
    """Of the integers, halves rounded up; those not named weigh 1."""
    port = serve_app(app_of(Level(), Even(), priority_weights=weights))
    reply = ask(port, "POST", "/scheduler/prioritize", by_name(*LEVELS))
    assert scores_of(reply.json) == expected


def test_a_predicate_can_be_left_out_where_all_are_asked(serve_app: Serve, app_of: Any) -> None:
    """It keeps its own path."""
    port = serve_app(app_of(Level(), Even(), except_predicates="level"))
    reply: Any = ask(port, "POST", "/scheduler/filter", by_name(*LEVELS)).json
    assert reply["NodeNames"] == ["n1", "n9"]
    reply = ask(port, "POST", "/scheduler/predicates/level", by_name(*LEVELS)).json
    assert reply["NodeNames"] == ["n1", "n4"]


def test_weights_do_not_touch_a_priority_asked_alone(serve_app: Serve, app_of: Any) -> None:
    """Weight 0 leaves it out of the mean only."""
    port = serve_app(app_of(Level(), Even(), priority_weights={"level": 0}))
    reply = ask(port, "POST", "/scheduler/priorities/level", by_name(*LEVELS))
    assert scores_of(reply.json) == LEVELS


@pytest.mark.parametrize("path", ["predicates/level", "filter"])
def test_unknown_names_are_kept_and_counted(
    serve_app: Serve, app_of: Any, recorder: Recorder, path: str
) -> None:
    """A node that has just joined must not be lost."""
    port = serve_app(app_of(Level()))
    reply: Any = ask(port, "POST", f"/scheduler/{path}", by_name("new", "n1", "n9")).json
    assert reply["NodeNames"] == ["new", "n1"]
    assert recorder.count("kube_sched_ext_unknown_nodes_total") == 1


def test_unknown_names_score_as_nodes_without_data(serve_app: Serve, app_of: Any) -> None:
    """Whatever the agent makes of that."""
    port = serve_app(app_of(Level()))
    reply = ask(port, "POST", "/scheduler/priorities/level", by_name("new", "n4"))
    assert scores_of(reply.json) == {"new": 0, "n4": 4}


def test_unknown_names_are_dropped_where_the_setting_says_so(serve_app: Serve, app_of: Any) -> None:
    """Rejected with a reason, and left out of scores."""
    port = serve_app(app_of(Level(), unknown_nodes="drop"))
    reply: Any = ask(port, "POST", "/scheduler/filter", by_name("new", "n1")).json
    assert reply["NodeNames"] == ["n1"]
    assert reply["FailedAndUnresolvableNodes"] == {"new": UNKNOWN_NODE}
    scores = ask(port, "POST", "/scheduler/priorities/level", by_name("new", "n1"))
    assert scores_of(scores.json) == {"n1": 1}


def meta(**pods: int) -> dict[str, object]:
    return {
        name: {
            "Pods": [{"UID": f"{name}-{index}"} for index in range(count)],
            "NumPDBViolations": 1,
        }
        for name, count in pods.items()
    }


def test_preemption_drops_nodes_that_evictions_cannot_help(serve_app: Serve, app_of: Any) -> None:
    """Those a steadfast predicate rejects, and those without victims; the rest comes back."""
    port = serve_app(app_of(Level(), Even()))
    victims = meta(n1=1, n4=2, n9=1, new=1, n6=0)
    body = json.dumps({"Pod": make_pod(), "NodeNameToMetaVictims": victims}).encode()
    reply = ask(port, "POST", "/scheduler/preemption", body)
    assert reply.json == {
        "NodeNameToMetaVictims": {name: victims[name] for name in ("n1", "n4", "new")}
    }


def test_preemption_answers_whole_victims_by_uid(serve_app: Serve, app_of: Any) -> None:
    """Always the meta form."""
    pods = [make_pod("v", uid="u-1"), make_pod("w", uid="u-2")]
    victims = {"n1": {"Pods": pods, "NumPDBViolations": 0}, "n9": {"Pods": pods}, "n4": {}}
    body = json.dumps({"Pod": make_pod(), "NodeNameToVictims": victims}).encode()
    reply = ask(serve_app(app_of(Level())), "POST", "/scheduler/preemption", body)
    kept = {"Pods": [{"UID": "u-1"}, {"UID": "u-2"}], "NumPDBViolations": 0}
    assert reply.json == {"NodeNameToMetaVictims": {"n1": kept}}


def test_an_empty_list_of_nodes_is_answered(serve_app: Serve, app_of: Any) -> None:
    """With an empty list."""
    port = serve_app(app_of(Level()))
    reply: Any = ask(port, "POST", "/scheduler/filter", by_name()).json
    assert reply["NodeNames"] == []
    assert ask(port, "POST", "/scheduler/prioritize", by_name()).json == []
    assert ask(port, "POST", "/scheduler/prioritize", whole()).json == []


@pytest.mark.parametrize(
    ("settings", "path"),
    [
        (
            {
                "path_prefix": "/my_scheduler_extension",
                "priorities_word": "my_new_priorities",
            },
            "/my_scheduler_extension/my_new_priorities/level",
        ),
        ({"path_prefix": ""}, "/prioritize"),
        ({"path_prefix": "/a/b", "prioritize_word": "rank"}, "/a/b/rank"),
    ],
)
def test_paths_are_settings(
    serve_app: Serve, app_of: Any, settings: dict[str, str], path: str
) -> None:
    """Prefix and words; the prefix may be empty."""
    reply = ask(serve_app(app_of(Level(), **settings)), "POST", path, by_name("n4"))
    assert scores_of(reply.json) == {"n4": 4}


def test_the_version_is_plain_text(serve_app: Serve, app_of: Any) -> None:
    """Under its published path, whatever the prefix."""
    reply = ask(serve_app(app_of(Level(), path_prefix="/x")), "GET", "/version")
    assert reply.body == VERSION.encode()


def test_without_any_priority_there_is_no_path_for_all(serve_app: Serve, app_of: Any) -> None:
    """No score is a score; accepting all nodes is an answer."""

    class Nothing(Agent[NoSettings]):
        """Has no verbs."""

        name = "nothing"

    port = serve_app(app_of(Nothing()))
    assert ask(port, "POST", "/scheduler/prioritize", by_name("n1")).status == 404
    reply: Any = ask(port, "POST", "/scheduler/filter", by_name("n1")).json
    assert reply["NodeNames"] == ["n1"]


@pytest.mark.parametrize(
    ("agents", "settings", "words"),
    [
        ([Level(), Level()], {}, ["agent level is given twice", "/scheduler/predicates/level: is"]),
        ([Level()], {"priority_weights": {"lvl": 1}}, ["lvl is no priority", "those are level"]),
        ([Level()], {"except_predicates": "lvl"}, ["lvl is no predicate", "those are level"]),
        ([Level()], {"priority_weights": {"level": 0}}, ["at least one priority must weigh"]),
        ([Level()], {"path_prefix": "", "filter_word": "version"}, ["/version: is served by"]),
    ],
)
def test_what_cannot_be_served_is_refused(
    agents: list[Agent[Any]], settings: dict[str, Any], words: list[str]
) -> None:
    """All of it at once."""
    with pytest.raises(ConfigurationError) as caught:
        create_app(agents, settings=CoreSettings(**settings))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"http_port": 65000}, "OPS_PORT: is not set"),
        ({"http_port": 80, "ops_port": 80}, "OPS_PORT: 80 is HTTP_PORT too"),
        ({"filter_word": "prioritize"}, "must differ from each other"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, Any], words: str
) -> None:
    """Naming the settings."""
    with pytest.raises(ValueError, match=words):
        CoreSettings(**settings)


def test_all_that_contradicts_is_told_at_once() -> None:
    """Nobody likes to restart for each mistake."""
    with pytest.raises(ValueError, match="OPS_PORT") as caught:
        CoreSettings(
            http_port=65000, only_labels="((", except_labels="))", filter_word="prioritize"
        )
    assert [line.partition(":")[0] for line in str(caught.value).splitlines()] == [
        "OPS_PORT",
        "ONLY_LABELS",
        "EXCEPT_LABELS",
        "PREDICATES_PATH, PRIORITIES_PATH, FILTER_PATH, PRIORITIZE_PATH, PREEMPTION_PATH",
    ]


PATHS = ["/scheduler/filter", "/scheduler/prioritize", "/scheduler/preemption"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[]", b'"x"', b"{}", b'{"Pod": 5}'])
def test_a_bad_body_is_answered_400_with_what_and_where(
    serve_app: Serve, app_of: Any, recorder: Recorder, path: str, body: bytes
) -> None:
    """Never a dropped connection, and the next call is served."""
    port = serve_app(app_of(Level()))
    reply = ask(port, "POST", path, body)
    assert reply.status == 400
    assert isinstance(reply.json, dict)
    assert list(reply.json) == ["Error"]
    assert recorder.count("kube_sched_ext_refused_requests_total", status="400") == 1
    assert ask(port, "POST", "/scheduler/filter", by_name("n1")).status == 200


def test_neither_nodes_nor_names_is_400(serve_app: Serve, app_of: Any) -> None:
    """It says so."""
    port = serve_app(app_of(Level()))
    reply = ask(port, "POST", "/scheduler/filter", b'{"Pod": {}, "Nodes": null}')
    assert (reply.status, reply.json) == (
        400,
        {"Error": "the request has neither Nodes nor NodeNames"},
    )


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/scheduler/predicates/nope", 404),
        ("POST", "/scheduler/filter/", 404),
        ("GET", "/", 404),
        ("GET", "/scheduler/filter", 405),
        ("PUT", "/scheduler/filter", 405),
        ("POST", "/version", 405),
    ],
)
def test_an_unknown_path_or_method_lists_what_is_known(
    serve_app: Serve, app_of: Any, method: str, path: str, status: int
) -> None:
    """404 and 405, with the path that was asked."""
    reply = ask(serve_app(app_of(Level())), method, path, b"")
    assert reply.status == status
    error = reply.json["Error"]  # type: ignore[index]
    assert error.startswith(f"{method} {path}: ")
    for known in ("GET /version", "POST /scheduler/predicates/level", "POST /scheduler/filter"):
        assert known in error
    assert ("allow" in reply.headers) == (status == 405)


def send(port: int, data: bytes) -> bytes:
    """Send bytes and return all that comes back until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(data)
        return client.makefile("rb").read()


HEAD = b"POST /scheduler/filter HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01\x02\x00\r\n\r\n", b"hello\r\n\r\n", HEAD + b"Content-Length: x\r\n\r\n"]
)
def test_what_is_not_http_is_answered_400(serve_app: Serve, app_of: Any, data: bytes) -> None:
    """By uvicorn; the next call is served."""
    port = serve_app(app_of(Level()))
    assert send(port, data).startswith(b"HTTP/1.1 400")
    assert ask(port, "POST", "/scheduler/filter", by_name("n1")).status == 200


def test_a_body_declared_over_the_limit_is_refused_unread(serve_app: Serve, app_of: Any) -> None:
    """413, after the head alone."""
    port = serve_app(app_of(Level(), max_body_bytes=100))
    reply = send(port, HEAD + b"Content-Length: 101\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 413")
    assert b'{"Error":"the body is larger than MAX_BODY_BYTES = 100"}' in reply


def test_a_body_that_grows_over_the_limit_is_refused(serve_app: Serve, app_of: Any) -> None:
    """413 for chunks too, without waiting for the last."""
    port = serve_app(app_of(Level(), max_body_bytes=100))
    chunk = b"64\r\n" + b" " * 100 + b"\r\n"
    reply = send(port, HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 2)
    assert reply.startswith(b"HTTP/1.1 413")


def test_a_body_at_the_limit_is_taken(serve_app: Serve, app_of: Any) -> None:
    """The limit itself is allowed."""
    body = by_name("n1")
    port = serve_app(app_of(Level(), max_body_bytes=len(body)))
    assert ask(port, "POST", "/scheduler/filter", body).status == 200


def test_a_body_in_chunks_is_read(serve_app: Serve, app_of: Any) -> None:
    """As a client without the length sends it."""
    body = by_name("n1")
    chunks = b"".join(b"%x\r\n%s\r\n" % (1, body[at : at + 1]) for at in range(len(body)))
    port = serve_app(app_of(Level()))
    data = HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"
    assert send(port, data).startswith(b"HTTP/1.1 200")


def test_a_client_that_stalls_is_closed_after_a_time(
    serve_app: Serve, app_of: Any, recorder: Recorder
) -> None:
    """408, and the connection ends."""
    port = serve_app(app_of(Level(), body_timeout_seconds=0.05))
    reply = send(port, HEAD + b"Content-Length: 10\r\n\r\n{")
    assert reply.startswith(b"HTTP/1.1 408")
    assert b"not complete after 0.05 s" in reply
    assert recorder.count("kube_sched_ext_refused_requests_total", status="408") == 1


def test_a_client_that_leaves_within_its_body_harms_nobody(
    serve_app: Serve, app_of: Any, recorder: Recorder
) -> None:
    """The next call is served."""
    port = serve_app(app_of(Level()))
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(HEAD + b"Content-Length: 10\r\n\r\n{")
    assert ask(port, "POST", "/scheduler/filter", by_name("n1")).status == 200
    while not recorder.count("kube_sched_ext_refused_requests_total", status="400"):
        pass


def test_a_filter_that_raises_answers_an_error(
    serve_app: Serve, app_of: Any, recorder: Recorder
) -> None:
    """200 with Error, logged with the pod; the next call is served."""
    port = serve_app(app_of(Raising()))
    body = by_name("n1", pod=make_pod("trouble"))
    reply = ask(port, "POST", "/scheduler/predicates/raising", body)
    error = "predicate raising: RuntimeError('out of luck')"
    assert reply.status == 200
    assert reply.json == {
        "Nodes": None,
        "NodeNames": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": error,
    }
    assert ask(port, "POST", "/scheduler/predicates/raising", by_name("n1")).status == 200
    labels = {"verb": "filter", "name": "raising"}
    assert recorder.count("kube_sched_ext_failed_calls_total", **labels) == 1
    [line] = [line for line in recorder.lines() if line["level"] == "ERROR"]
    assert line["pod"] == "default/trouble"
    assert "out of luck" in str(line["exception"])


@pytest.mark.parametrize(
    ("pod", "words"), [("trouble", "out of luck"), ("wild", "scores from 11 to 11")]
)
def test_a_priority_that_raises_answers_500(
    serve_app: Serve, app_of: Any, pod: str, words: str
) -> None:
    """So does one whose scores would distort the sum; the next call is served."""
    port = serve_app(app_of(Raising()))
    path = "/scheduler/priorities/raising"
    reply = ask(port, "POST", path, by_name("n1", pod=make_pod(pod)))
    assert reply.status == 500
    assert words in reply.json["Error"]  # type: ignore[index]
    assert ask(port, "POST", path, by_name("n1")).status == 200


def test_preemption_with_a_predicate_that_raises_answers_500(serve_app: Serve, app_of: Any) -> None:
    """Evicting on a guess would lose pods for nothing."""
    body = json.dumps({"Pod": make_pod("trouble"), "NodeNameToMetaVictims": meta(n1=1)}).encode()
    reply = ask(serve_app(app_of(Raising())), "POST", "/scheduler/preemption", body)
    assert reply.status == 500


def test_a_hundred_clients_at_once_are_answered_each_their_own(
    serve_app: Serve, app_of: Any
) -> None:
    """None mixed up."""
    port = serve_app(app_of(Level()))
    replies: dict[int, object] = {}

    def call(number: int) -> None:
        nodes = [make_node(f"c{number}-{it}", annotations={"level": str(it)}) for it in range(9)]
        replies[number] = ask(port, "POST", "/scheduler/priorities/level", whole(*nodes)).json

    threads = [threading.Thread(target=call, args=(number,)) for number in range(100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replies) == 100
    for number, reply in replies.items():
        assert scores_of(reply) == {f"c{number}-{it}": it for it in range(9)}


def test_each_call_is_logged_on_one_line(serve_app: Serve, app_of: Any, recorder: Recorder) -> None:
    """Agent, verb, pod, nodes in and out, milliseconds."""
    port = serve_app(app_of(Level()))
    ask(port, "POST", "/scheduler/predicates/level", by_name("n1", "n9"))
    ask(port, "POST", "/scheduler/prioritize", by_name("n1", "n9"))
    body = json.dumps({"Pod": make_pod(), "NodeNameToMetaVictims": meta(n1=1, n9=1)}).encode()
    ask(port, "POST", "/scheduler/preemption", body)
    lines = recorder.lines(last="preempt")
    assert [
        (line["event"], line["name"], line["nodes_in"], line["nodes_out"]) for line in lines
    ] == [
        ("filter", "level", 2, 1),
        ("prioritize", "", 2, 2),
        ("preempt", "", 2, 1),
    ]
    for line in lines:
        assert (line["agent"], line["pod"], line["level"]) == ("level", "default/pod", "INFO")
        assert isinstance(line["ms"], float)


def test_debug_tells_each_score_and_trace_what_it_was_made_of(serve_app: Serve) -> None:
    """A line per node, then the explanation and the reply."""
    recorder = Recorder("TRACE")
    app = create_app([Level()], instruments=recorder.instruments)
    body = whole(make_node("n9", annotations={"level": "9"}))
    port = serve_app(app)
    ask(port, "POST", "/scheduler/priorities/level", body)
    ask(port, "POST", "/scheduler/predicates/level", body)
    shown = [
        {key: line.get(key) for key in ("event", "level", "node", "score", "verdict")}
        for line in recorder.lines(last="reply", times=2)
        if line["event"] not in ("filter", "prioritize")
    ]
    assert [(line["event"], line["node"], line["score"], line["verdict"]) for line in shown] == [
        ("score", "n9", 9, None),
        ("explanation", "n9", 9, None),
        ("reply", None, None, None),
        ("verdict", "n9", None, False),
        ("explanation", "n9", None, False),
        ("reply", None, None, None),
    ]


def test_an_agent_may_have_its_explanations_told_earlier(serve_app: Serve) -> None:
    """At INFO, without the debug lines."""

    class Talkative(Level):
        """Tells all."""

        explanation_level = "INFO"

    recorder = Recorder("INFO")
    port = serve_app(create_app([Talkative()], instruments=recorder.instruments))
    node = make_node("n9", annotations={"level": "9"})
    ask(port, "POST", "/scheduler/priorities/level", whole(node))
    lines = recorder.lines(last="prioritize")
    assert [line["event"] for line in lines] == ["explanation", "prioritize"]


@pytest.mark.parametrize(("level", "told"), [("DEBUG", []), ("TRACE", [{"weight": 9}])])
def test_what_is_worked_out_late_is_worked_out_where_it_is_told(
    serve_app: Serve, level: LogLevel, told: list[object]
) -> None:
    """And nowhere else: it may take longer than the verb itself."""
    calls = []

    class Thorough(Level):
        """Explains at leisure."""

        @priority("level")
        def likes(self, pod: Pod, nodes: Nodes) -> Scores:
            """Score each node 9."""

            def explain() -> Mapping[str, Any]:
                calls.append(pod)
                return {"weight": scores}

            scores = np.full(len(nodes), 9)
            return Scores(scores, LazyExplanation(explain))

    recorder = Recorder(level)
    port = serve_app(create_app([Thorough()], instruments=recorder.instruments))
    ask(port, "POST", "/scheduler/priorities/level", whole(make_node("n9")))
    lines = recorder.lines(last="prioritize")
    assert [line["made_of"] for line in lines if line["event"] == "explanation"] == told
    assert len(calls) == len(told)


def test_values_that_do_not_parse_are_logged_once_per_node_and_counted(
    serve_app: Serve, app_of: Any, recorder: Recorder
) -> None:
    """However often whole nodes bring them."""
    port = serve_app(app_of(Level()))
    bad = [make_node(name, annotations={"level": "high"}) for name in ("b1", "b2")]
    for _ in range(3):
        reply = ask(port, "POST", "/scheduler/priorities/level", whole(*bad, CLUSTER[0]))
        assert scores_of(reply.json) == {"b1": 0, "b2": 0, "n1": 1}
    labels = {"agent": "level", "key": "level"}
    assert recorder.count("kube_sched_ext_unparsable_values_total", **labels) == 6
    lines = [line for line in recorder.lines() if line["level"] == "WARNING"]
    assert [(line["node"], line["value"]) for line in lines] == [("b1", "high"), ("b2", "high")]


def test_a_request_of_the_pod_that_does_not_parse_is_logged_once(
    serve_app: Serve, app_of: Any, recorder: Recorder
) -> None:
    """And the pod is scored without it."""
    port = serve_app(app_of(Level()))
    body = by_name("n4", pod=make_pod(requests={"cpu": "many"}))
    for _ in range(2):
        reply = ask(port, "POST", "/scheduler/priorities/level", body)
        assert scores_of(reply.json) == {"n4": 4}
    [line] = [line for line in recorder.lines() if line["level"] == "WARNING"]
    assert (line["pod"], line["key"], line["value"]) == ("default/pod", "cpu", "many")


def test_rejections_by_name_are_told_to_whoever_asked(recorder: Recorder) -> None:
    """With the pod, the predicates and the nodes; whole nodes are none that could be watched."""
    agents = [Level(), Even()]
    table = new_table(agents, recorder.instruments.problems)
    for node in CLUSTER:
        table.put(msgspec.json.decode(msgspec.json.encode(node), type=Node))
    verbs = Verbs(agents, table, CoreSettings(), recorder.instruments)
    predicates = [predicate for agent in agents for predicate in agent.predicates]
    told: list[tuple[str, list[str], list[str]]] = []
    verbs.on_rejected = lambda pod, asked, names: told.append(
        (pod.metadata.name, [it.name for it in asked], list(names))
    )
    verbs.filter(predicates, decode_args(by_name("n1")))
    verbs.filter(predicates, decode_args(whole(*CLUSTER)))
    verbs.filter(predicates, decode_args(by_name("n9", "n1", "n4")))
    assert told == [("pod", ["level", "even"], ["n9", "n4"])]


def test_nodes_that_pass_now_can_be_asked_for(recorder: Recorder) -> None:
    """Known ones; nobody is told of the others."""
    agents = [Level()]
    table = new_table(agents, recorder.instruments.problems)
    for node in CLUSTER:
        table.put(msgspec.json.decode(msgspec.json.encode(node), type=Node))
    verbs = Verbs(agents, table, CoreSettings(), recorder.instruments)
    assert verbs.passing(agents[0].predicates, Pod(), ["n9", "new", "n4", "n1"]) == ["n4", "n1"]
    assert recorder.count("kube_sched_ext_unknown_nodes_total") == 0
    assert recorder.count("kube_sched_ext_rejected_nodes_total", name="level") == 0
