"""The settings of the core itself."""

from functools import cached_property
from typing import Annotated, Literal

import msgspec

from kube_sched_ext.errors import UnparsableError
from kube_sched_ext.logs import Format, Level
from kube_sched_ext.objects import Pod
from kube_sched_ext.selection import PodSelector, names_in, parse_selector
from kube_sched_ext.settings import setting

_WORD = r"^[A-Za-z0-9._~-]+\Z"
_WORD_ALLOWED = "a word of letters, digits, dots, hyphens, underscores and tildes"
_LAST_PORT = 65535
_PREFIX = r"^(/[A-Za-z0-9._~-]+)*\Z"


class CoreSettings(msgspec.Struct, frozen=True, dict=True):
    """How a process listens, logs and answers."""

    http_host: Annotated[
        str, setting("HTTP_HOST", "Address that both listeners bind; empty: all interfaces.")
    ] = ""
    http_port: Annotated[int, setting("HTTP_PORT", "Port of the verbs.", ge=1, le=_LAST_PORT)] = 80
    ops_port: Annotated[
        int,
        setting(
            "OPS_PORT", "Port of health and metrics; 0: HTTP_PORT + 1000.", ge=0, le=_LAST_PORT
        ),
    ] = 0
    log_level: Annotated[
        Level,
        setting(
            "LOG_LEVEL",
            "Least grave level that is logged. DEBUG adds a line per node and score, TRACE what "
            "each score was made of, and replies.",
        ),
    ] = "INFO"
    log_format: Annotated[Format, setting("LOG_FORMAT", "How log lines are written.")] = "json"
    path_prefix: Annotated[
        str,
        setting(
            "PATH_PREFIX",
            "What every path starts with.",
            pattern=_PREFIX,
            allowed="empty, or words that each have / before them, such as /scheduler",
            may_be_empty=True,
        ),
    ] = "/scheduler"
    predicates_word: Annotated[
        str,
        setting(
            "PREDICATES_PATH",
            "Word before a predicate's name in its path.",
            pattern=_WORD,
            allowed=_WORD_ALLOWED,
        ),
    ] = "predicates"
    priorities_word: Annotated[
        str,
        setting(
            "PRIORITIES_PATH",
            "Word before a priority's name in its path.",
            pattern=_WORD,
            allowed=_WORD_ALLOWED,
        ),
    ] = "priorities"
    filter_word: Annotated[
        str,
        setting(
            "FILTER_PATH",
            "Word for all predicates in one call.",
            pattern=_WORD,
            allowed=_WORD_ALLOWED,
        ),
    ] = "filter"
    prioritize_word: Annotated[
        str,
        setting(
            "PRIORITIZE_PATH",
            "Word for all priorities in one call.",
            pattern=_WORD,
            allowed=_WORD_ALLOWED,
        ),
    ] = "prioritize"
    preemption_word: Annotated[
        str,
        setting(
            "PREEMPTION_PATH", "Word for the preempt verb.", pattern=_WORD, allowed=_WORD_ALLOWED
        ),
    ] = "preemption"
    priority_weights: Annotated[
        dict[Annotated[str, msgspec.Meta(min_length=1)], Annotated[int, msgspec.Meta(ge=0)]],
        setting(
            "PRIORITY_WEIGHTS",
            "Weight of each priority, an integer from 0, where all are asked in one call, as in "
            "safe-overload=2,congestion=0. Those not named weigh 1.",
        ),
    ] = {}
    except_predicates: Annotated[
        str,
        setting(
            "EXCEPT_PREDICATES",
            "Predicates that are left out where all are asked in one call, with commas between; "
            "each keeps its own path.",
        ),
    ] = ""
    unknown_nodes: Annotated[
        Literal["keep", "drop"],
        setting(
            "UNKNOWN_NODES",
            "What happens to names that are no known node. keep: filters keep them, priorities "
            "score them as nodes without data. drop: filters reject them, priorities leave them "
            "out.",
        ),
    ] = "keep"
    tls_cert_file: Annotated[
        str,
        setting(
            "TLS_CERT_FILE",
            "Certificate of the verbs' port, in PEM, intermediate ones after it; empty: no TLS.",
        ),
    ] = ""
    tls_key_file: Annotated[
        str, setting("TLS_KEY_FILE", "Private key of that certificate, in PEM.")
    ] = ""
    tls_client_ca_file: Annotated[
        str,
        setting(
            "TLS_CLIENT_CA_FILE",
            "CAs, in PEM, one of which must have signed a client's certificate; empty: clients "
            "need none.",
        ),
    ] = ""
    tls_client_names: Annotated[
        str,
        setting(
            "TLS_CLIENT_NAMES",
            "Common names of the clients that are answered, with commas between; empty: all with "
            "a valid certificate.",
        ),
    ] = ""
    only_namespaces: Annotated[
        str,
        setting(
            "ONLY_NAMESPACES",
            "Namespaces whose pods the agents are asked about, with commas between; empty: all. "
            "Other pods pass through: every node stays, none is scored.",
        ),
    ] = ""
    except_namespaces: Annotated[
        str,
        setting("EXCEPT_NAMESPACES", "Namespaces whose pods pass through, with commas between."),
    ] = ""
    only_schedulers: Annotated[
        str,
        setting(
            "ONLY_SCHEDULERS",
            "Values of schedulerName whose pods the agents are asked about, with commas between; "
            "empty: all.",
        ),
    ] = ""
    except_schedulers: Annotated[
        str,
        setting(
            "EXCEPT_SCHEDULERS",
            "Values of schedulerName whose pods pass through, with commas between.",
        ),
    ] = ""
    only_labels: Annotated[
        str,
        setting(
            "ONLY_LABELS",
            "Label selector of the pods that the agents are asked about; empty: all.",
            allowed="a label selector such as app=web,tier in (a, b),!legacy",
        ),
    ] = ""
    except_labels: Annotated[
        str,
        setting(
            "EXCEPT_LABELS",
            "Label selector of the pods that pass through; empty: none.",
            allowed="a label selector such as app=web,tier in (a, b),!legacy",
        ),
    ] = ""
    config_file: Annotated[
        str,
        setting("CONFIG_FILE", "YAML file of settings by name; the environment wins over it."),
    ] = ""
    nodes_file: Annotated[
        str,
        setting(
            "NODES_FILE",
            "Snapshot of the cluster (kubectl get nodes -o json) that names are looked up in.",
        ),
    ] = ""
    max_body_bytes: Annotated[
        int, setting("MAX_BODY_BYTES", "Largest request body taken, in bytes.", ge=1)
    ] = 256 * 1024 * 1024
    body_timeout_seconds: Annotated[
        float,
        setting("BODY_TIMEOUT_SECONDS", "Time that a request's body may take to arrive.", gt=0),
    ] = 30.0
    keep_alive_seconds: Annotated[
        int,
        setting(
            "KEEP_ALIVE_SECONDS",
            "Time that an idle connection stays open. kube-scheduler keeps its side for 90 s; "
            "less than that here makes calls fail now and then.",
            ge=1,
        ),
    ] = 120
    shutdown_seconds: Annotated[
        int,
        setting("SHUTDOWN_SECONDS", "Time that calls under way get to finish on SIGTERM.", ge=1),
    ] = 25

    def __post_init__(self) -> None:
        """Check what no single field shows."""
        problems = []
        if self.operations_port > _LAST_PORT:
            problems.append(
                f"OPS_PORT: is not set, and HTTP_PORT + 1000 = {self.operations_port} is no port; "
                "set OPS_PORT"
            )
        if self.ops_port == self.http_port:
            problems.append(f"OPS_PORT: {self.ops_port} is HTTP_PORT too; they must differ")
        for given, needed in (
            ("tls_cert_file", "tls_key_file"),
            ("tls_key_file", "tls_cert_file"),
            ("tls_client_ca_file", "tls_cert_file"),
            ("tls_client_names", "tls_client_ca_file"),
        ):
            if getattr(self, given) and not getattr(self, needed):
                problems.append(f"{needed.upper()}: is not set; {given.upper()} is, and needs it")
        for name, text in (
            ("ONLY_LABELS", self.only_labels),
            ("EXCEPT_LABELS", self.except_labels),
        ):
            try:
                parse_selector(text)
            except UnparsableError as error:
                problems.append(f"{name}: {error}")
        words = [self.predicates_word, self.priorities_word]
        words += [self.filter_word, self.prioritize_word, self.preemption_word]
        if len(set(words)) < len(words):
            problems.append(
                "PREDICATES_PATH, PRIORITIES_PATH, FILTER_PATH, PRIORITIZE_PATH, PREEMPTION_PATH: "
                f"{', '.join(words)} must differ from each other"
            )
        if problems:
            raise ValueError("\n".join(problems))

    def selects(self, pod: Pod) -> bool:
        """Tell whether the agents are asked about `pod`."""
        return self._only.has_all(pod) and not self._except.has_any(pod)

    @cached_property
    def _only(self) -> PodSelector:
        return PodSelector(
            names_in(self.only_namespaces),
            names_in(self.only_schedulers),
            parse_selector(self.only_labels),
        )

    @cached_property
    def _except(self) -> PodSelector:
        return PodSelector(
            names_in(self.except_namespaces),
            names_in(self.except_schedulers),
            parse_selector(self.except_labels),
        )

    @property
    def operations_port(self) -> int:
        """The port of health and metrics."""
        return self.ops_port or self.http_port + 1000
