"""Settings of the way to Prometheus."""

import re
from pathlib import Path
from typing import Annotated, Final

import msgspec

from kube_sched_ext import setting

_URL: Final = re.compile(r"https?://[^/?#@\s]+(/[^?#\s]*)?")
_HEADER: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class TelemetrySettings(msgspec.Struct, frozen=True):
    """Where Prometheus is, who we are there, and how often it is asked."""

    url: Annotated[
        str,
        setting(
            "PROMETHEUS_URL",
            "URL of whatever speaks Prometheus' API, with a path where it has one. Agents that "
            "read Prometheus need it, unless their own settings name another.",
            allowed="a URL such as http://prometheus:9090 or https://metrics.example/prometheus",
        ),
    ] = ""
    refresh_seconds: Annotated[
        float,
        setting("PROMETHEUS_REFRESH_SECONDS", "Time between two refreshes of an agent.", ge=1),
    ] = 15.0
    timeout_seconds: Annotated[
        float,
        setting(
            "PROMETHEUS_TIMEOUT_SECONDS",
            "Time that Prometheus may take for a query, until its answer is complete.",
            gt=0,
        ),
    ] = 5.0
    node_labels: Annotated[
        str,
        setting(
            "PROMETHEUS_NODE_LABELS",
            "Labels that name the node of a series, with commas between: the first that a series "
            "has counts. Its value is a node's name, or one of its addresses, with or without a "
            "port.",
            allowed="names of labels, with commas between",
        ),
    ] = "kubernetes_node,node,instance"
    token_file: Annotated[
        str,
        setting("PROMETHEUS_TOKEN_FILE", "File with a bearer token, read anew for each refresh."),
    ] = ""
    user: Annotated[
        str, setting("PROMETHEUS_USER", "User for basic authentication; needs the password's file.")
    ] = ""
    password_file: Annotated[
        str,
        setting(
            "PROMETHEUS_PASSWORD_FILE", "File with the user's password, read anew for each refresh."
        ),
    ] = ""
    ca_file: Annotated[
        str,
        setting(
            "PROMETHEUS_CA_FILE",
            "File with the certificates of those who may vouch for an https:// address, instead of "
            "the usual ones.",
        ),
    ] = ""
    certificate_file: Annotated[
        str,
        setting("PROMETHEUS_CERTIFICATE_FILE", "File with our certificate, for mutual TLS."),
    ] = ""
    key_file: Annotated[
        str, setting("PROMETHEUS_KEY_FILE", "File with the private key of our certificate.")
    ] = ""
    headers: Annotated[
        dict[str, str],
        setting(
            "PROMETHEUS_HEADERS",
            "Further headers, as for tenants: X-Scope-OrgID=team-a. Values with commas need the "
            "YAML file.",
            allowed="NAME=VALUE,...",
        ),
    ] = {}

    def __post_init__(self) -> None:
        """Check what no single field shows."""
        problems = [
            f"{name}: {path!r} is no file that can be read"
            for name, path in (
                ("PROMETHEUS_TOKEN_FILE", self.token_file),
                ("PROMETHEUS_PASSWORD_FILE", self.password_file),
                ("PROMETHEUS_CA_FILE", self.ca_file),
                ("PROMETHEUS_CERTIFICATE_FILE", self.certificate_file),
                ("PROMETHEUS_KEY_FILE", self.key_file),
            )
            if path and not _can_be_read(Path(path))
        ]
        problems += url_problems("PROMETHEUS_URL", self.url)
        if bool(self.user) != bool(self.password_file):
            problems.append("PROMETHEUS_USER, PROMETHEUS_PASSWORD_FILE: one needs the other")
        if self.user and self.token_file:
            problems.append("PROMETHEUS_USER, PROMETHEUS_TOKEN_FILE: only one can be sent")
        if self.key_file and not self.certificate_file:
            problems.append("PROMETHEUS_KEY_FILE: needs PROMETHEUS_CERTIFICATE_FILE")
        if not self.labels:
            problems.append("PROMETHEUS_NODE_LABELS: names no label")
        problems += [
            f"PROMETHEUS_HEADERS: {name!r} is no header, or its value has a line's end"
            for name, value in self.headers.items()
            if not _HEADER.fullmatch(name) or {"\r", "\n"} & set(value)
        ]
        if problems:
            raise ValueError("\n".join(problems))

    @property
    def labels(self) -> list[str]:
        """The labels that name a node, in the order in which they are tried."""
        return [name.strip() for name in self.node_labels.split(",") if name.strip()]


def url_problems(setting_name: str, url: str) -> list[str]:
    """Return what is wrong with `url`, as errors tell it; an empty one is not set."""
    if not url or _URL.fullmatch(url):
        return []
    # It may hold a password, so it is not repeated.
    words = "is no URL such as http://prometheus:9090, without user, query and fragment"
    return [f"{setting_name}: {words}"]


def _can_be_read(path: Path) -> bool:
    try:
        path.open("rb").close()
    except OSError:
        return False
    return True
