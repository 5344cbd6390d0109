"""What a path does: the verb behind it, and what the log says of each call."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

VerbName = Literal["filter", "prioritize", "preempt", "bind"]


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply, what the log says of it, and what to do once it is on its way."""

    message: object
    pod: str
    nodes_in: int
    nodes_out: int
    then: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class Call:
    """One path of one verb.

    `answer` gets the body. It may raise RequestError for one that cannot be answered and AgentError
    where an agent fails. `name` is the predicate's or priority's, empty where the path has none.
    """

    verb: VerbName
    path: str
    name: str
    agents: str
    answer: Callable[[bytes | bytearray], Answer | Awaitable[Answer]]
