"""What can go wrong between us and the apiserver."""

from typing import Final, Literal

from kube_sched_ext.errors import KubeSchedExtError

_GONE: Final = 410
_BAD_REQUEST: Final = 400
_NOT_ALLOWED: Final = (401, 403)

Trouble = Literal["Credentials", "Unreachable", "Untrusted", "Timeout", "Disconnected", "Malformed"]
"""Why there is no answer.

Credentials: none could be had. Unreachable: no connection. Untrusted: TLS failed. Timeout: nothing
came in time. Disconnected: the answer broke off. Malformed: what came is no answer of an apiserver.
"""


class ApiError(KubeSchedExtError):
    """The apiserver refused, as its Status tells it."""

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        code: int,
        *,
        causes: tuple[str, ...] = (),
        retry_after: float = 0.0,
    ) -> None:
        """Keep what the apiserver said.

        Args:
            status: the HTTP status; 200 for an error that came as an event of a watch.
            reason: one word, such as Forbidden, Conflict or Expired.
            message: what is wrong, for people.
            code: the HTTP status that the error stands for.
            causes: words for details, such as ResourceVersionTooLarge.
            retry_after: seconds that the apiserver asked to wait.
        """
        super().__init__(f"{code} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.code = code
        self.causes = causes
        self.retry_after = retry_after

    @property
    def needs_list(self) -> bool:
        """Whether a watch from the same version can never succeed."""
        return self.code in (_GONE, _BAD_REQUEST) or "ResourceVersionTooLarge" in self.causes

    @property
    def is_expired(self) -> bool:
        """Whether the version, or the place in a list, is no longer kept."""
        return self.code == _GONE

    @property
    def is_refusal(self) -> bool:
        """Whether it is about who we are or what we may do."""
        return self.code in _NOT_ALLOWED


class NoAnswerError(KubeSchedExtError):
    """There is no answer, or no whole one; what was asked for may still have happened."""

    def __init__(self, reason: Trouble, message: str) -> None:
        """Keep the kind of trouble, and words about it."""
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


ClusterError = ApiError | NoAnswerError
"""Everything that a call to the apiserver raises."""
