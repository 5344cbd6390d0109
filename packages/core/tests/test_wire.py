"""Messages are read as Go reads them, and written with Go's names."""

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kube_sched_ext import wire
from kube_sched_ext.errors import RequestError
from kube_sched_ext.objects import NodeMeta

DATA = Path(__file__).parents[3] / "tests" / "data"


def in_case(value: object, change: str) -> object:
    """Return JSON with the keys of messages changed, down to but not into pods and nodes."""
    if isinstance(value, list):
        return [in_case(item, change) for item in value]
    if not isinstance(value, dict):
        return value
    kept = ("pod", "items")
    return {
        getattr(key, change)(): part if key.lower() in kept else in_case(part, change)
        for key, part in value.items()
    }


def metadata_of(args: wire.ExtenderArgs) -> list[NodeMeta]:
    nodes = wire.decode_nodes((args.nodes.items if args.nodes else None) or [])
    return [node.metadata for node in nodes]


@pytest.mark.parametrize("change", ["lower", "upper", "swapcase"])
@pytest.mark.parametrize("mode", ["names", "full"])
def test_args_are_read_in_any_case(mode: str, change: str) -> None:
    """Schedulers up to 1.16 write lower case."""
    recorded = (DATA / f"filter.{mode}.test-pod.json").read_bytes()
    changed = json.dumps(in_case(json.loads(recorded), change)).encode()
    expected, args = wire.decode_args(recorded), wire.decode_args(changed)
    assert args.pod == expected.pod
    assert args.node_names == expected.node_names
    assert metadata_of(args) == metadata_of(expected)


@pytest.mark.parametrize("names", ["", ',"NodeNames":null'])
def test_nodes_are_read_in_any_case_where_all_around_them_is_in_gos(names: str) -> None:
    """Taken for a list without items, they would all be rejected in silence."""
    body = '{"Pod":{},"Nodes":{"Items":[{"metadata":{"name":"a"}}]}' + names + "}"
    assert metadata_of(wire.decode_args(body.encode())) == [NodeMeta(name="a")]


def test_victims_are_read_in_any_case() -> None:
    """Names of nodes are data, and keep their case."""
    body = b"""{"pod": {}, "nodenametometavictims": {"Node-A": {"pods": [{"uid": "u"}],
               "numpdbviolations": 2}}}"""
    args = wire.decode_preemption_args(body)
    assert args.node_name_to_meta_victims == {
        "Node-A": wire.MetaVictims([wire.MetaPod("u")], num_pdb_violations=2)
    }


def test_recorded_victims_are_read_in_both_modes() -> None:
    """Whole pods and UIDs."""
    names = wire.decode_preemption_args((DATA / "preempt.names.preemptor.json").read_bytes())
    whole = wire.decode_preemption_args((DATA / "preempt.full.preemptor.json").read_bytes())
    assert names.node_name_to_meta_victims is not None
    assert whole.node_name_to_victims is not None
    assert list(names.node_name_to_meta_victims) == ["worker-node1", "worker-node2"]
    [victim] = whole.node_name_to_victims["worker-node1"].pods or []
    assert victim.metadata.name == "filler-1"


def test_recorded_bindings_are_read() -> None:
    """PodUID is spelt as Go spells it."""
    args = wire.decode_binding_args((DATA / "bind.names.test-pod.json").read_bytes())
    assert args == wire.ExtenderBindingArgs(
        "test-pod", "default", "662eaabb-7eff-4980-abca-c30e8e1600da", "worker-node3"
    )


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (
            wire.ExtenderFilterResult(node_names=["a"], failed_nodes={"b": "why"}),
            (
                '{"Nodes":null,"NodeNames":["a"],"FailedNodes":{"b":"why"},'
                '"FailedAndUnresolvableNodes":{},"Error":""}'
            ),
        ),
        ([wire.HostPriority("a", 5)], '[{"Host":"a","Score":5}]'),
        (
            wire.ExtenderPreemptionResult(
                {"a": wire.MetaVictims([wire.MetaPod("u")], num_pdb_violations=1)}
            ),
            '{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"u"}],"NumPDBViolations":1}}}',
        ),
        (wire.ExtenderBindingResult(), '{"Error":""}'),
        (
            wire.ExtenderBindingArgs("p", "ns", "u", "n"),
            '{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n"}',
        ),
    ],
)
def test_messages_are_written_with_go_names(message: object, text: str) -> None:
    """The keys that kube-scheduler looks for."""
    assert wire.encode(message) == text.encode()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "empty body"),
        (b"  \n", "empty body"),
        (b"{", "truncated"),
        (b"nope", "malformed"),
        (b"[]", "Expected `object`, got `array`"),
        (b"null", "Expected `object`, got `null`"),
        (b"{}", "missing required field `Pod`"),
        (b'{"Pod": {}}', "neither Nodes nor NodeNames"),
        (b'{"Pod": {}, "Nodes": null, "NodeNames": null}', "neither Nodes nor NodeNames"),
        (b'{"Pod": [], "NodeNames": []}', "$.Pod"),
        (b'{"Pod": {}, "NodeNames": ["a", 1]}', "$.NodeNames[1]"),
        (b'{"Pod": {}, "NodeNames": ["\xff"]}', "utf-8"),
        (b'{"Pod": {}, "Nodes": []}', "$.Nodes"),
        (b'{"Pod": {"spec": {"containers": 1}}, "NodeNames": []}', "$.Pod.spec.containers"),
        (b'{"x":' * 100_000, "nested too deeply"),
    ],
)
def test_a_request_of_the_wrong_shape_is_told_where(body: bytes, words: str) -> None:
    """400, with what and where."""
    with pytest.raises(RequestError) as caught:
        wire.decode_args(body)
    assert caught.value.status == 400
    assert words in str(caught.value)


def test_a_node_of_the_wrong_shape_is_told_by_its_place() -> None:
    """Nodes are decoded one by one; the error says which."""
    args = wire.decode_args(b'{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"a"}},{"x":1}]}}')
    assert args.nodes is not None
    with pytest.raises(RequestError, match=r"Nodes\.items\[1\]: .*metadata"):
        wire.decode_nodes(args.nodes.items or [])


def test_preemption_without_candidates_is_refused() -> None:
    """Neither kind of victims is as bad as neither kind of nodes."""
    with pytest.raises(RequestError, match="neither NodeNameToVictims"):
        wire.decode_preemption_args(b'{"Pod": {}}')


@pytest.mark.parametrize("body", [b"", b"{}", b'{"PodName": 1}'])
def test_a_binding_of_the_wrong_shape_is_refused(body: bytes) -> None:
    """400 for bind too."""
    with pytest.raises(RequestError) as caught:
        wire.decode_binding_args(body)
    assert caught.value.status == 400


def test_of_keys_that_differ_in_case_the_last_counts() -> None:
    """As in Go."""
    args = wire.decode_args(b'{"pod": {}, "nodenames": ["a"], "NODENAMES": ["b"], "other": 1}')
    assert args.node_names == ["b"]


def test_whole_nodes_are_kept_as_the_bytes_they_were() -> None:
    """Blanks, order and unknown keys included."""
    item = b'{ "x" : 1.50,"metadata": {"name":"a"} }'
    args = wire.decode_args(b'{"Pod":{},"Nodes":{"metadata":{"v":1},"items":[' + item + b"]}}")
    assert args.nodes is not None
    assert msgspec.json.encode(args.nodes) == b'{"items":[' + item + b'],"metadata":{"v":1}}'


BODIES = [
    b'{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["a","b"]}',
    b'{"Pod":{"metadata":{"name":"p"}},"Nodes":null,"NodeNames":["b","a"]}',
    b'{"Pod":{"metadata":{"name":"q"}},"Nodes":null,"NodeNames":["a","b"]}',
    b'{"Pod":{"metadata":{"name":"q"}},"Nodes":null,"NodeNames":[]}',
    b'{"Pod":{"metadata":{"name":"q"}},"Nodes":null,"NodeNames":["\\u0061\\"]}"]}',
    b'{"Pod":{"metadata":{"name":"q"}},"Nodes":null,"NodeNames":["a","b"] }',
    b'{"Pod":{"metadata":{"name":"q"}},"NodeNames":["b"],"NodeNames":["a","b"]}',
    b'{"Pod":{"metadata":{"name":"q"}},"nodenames":["b"],"NodeNames":["a","b"]}',
    b'{"pod":{"metadata":{"name":"r"}},"Nodes":null,"NodeNames":["a","b"]}',
    b'{"NodeNames":["a","b"],"Pod":{"metadata":{"name":"r"}}}',
    b'{"Pod":{"spec":{"NodeNames":["c"]}},"Nodes":null,"NodeNames":["a","b"]}',
    b'{"Pod":{"metadata":{"name":"s"}},"Nodes":{"items":[]},"NodeNames":null}',
    b'{"Pod":{"metadata":{"name":"s"}},"Nodes":{"items":[]},"NodeNames":["a","b"]}',
    # What looks like the names is the end of another key.
    b'{"Pod":{"metadata":{"name":"s"}},"Nodes":{"items":[]},"\\"NodeNames":["a","b"]}',
    b'{"Pod":{},"NodeNames":["a",1]}',
    b'{"Pod":{"NodeNames":["a","b"]}',
    b'"NodeNames":["a","b"]}',
    b'["NodeNames":["a","b"]}',
    b"{}",
    b"",
]


def outcome(read: Callable[[bytes], wire.ExtenderArgs], body: bytes) -> object:
    try:
        args = read(body)
    except RequestError as error:
        return str(error)
    return args.pod, args.node_names, args.nodes is None


@pytest.mark.parametrize("first", BODIES)
def test_a_reader_takes_nothing_over_from_another_call(first: bytes) -> None:
    """Each call is read as it would be alone, whatever came before it."""
    for second in BODIES:
        for third in BODIES[:3]:
            reader = wire.ArgsReader()
            for body in (first, second, third):
                assert outcome(reader.read, body) == outcome(wire.decode_args, body)
                assert outcome(reader.read, body) == outcome(wire.decode_args, body)


def test_a_reader_reads_once_what_comes_again() -> None:
    """Filter's pod and names are prioritize's too."""
    reader = wire.ArgsReader()
    first, again = reader.read(BODIES[0]), reader.read(bytes(bytearray(BODIES[0])))
    assert again.pod is first.pod
    assert again.node_names is first.node_names
    other_pod = reader.read(BODIES[2])
    assert other_pod.pod is not first.pod
    assert other_pod.node_names is first.node_names
    other_names = reader.read(BODIES[3])
    assert other_names.pod is other_pod.pod
    assert other_names.node_names == []


@pytest.mark.parametrize("names", [[], ["a"], ["a", "b\\"]])
def test_names_that_all_stay_are_sent_back_as_they_came(names: list[str]) -> None:
    """The same reply as if they were encoded anew."""
    body = b'{"Pod":{},"Nodes":null,"NodeNames":' + msgspec.json.encode(names) + b"}"
    reader = wire.ArgsReader()
    args = reader.read(body)
    reply = wire.encode(wire.all_kept(reader.json_of(args.node_names)))
    assert reply == wire.encode(wire.ExtenderFilterResult(node_names=names))
    assert reader.json_of(list(names)) == b""
