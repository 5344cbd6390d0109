"""Fixtures around the servers that tests ask."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from telemetry_fake import FakePrometheus
from telemetry_host import Process


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, bool]]:
    """The event loop that serves."""
    return "asyncio", {"use_uvloop": True}


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    """A Prometheus that answers as it is told."""
    with FakePrometheus() as server:
        yield server


@pytest.fixture
def new_process() -> Iterator[Callable[..., Process]]:
    """Make a process with agents; takes what Process takes, and closes its log."""
    with ExitStack() as stack:

        def make(*args: Any, **options: Any) -> Process:
            process = Process(*args, **options)
            stack.callback(process.close)
            return process

        yield make
