"""Prioritize answered before it is asked: the same answers, sooner."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from core_servers import Recorder, ask
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from kube_sched_ext import (
    Agent,
    BoundPod,
    FloatColumns,
    NodeReader,
    Nodes,
    NoSettings,
    Pod,
    Scores,
    Verdict,
    create_app,
    predicate,
    priority,
)
from kube_sched_ext.calls import Answer
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.demand import Demand
from kube_sched_ext.errors import AgentError
from kube_sched_ext.foresight import Foresight
from kube_sched_ext.logs import Level
from kube_sched_ext.metrics import Metrics
from kube_sched_ext.objects import Node
from kube_sched_ext.table import NodeTable
from kube_sched_ext.verb_calls import verb_calls
from kube_sched_ext.verbs import Verbs, new_table
from kube_sched_ext.wire import encode
from kube_sched_ext_testkit.ask import Reports
from kube_sched_ext_testkit.builders import JSON, make_node, make_pod

FILTER, PRIORITIZE, ALL = "predicates/depth", "priorities/depth", "prioritize"


def read(node: JSON) -> Node:
    """Return a node as the table takes it."""
    return msgspec.json.decode(msgspec.json.encode(node), type=Node)


def counted(metrics: Metrics, metric: str = "foreseen_answers", **labels: str) -> float:
    """Return a counter's value."""
    name = f"kube_sched_ext_{metric}_total"
    return metrics.registry.get_sample_value(name, labels) or 0.0


class Asked:
    """A call's function that notes what it is asked."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.fails = False

    def __call__(self, body: bytes | bytearray) -> Answer:
        """Answer with the body and how often that was."""
        self.bodies.append(bytes(body))
        if self.fails:
            raise AgentError("priority depth: broken", "default/pod")
        return Answer([body.decode(), len(self.bodies)], "default/pod", 2, 2)


class Fed(FloatColumns):
    """A store that changes by itself, too."""

    generation = 0


class Scene:
    """Foresight with one call, and what it depends on."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.metrics = Metrics()
        self.fed = Fed((), lambda _: ())
        self.table = NodeTable({"a": self.fed}, Reports())
        self.foresight = Foresight(self.table, self.metrics, lambda: self.now)
        self.asked = Asked()
        self.answer = self.foresight.ahead(self.asked, is_local=False)
        self.put("n1")
        self.put("n2")

    def put(self, name: str) -> None:
        """Add a node, or change it."""
        self.table.put(read(make_node(name)))

    def expect(self, body: bytes) -> None:
        """Expect calls about one of the two nodes."""
        self.foresight.expect(body, self.table.rows(["n1"]))

    def learn(self) -> None:
        """Let the first pod be asked about, as expected; nothing is known to be asked before."""
        self.expect(b"first")
        self.answer(b"first")
        self.asked.bodies.clear()

    def count(self, result: str) -> float:
        """Return how many answers worked out ahead ended so."""
        return counted(self.metrics, result=result)


@pytest.fixture
def scene() -> Scene:
    """Return foresight that expects nothing yet."""
    return Scene()


def test_nothing_is_worked_out_for_calls_that_nobody_makes(scene: Scene) -> None:
    """As where kube-scheduler is configured with a filter alone."""
    scene.expect(b"first")
    scene.expect(b"second")
    assert scene.asked.bodies == []


def test_who_was_asked_what_was_expected_is_asked_ahead_from_then_on(scene: Scene) -> None:
    """And not once more when the call comes."""
    scene.learn()
    scene.expect(b"second")
    assert scene.asked.bodies == [b"second"]
    assert encode(scene.answer(b"second").message) == b'["second",1]'
    assert scene.asked.bodies == [b"second"]
    assert scene.count("used") == 1


@pytest.mark.parametrize("body", [b"other", b"secon", b"second ", b""])
def test_another_call_than_expected_is_answered_as_it_is(scene: Scene, body: bytes) -> None:
    """To the last byte."""
    scene.learn()
    scene.expect(b"second")
    assert scene.answer(body).message == [body.decode(), 2]
    assert scene.count("used") == 0


def test_an_answer_is_given_once(scene: Scene) -> None:
    """Who asks again is answered anew."""
    scene.learn()
    scene.expect(b"second")
    for _ in range(2):
        scene.answer(b"second")
    assert scene.asked.bodies == [b"second", b"second"]


def test_who_does_not_ask_is_given_up_until_it_asks_again(scene: Scene) -> None:
    """Work that nobody wants is done once at most."""
    scene.learn()
    for body in (b"second", b"third", b"fourth"):
        scene.expect(body)
    assert scene.asked.bodies == [b"second"]
    assert scene.count("unused") == 1
    scene.answer(b"fourth")
    scene.expect(b"fifth")
    assert scene.asked.bodies == [b"second", b"fourth", b"fifth"]


def test_several_filters_that_leave_the_same_expect_one_answer(scene: Scene) -> None:
    """As where each agent is an extender of its own."""
    scene.learn()
    for _ in range(3):
        scene.expect(b"second")
    assert scene.asked.bodies == [b"second"]


def feed(scene: Scene) -> None:
    """Let something come that is of no node."""
    scene.fed.generation += 1


def late(scene: Scene) -> None:
    """Let more than a second pass."""
    scene.now += 1.1


@pytest.mark.parametrize(
    ("change", "is_local", "result"),
    [
        (lambda scene: scene.put("n1"), False, "outdated"),
        (lambda scene: scene.put("n2"), False, "outdated"),
        (lambda scene: scene.put("n1"), True, "outdated"),
        (lambda scene: scene.put("n2"), True, "used"),
        (lambda scene: scene.table.remove("n1"), True, "outdated"),
        (feed, False, "outdated"),
        (feed, True, "outdated"),
        (late, False, "outdated"),
        (late, True, "outdated"),
    ],
    ids=[
        "its node",
        "another",
        "its, local",
        "another, local",
        "gone, local",
        "fed",
        "fed, local",
        "time",
        "time, local",
    ],
)
def test_an_answer_stands_as_long_as_what_it_depends_on(
    scene: Scene,
    change: Callable[[Scene], None],
    is_local: bool,  # noqa: FBT001  # given by name
    result: str,
) -> None:
    """Nor for more than a second, as data get too old by themselves."""
    scene.answer = scene.foresight.ahead(scene.asked, is_local=is_local)
    scene.learn()
    scene.expect(b"second")
    change(scene)
    assert json.loads(encode(scene.answer(b"second").message))[0] == "second"
    assert scene.asked.bodies == [b"second"] * (1 if result == "used" else 2)
    assert scene.count(result) == 1


def test_after_a_change_the_next_filter_has_the_answer_worked_out_again(scene: Scene) -> None:
    """As where a pod is tried again."""
    scene.learn()
    scene.expect(b"second")
    scene.put("n1")
    scene.expect(b"second")
    assert encode(scene.answer(b"second").message) == b'["second",2]'
    assert scene.count("used") == 1


def test_a_fault_is_raised_for_who_asks(scene: Scene) -> None:
    """Not in the event loop, where nobody would see it."""
    scene.learn()
    scene.asked.fails = True
    scene.expect(b"second")
    with pytest.raises(AgentError, match="broken"):
        scene.answer(b"second")


def test_an_answer_of_before_a_change_is_not_given_where_the_new_one_fails(scene: Scene) -> None:
    """As where a pod is tried again, and its agent has a fault by now."""
    scene.learn()
    scene.expect(b"second")
    scene.put("n1")
    scene.asked.fails = True
    scene.expect(b"second")
    with pytest.raises(AgentError, match="broken"):
        scene.answer(b"second")


class Depth(Agent[NoSettings]):
    """Rejects what is deeper than the pod wants, and scores the depth."""

    name = "depth"
    columns = ("depth",)

    def row(self, node: NodeReader) -> Sequence[float]:
        """Read the depth."""
        return (node.annotation("depth"),)

    @predicate("depth")
    def rejects(self, pod: Pod, nodes: Nodes) -> Verdict:
        """Reject what is deeper than the millicores asked for."""
        [depths] = nodes.columns
        return Verdict({"too deep": depths > pod.demand.cpu})

    @priority("depth", depends_on="nodes")
    def likes(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score the depth."""
        [depths] = nodes.columns
        return Scores(np.nan_to_num(depths, nan=0).astype(np.int64), {"depth": depths})


class Counting(Depth):
    """Remembers pods."""

    name = "counting"

    def __init__(self, settings: NoSettings | None = None) -> None:
        super().__init__(settings)
        self.pods: list[str] = []

    @priority("counting", depends_on="calls")
    def counts(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score 1."""
        self.pods.append(pod.metadata.name)
        return Scores(np.ones(len(nodes), np.int64))


def body_about(number: int, names: Sequence[str], cpu: str = "9m", **spec: Any) -> bytes:
    """Return the body as kube-scheduler writes it."""
    pod = make_pod(f"pod-{number}", requests={"cpu": cpu}, spec=spec)
    message = {"Pod": pod, "Nodes": None, "NodeNames": list(names)}
    return json.dumps(message, separators=(",", ":")).encode()


class Process:
    """Agents, and calls to them as their paths get them."""

    def __init__(self, *agents: Agent[Any], level: Level = "INFO") -> None:
        self.recorder = Recorder(level)
        self.metrics = self.recorder.instruments.metrics
        self.agents = agents or (Depth(),)
        self.table = new_table(self.agents, self.recorder.instruments.problems)

    def calls(self) -> dict[str, Callable[[bytes], Any]]:
        """Return what answers each path, without anything known from before."""
        core = CoreSettings()
        verbs = Verbs(self.agents, self.table, core, self.recorder.instruments)
        return {
            call.path.removeprefix("/scheduler/"): call.answer
            for call in verb_calls(verbs, core, self.metrics)
        }

    def put(self, name: str, depth: int) -> None:
        """Add a node, or change it."""
        self.table.put(read(make_node(name, annotations={"depth": str(depth)})))


class Conversation:
    """Calls as one kube-scheduler makes them: filter, then prioritize about what is left."""

    def __init__(self, process: Process) -> None:
        self.process = process
        self.calls = process.calls()

    def filter(self, body: bytes, path: str = FILTER) -> Any:
        """Return the reply, and let what follows it happen."""
        answer = self.calls[path](body)
        reply = json.loads(encode(answer.message))
        if answer.then is not None:
            answer.then()
        return reply

    def prioritize(self, body: bytes, path: str = PRIORITIZE) -> Any:
        """Return the reply."""
        return json.loads(encode(self.calls[path](body).message))

    def schedule(self, number: int, names: Sequence[str], cpu: str = "9m") -> Any:
        """Return the scores of a pod."""
        kept = self.filter(body_about(number, names, cpu))["NodeNames"]
        return self.prioritize(body_about(number, kept, cpu))

    def used(self) -> float:
        """Return how many answers were there before they were asked for."""
        return counted(self.process.metrics, result="used")


def test_from_the_second_pod_on_scores_are_there_before_they_are_asked_for() -> None:
    """Where nodes are rejected, too."""
    process = Process()
    for depth in range(9):
        process.put(f"n{depth}", depth)
    talk = Conversation(process)
    names = [f"n{depth}" for depth in (3, 1, 8, 5)]
    assert talk.schedule(1, names) == [{"Host": f"n{it}", "Score": it} for it in (3, 1, 8, 5)]
    assert talk.used() == 0
    assert talk.schedule(2, names, "4m") == [{"Host": f"n{it}", "Score": it} for it in (3, 1)]
    assert talk.schedule(3, names) == [{"Host": f"n{it}", "Score": it} for it in (3, 1, 8, 5)]
    assert talk.used() == 2


def test_a_single_node_left_is_not_scored_ahead() -> None:
    """Kube-scheduler takes it without asking."""
    process = Process()
    for depth in (3, 5):
        process.put(f"n{depth}", depth)
    talk = Conversation(process)
    talk.schedule(1, ["n3", "n5"])
    talk.filter(body_about(2, ["n3", "n5"], "4m"))
    talk.filter(body_about(3, ["n3", "n5"], "4m"))
    assert counted(process.metrics, result="unused") == 0


@pytest.mark.parametrize(
    ("agents", "level", "cpu", "names"),
    [
        ([Counting()], "INFO", "9m", ["n1", "n2"]),
        ([Depth()], "DEBUG", "9m", ["n1", "n2"]),
        ([Depth()], "INFO", "nonsense", ["n1", "n2"]),
        ([Depth()], "INFO", "9m", ["n1", "n2", "unknown"]),
    ],
    ids=["remembers pods", "tells each score", "counts what is wrong", "counts unknown nodes"],
)
def test_what_leaves_a_trace_is_done_when_it_is_asked_for(
    agents: Sequence[Agent[Any]], level: Level, cpu: str, names: list[str]
) -> None:
    """Memory, log and metrics tell of calls that were made."""
    process = Process(*agents, level=level)
    for name in ("n1", "n2"):
        process.put(name, 0)
    talk = Conversation(process)
    [own] = process.agents
    for number in range(3):
        body = body_about(number, names, cpu)
        talk.filter(body)
        talk.prioritize(body, f"priorities/{own.priorities[-1].name}")
    assert talk.used() == 0
    if isinstance(own, Counting):
        assert own.pods == ["pod-0", "pod-1", "pod-2"]


def test_what_is_counted_per_call_is_counted_once() -> None:
    """For each of filter and prioritize."""
    process = Process()
    process.put("n1", 1)
    talk = Conversation(process)
    for number in range(3):
        talk.schedule(number, ["n1", "n2"], "nonsense")
    assert counted(process.metrics, "unknown_nodes") == 6
    assert counted(process.metrics, "unparsable_values", agent="", key="requests") == 6


def test_a_process_answers_ahead_and_logs_each_call_once(serve_app: Callable[..., int]) -> None:
    """Over HTTP, by agent and all together."""
    recorder = Recorder()
    agent = Depth()
    table = new_table([agent], recorder.instruments.problems)
    for depth in (3, 5):
        table.put(read(make_node(f"n{depth}", annotations={"depth": str(depth)})))
    port = serve_app(create_app([agent], table=table, instruments=recorder.instruments))
    pairs = [(FILTER, PRIORITIZE)] * 3 + [("filter", ALL)] * 3
    for number, pair in enumerate(pairs):
        for path in pair:
            reply = ask(port, "POST", f"/scheduler/{path}", body_about(number, ["n5", "n3"]))
            assert reply.status == 200
        assert reply.json == [{"Host": "n5", "Score": 5}, {"Host": "n3", "Score": 3}]
    assert recorder.count("kube_sched_ext_foreseen_answers_total", result="used") == 4
    lines = recorder.lines(last="prioritize", times=6)
    assert [line["pod"] for line in lines if line["event"] == "prioritize"] == [
        f"default/pod-{number}" for number in range(6)
    ]


class Bound(msgspec.Struct, frozen=True):
    """A pod on a node."""

    uid: str
    node: str
    demand: Demand
    images: tuple[str, ...] = ()
    bound_at: float = 0.0


class DeepStore(FloatColumns):
    """Depths, of which each pod on a node takes one, and a tide that comes from elsewhere."""

    def __init__(self, agent: "Deep") -> None:
        super().__init__(agent.columns, agent.row)
        self.agent = agent
        self.pods: dict[int, int] = {}

    @property
    def generation(self) -> int:
        """The tide's."""
        return self.agent.tide

    def clear(self, row: int) -> None:
        """Forget the node and its pods."""
        super().clear(row)
        self.pods.pop(row, None)

    def put_pod(self, row: int, pod: BoundPod) -> None:
        """Count it."""
        self.pods[row] = self.pods.get(row, 0) + 1

    def remove_pod(self, row: int, pod: BoundPod) -> None:
        """Count it no longer."""
        self.pods[row] -= 1


class Deep(Depth):
    """Scores depth, pods and tide."""

    def __init__(self, settings: NoSettings | None = None) -> None:
        super().__init__(settings)
        self.tide = 0

    def new_store(self) -> DeepStore:
        """Keep pods, too."""
        return DeepStore(self)

    @priority("deep", depends_on="nodes")
    def likes_deep(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score what is left of the depth."""
        store = nodes.store(DeepStore)
        [depths] = nodes.columns
        pods = np.array([store.pods.get(row, 0) for row in nodes.rows.tolist()])
        left = np.nan_to_num(depths, nan=0) - pods + self.tide
        return Scores(left.clip(0, 10).astype(np.int64))

    @priority("wide")
    def likes_wide(self, pod: Pod, nodes: Nodes) -> Scores:
        """Score the depth of all nodes together."""
        [depths] = nodes.cluster.columns
        return Scores(np.full(len(nodes), min(int(np.nansum(depths)), 10)))


some_node = st.sampled_from(["n1", "n2", "n3", "n4"])
some_names = st.lists(st.sampled_from(["n1", "n2", "n3", "n4"]), min_size=2, unique=True)
some_pod = st.integers(0, 3)
changes = st.one_of(
    st.tuples(st.just("put"), some_node, st.integers(0, 4)),
    st.tuples(st.just("remove"), some_node),
    st.tuples(st.just("bind"), some_node, some_pod),
    st.tuples(st.just("end"), some_pod),
    st.tuples(st.just("rise")),
)


class AnyOrderOfCallsAndChanges(RuleBasedStateMachine):
    """Two schedulers ask whatever they like while the cluster changes."""

    @initialize()
    def begin(self) -> None:
        """Start with two nodes."""
        self.agent = Deep()
        self.process = Process(self.agent)
        self.calls = self.process.calls()
        self.kept: dict[int, tuple[list[str], str]] = {}
        for name in ("n1", "n2"):
            self.put(name, 3)

    def put(self, name: str, depth: int) -> None:
        """A node comes or changes."""
        self.process.put(name, depth)

    def remove(self, name: str) -> None:
        """A node goes."""
        self.process.table.remove(name)

    def bind(self, name: str, pod: int) -> None:
        """A pod gets a node."""
        self.process.table.put_pod(Bound(f"u{pod}", name, Demand({})))

    def end(self, pod: int) -> None:
        """A pod goes."""
        self.process.table.remove_pod(f"u{pod}")

    def rise(self) -> None:
        """The tide comes in."""
        self.agent.tide += 1

    def teardown(self) -> None:
        """End the thread that writes the log."""
        self.process.recorder.instruments.writer.close()

    @rule(change=changes)
    def change(self, change: tuple[Any, ...]) -> None:
        """The cluster changes."""
        what, *arguments = change
        getattr(self, what)(*arguments)

    @rule(
        paths=st.tuples(
            st.sampled_from([FILTER, "filter"]),
            st.sampled_from(["priorities/deep", "priorities/wide", ALL]),
        ),
        pod=some_pod,
        names=some_names,
        cpu=st.sampled_from(["4m", "9m"]),
        meanwhile=st.lists(changes, max_size=2),
    )
    def schedule(
        self,
        paths: tuple[str, str],
        pod: int,
        names: list[str],
        cpu: str,
        meanwhile: list[tuple[Any, ...]],
    ) -> None:
        """A pod is filtered, and its nodes are scored, with or without changes in between."""
        filter_path, prioritize_path = paths
        body = body_about(pod, names, cpu)
        answer = self.calls[filter_path](body)
        plain = self.process.calls()[filter_path](body)
        reply = json.loads(encode(answer.message))
        assert reply == json.loads(encode(plain.message))
        if answer.then is not None:
            answer.then()
        self.kept[pod] = (reply["NodeNames"], cpu)
        for change in meanwhile:
            self.change(change)
        self.prioritize(prioritize_path, pod)

    @rule(path=st.sampled_from(["priorities/deep", "priorities/wide", ALL]), pod=some_pod)
    def prioritize(self, path: str, pod: int) -> None:
        """A scheduler asks about what was left to it, be it long ago, or to another."""
        body = body_about(pod, *self.kept.get(pod, (["n1", "n2"], "9m")))
        answer = self.calls[path](body)
        plain = self.process.calls()[path](body)
        assert json.loads(encode(answer.message)) == json.loads(encode(plain.message))
        assert (answer.pod, answer.nodes_in) == (plain.pod, plain.nodes_in)


TestAnyOrderOfCallsAndChanges = AnyOrderOfCallsAndChanges.TestCase
TestAnyOrderOfCallsAndChanges.settings = settings(max_examples=200, stateful_step_count=20)
