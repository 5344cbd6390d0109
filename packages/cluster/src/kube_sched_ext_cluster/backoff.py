"""How long to wait before the next attempt."""

import random
from collections.abc import Callable


class Backoff:
    """Twice as long after each failure, up to a limit, and never the same for two processes."""

    def __init__(
        self,
        first: float = 0.2,
        longest: float = 30.0,
        chance: Callable[[], float] = random.random,
    ) -> None:
        """Wait up to `first` seconds after one failure, up to `longest` after many.

        `chance` returns a number from 0 to 1.
        """
        self._first = first
        self._longest = longest
        self._chance = chance
        self.failures = 0

    def next(self) -> float:
        """Count a failure, and return the seconds to wait: at least half of what is allowed."""
        allowed = min(self._longest, self._first * 2.0 ** min(self.failures, 60))
        self.failures += 1
        return allowed * (1.0 + self._chance()) / 2.0

    def reset(self) -> None:
        """Forget the failures."""
        self.failures = 0
