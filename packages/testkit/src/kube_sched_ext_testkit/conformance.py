"""What every extender should keep to, ours or another: checks against a URL.

Each check takes a `Target` and raises ConformanceError or ExtenderError with what is wrong. An
extender that serves names and whole nodes is checked as two targets.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

import msgspec

from kube_sched_ext_testkit.builders import JSON, make_node, make_pod
from kube_sched_ext_testkit.errors import ExtenderError
from kube_sched_ext_testkit.scheduler import Extender, RawReply, Victims, name_of

_AT_ONCE: Final = 100
_NOT_JSON: Final = (b"", b"{", b"not JSON", b'{"Pod": ', b"\xff\xfe")
_WRONG_SHAPES: Final = (b"[]", b"5", b'"text"', b'{"Pod": 5}')


class ConformanceError(AssertionError):
    """What an extender does not keep to."""


def _default_nodes() -> list[JSON]:
    return [
        make_node(
            f"node-{index}",
            allocatable={"cpu": str(index), "memory": "8Gi", "pods": "110"},
            images=[(["registry.example/app:1"], 20_000_000 * index)],
        )
        for index in range(1, 5)
    ]


@dataclass(frozen=True)
class Target:
    """An extender to check, and what it is asked about.

    An extender that keeps its own view of the cluster, and fails for names that it does not know,
    needs `nodes` that it knows.
    """

    extender: Extender
    nodes: Sequence[JSON] = field(default_factory=_default_nodes)
    pod: JSON = field(default_factory=lambda: make_pod(requests={"cpu": "250m", "memory": "64Mi"}))

    @property
    def candidates(self) -> dict[str, Victims]:
        """One victim on each of the nodes."""
        return {
            name_of(node): Victims([make_pod(f"victim-{index}")])
            for index, node in enumerate(self.nodes)
        }

    @property
    def requests(self) -> dict[str, JSON]:
        """A good request for each verb that the extender has and that changes nothing."""
        extender = self.extender
        asked = extender.args(self.pod, self.nodes)
        requests = {
            extender.filter_verb: asked,
            extender.prioritize_verb: asked,
            extender.preempt_verb: extender.preemption_args(self.pod, self.candidates),
        }
        return {verb: request for verb, request in requests.items() if verb}

    def post(self, verb: str, message: object) -> RawReply:
        """Post `message`, as JSON unless it is bytes."""
        content = message if isinstance(message, bytes) else msgspec.json.encode(message)
        return self.extender.request("POST", verb, content)


Check = Callable[[Target], None]


def refuses_what_is_no_request(target: Target) -> None:
    """A body that is not JSON, or of the wrong shape: 400 and {"Error": "..."}."""
    for verb in target.requests:
        for content in (*_NOT_JSON, *_WRONG_SHAPES):
            reply = target.post(verb, content)
            _expect(reply, HTTPStatus.BAD_REQUEST, f"POST {verb} with {content!r}")
            _check_error_text(reply, f"POST {verb} with {content!r}")


def refuses_other_methods(target: Target) -> None:
    """GET where only POST makes sense: 405."""
    for verb in target.requests:
        reply = target.extender.request("GET", verb)
        _expect(reply, HTTPStatus.METHOD_NOT_ALLOWED, f"GET {verb}")


def refuses_unknown_paths(target: Target) -> None:
    """A path that is no verb: 404."""
    verb = "no-such-verb"
    _expect(target.post(verb, {}), HTTPStatus.NOT_FOUND, f"POST {verb}")


def keeps_connection_after_error(target: Target) -> None:
    """A refused request does not cost the connection that it came on."""
    for verb, request in target.requests.items():
        refused = target.post(verb, b"{")
        answered = target.post(verb, request)
        if refused.connection != answered.connection:
            raise ConformanceError(f"POST {verb}: the connection is closed after an error")


def sends_content_length(target: Target) -> None:
    """Content-Length on every reply: without one a connection may be of no use afterwards."""
    for verb, request in target.requests.items():
        for content in (request, b"{"):
            if "content-length" not in target.post(verb, content).headers:
                raise ConformanceError(f"POST {verb}: a reply has no Content-Length")


def takes_keys_in_any_case(target: Target) -> None:
    """Keys in lower case mean the same: Go takes any, and older schedulers send these."""
    for verb, request in target.requests.items():
        lower = {key.lower(): value for key, value in request.items()}
        _expect_same_answer(target, verb, lower, "keys in lower case")


def skips_unknown_keys(target: Target) -> None:
    """A newer kube-scheduler may send more than is known today."""
    for verb, request in target.requests.items():
        more = {"FutureField": {"nested": [1, None]}, **request}
        more["Pod"] = {"futureField": True, **target.pod}
        _expect_same_answer(target, verb, more, "unknown keys")


def filter_accounts_for_each_node(target: Target) -> None:
    """Each node asked about is kept or has a reason, whichever others are asked about."""
    for nodes in (target.nodes, target.nodes[::-1], target.nodes[:1]):
        outcome = target.extender.filter(target.pod, nodes)
        asked = {name_of(node) for node in nodes}
        if missing := asked - set(outcome.kept_names) - set(outcome.reasons):
            raise ConformanceError(f"neither kept nor given a reason: {', '.join(sorted(missing))}")


def filter_answers_without_nodes(target: Target) -> None:
    """No node asked about: none kept, and no error."""
    target.extender.filter(target.pod, [])


def prioritize_scores_each_node(target: Target) -> None:
    """Integers 0 to 10 for nodes asked about, each scored at most once."""
    for nodes in (target.nodes, target.nodes[::-1], target.nodes[:1]):
        target.extender.prioritize(target.pod, nodes)


def prioritize_answers_without_nodes(target: Target) -> None:
    """No node asked about: no score, and no error."""
    target.extender.prioritize(target.pod, [])


def preempt_returns_candidates(target: Target) -> None:
    """The reply has some of the candidates, each with victims that are on it."""
    target.extender.preempt(target.pod, target.candidates)


def answers_many_at_once(target: Target) -> None:
    """A hundred requests at once get what they get one by one."""
    count = len(target.nodes)
    subsets = [
        [*target.nodes[start:], *target.nodes[:start]][: 1 + start] for start in range(count)
    ]

    def ask(subset: int) -> object:
        nodes = subsets[subset % count]
        extender = target.extender
        return extender.filter(target.pod, nodes), extender.prioritize(target.pod, nodes)

    expected = [ask(subset) for subset in range(count)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for subset, answer in enumerate(pool.map(ask, range(_AT_ONCE))):
            if answer != expected[subset % count]:
                raise ConformanceError(
                    f"asked at once with others, the answer is {answer}; "
                    f"alone it was {expected[subset % count]}"
                )


_OF_FILTER: Final[tuple[Check, ...]] = (filter_accounts_for_each_node, filter_answers_without_nodes)
_OF_PRIORITIZE: Final[tuple[Check, ...]] = (
    prioritize_scores_each_node,
    prioritize_answers_without_nodes,
)
_OF_ALL: Final[tuple[Check, ...]] = (
    refuses_what_is_no_request,
    refuses_other_methods,
    refuses_unknown_paths,
    keeps_connection_after_error,
    sends_content_length,
    takes_keys_in_any_case,
    skips_unknown_keys,
)


def checks_for(
    *, filter_verb: bool = True, prioritize_verb: bool = True, preempt_verb: bool = False
) -> list[Check]:
    """Return the checks for an extender with these verbs, made to parametrize a test with."""
    checks = list(_OF_ALL)
    checks += _OF_FILTER if filter_verb else ()
    checks += _OF_PRIORITIZE if prioritize_verb else ()
    checks += (answers_many_at_once,) if filter_verb or prioritize_verb else ()
    checks += (preempt_returns_candidates,) if preempt_verb else ()
    return checks


def check_extender(target: Target) -> None:
    """Run all checks that the verbs of the extender call for.

    Raises:
        ConformanceError: everything that was found.
    """
    extender = target.extender
    problems = []
    for check in checks_for(
        filter_verb=bool(extender.filter_verb),
        prioritize_verb=bool(extender.prioritize_verb),
        preempt_verb=bool(extender.preempt_verb),
    ):
        try:
            check(target)
        except (ConformanceError, ExtenderError) as error:
            problems.append(f"{check.__name__}: {error}")
    if problems:
        raise ConformanceError("\n".join(problems))


def _expect(reply: RawReply, status: HTTPStatus, what: str) -> None:
    if reply.status != status:
        raise ConformanceError(f"{what}: answers {reply.status}, not {status}")


def _check_error_text(reply: RawReply, what: str) -> None:
    answer = _decoded(reply)
    text = answer.get("Error") if isinstance(answer, dict) else None
    if not (isinstance(text, str) and text):
        raise ConformanceError(f'{what}: answers {reply.body!r}, not {{"Error": "..."}}')


def _expect_same_answer(target: Target, verb: str, message: JSON, what: str) -> None:
    usual = target.post(verb, target.requests[verb])
    other = target.post(verb, message)
    if other.status != usual.status or _decoded(other) != _decoded(usual):
        raise ConformanceError(
            f"POST {verb} with {what}: answers {other.status} {other.body!r}, "
            f"not {usual.status} {usual.body!r}"
        )


def _decoded(reply: RawReply) -> Any:
    try:
        return msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, UnicodeError):
        return None
