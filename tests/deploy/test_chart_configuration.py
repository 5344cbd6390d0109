"""The rendered KubeSchedulerConfiguration: every field, and kube-scheduler's own word on it."""

import base64
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from control_plane import BINARY, JSON
from deploy_programs import check_strictly, configuration, configuration_text, rendered
from deploy_sets import AUTHORITY, CLIENT, KEY_AS_DATA, SETS

SAFE = {"agents.safe.enabled": True}
TWO = SAFE | {"agents.congestion.enabled": True}
SERVICE = SAFE | {"shape": "service"}
MUTUAL = {"tls.enabled": True, "tls.secretName": "agents-tls", "tls.clients.required": True}
DATA = MUTUAL | {"tls.scheduler": KEY_AS_DATA}
OLDER = ("v1beta2", "v1beta3")
TLS_FOLDERS = ("/etc/kubernetes/kube-sched-ext", "/etc/kube-sched-ext/scheduler-tls")


@pytest.fixture
def scheduler_takes(tmp_path: Path) -> Callable[[JSON], str]:
    """Have kube-scheduler decode, default, validate and write down a configuration."""
    access = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "none",
        "clusters": [{"name": "none", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "none", "context": {"cluster": "none"}}],
    }
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(access))
    AUTHORITY.cert_pem.write_to_path(tmp_path / "ca.crt")
    CLIENT.cert_chain_pems[0].write_to_path(tmp_path / "tls.crt")
    CLIENT.private_key_pem.write_to_path(tmp_path / "tls.key")

    def taken(content: JSON) -> str:
        content["clientConnection"]["kubeconfig"] = str(tmp_path / "kubeconfig")
        text = yaml.safe_dump(content)
        for folder in TLS_FOLDERS:
            text = text.replace(folder, str(tmp_path))
        (tmp_path / "config.yaml").write_text(text)
        written = tmp_path / "written.yaml"
        command = [os.environ[BINARY], "kube-scheduler", "--secure-port=0"]
        command += [f"--config={tmp_path / 'config.yaml'}", f"--write-config-to={written}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return written.read_text()

    return taken


@pytest.mark.parametrize("name", [it for it in SETS if it not in OLDER])
def test_kube_scheduler_takes_it(name: str, scheduler_takes: Callable[[JSON], str]) -> None:
    """Strictly decoded and validated by v1.36.3, extenders as they were rendered."""
    content = configuration(rendered(SETS[name]))
    written = yaml.safe_load(scheduler_takes(content))
    for ours, theirs in zip(content["extenders"], written["extenders"], strict=True):
        assert ours.pop("tlsConfig", {}).keys() == theirs.pop("tlsConfig", {}).keys()
        # It leaves out what is false.
        assert {key: theirs.get(key, False) for key in ours} == ours


@pytest.mark.parametrize("version", OLDER)
@pytest.mark.parametrize("name", [it for it in SETS if it not in OLDER])
def test_older_versions_decode_into_their_published_types(name: str, version: str) -> None:
    """Of Kubernetes 1.23, the oldest that is meant."""
    text = configuration_text(rendered({**SETS[name], "configuration.apiVersion": version}))
    assert f"kubescheduler.config.k8s.io/{version}\n" in text
    check_strictly(text)


def extender_of(given: dict[str, object]) -> JSON:
    """Return the first extender that is rendered."""
    found: JSON = configuration(rendered(given))["extenders"][0]
    return found


def test_an_extender_has_every_field() -> None:
    """As kube-scheduler knows them."""
    given = SAFE | DATA | {
        "agents.safe": {
            "enabled": True,
            "bind": True,
            "weight": 7,
            "timeout": "800ms",
            "ignorable": False,
            "managedResources": [{"name": "example.com/widget", "ignoredByScheduler": True}],
        },
    }  # fmt: skip
    content = configuration(rendered(given))
    tls = content["extenders"][0].pop("tlsConfig")
    assert content["extenders"] == [
        {
            "urlPrefix": "https://127.0.0.1:5401/scheduler",
            "filterVerb": "predicates/safe-overload",
            "prioritizeVerb": "priorities/safe-overload",
            "preemptVerb": "preemption",
            "bindVerb": "bind",
            "weight": 7,
            "enableHTTPS": True,
            "httpTimeout": "800ms",
            "nodeCacheCapable": True,
            "ignorable": False,
            "managedResources": [{"name": "example.com/widget", "ignoredByScheduler": True}],
        }
    ]
    assert tls.pop("serverName") == "it.kube-system.svc"
    decoded = {key: base64.b64decode(value).decode() for key, value in tls.items()}
    assert decoded == {key: value for key, value in KEY_AS_DATA.items() if key != "use"}


@pytest.mark.parametrize(
    ("given", "url", "server_name"),
    [
        (SAFE | DATA, "https://127.0.0.1:5401/scheduler", "it.kube-system.svc"),
        (SERVICE | MUTUAL, "https://it.kube-system.svc:5401/scheduler", "it.kube-system.svc"),
        (
            SERVICE | MUTUAL | {"service.reach": "clusterIP", "service.clusterIP": "10.0.0.50"},
            "https://10.0.0.50:5401/scheduler",
            "it.kube-system.svc",
        ),
        (
            SERVICE | MUTUAL | {"service.reach": "clusterIP", "service.clusterIP": "fd00::50"},
            "https://[fd00::50]:5401/scheduler",
            "it.kube-system.svc",
        ),
        (
            SERVICE | MUTUAL | {"service.reach": "nodePort", "agents.safe.nodePort": 30036},
            "https://127.0.0.1:30036/scheduler",
            "it.kube-system.svc",
        ),
        (
            SERVICE | MUTUAL | {"service.reach": "hostNetwork", "pathPrefix": "/x"},
            "https://127.0.0.1:5401/x",
            "it.kube-system.svc",
        ),
        (
            SERVICE | MUTUAL | {"tls.serverName": "agents.example"},
            "https://it.kube-system.svc:5401/scheduler",
            "agents.example",
        ),
    ],
)
def test_the_url_and_the_name_in_the_certificate_match_the_way(
    given: dict[str, object], url: str, server_name: str
) -> None:
    """Whatever address is asked, the certificate is for the Service's name, unless told."""
    made = extender_of(given)
    assert (made["urlPrefix"], made["tlsConfig"]["serverName"]) == (url, server_name)


@pytest.mark.parametrize(
    ("given", "files"),
    [
        (
            SAFE | MUTUAL | {"tls.scheduler.secretName": "s"},
            {
                "caFile": "/etc/kube-sched-ext/scheduler-tls/ca.crt",
                "certFile": "/etc/kube-sched-ext/scheduler-tls/tls.crt",
                "keyFile": "/etc/kube-sched-ext/scheduler-tls/tls.key",
            },
        ),
        (
            SAFE | MUTUAL | {"tls.clients.required": False},
            {"caFile": "/etc/kube-sched-ext/scheduler-tls/ca.crt"},
        ),
        (
            SERVICE | MUTUAL | {"tls.scheduler.caFile": "/a", "tls.scheduler.keyFile": "/c"},
            {
                "caFile": "/a",
                "certFile": "/etc/kubernetes/kube-sched-ext/tls.crt",
                "keyFile": "/c",
            },
        ),
    ],
)
def test_kube_scheduler_is_told_files(given: dict[str, object], files: dict[str, str]) -> None:
    """Mounted ones in its own pod, the machine's otherwise; a certificate only where asked for."""
    made = extender_of(given)["tlsConfig"]
    made.pop("serverName")
    assert made == files


def test_there_is_never_https_without_a_ca() -> None:
    """kube-scheduler would check nothing, and say nothing."""
    for given in SETS.values():
        for made in configuration(rendered(given))["extenders"]:
            if made["urlPrefix"].startswith("https:"):
                assert made["tlsConfig"].get("caFile") or made["tlsConfig"].get("caData")


def test_safe_is_asked_before_congestion() -> None:
    """Extenders stand in the order of their ports."""
    made = configuration(rendered(TWO | {"agents.safe.port": 5401}))["extenders"]
    assert [it["urlPrefix"] for it in made] == [
        "http://127.0.0.1:5401/scheduler",
        "http://127.0.0.1:5402/scheduler",
    ]


@pytest.mark.parametrize(("given", "is_capable"), [({}, True), ({"nodeCache": False}, False)])
def test_kube_scheduler_sends_names_where_agents_know_the_nodes(
    given: dict[str, object], *, is_capable: bool
) -> None:
    """And only there."""
    assert extender_of(SAFE | given)["nodeCacheCapable"] is is_capable


def test_the_bind_verb_is_the_word_that_the_agent_serves() -> None:
    """BIND_PATH changes both."""
    given = {"agents.safe": {"enabled": True, "bind": True, "settings": {"BIND_PATH": "tie"}}}
    assert extender_of(given)["bindVerb"] == "tie"


@pytest.mark.parametrize(
    ("given", "kubeconfig", "lease", "name"),
    [
        (SAFE, None, ("kube-system", "it"), "my-scheduler"),
        (
            SERVICE,
            "/etc/kubernetes/scheduler.conf",
            ("kube-system", "kube-scheduler"),
            "default-scheduler",
        ),
        (
            SERVICE
            | {
                "configuration.kubeconfig": "/k",
                "configuration.leaderElection.leaseName": "a",
                "configuration.leaderElection.leaseNamespace": "b",
                "configuration.profiles": [{"schedulerName": "c"}],
            },
            "/k",
            ("b", "a"),
            "c",
        ),
    ],
)
def test_who_the_scheduler_is_depends_on_the_shape(
    given: dict[str, object], kubeconfig: str | None, lease: tuple[str, str], name: str
) -> None:
    """In shape service it stays who it was: a static pod with --config loses its other options."""
    made = configuration(rendered(given))
    assert made["clientConnection"].get("kubeconfig") == kubeconfig
    elected = made["leaderElection"]
    assert (elected["resourceNamespace"], elected["resourceName"]) == lease
    assert [it["schedulerName"] for it in made["profiles"]] == [name]


def test_profiles_switch_scores_off_and_weigh_them(
    scheduler_takes: Callable[[JSON], str],
) -> None:
    """Several profiles, each with its own."""
    profiles = [
        {"schedulerName": "one", "disabledScores": ["*"]},
        {"schedulerName": "two", "disabledScores": ["ImageLocality"]},
        {"schedulerName": "three", "scoreWeights": {"NodeResourcesFit": 3}},
        {"disabledScores": ["*"], "scoreWeights": {"ImageLocality": 2}},
    ]
    content = configuration(rendered(SAFE | {"configuration.profiles": profiles}))
    assert content["profiles"] == [
        {"schedulerName": "one", "plugins": {"score": {"disabled": [{"name": "*"}]}}},
        {"schedulerName": "two", "plugins": {"score": {"disabled": [{"name": "ImageLocality"}]}}},
        {
            "schedulerName": "three",
            "plugins": {
                "score": {
                    "disabled": [{"name": "NodeResourcesFit"}],
                    "enabled": [{"name": "NodeResourcesFit", "weight": 3}],
                }
            },
        },
        {
            "schedulerName": "my-scheduler",
            "plugins": {
                "score": {
                    "disabled": [{"name": "*"}],
                    "enabled": [{"name": "ImageLocality", "weight": 2}],
                }
            },
        },
    ]
    scheduler_takes(content)


def test_extenders_of_others_come_last() -> None:
    """As they are given."""
    other = {"urlPrefix": "http://127.0.0.1:8888/", "filterVerb": "filter"}
    made = configuration(rendered(SAFE | {"configuration.extenders": [other]}))["extenders"]
    assert made[-1] == other
