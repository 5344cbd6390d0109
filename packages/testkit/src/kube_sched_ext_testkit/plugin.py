"""Fixtures for authors of agents and extenders.

pytest imports this in every run, needed or not: so what is heavy, or counted in coverage, is
imported where it is used.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from kube_sched_ext import Agent
    from kube_sched_ext.config import CoreSettings
    from kube_sched_ext_testkit.builders import JSON
    from kube_sched_ext_testkit.scheduler import Extender


class ServeAgents(Protocol):
    """Serves agents on a loopback port until the test ends."""

    def __call__(
        self,
        *agents: "Agent[Any]",
        nodes: "Sequence[JSON]" = (),
        settings: "CoreSettings | None" = None,
    ) -> str:
        """Return the prefix of their URLs; names are looked up in `nodes`."""


@pytest.fixture
def serve_app() -> Iterator[Callable[[Any], str]]:
    """Serve an ASGI application with a real server; call it with the application for the URL."""
    from kube_sched_ext_testkit import serving  # noqa: PLC0415

    with ExitStack() as stack:
        yield lambda app: stack.enter_context(serving.serve_app(app))


@pytest.fixture
def serve_agents() -> Iterator[ServeAgents]:
    """Serve agents with a real server; call it with them for the prefix of their URLs."""
    from kube_sched_ext_testkit import serving  # noqa: PLC0415

    with ExitStack() as stack:

        def serve(
            *agents: "Agent[Any]",
            nodes: "Sequence[JSON]" = (),
            settings: "CoreSettings | None" = None,
        ) -> str:
            running = serving.serve_agents(*agents, nodes=nodes, settings=settings)
            return stack.enter_context(running)

        yield serve


@pytest.fixture
def new_extender() -> Iterator[Callable[..., "Extender"]]:
    """Ask an extender as kube-scheduler does; takes what Extender takes, and closes it."""
    from kube_sched_ext_testkit.scheduler import Extender  # noqa: PLC0415

    with ExitStack() as stack:
        yield lambda *args, **options: stack.enter_context(Extender(*args, **options))
