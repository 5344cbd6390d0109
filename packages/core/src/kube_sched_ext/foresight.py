"""What prioritize will be asked next, answered before it is.

kube-scheduler asks filter, scores the nodes that are left itself, and then asks prioritize about
the same pod and those nodes. In between this process would be idle.
"""

from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Final

import msgspec

from kube_sched_ext import wire
from kube_sched_ext.calls import Answer
from kube_sched_ext.errors import AgentError
from kube_sched_ext.metrics import Metrics
from kube_sched_ext.stores import Rows
from kube_sched_ext.table import NodeTable

Answering = Callable[[bytes | bytearray], Answer]

_SECONDS: Final = 1.0
"""How late data that get too old may still count."""


class Foresight:
    """Answers for calls that are expected, which stand as long as nothing has changed."""

    def __init__(
        self, table: NodeTable, metrics: Metrics, clock: Callable[[], float] = monotonic
    ) -> None:
        """Answer for what is in `table`; `clock` tells seconds."""
        self._table = table
        self._count = metrics.foreseen_answers
        self._clock = clock
        self._body = b""
        self._rows: Rows | None = None
        self._since = table.moment
        self._until = 0.0
        self._answers: dict[Answering, Answer] = {}
        # Who was asked what was expected. Where no priority is configured, nobody is.
        self._expecting: dict[Answering, None] = {}

    def ahead(self, answering: Answering, *, is_local: bool) -> Answering:
        """Return `answering`, whose answers may be worked out ahead: it must have no effect.

        With `is_local` they depend on no other nodes than those asked about.
        """

        def answer(body: bytes | bytearray) -> Answer:
            if body != self._body:
                return answering(body)
            self._expecting[answering] = None
            foreseen = self._answers.pop(answering, None)
            if foreseen is None:
                return answering(body)
            has_changed = self._table.has_changed(self._since, self._rows if is_local else None)
            if has_changed or self._clock() > self._until:
                self._count.labels("outdated").inc()
                return answering(body)
            self._count.labels("used").inc()
            return foreseen

        return answer

    def expect(self, body: bytes, rows: Rows) -> None:
        """Work out the answers of those who were asked what was expected last time.

        `rows` are those of the nodes in `body`.
        """
        if body != self._body:
            self._give_up()
        elif not self._table.has_changed(self._since):
            return
        self._body, self._rows = body, rows
        self._since, self._until = self._table.moment, self._clock() + _SECONDS
        self._answers.clear()
        for answering in self._expecting:
            try:
                answer = answering(body)
            except AgentError:
                # Told when it is asked for.
                continue
            self._answers[answering] = replace(
                answer, message=msgspec.Raw(wire.encode(answer.message))
            )

    def _give_up(self) -> None:
        for answering in self._answers:
            self._count.labels("unused").inc()
            del self._expecting[answering]
