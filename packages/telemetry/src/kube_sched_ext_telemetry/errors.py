"""What goes wrong between Prometheus and us."""

from kube_sched_ext.errors import KubeSchedExtError


class PrometheusError(KubeSchedExtError):
    """A query without a usable answer.

    `reason` is one word or an HTTP status, the same for the same cause; the text says more.
    """

    def __init__(self, reason: str, message: str, *, is_about_query: bool = False) -> None:
        """Keep the reason, and whether other queries may fare better."""
        super().__init__(message)
        self.reason = reason
        self.is_about_query = is_about_query
