"""Names of agents, and what else they name."""

import builtins
import keyword
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import distributions
from typing import Final

import kube_sched_ext
from kube_sched_ext import discovery
from kube_sched_ext_testkit.new_agent.errors import NewAgentError

ALLOWED: Final = (
    "a letter a-z, then letters, digits and single hyphens between them, 2 to 30 characters in "
    "all, such as quiet or low-noise"
)
_NAME: Final = re.compile(r"(?=.{2,30}\Z)[a-z][a-z0-9]*(-[a-z0-9]+)*\Z")
_PREFIX: Final = "kube-sched-ext-"
_OWN: Final = frozenset(
    {"cluster", "console", "core", "simulator", "telemetry", "testkit", "together"}
)
"""Packages of this project, and a task."""


@dataclass(frozen=True, slots=True)
class AgentName:
    """The name of an agent: of its folder, its entry point, its verbs, its image."""

    text: str

    @property
    def snake(self) -> str:
        """The name in identifiers."""
        return self.text.replace("-", "_")

    @property
    def camel(self) -> str:
        """The name of its class."""
        return "".join(part.capitalize() for part in self.text.split("-"))


def parse_name(text: str, taken: Iterable[str] = ()) -> AgentName:
    """Return the name in `text`.

    Args:
        text: what somebody wants to call an agent.
        taken: names that others have.

    Raises:
        NewAgentError: it is not valid, or somebody has it.
    """
    if not _NAME.match(text):
        raise NewAgentError(f"{text!r} is no name of an agent; allowed: {ALLOWED}")
    name = AgentName(text)
    if text in _OWN:
        raise NewAgentError(
            f"{text!r} is a part of this project; an agent may have any name but "
            f"{', '.join(sorted(_OWN))}"
        )
    if text in set(taken):
        raise NewAgentError(f"{text!r} is taken; taken are {', '.join(sorted(set(taken)))}")
    if _is_python(name.camel):
        raise NewAgentError(
            f"{text!r} would make a class {name.camel}, which means something else in Python or "
            "in kube_sched_ext; choose another name"
        )
    return name


def installed_names() -> list[str]:
    """Return the names that installed agents, their verbs and packages of ours have."""
    agents = discovery.load_agents(discovery.installed().values()).parts
    names = set(discovery.installed())
    for kind in agents.values():
        agent = kind()
        names |= {predicate.name for predicate in agent.predicates}
        names |= {priority.name for priority in agent.priorities}
    found = (distribution.name for distribution in distributions())
    names |= {it.removeprefix(_PREFIX) for it in found if it.startswith(_PREFIX)}
    return sorted(names)


def _is_python(word: str) -> bool:
    return keyword.iskeyword(word) or hasattr(builtins, word) or word in kube_sched_ext.__all__
