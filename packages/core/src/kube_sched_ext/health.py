"""Whether a process can serve: named conditions, shown as Kubernetes components show theirs."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Condition:
    """How one thing stands, and a few words about it.

    One that is not `required` is shown when it fails, and leaves the process ready.
    """

    ok: bool
    detail: str = ""
    required: bool = True

    def line(self, name: str) -> str:
        """Show the condition under `name`."""
        mark = "+" if self.ok else "-" if self.required else "!"
        state = "ok" if self.ok else "failed" if self.required else "failed, not required"
        return f"[{mark}]{name} {state}" + (f": {self.detail}" if self.detail else "")


class Health:
    """The conditions of a process; it is ready when all required ones are ok."""

    def __init__(self) -> None:
        """Start without conditions, which is ready."""
        self._checks: dict[str, Callable[[], Condition]] = {}

    def add(self, name: str, check: Callable[[], Condition]) -> None:
        """Ask `check` whenever readiness is asked for; it must not wait for anything."""
        self._checks[name] = check

    def ready(self) -> tuple[bool, str]:
        """Tell whether all conditions are ok, and list each on a line."""
        conditions = {name: check() for name, check in self._checks.items()}
        is_ready = all(condition.ok or not condition.required for condition in conditions.values())
        lines = [condition.line(name) for name, condition in conditions.items()]
        lines.append(f"readyz check {'passed' if is_ready else 'failed'}")
        return is_ready, "\n".join(lines) + "\n"
