"""What an agent is: settings, what it reads from a node, and its verbs."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MethodType
from typing import Any, ClassVar, Final, Generic, Literal, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from kube_sched_ext.errors import AgentError
from kube_sched_ext.health import Condition
from kube_sched_ext.logs import Level
from kube_sched_ext.nodes import Nodes
from kube_sched_ext.objects import Pod
from kube_sched_ext.reading import NodeReader
from kube_sched_ext.stores import FloatColumns, NodeStore

MAX_SCORE: Final = 10
"""kube-scheduler multiplies what it gets and clamps nothing: a higher score distorts the sum."""

Explanation = Mapping[str, NDArray[Any]]
"""Named arrays of shape (n,), in the order of the nodes: what a verdict or score was made of."""


class LazyExplanation(Mapping[str, NDArray[Any]]):
    """An explanation that is worked out when it is read, which most never are."""

    def __init__(self, explain: Callable[[], Explanation]) -> None:
        """Let `explain` return it."""
        self._explain = explain

    @cached_property
    def _parts(self) -> Explanation:
        return self._explain()

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return one array."""
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        """Return the names."""
        return iter(self._parts)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._parts)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Which nodes a predicate rejects.

    `rejected` maps each reason to a boolean array of shape (n,). kube-scheduler adds up equal
    reasons in the pod's event, so they are few, fixed and without numbers; numbers go into
    `explanation`. A node with several reasons shows the first.
    """

    rejected: Mapping[str, NDArray[np.bool_]] = field(default_factory=dict)
    explanation: Explanation = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Scores:
    """How a priority ranks nodes: integers 0..10 of shape (n,), already rounded."""

    values: NDArray[np.integer[Any]]
    explanation: Explanation = field(default_factory=dict)


class NoSettings(msgspec.Struct, frozen=True):
    """For agents that need none."""


DependsOn = Literal["nodes", "cluster", "calls"]

SettingsT = TypeVar("SettingsT", bound=msgspec.Struct)
ResultT = TypeVar("ResultT")


class _Verb(Generic[ResultT]):
    """A method that answers one path; read from an agent, it is called as any method."""

    def __init__(self, name: str, method: Callable[[Any, Pod, Nodes], ResultT]) -> None:
        self.name = name
        self.method = method
        self.__doc__ = method.__doc__

    def __get__(self, agent: object, owner: type[object]) -> Callable[[Pod, Nodes], ResultT]:
        return MethodType(self.method, agent)


class _PredicateVerb(_Verb[Verdict]):
    preemption_can_help = False


class _PriorityVerb(_Verb[Scores]):
    depends_on: DependsOn = "cluster"


def predicate(
    name: str, *, preemption_can_help: bool = False
) -> Callable[[Callable[[Any, Pod, Nodes], Verdict]], _PredicateVerb]:
    """Serve the method as predicate `name`.

    Say `preemption_can_help` only where evicting pods can change the verdict: kube-scheduler then
    tries preemption on the nodes rejected, which otherwise ends in an error for each of them.
    """

    def mark(method: Callable[[Any, Pod, Nodes], Verdict]) -> _PredicateVerb:
        verb = _PredicateVerb(name, method)
        verb.preemption_can_help = preemption_can_help
        return verb

    return mark


def priority(
    name: str, *, depends_on: DependsOn = "cluster"
) -> Callable[[Callable[[Any, Pod, Nodes], Scores]], _PriorityVerb]:
    """Serve the method as priority `name`.

    Scores are worked out before kube-scheduler asks for them, and again where what they depend on
    has changed by then. Beside the pod that is what the agent keeps of the nodes asked about
    ("nodes"), of any node ("cluster"), or of the calls before ("calls"): such a verb is called when
    kube-scheduler asks, and only then.
    """

    def mark(method: Callable[[Any, Pod, Nodes], Scores]) -> _PriorityVerb:
        verb = _PriorityVerb(name, method)
        verb.depends_on = depends_on
        return verb

    return mark


@dataclass(frozen=True, slots=True)
class Predicate:
    """One predicate of one agent; `run` returns masks of the shape promised."""

    agent: str
    name: str
    preemption_can_help: bool
    method: Callable[[Pod, Nodes], Verdict]

    def run(self, pod: Pod, nodes: Nodes) -> Verdict:
        """Return the agent's verdict.

        Raises:
            AgentError: the masks are not boolean arrays of shape (n,).
        """
        verdict = self.method(pod, nodes)
        for reason, mask in verdict.rejected.items():
            if mask.dtype != np.bool_ or mask.shape != (len(nodes),):
                raise AgentError(
                    f"predicate {self.name} returned {mask.dtype}{mask.shape} for {reason!r}, "
                    f"not bool({len(nodes)},)"
                )
        return verdict


@dataclass(frozen=True, slots=True)
class Priority:
    """One priority of one agent; `run` returns scores that kube-scheduler takes as they are."""

    agent: str
    name: str
    depends_on: DependsOn
    method: Callable[[Pod, Nodes], Scores]

    def run(self, pod: Pod, nodes: Nodes) -> Scores:
        """Return the agent's scores.

        Raises:
            AgentError: the scores are not integers 0..10 of shape (n,).
        """
        scores = self.method(pod, nodes)
        values = scores.values
        if not np.issubdtype(values.dtype, np.integer) or values.shape != (len(nodes),):
            raise AgentError(
                f"priority {self.name} returned {values.dtype}{values.shape}, "
                f"not integers({len(nodes)},)"
            )
        if len(values) and (values.min() < 0 or values.max() > MAX_SCORE):
            raise AgentError(
                f"priority {self.name} returned scores from {values.min()} to {values.max()}, "
                f"not within 0..{MAX_SCORE}"
            )
        return scores


class Agent(Generic[SettingsT]):
    """Base of all agents: a name, settings, columns read from nodes, and verbs.

    A subclass names itself and its settings' type, lists its `columns` and reads them in `row`,
    and marks its verbs with `predicate` and `priority`.
    """

    name: ClassVar[str]
    settings_type: ClassVar[type[msgspec.Struct]] = NoSettings
    columns: ClassVar[tuple[str, ...]] = ()
    explanation_level: Level = "TRACE"
    """From which log level on it is told what each verdict and score was made of."""

    def __init__(self, settings: SettingsT | None = None) -> None:
        """Use `settings`, or the defaults of `settings_type`."""
        self.settings: SettingsT = (
            self.settings_type() if settings is None else settings  # type: ignore[assignment]  # a ClassVar cannot be generic
        )

    def row(self, node: NodeReader) -> Sequence[float]:
        """Return the numbers of `columns` for a node; called once per change of the node."""
        return ()

    def new_store(self) -> NodeStore:
        """Return an empty store; override it to keep more of a node than floats."""
        return FloatColumns(self.columns, self.row)

    def conditions(self) -> Mapping[str, Callable[[], Condition]]:
        """Return what `/readyz?verbose` shows of the agent, by name; asked at each probe."""
        return {}

    @property
    def predicates(self) -> list[Predicate]:
        """The predicates of the agent, in the order of their definition, bases first."""
        return [
            Predicate(
                self.name, verb.name, verb.preemption_can_help, verb.__get__(self, type(self))
            )
            for verb in self._members()
            if isinstance(verb, _PredicateVerb)
        ]

    @property
    def priorities(self) -> list[Priority]:
        """The priorities of the agent, in the order of their definition, bases first."""
        return [
            Priority(self.name, verb.name, verb.depends_on, verb.__get__(self, type(self)))
            for verb in self._members()
            if isinstance(verb, _PriorityVerb)
        ]

    def _members(self) -> Iterable[object]:
        members: dict[str, object] = {}
        for base in reversed(type(self).__mro__):
            members |= vars(base)
        return members.values()
