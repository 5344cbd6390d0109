"""Who we are and where the apiserver is: the kubernetes package's part.

It is imported here alone and late: a process that watches no cluster does not pay for it.
"""

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final

from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext_cluster.errors import NoAnswerError

if TYPE_CHECKING:
    import urllib3
    from kubernetes.client import Configuration

_CONNECTIONS: Final = 32
_RENEWAL_SECONDS: Final = 10.0


def in_cluster(variables: Mapping[str, str]) -> bool:
    """Tell whether these are the environment variables of a pod."""
    return bool(variables.get("KUBERNETES_SERVICE_HOST"))


@dataclass(frozen=True, slots=True)
class _Loaded:
    configuration: "Configuration"
    pool: "urllib3.PoolManager"


class Access:
    """Where the apiserver is, connections to it, and credentials that stay fresh.

    Thread-safe. Credentials are refreshed by the kubernetes package. Some it reads only once (a
    token in a kubeconfig, a client certificate), so all is loaded again after a 401, at most every
    10 s.
    """

    def __init__(self, load: "Callable[[], Configuration]") -> None:
        """Load the configuration now, and again after a 401."""
        self._load = load
        self._lock = threading.Lock()
        self._loaded = self._fresh()
        self._loaded_at = monotonic()
        self._is_refused = False

    def connection(self) -> "tuple[str, dict[str, str], urllib3.PoolManager]":
        """Return the apiserver's URL, the headers that tell who we are, and the connections.

        Raises:
            NoAnswerError: the credentials cannot be had.
        """
        with self._lock:
            try:
                self._renew()
                configuration = self._loaded.configuration
                token = configuration.auth_settings().get("BearerToken")
            except Exception as error:
                # Plugins for credentials raise what they like.
                raise NoAnswerError("Credentials", repr(error)) from error
            host, pool = configuration.host.rstrip("/"), self._loaded.pool
        value = token["value"] if token else None
        return host, {"authorization": value} if value else {}, pool

    def refused(self) -> None:
        """Note that the apiserver did not accept the credentials."""
        self._is_refused = True

    def close(self) -> None:
        """Close the connections that nobody uses."""
        self._loaded.pool.clear()

    def _renew(self) -> None:
        if self._is_refused and monotonic() - self._loaded_at >= _RENEWAL_SECONDS:
            self._loaded_at = monotonic()
            replaced = self._loaded
            self._loaded = self._fresh()
            self._is_refused = False
            replaced.pool.clear()

    def _fresh(self) -> _Loaded:
        from kubernetes.client.rest import RESTClientObject  # noqa: PLC0415  # see the module

        configuration = self._load()
        configuration.connection_pool_maxsize = _CONNECTIONS
        return _Loaded(configuration, RESTClientObject(configuration).pool_manager)


def find_access(
    kubeconfig: str = "", context: str = "", variables: Mapping[str, str] = os.environ
) -> Access:
    """Return access as told, or as found.

    A kubeconfig or a context that is told comes first, then the one in KUBECONFIG, then the
    service account of the pod that this process is in, then ~/.kube/config.

    Args:
        kubeconfig: path of a kubeconfig, or several as in KUBECONFIG.
        context: name of a context in it; its current one where left out.
        variables: the environment.

    Raises:
        ConfigurationError: there is none, or it cannot be used.
    """
    path = kubeconfig or variables.get("KUBECONFIG", "")
    if not path and not context and in_cluster(variables):
        return _access("in the cluster", _load_pod)
    path = path or str(Path("~/.kube/config").expanduser())
    return _access(path, lambda: _load_kubeconfig(path, context or None))


def _access(place: str, load: "Callable[[], Configuration]") -> Access:
    try:
        return Access(load)
    except Exception as error:  # a kubeconfig can be wrong in any way
        raise ConfigurationError([f"no access to a cluster: {place}: {error}"]) from error


def _load_pod() -> "Configuration":
    from kubernetes.client import Configuration  # noqa: PLC0415
    from kubernetes.config import load_incluster_config  # noqa: PLC0415

    configuration = Configuration()
    load_incluster_config(configuration)  # type: ignore[no-untyped-call]  # theirs
    return configuration


def _load_kubeconfig(path: str, context: str | None) -> "Configuration":
    from kubernetes.client import Configuration  # noqa: PLC0415
    from kubernetes.config import load_kube_config  # noqa: PLC0415

    configuration = Configuration()
    load_kube_config(path, context, configuration)  # type: ignore[no-untyped-call]  # theirs
    return configuration
