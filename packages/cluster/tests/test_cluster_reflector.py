"""A view follows the apiserver through everything that connections and versions can do."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from cluster_fake import GONE, FakeApiserver, Lines, Reply, event, node, status, until
from cluster_told import Told
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kube_sched_ext.objects import Node
from kube_sched_ext_cluster.backoff import Backoff
from kube_sched_ext_cluster.reflector import Reflector, Timing
from kube_sched_ext_cluster.resources import NODES

pytestmark = pytest.mark.anyio

TIMING = Timing(short=0.05, page=2, silence=20.0)


class Recording:
    """A view that notes what it is told, and insists that only what is there is removed."""

    def __init__(self) -> None:
        """Start empty."""
        self.values: dict[str, int] = {}
        self.steps: list[str] = []
        self.threads: set[int] = set()

    def put(self, seen: Node) -> None:
        """Take over a node."""
        self.threads.add(threading.get_ident())
        self.steps.append(f"+{seen.metadata.name}")
        self.values[seen.metadata.name] = int((seen.metadata.annotations or {})["value"])

    def remove(self, key: str) -> None:
        """Forget a node, which must be there."""
        self.steps.append(f"-{key}")
        del self.values[key]


class Watching:
    """A reflector, its view, and the waits that it made."""

    def __init__(self, apiserver: FakeApiserver, told: Told, timing: Timing = TIMING) -> None:
        """Prepare."""
        self.view = Recording()
        self.waits: list[float] = []
        self.reflector = Reflector(
            NODES,
            apiserver.api(),
            self.view,
            told.reports,
            timing=timing,
            backoff=Backoff(1.0, 8.0, chance=lambda: 1.0),
            wait=self.waits.append,
        )
        self.state = self.reflector.state

    async def until(self, check: Callable[[], object]) -> None:
        """Wait until `check` is true, and all that the thread has sent is in the view."""
        await until(lambda: check() and not self.reflector._handover._steps)


@asynccontextmanager
async def watching(
    apiserver: FakeApiserver, told: Told, timing: Timing = TIMING
) -> AsyncIterator[Watching]:
    """Watch until the block ends; the thread must end with it."""
    it = Watching(apiserver, told, timing)
    it.reflector.start()
    try:
        yield it
    finally:
        assert await it.reflector.stop()


async def test_a_list_comes_page_by_page_and_then_changes_follow(
    apiserver: FakeApiserver, told: Told
) -> None:
    """All pages of one version, then a watch from it; changes come on the loop's own thread."""
    for number in range(5):
        apiserver.put(f"n{number}")
    async with watching(apiserver, told) as it:
        await it.reflector.synced()
        assert it.view.values == apiserver.values()
        assert len(apiserver.asked("list")) == 3
        apiserver.put("n5", 1)
        apiserver.put("n0", 2)
        apiserver.delete("n1")
        await it.until(lambda: it.view.values == apiserver.values())
        assert it.view.threads == {threading.get_ident()}
        [watch] = apiserver.asked("watch")
        assert watch.query["resourceVersion"] == "6"
        assert watch.query["allowWatchBookmarks"] == "true"
        assert 300 <= int(watch.query["timeoutSeconds"]) <= 600
        assert watch.headers["user-agent"].startswith("kube-sched-ext/")
        assert it.state.synced
        assert it.state.connected
        assert it.state.objects == 5
        assert it.state.condition(1.0).ok


async def test_nothing_is_synced_before_the_first_list_is_complete(
    apiserver: FakeApiserver, told: Told
) -> None:
    """Half a list is no view of the cluster; health says why it is not there."""
    for number in range(3):
        apiserver.put(f"n{number}")
    apiserver.script["page"] += [Reply(500, status(500, "InternalError", "etcd is slow"))] * 3
    async with watching(apiserver, told) as it:
        it.reflector._wait = lambda _: time.sleep(0.02)
        await it.until(lambda: it.state.ends["InternalError"] == 2)
        condition = it.state.condition(60.0)
        assert not condition.ok
        assert condition.required
        assert "etcd is slow" in condition.detail
        await it.reflector.synced()
        assert it.view.values == apiserver.values()


async def test_an_ordinary_end_resumes_from_the_last_version_without_a_list(
    apiserver: FakeApiserver, told: Told
) -> None:
    """At once, and from where the watch had come to."""
    async with watching(apiserver, told) as it:
        await it.reflector.synced()
        apiserver.put("a")
        await it.until(lambda: it.view.values)
        apiserver.end_watches()
        apiserver.put("b")
        await it.until(lambda: it.view.values == apiserver.values())
        assert [watch.query["resourceVersion"] for watch in apiserver.asked("watch")] == ["1", "2"]
        assert len(apiserver.asked("list")) == 1
        assert it.waits == []
        assert it.state.ends == {"Closed": 1}


async def test_a_connection_cut_in_the_middle_of_a_line_loses_nothing(
    apiserver: FakeApiserver, told: Told
) -> None:
    """The half line is dropped, its change comes again."""
    apiserver.script["watch"].append(Lines([event("ADDED", 2, "a", 7)], end="cut"))
    async with watching(apiserver, told) as it:
        await it.until(lambda: it.state.watches == 2)
        assert it.view.values == {"a": 7}
        assert apiserver.asked("watch")[1].query["resourceVersion"] == "2"
        assert len(apiserver.asked("list")) == 1
        assert it.state.ends == {"Disconnected": 1}
        assert it.waits == []


async def test_a_watch_that_falls_silent_is_given_up(apiserver: FakeApiserver, told: Told) -> None:
    """Nothing, not even a bookmark, for longer than bookmarks take: the connection is dead."""
    apiserver.script["watch"].append(Lines([event("ADDED", 2, "a")], end="hang"))
    async with watching(apiserver, told, Timing(silence=0.1, short=0.05)) as it:
        await it.until(lambda: it.state.ends["Silent"] >= 1)
        await it.until(lambda: len(apiserver.asked("watch")) >= 2)
        assert apiserver.asked("watch")[1].query["resourceVersion"] == "2"
        assert len(apiserver.asked("list")) == 1
        assert it.waits == []


async def test_a_bookmark_moves_the_version(apiserver: FakeApiserver, told: Told) -> None:
    """A watch that only brought a bookmark resumes from there."""
    apiserver.script["watch"].append(Lines([event("BOOKMARK", 900)]))
    async with watching(apiserver, told) as it:
        await it.until(lambda: len(apiserver.asked("watch")) == 2)
        assert apiserver.asked("watch")[1].query["resourceVersion"] == "900"
        assert it.view.steps == []
        assert it.state.objects == 0
        assert it.state.heard_at is not None


@pytest.mark.parametrize(
    "gone",
    [
        Reply(410, GONE),
        Lines([{"type": "ERROR", "object": GONE}]),
        Reply(400, status(400, "BadRequest", "invalid resource version")),
        Reply(
            504, status(504, "Timeout", details={"causes": [{"reason": "ResourceVersionTooLarge"}]})
        ),
    ],
    ids=["status", "event", "bad version", "version of the future"],
)
async def test_a_version_that_is_not_kept_lists_again(
    apiserver: FakeApiserver, told: Told, gone: Reply | Lines
) -> None:
    """What vanished meanwhile is removed once, what is unchanged is not touched."""
    for name in ("same", "changed", "vanished"):
        apiserver.put(name)
    apiserver.script["watch"] += [Lines([event("BOOKMARK", 4)]), gone]
    changes = iter(
        [lambda: None, lambda: (apiserver.put("changed", 1), apiserver.delete("vanished"))]
    )

    def before(request: object) -> None:
        if getattr(request, "verb", "") == "watch":
            next(changes, lambda: None)()

    apiserver.before = before
    async with watching(apiserver, told) as it:
        await it.until(lambda: it.state.lists == 2 and it.view.values == apiserver.values())
        assert it.view.steps[3:] == ["+changed", "-vanished"]
        assert told.count("watch_lists_total", resource="nodes") == 2


async def test_a_list_that_expires_between_two_pages_begins_anew(
    apiserver: FakeApiserver, told: Told
) -> None:
    """Nothing disappears until a list is complete, and nothing of the aborted one is left over."""
    for name in ("a", "b", "c"):
        apiserver.put(name)
    seen: list[dict[str, int]] = []
    async with watching(apiserver, told) as it:
        await it.reflector.synced()

        def before(request: object) -> None:
            if getattr(request, "query", {}).get("continue"):
                seen.append(dict(it.view.values))
                apiserver.delete("aborted")

        apiserver.script["page"].append(Reply(410, GONE))
        apiserver.script["watch"].append(Reply(410, GONE))
        apiserver.before = before
        apiserver.put("aborted")
        apiserver.delete("b")
        apiserver.compact()
        apiserver.cut()
        await it.until(lambda: it.state.lists == 2 and it.view.values == apiserver.values())
        assert all({"a", "c"} <= set(values) for values in seen)
        assert it.view.steps.count("-b") == 1
        assert it.state.ends["Expired"] == 2


async def test_failures_wait_longer_and_longer_until_something_comes(
    apiserver: FakeApiserver, told: Told
) -> None:
    """Twice as long each time up to the limit; progress makes the next failure a first one."""
    broken = Reply(500, status(500, "InternalError"))
    apiserver.script["watch"] += [broken] * 5
    apiserver.script["watch"] += [Lines([event("ADDED", 2, "a")]), broken]
    async with watching(apiserver, told) as it:
        await it.until(lambda: it.state.watches == 2)
        assert it.waits == [1.0, 2.0, 4.0, 8.0, 8.0, 2.0]
        assert len(apiserver.asked("list")) == 1
        assert it.state.ends["InternalError"] == 6
    assert "watch is back" in told.close()


async def test_watches_that_end_as_soon_as_they_begin_are_failures(
    apiserver: FakeApiserver, told: Told
) -> None:
    """The first end is ordinary, those that follow without any progress wait."""
    apiserver.script["watch"] += [Lines()] * 4
    async with watching(apiserver, told) as it:
        await it.until(lambda: it.state.watches == 5)
        assert it.waits == [2.0, 4.0, 8.0]


async def test_the_apiserver_may_ask_for_a_longer_wait(
    apiserver: FakeApiserver, told: Told
) -> None:
    """Retry-After is honoured."""
    busy = Reply(429, status(429, "TooManyRequests"), headers={"Retry-After": "17"})
    apiserver.script["list"].append(busy)
    async with watching(apiserver, told) as it:
        await it.reflector.synced()
        assert it.waits == [17.0]


@pytest.mark.parametrize(("code", "reason"), [(401, "Unauthorized"), (403, "Forbidden")])
async def test_a_missing_permission_is_named_and_tried_again(
    apiserver: FakeApiserver, told: Told, code: int, reason: str
) -> None:
    """The log tells what to grant, and the watch begins once it is granted."""
    words = 'nodes is forbidden: User "x" cannot list resource "nodes"'
    apiserver.script["list"] += [Reply(code, status(code, reason, words))] * 2
    async with watching(apiserver, told) as it:
        await it.reflector.synced()
        assert it.waits == [1.0, 2.0]
        assert told.count("watch_ends_total", resource="nodes", reason=reason) == 2
    log = told.close()
    assert "list and watch on nodes" in log
    assert "cannot list resource" in log


async def test_a_malformed_line_comes_again_whole(apiserver: FakeApiserver, told: Told) -> None:
    """What came before it is kept, and the watch resumes from there."""
    apiserver.script["watch"].append(Lines([event("ADDED", 2, "a"), '{"type": "ADDED", "obj']))
    async with watching(apiserver, told) as it:
        await it.until(lambda: it.state.watches == 2)
        assert it.view.values == {"a": 0}
        assert apiserver.asked("watch")[1].query["resourceVersion"] == "2"
        assert it.state.ends == {"Malformed": 1}
        assert len(it.waits) == 1


@pytest.mark.parametrize(
    "line", ["nonsense", "[]", '{"type": "FOUND", "object": {}}', '{"type": "ADDED", "object": {}}']
)
async def test_a_line_that_stays_malformed_leads_to_a_list(
    apiserver: FakeApiserver, told: Told, line: str
) -> None:
    """The change in it is lost for good, so what it was must be read another way."""
    apiserver.put("a")
    apiserver.script["watch"] += [Lines([line])] * 2
    async with watching(apiserver, told) as it:
        await it.until(lambda: it.state.lists == 2 and it.state.connected)
        assert it.view.values == {"a": 0}


async def test_an_object_that_cannot_be_read_stays_as_it_was(
    apiserver: FakeApiserver, told: Told
) -> None:
    """In a watch and in a list; all others are not touched by it."""
    bad = node("a", 3)
    bad["metadata"]["labels"] = 17
    apiserver.put("a", 5)
    apiserver.script["watch"] += [
        Lines([{"type": "MODIFIED", "object": bad}, event("ADDED", 4, "b", 6)]),
        Reply(410, GONE),
    ]
    apiserver.script["list"] += [
        Reply(200, {"metadata": {"resourceVersion": "2"}, "items": [node("a", 2, 5)]}),
        Reply(200, {"metadata": {"resourceVersion": "5"}, "items": [bad, node("b", 4, 6), {}]}),
    ]
    async with watching(apiserver, told) as it:
        await it.until(lambda: it.state.lists == 2)
        await it.until(lambda: it.state.connected)
        assert it.view.values == {"a": 5, "b": 6}
        assert it.state.unreadable == 3
        assert told.count("watch_unreadable_total", resource="nodes") == 3


async def test_changes_that_come_twice_change_nothing(apiserver: FakeApiserver, told: Told) -> None:
    """ADDED of what is known, MODIFIED of what is not, DELETED of what is gone."""
    lines = [
        event("ADDED", 2, "a", 1),
        event("ADDED", 2, "a", 1),
        event("MODIFIED", 3, "b", 2),
        event("DELETED", 4, "a"),
        event("DELETED", 4, "a"),
        event("DELETED", 5, "never"),
    ]
    apiserver.script["watch"].append(Lines(list(lines)))
    async with watching(apiserver, told) as it:
        await it.until(lambda: it.state.watches == 2)
        assert it.view.values == {"b": 2}
        assert it.view.steps == ["+a", "+a", "+b", "-a"]


@pytest.mark.parametrize("answer", ["", "{}", '{"items": []}', "<html>"])
async def test_an_answer_that_is_no_list_is_a_failure(
    apiserver: FakeApiserver, told: Told, answer: str
) -> None:
    """Such as a proxy's own page, with status 200."""
    apiserver.script["list"].append(Reply(200, answer))
    async with watching(apiserver, told) as it:
        await it.reflector.synced()
        assert it.state.ends["Malformed"] == 1
        assert len(it.waits) == 1


async def test_stop_ends_a_read_that_waits(apiserver: FakeApiserver, told: Told) -> None:
    """At once, though nothing comes; and nothing reaches the view afterwards."""
    watch = Watching(apiserver, told)
    watch.reflector.start()
    await until(lambda: watch.state.connected)
    began = time.monotonic()
    assert await watch.reflector.stop()
    assert time.monotonic() - began < 0.5
    apiserver.put("late")
    await asyncio.sleep(0)
    assert watch.view.values == {}


async def test_stop_ends_a_wait(apiserver: FakeApiserver, told: Told) -> None:
    """A watch that is down does not keep its process from ending."""
    apiserver.script["list"].append(Reply(500, status(500, "InternalError")))
    reflector = Reflector(
        NODES, apiserver.api(), Recording(), told.reports, backoff=Backoff(1000.0, 1000.0)
    )
    reflector.start()
    await until(lambda: reflector.state.ends)
    assert await reflector.stop()


async def test_stop_gives_up_on_a_list_that_hangs(told: Told) -> None:
    """The thread is left behind, and lets the process end."""
    release = threading.Event()

    class Hanging:
        def list_page(self, *_: object, **__: object) -> bytes:
            release.wait(10)
            return b""

        def watch(self, *_: object, **__: object) -> None:
            raise AssertionError

    reflector = Reflector(NODES, Hanging(), Recording(), told.reports)  # type: ignore[arg-type]
    reflector.start()
    assert not await reflector.stop(0.05)
    release.set()
    async with asyncio.timeout(5):
        await reflector._ended.wait()


async def test_an_apiserver_that_is_away_is_down_until_it_is_back(told: Told) -> None:
    """Health shows for how long, without making the process unready."""
    with FakeApiserver() as apiserver:
        watch = Watching(apiserver, told)
        watch.reflector._wait = lambda _: time.sleep(0.01)
        watch.reflector.start()
        await until(lambda: watch.state.connected)
    await until(lambda: watch.state.ends["Unreachable"] > 1)
    condition = watch.state.condition(0.0)
    assert not condition.ok
    assert not condition.required
    assert "Unreachable" in condition.detail
    assert watch.state.condition(60.0).ok
    assert told.count("watch_down_seconds", resource="nodes") > 0
    assert await watch.reflector.stop()


async def test_a_fault_of_the_watch_itself_is_told_and_survived(
    apiserver: FakeApiserver, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A view that silently stands still would be worse than any error."""
    apiserver.put("a")
    faults = iter([KeyError("bug")])

    def read(item: object) -> Node:
        for fault in faults:
            raise fault
        return original(item)  # type: ignore[arg-type]

    original = NODES.read
    monkeypatch.setattr(NODES.__class__, "read", property(lambda _: read), raising=False)
    async with watching(apiserver, told) as it:
        await it.reflector.synced()
        assert it.view.values == {"a": 0}
        assert it.state.ends["Fault"] == 1
    assert "watch broke" in told.close()


async def test_a_view_that_raises_misses_only_that_change(
    apiserver: FakeApiserver, told: Told
) -> None:
    """The fault is told, and the next change arrives."""
    for name in ("a", "b"):
        apiserver.put(name)
    async with watching(apiserver, told) as it:
        it.view.values = FaultyDict("a")
        await it.reflector.synced()
        assert it.view.values == {"b": 0}
    assert "view failed to take a change" in told.close()


class FaultyDict(dict[str, int]):
    """Refuses one key."""

    def __init__(self, key: str) -> None:
        """Refuse `key`."""
        super().__init__()
        self.key = key

    def __setitem__(self, key: str, value: int) -> None:
        """Set all but one."""
        if key == self.key:
            raise RuntimeError(key)
        super().__setitem__(key, value)


NAMES = st.sampled_from("abcdef")
STEPS = st.one_of(
    st.tuples(st.just("put"), NAMES, st.integers(0, 9)),
    st.tuples(st.just("delete"), NAMES),
    st.tuples(
        st.sampled_from(
            [
                "cut",
                "end",
                "compact",
                "bookmark",
                "expire",
                "fail list",
                "fail page",
                "fail watch",
                "garbage",
                "pause",
            ]
        )
    ),
)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(first=st.lists(NAMES), steps=st.lists(STEPS, max_size=25))
def test_whatever_happens_the_view_ends_up_as_the_apiserver_is(
    first: list[str], steps: list[tuple[str, ...]]
) -> None:
    """Changes, cuts, compactions, errors and garbage in any order."""

    async def run() -> None:
        told = Told()
        with FakeApiserver() as apiserver:
            for name in first:
                apiserver.put(name)
            async with watching(apiserver, told) as it:
                it.reflector._wait = lambda _: None
                for kind, *arguments in steps:
                    if kind == "pause":
                        await it.until(lambda: it.view.values == apiserver.values())
                    else:
                        happen(apiserver, kind, *arguments)
                # Once the last change is there, all before it are.
                apiserver.put("last")
                await it.until(lambda: it.view.values == apiserver.values())
        told.close()

    asyncio.run(run())


def happen(apiserver: FakeApiserver, kind: str, *arguments: str) -> None:
    """Let one thing happen."""
    error = Reply(500, status(500, "InternalError"))
    match kind:
        case "put":
            apiserver.put(arguments[0], int(arguments[1]))
        case "delete":
            apiserver.delete(*arguments)
        case "cut":
            apiserver.cut()
        case "end":
            apiserver.end_watches()
        case "compact":
            apiserver.compact()
        case "bookmark":
            apiserver.bookmark()
        case "expire":
            apiserver.say({"type": "ERROR", "object": GONE})
        case "garbage":
            apiserver.say("garbage")
        case "fail page":
            apiserver.script["page"].append(Reply(410, GONE))
        case _:
            apiserver.script[kind.removeprefix("fail ")].append(error)
