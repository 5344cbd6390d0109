"""Values: what is refused and in which words, and what the others change."""

import json
import re

import pytest
import yaml
from deploy_programs import (
    configuration,
    environment,
    of_kind,
    refusal,
    rendered,
    the,
    workload,
)
from render import CHART, chart_readme, values

SAFE = {"agents.safe.enabled": True}
TWO = SAFE | {"agents.congestion.enabled": True}
SERVICE = SAFE | {"shape": "service"}
TLS = {"tls.enabled": True, "tls.secretName": "agents-tls"}

REFUSED = [
    # What the schema says.
    (SAFE | {"shape": "pod"}, "at '/shape': value must be one of 'scheduler', 'service'"),
    (SAFE | {"replica": 2}, "additional properties 'replica' not allowed"),
    (SAFE | {"replicas": 0}, "at '/replicas': minimum: got 0, want 1"),
    (
        SAFE | {"agents.safe.wieght": 5},
        "at '/agents/safe': additional properties 'wieght' not allowed",
    ),
    (SAFE | {"agents.safe.weight": 0}, "at '/agents/safe/weight': minimum: got 0, want 1"),
    (
        SAFE | {"agents.safe.ignorable": "maybe"},
        "at '/agents/safe/ignorable': got string, want boolean",
    ),
    (SAFE | {"agents.safe.timeout": 5}, "at '/agents/safe/timeout': got number, want string"),
    (
        SAFE | {"configuration.apiVersion": "v1alpha1"},
        "at '/configuration/apiVersion': value must be one of 'v1', 'v1beta3', 'v1beta2'",
    ),
    (
        SAFE | {"configuration.percentageOfNodesToScore": 101},
        "at '/configuration/percentageOfNodesToScore': maximum: got 101, want 100",
    ),
    (SAFE | {"configuration.profiles": []}, "at '/configuration/profiles': minItems"),
    (
        SAFE | {"configuration.profiles": [{"scoreWeights": {"NodeResourcesFit": 200}}]},
        "maximum: got 200, want 100",
    ),
    (SERVICE | {"service.reach": "dns"}, "'name', 'clusterIP', 'nodePort', 'hostNetwork'"),
    (SAFE | {"tls.scheduler.use": "file"}, "value must be one of 'files', 'data'"),
    # What values say against each other.
    ({}, "agents: none is enabled; set agents.NAME.enabled=true, where NAME is one of congestion,"),
    (
        SAFE | {"agents.saef.enabled": True},
        "agents.saef: kube-scheduler would ask it nothing; is the name right?",
    ),
    (
        SAFE | {"agents.safe.timeout": "5"},
        'agents.safe.timeout is "5"; give a number with its unit, such as 5s or 500ms',
    ),
    (
        SAFE | {"agents.safe.source": "promtheus"},
        "agents.safe.source is promtheus; allowed: annotations, prometheus",
    ),
    (
        TWO | {"agents.congestion.source": "prometheus"},
        "agents.congestion.source is prometheus; the agent has no choice, leave it empty",
    ),
    (
        SAFE | {"agents.safe.source": "prometheus"},
        "prometheus.url: is not set, and agents.safe gets its data from there",
    ),
    (
        SAFE | {"prometheus.url": "prometheus:9090"},
        'prometheus.url is "prometheus:9090"; give it with http:// or https:// before it',
    ),
    (
        SAFE | {"pathPrefix": "scheduler"},
        'pathPrefix is "scheduler"; give words that each have / before them, such as /scheduler',
    ),
    (
        SAFE | {"agents.safe.settings": {"HTTP_PORT": 80}},
        "agents.safe.settings.HTTP_PORT: the chart sets HTTP_PORT itself",
    ),
    (
        SAFE | {"agents.safe.settings": {"TLS_CERT_FILE": "/x"}},
        "agents.safe.settings.TLS_CERT_FILE: the chart sets TLS_CERT_FILE itself",
    ),
    (SAFE | {"agents.safe.port": 80}, "agents.safe.port is 80; allowed: 1024 to 64535"),
    (
        TWO | {"agents.safe.port": 5500, "agents.congestion.port": 5500},
        "agents.congestion.port and agents.safe.port are both 5500",
    ),
    (
        TWO | {"agents.safe.port": 6500, "agents.congestion.port": 5500},
        "port 6500 is taken by agents.congestion; an agent takes its port and that + 1000",
    ),
    (
        TWO | {"agents.safe.bind": True, "agents.congestion.bind": True},
        "bind: agents.congestion, agents.safe all bind; kube-scheduler takes one that does",
    ),
    (
        SAFE
        | {
            "agents.safe.bind": True,
            "configuration.extenders": [{"urlPrefix": "http://other", "bindVerb": "bind"}],
        },
        "bind: agents.safe, http://other all bind; kube-scheduler takes one that does",
    ),
    (
        SAFE
        | {
            "agents.safe.managedResources": [{"name": "example.com/widget"}],
            "configuration.extenders": [
                {"urlPrefix": "http://o", "managedResources": [{"name": "example.com/widget"}]}
            ],
        },
        "example.com/widget is managed by agents.safe and by http://o; kube-scheduler takes it in",
    ),
    (
        SAFE | {"configuration.extenders": [{"urlPrefix": "http://o", "filterverb": "f"}]},
        "at '/configuration/extenders/0': additional properties 'filterverb' not allowed",
    ),
    (
        TWO
        | {
            "agents.safe.managedResources": [{"name": "example.com/widget"}],
            "agents.congestion.managedResources": [{"name": "example.com/widget"}],
        },
        "example.com/widget is managed by agents.congestion too; kube-scheduler takes it in one",
    ),
    (
        SAFE | {"agents.safe.managedResources": [{"name": "cpu"}]},
        'agents.safe.managedResources: "cpu" is no extended resource',
    ),
    (
        SAFE | {"nodeCache": False, "agents.safe.nudge": True},
        "agents.safe.nudge: needs nodeCache: true, which sees nodes change",
    ),
    (
        SERVICE | {"service.reach": "nodePort"},
        "agents.safe.nodePort: is not set, and service.reach is nodePort",
    ),
    (
        SERVICE | {"service.reach": "clusterIP"},
        "service.clusterIP: is not set, and service.reach is clusterIP",
    ),
    (
        SERVICE | {"service.reach": "hostNetwork", "metrics.serviceMonitor.enabled": True},
        "metrics.serviceMonitor.enabled: with service.reach hostNetwork the agents listen on",
    ),
    (
        SAFE | {"configuration.profiles": [{"schedulerName": "one"}, {"schedulerName": "one"}]},
        "configuration.profiles: schedulerName one is there twice",
    ),
    (
        SAFE | {"replicas": 2, "configuration.leaderElection.enabled": False},
        "configuration.leaderElection.enabled: is false with several replicas",
    ),
    (
        SAFE | {"configuration.leaderElection.leaseDuration": "15"},
        'configuration.leaderElection.leaseDuration is "15"; give a number with its unit',
    ),
    (SAFE | {"tls.enabled": True}, "tls.secretName: is not set; name a secret with tls.crt"),
    (
        SAFE | {"tls.enabled": True, "tls.certManager.enabled": True},
        "tls.certManager.issuer.name: is not set",
    ),
    (SAFE | {"tls.clients.required": True}, "tls.clients.required: needs tls.enabled: true"),
    (
        SAFE | TLS | {"tls.scheduler.use": "data"},
        "tls.scheduler.caData: is not set; without a CA kube-scheduler would check no certificate",
    ),
    (
        SAFE | TLS | {"tls.clients.required": True},
        "tls.scheduler.secretName: is not set, and tls.clients.required asks kube-scheduler for",
    ),
    (
        SAFE | TLS | {"tls.scheduler": {"use": "data", "caData": "PEM", "certData": "PEM"}},
        "tls.scheduler.certData, keyData: one is of no use without the other",
    ),
]


@pytest.mark.parametrize(("given", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_wrong_values_are_refused_in_plain_words(given: dict[str, object], words: str) -> None:
    """The value, its place, and what is allowed."""
    assert words in refusal(given)


def test_all_that_is_wrong_is_told_at_once() -> None:
    """Not one thing for each try."""
    words = refusal(
        SERVICE | {"service.reach": "clusterIP", "agents.safe.timeout": "5", "pathPrefix": "x"}
    )
    for place in ("service.clusterIP", "agents.safe.timeout", "pathPrefix"):
        assert f"  {place}" in words


def containers(given: dict[str, object]) -> dict[str, dict[str, str]]:
    """Return the environments of the agents' containers, by name and in order."""
    made = workload(rendered(given))["spec"]["template"]["spec"]["containers"]
    return {it["name"]: environment(it) for it in made if "env" in it}


@pytest.mark.parametrize(
    ("given", "ports"),
    [
        (TWO, ["5401", "5402"]),
        (TWO | {"basePort": 7000}, ["7000", "7001"]),
        (TWO | {"agents.safe.port": 5401}, ["5401", "5402"]),
        (TWO | {"agents.congestion.port": 6000}, ["5401", "6000"]),
    ],
)
def test_agents_get_ports_in_a_row(given: dict[str, object], ports: list[str]) -> None:
    """From basePort on, around those that are given; health and metrics 1000 above."""
    made = containers(given)
    assert list(made) == ["my-extender-ctr-1", "my-extender-ctr-2"]
    assert [it["HTTP_PORT"] for it in made.values()] == ports
    assert [it["OPS_PORT"] for it in made.values()] == [str(int(it) + 1000) for it in ports]


def test_containers_can_be_named_after_their_agents() -> None:
    """As `kubectl logs -c safe` would have it."""
    assert list(containers(TWO | {"agentContainerPrefix": ""})) == ["congestion", "safe"]


@pytest.mark.parametrize(
    ("given", "name", "text"),
    [
        ({"agents.safe.settings": {"SAFEPERCENTILE": 20.5}}, "SAFEPERCENTILE", "20.5"),
        ({"agents.safe.settings": {"MAX_BODY_BYTES": 268435456}}, "MAX_BODY_BYTES", "268435456"),
        ({"agents.safe.settings": {"SAFEPRINTTABLE": True}}, "SAFEPRINTTABLE", "true"),
        ({"agents.safe.settings": {"LOG_LEVEL": "DEBUG"}}, "LOG_LEVEL", "DEBUG"),
        ({"pathPrefix": "/x"}, "PATH_PREFIX", "/x"),
        ({"nodeCache": False}, "NODE_CACHE", "false"),
        ({"agents.safe.bind": True}, "BIND", "true"),
        ({"agents.safe.nudge": True}, "NUDGE", "true"),
        ({}, "SAFE_SOURCE", "annotations"),
        (
            {"agents.safe.source": "prometheus", "prometheus.url": "http://p:9090"},
            "PROMETHEUS_URL",
            "http://p:9090",
        ),
        (TLS, "TLS_CERT_FILE", "/etc/kube-sched-ext/tls/tls.crt"),
        (TLS, "TLS_KEY_FILE", "/etc/kube-sched-ext/tls/tls.key"),
        (
            TLS | {"tls.clients.required": True, "tls.scheduler.secretName": "s"},
            "TLS_CLIENT_CA_FILE",
            "/etc/kube-sched-ext/client-ca/ca.crt",
        ),
        (TLS | {"tls.clients": {"required": True, "names": ["a", "b"]},
            "tls.scheduler.secretName": "s"}, "TLS_CLIENT_NAMES", "a,b"),
    ],
)  # fmt: skip
def test_values_reach_the_agent_as_settings(given: dict[str, object], name: str, text: str) -> None:
    """By the names that `kube-sched-ext settings` lists, written as it reads them."""
    [made] = containers(SAFE | given).values()
    assert made[name] == text


@pytest.mark.parametrize(
    ("given", "does_roll"),
    [
        ({"configuration.percentageOfNodesToScore": 100}, True),
        ({"agents.safe.weight": 6}, True),
        ({"agents.safe.settings": {"SAFEPERCENTILE": 20}}, True),
        ({"podDisruptionBudget.enabled": False}, False),
        ({"replicas": 2}, False),
    ],
)
def test_pods_roll_when_what_they_run_changes(given: dict[str, object], *, does_roll: bool) -> None:
    """Settings are in the pod, the configuration is by its checksum; nothing else is."""
    before, after = (workload(rendered(it))["spec"]["template"] for it in (SAFE, SAFE | given))
    assert (before != after) is does_roll


@pytest.mark.parametrize(
    ("given", "strategy"),
    [
        (SAFE, None),
        (SAFE | {"configuration.leaderElection.enabled": False}, "Recreate"),
        (SERVICE, None),
        (SERVICE | {"service.hostNetwork": True}, "Recreate"),
    ],
)
def test_pods_that_exclude_each_other_follow_each_other(
    given: dict[str, object], strategy: str | None
) -> None:
    """Two schedulers without a Lease, or two users of a node's port."""
    assert workload(rendered(given))["spec"].get("strategy", {}).get("type") == strategy


@pytest.mark.parametrize(
    ("given", "kind", "is_there"),
    [
        (SAFE, "PodDisruptionBudget", True),
        (SAFE, "NetworkPolicy", True),
        (SAFE, "Service", False),
        (SAFE, "ServiceMonitor", False),
        (SAFE, "Certificate", False),
        (SERVICE, "Service", True),
        (SERVICE | {"service.reach": "hostNetwork"}, "DaemonSet", True),
        (SERVICE | {"service.reach": "hostNetwork"}, "Service", False),
        (SERVICE | {"service.reach": "hostNetwork"}, "PodDisruptionBudget", False),
        (SERVICE | {"service.reach": "hostNetwork"}, "NetworkPolicy", False),
        (SAFE | {"serviceAccount.create": False}, "ServiceAccount", False),
        (SAFE | {"metrics.serviceMonitor.enabled": True}, "ServiceMonitor", True),
    ],
)
def test_what_is_installed(given: dict[str, object], kind: str, *, is_there: bool) -> None:
    """No more than is asked for and makes sense."""
    assert bool(of_kind(rendered(given), kind)) is is_there


def test_nobody_but_its_own_scheduler_asks_the_verbs() -> None:
    """In shape scheduler the policy opens health and metrics only."""
    [rule] = the(rendered(SAFE), "NetworkPolicy")["spec"]["ingress"]
    assert [it["port"] for it in rule["ports"]] == [6401, 10259]


def test_a_key_is_never_in_a_configmap() -> None:
    """A configuration that holds one is a Secret."""
    given = SAFE | TLS | {"tls.clients.required": True}
    data = {"use": "data", "caData": "CA", "certData": "CERT", "keyData": "KEY"}
    objects = rendered(given | {"tls.scheduler": data})
    assert of_kind(objects, "ConfigMap") == []
    assert the(objects, "Secret")["metadata"]["name"] == "it-config"
    assert configuration(objects)["extenders"][0]["tlsConfig"]["keyData"] == "S0VZ"


def test_the_dashboard_shows_metrics_that_there_are() -> None:
    """Each that it asks for is in a README."""
    dashboard = json.dumps(
        json.loads((CHART / "dashboards" / "kube-sched-ext.json").read_text())["panels"]
    )
    packages = CHART.parents[1] / "packages"
    known = "".join(path.read_text() for path in packages.glob("*/README.md"))
    documented = set(re.findall(r"`(kube_sched_ext_\w+)[`{]", known))
    asked = set(re.findall(r"kube_sched_ext_\w+", dashboard))
    families = {re.sub(r"_seconds_(bucket|count)$", "_seconds", it) for it in asked}
    assert families
    assert families <= documented


def test_the_readme_is_current() -> None:
    """`nox -s examples` writes its table from the values."""
    assert (CHART / "README.md").read_text() == chart_readme()


def test_every_value_has_a_meaning() -> None:
    """A comment of its own above it."""
    assert [path for path, default, meaning in values() if default and not meaning] == []


def test_the_schema_knows_every_value() -> None:
    """And nothing that is no value: helm would take what no template reads."""
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())

    def paths(node: dict[str, object], prefix: str) -> set[str]:
        node = schema["definitions"]["agent"] if "$ref" in node else node
        found: set[str] = set()
        for name, below in node.get("properties", {}).items():  # type: ignore[attr-defined]
            path = f"{prefix}{name}"
            inner = "properties" in below or below.get("$ref", "").endswith("agent")
            found |= paths(below, f"{path}.") if inner else {path}
        return found

    tables = {path for path, _, _ in values()}
    in_schema = paths(schema, "") - {"global", "agents"}
    flow = {"agentDefaults.resources", "scheduler.resources"}
    issuer = {f"tls.certManager.issuer.{it}" for it in ("name", "kind", "group")}
    assert in_schema - flow - issuer <= tables
