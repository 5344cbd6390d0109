"""What the command line asks for, as structs."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import msgspec

from kube_sched_ext.errors import ConfigurationError, UnparsableError
from kube_sched_ext.scheduler_config.agents import DEFAULT_WEIGHT, FIRST_PORT, Manner
from kube_sched_ext.scheduler_config.durations import duration_text, nanoseconds_of
from kube_sched_ext.scheduler_config.kinds import (
    MAX_PLUGIN_WEIGHT,
    RESOURCE_ALLOWED,
    RESOURCE_PATTERN,
    URL_ALLOWED,
    URL_PATTERN,
)
from kube_sched_ext.scheduler_config.scheduler_configuration import (
    ApiVersion,
    ManagedResource,
    TlsConfig,
)

T = TypeVar("T")

DEFAULT_TIMEOUT: Final = "5s"
_IGNORED: Final = ":ignored"
_DNS_NAME: Final = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"


class Options(msgspec.Struct, frozen=True):
    """The options, as the command line gave them; None and empty where it did not."""

    agents: tuple[str, ...] = ()
    together: bool = False
    policy: str = ""
    legacy: bool = False
    api_version: ApiVersion = "v1"
    url_prefixes: tuple[str, ...] = ()
    weights: tuple[str, ...] = ()
    priorities: tuple[str, ...] = ()
    timeouts: tuple[str, ...] = ()
    node_cache: bool | None = None
    ignorable: bool | None = None
    bind: str = ""
    managed_resources: tuple[str, ...] = ()
    tls_ca_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls_server_names: tuple[str, ...] = ()
    tls_insecure: bool = False
    scheduler_names: tuple[str, ...] = ()
    leader_election: bool | None = None
    lease: str = ""
    kubeconfig: str = ""
    percentage_of_nodes: int | None = None
    in_tree_scores: bool = True


def manners_of(options: Options, path_prefix: str) -> dict[str, Manner]:
    """Return by agent how its extender is called.

    Raises:
        ConfigurationError: everything that is wrong with the options about that.
    """
    problems = _tls_problems(options)
    agents = options.agents
    if options.bind and options.bind not in agents:
        problems.append(f"--bind: {_no_agent(options.bind, agents)}")
    urls = _each("--url-prefix", options.url_prefixes, _url, options, problems)
    weights = _each("--weight", options.weights, _weight, options, problems)
    timeouts = _each("--timeout", options.timeouts, _timeout, options, problems)
    server_names = _each("--tls-server-name", options.tls_server_names, str, options, problems)
    managed = _managed(options.managed_resources, agents, problems)
    has_tls = bool(options.tls_ca_file or options.tls_insecure)
    scheme = "https" if has_tls else "http"
    manners = {}
    for index, agent in enumerate(agents):
        port = FIRST_PORT + (0 if options.together else index)
        url = urls.get(agent, f"{scheme}://127.0.0.1:{port}{path_prefix}")
        if url.startswith("https://") != has_tls:
            needs = (
                "needs --tls-ca-file, or --tls-insecure: kube-scheduler checks no certificate "
                "without a CA, and would not say so"
            )
            problems.append(
                f"--url-prefix: {url!r} {'is not https://, as TLS asks' if has_tls else needs}"
            )
        manners[agent] = Manner(
            url_prefix=url,
            weight=weights.get(agent, DEFAULT_WEIGHT),
            http_timeout=timeouts.get(agent, DEFAULT_TIMEOUT),
            tls_config=_tls(options, server_names.get(agent, "")) if has_tls else None,
            node_cache_capable=options.node_cache is not False,
            ignorable=options.ignorable is not False,
            binds=options.bind == agent,
            managed_resources=managed.get(agent, ()),
        )
    if problems:
        raise ConfigurationError(list(dict.fromkeys(problems)))
    return manners


def lease_of(options: Options) -> tuple[str, str] | None:
    """Return namespace and name of the Lease, None where none is given.

    Raises:
        ConfigurationError: it is no name, or there is no election that takes one.
    """
    if not options.lease:
        return None
    if options.leader_election is False:
        raise ConfigurationError(["--lease: has no use with --no-leader-election"])
    found = re.fullmatch(rf"((?P<namespace>{_DNS_NAME})/)?(?P<name>{_DNS_NAME})", options.lease)
    if found is None:
        raise ConfigurationError(
            [f"--lease: {options.lease!r} is not NAME or NAMESPACE/NAME of a Lease"]
        )
    return found["namespace"] or "kube-system", found["name"]


def problems_of(options: Options) -> list[str]:
    """Return which options do not go together."""
    given = {
        "--together": options.together,
        "--url-prefix": options.url_prefixes,
        "--weight": options.weights,
        "--priority": options.priorities,
        "--timeout": options.timeouts,
        "--bind": options.bind,
        "--managed-resource": options.managed_resources,
        "--tls-ca-file": options.tls_ca_file,
        "--tls-cert-file": options.tls_cert_file,
        "--tls-key-file": options.tls_key_file,
        "--tls-server-name": options.tls_server_names,
        "--tls-insecure": options.tls_insecure,
    }
    problems = []
    if not options.agents and not options.policy:
        problems.append("AGENT: none is given; name agents, or a Policy with --policy")
    elif not options.agents:
        problems += [
            f"{name}: is about agents, and none is given" for name, it in given.items() if it
        ]
    if options.together and options.priorities:
        problems.append("--priority: with --together PRIORITY_WEIGHTS of the process weighs them")
    if options.policy and not options.in_tree_scores:
        problems.append("--no-in-tree-scores: the priorities of --policy say what scores")
    if options.legacy:
        problems += _not_in_policies(options)
    if len(set(options.scheduler_names)) < len(options.scheduler_names):
        problems.append("--scheduler-name: one is given twice; each profile must have its own")
    if "" in options.scheduler_names:
        problems.append("--scheduler-name: '' is not a name")
    return problems


def _not_in_policies(options: Options) -> list[str]:
    given = {
        "--policy": options.policy,
        "--api-version": options.api_version != "v1",
        "--scheduler-name": options.scheduler_names,
        "--leader-election": options.leader_election is not None,
        "--lease": options.lease,
        "--kubeconfig": options.kubeconfig,
        "--percentage-of-nodes": options.percentage_of_nodes is not None,
    }
    return [
        f"{name}: is no part of a Policy; leave it out with --legacy"
        for name, is_given in given.items()
        if is_given
    ]


def _tls_problems(options: Options) -> list[str]:
    problems = []
    if bool(options.tls_cert_file) != bool(options.tls_key_file):
        problems.append("--tls-cert-file, --tls-key-file: one is missing; both or neither")
    if options.tls_insecure and options.tls_ca_file:
        problems.append("--tls-insecure: has no use with --tls-ca-file; choose one")
    others = (options.tls_cert_file, options.tls_server_names)
    if any(others) and not (options.tls_ca_file or options.tls_insecure):
        problems.append("--tls-cert-file, --tls-server-name: need --tls-ca-file or --tls-insecure")
    return problems


def _each(
    option: str,
    given: Sequence[str],
    read: Callable[[str], T],
    options: Options,
    problems: list[str],
) -> dict[str, T]:
    """Return values by agent, from VALUE, which is for all, and AGENT=VALUE."""
    values: dict[str, T] = {}
    named: dict[str, T] = {}
    for text in given:
        name, equals, rest = text.partition("=")
        is_named = bool(equals) and re.fullmatch(r"[\w-]+", name) is not None
        if is_named and options.together:
            problems.append(f"{option}: {text!r} names an agent; --together has one extender")
            continue
        if is_named and name not in options.agents:
            problems.append(f"{option}: {_no_agent(name, options.agents)}")
            continue
        try:
            value = read(rest if is_named else text)
        except UnparsableError as error:
            problems.append(f"{option}: {error}")
            continue
        if is_named:
            named[name] = value
        else:
            values |= dict.fromkeys(options.agents, value)
    return values | named


def _no_agent(name: str, agents: Sequence[str]) -> str:
    return f"{name!r} is none of the agents given: {', '.join(agents) or 'none'}"


def _managed(
    given: Sequence[str], agents: Sequence[str], problems: list[str]
) -> Mapping[str, tuple[ManagedResource, ...]]:
    managed: dict[str, tuple[ManagedResource, ...]] = {}
    for text in given:
        agent, _, resource = text.partition("=")
        name = resource.removesuffix(_IGNORED)
        if agent not in agents:
            problems.append(f"--managed-resource: {_no_agent(agent, agents)}")
        elif not re.search(RESOURCE_PATTERN, name):
            problems.append(f"--managed-resource: {name!r} is not {RESOURCE_ALLOWED}")
        else:
            one = ManagedResource(name, ignored_by_scheduler=resource.endswith(_IGNORED))
            managed[agent] = (*managed.get(agent, ()), one)
    return managed


def _tls(options: Options, server_name: str) -> TlsConfig:
    return TlsConfig(
        insecure=options.tls_insecure,
        server_name=server_name,
        cert_file=options.tls_cert_file,
        key_file=options.tls_key_file,
        ca_file=options.tls_ca_file,
    )


def _url(text: str) -> str:
    if not re.search(URL_PATTERN, text):
        raise UnparsableError(text, URL_ALLOWED)
    return text.rstrip("/")


def _weight(text: str) -> int:
    expected = f"an integer from 1 to {MAX_PLUGIN_WEIGHT}"
    if not re.fullmatch(r"[0-9]{1,10}", text) or not 1 <= int(text) <= MAX_PLUGIN_WEIGHT:
        raise UnparsableError(text, expected)
    return int(text)


def _timeout(text: str) -> str:
    nanoseconds = nanoseconds_of(text)
    if nanoseconds == 0:
        raise UnparsableError(text, "a duration above 0, such as 5s or 500ms")
    return duration_text(nanoseconds)
