"""How a watch stands."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic

from kube_sched_ext.health import Condition


@dataclass(slots=True)
class WatchState:
    """How a watch stands. Its thread writes, all others read; times are of `clock`, in seconds."""

    clock: Callable[[], float] = monotonic
    synced: bool = False
    """Whether the first list is in the view, to its last object."""
    connected: bool = False
    changed_at: float = field(default=0.0)
    """When `connected` changed, or the watch began."""
    heard_at: float | None = None
    """When the last list, change or bookmark came."""
    objects: int = 0
    lists: int = 0
    """Complete lists."""
    watches: int = 0
    """Watches that the apiserver accepted."""
    ends: Counter[str] = field(default_factory=Counter)
    """How watches and lists ended, by reason; "Closed" and "Silent" are ordinary."""
    unreadable: int = 0
    """Objects and lines that could not be read."""
    error: str = ""
    """The last error; empty while connected."""

    def __post_init__(self) -> None:
        """Count the time from now."""
        self.changed_at = self.clock()

    def heard(self) -> None:
        """Note that something came."""
        self.heard_at = self.clock()

    def connect(self) -> None:
        """Note that a watch was accepted."""
        self.watches += 1
        self.connected, self.changed_at, self.error = True, self.clock(), ""

    def disconnect(self, reason: str, error: str = "") -> None:
        """Note why a watch or a list ended."""
        self.ends[reason] += 1
        if self.connected:
            self.connected, self.changed_at = False, self.clock()
        self.error = error

    @property
    def down_seconds(self) -> float:
        """How long there has been no watch; 0 while there is one."""
        return 0.0 if self.connected else self.clock() - self.changed_at

    def condition(self, max_down_seconds: float) -> Condition:
        """Return the condition for health: required until synced, then shown when down too long."""
        error = f": {self.error}" if self.error else ""
        if not self.synced:
            return Condition(ok=False, detail=f"the first list is not complete{error}")
        down = self.down_seconds
        if down > max_down_seconds:
            detail = f"{self.objects} known, no watch for {down:.0f} s{error}"
            return Condition(ok=False, detail=detail, required=False)
        return Condition(ok=True, detail=f"{self.objects} known")
