"""The errors that users of the core see."""

from collections.abc import Sequence


class KubeSchedExtError(Exception):
    """Base of all errors raised on purpose by this project."""


class UnparsableError(KubeSchedExtError, ValueError):
    """A value that is not in the notation its reader expects."""

    def __init__(self, value: object, expected: str) -> None:
        """Keep what was read and what would have been right."""
        super().__init__(f"{value!r} is not {expected}")
        self.value = value
        self.expected = expected


class ConfigurationError(KubeSchedExtError):
    """Everything that is wrong with how a process was asked to run, collected.

    `problems` has one line each; the text joins them.
    """

    def __init__(self, problems: Sequence[str]) -> None:
        """Keep the lines; there is at least one."""
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class RequestError(KubeSchedExtError):
    """A request that cannot be answered as asked: its status says how, its text says where."""

    def __init__(self, status: int, message: str) -> None:
        """Keep the HTTP status (4xx) to answer with."""
        super().__init__(message)
        self.status = status


class AgentError(KubeSchedExtError):
    """An agent raised, or returned what no agent may return.

    `pod` is the pod that it was asked about, as namespace/name.
    """

    def __init__(self, message: str, pod: str = "") -> None:
        """Keep the pod, where it is known."""
        super().__init__(message)
        self.pod = pod
