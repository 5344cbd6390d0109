"""Calls to the apiserver: what is sent, and what comes of each answer."""

import json
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster_fake import FakeApiserver, Lines, Reply, status
from kubernetes.client import Configuration

from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext_cluster.access import Access, find_access, in_cluster
from kube_sched_ext_cluster.api import Api
from kube_sched_ext_cluster.errors import ApiError, NoAnswerError
from kube_sched_ext_cluster.resources import NODES

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: {context}
clusters: [{{name: c, cluster: {{server: "{server}"}}}}]
users: [{{name: u, user: {{token: "{token}"}}}}]
contexts: [{{name: test, context: {{cluster: c, user: u}}}}]
"""


def test_a_node_is_annotated_by_a_merge_patch(apiserver: FakeApiserver) -> None:
    """Other annotations stay, None removes."""
    apiserver.api().annotate_node("n/1", {"a": "1", "b": None})
    [request] = apiserver.asked("patch")
    assert request.path == "/api/v1/nodes/n%2F1"
    assert request.headers["content-type"] == "application/merge-patch+json"
    assert request.headers["user-agent"].startswith("kube-sched-ext/")
    assert request.body == '{"metadata":{"annotations":{"a":"1","b":null}}}'


@pytest.mark.parametrize(("force", "text"), [(True, "true"), (False, "false")])
def test_annotations_are_applied_for_a_manager(
    apiserver: FakeApiserver, text: str, *, force: bool
) -> None:
    """With the node's UID, without which a node that is gone would be made anew."""
    apiserver.api().apply_annotations("n/1", {"a": "1"}, uid="u", manager="m", force=force)
    [request] = apiserver.asked("patch")
    assert request.path == "/api/v1/nodes/n%2F1"
    assert request.query == {"fieldManager": "m", "force": text}
    assert request.headers["content-type"] == "application/apply-patch+yaml"
    assert json.loads(request.body) == {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n/1", "uid": "u", "annotations": {"a": "1"}},
    }


def test_a_refusal_is_told_in_the_apiservers_words(apiserver: FakeApiserver) -> None:
    """Reason, message and code of its Status, and what it asks to wait."""
    details = {"causes": [{"reason": "ResourceVersionTooLarge"}], "retryAfterSeconds": 1}
    told = status(504, "Timeout", "Too large resource version", details=details)
    apiserver.script["patch"].append(Reply(504, told, {"Retry-After": "3"}))
    with pytest.raises(ApiError) as caught:
        apiserver.api().annotate_node("n", {})
    error = caught.value
    assert (error.status, error.code, error.reason) == (504, 504, "Timeout")
    assert error.message == "Too large resource version"
    assert error.needs_list
    assert error.retry_after == 3.0


@pytest.mark.parametrize("code", [301, 503])
def test_an_answer_of_a_proxy_is_a_refusal_too(apiserver: FakeApiserver, code: int) -> None:
    """Redirects are not followed, and text in the place of a Status is shown."""
    apiserver.script["list"].append(Reply(code, "<html>no</html>", {"Location": "/elsewhere"}))
    with pytest.raises(ApiError, match="<html>no</html>") as caught:
        apiserver.api().list_page(NODES, limit=1)
    assert caught.value.code == code
    assert len(apiserver.requests) == 1


def test_nothing_is_tried_twice_in_silence(apiserver: FakeApiserver) -> None:
    """Not even what urllib3 would repeat of its own: a GET that breaks off, a Retry-After."""
    apiserver.script["list"].append(
        Reply(200, "{}", {"Content-Length": "100", "Connection": "close"})
    )
    apiserver.script["list"].append(Reply(503, status(503, "x"), {"Retry-After": "0"}))
    api = apiserver.api()
    with pytest.raises(NoAnswerError, match="Disconnected"):
        api.list_page(NODES, limit=1)
    with pytest.raises(ApiError):
        api.list_page(NODES, limit=1)
    assert len(apiserver.requests) == 2


def test_an_answer_that_does_not_come_is_given_up(apiserver: FakeApiserver) -> None:
    """Within the time that the call allows."""
    apiserver.script["patch"].append(Lines(end="hang"))
    began = time.monotonic()
    with pytest.raises(NoAnswerError, match="Timeout"):
        apiserver.api(read_seconds=0.1).annotate_node("n", {})
    assert time.monotonic() - began < 2


def test_a_connection_has_less_time_than_an_answer(apiserver: FakeApiserver) -> None:
    """The limit for connecting does not end a watch that is quiet for longer."""
    apiserver.put("a")
    threading.Timer(0.4, apiserver.put, ["b"]).start()
    api = apiserver.api(connect_seconds=0.1)
    with api.watch(NODES, version="2", seconds=300, silence_seconds=5.0) as stream:
        assert b'"b"' in next(iter(stream))[0]


def test_a_port_where_nobody_listens_is_unreachable() -> None:
    """And so told."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        host = f"http://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(NoAnswerError, match="Unreachable"):
            Api(Access(lambda: Configuration(host=host))).list_page(NODES, limit=1)


def test_a_server_without_tls_is_not_trusted(apiserver: FakeApiserver) -> None:
    """Https is never weakened."""
    access = Access(lambda: Configuration(host=apiserver.url.replace("http:", "https:")))
    with pytest.raises(NoAnswerError, match="Untrusted"):
        Api(access, connect_seconds=5.0).list_page(NODES, limit=1)


def test_credentials_that_cannot_be_had_are_no_answer(apiserver: FakeApiserver) -> None:
    """A plugin may raise whatever it likes."""

    def load() -> Configuration:
        configuration = Configuration(host=apiserver.url, api_key={"authorization": "x"})
        configuration.refresh_api_key_hook = refresh
        return configuration

    def refresh(_: Configuration) -> None:
        raise RuntimeError("plugin is ill")

    with pytest.raises(NoAnswerError, match="plugin is ill"):
        Api(Access(load)).list_page(NODES, limit=1)


@pytest.fixture
def kubeconfig(tmp_path: Path, apiserver: FakeApiserver) -> Callable[..., Path]:
    """Write a kubeconfig."""

    def write(token: str, context: str = "test", name: str = "config") -> Path:
        path = tmp_path / name
        path.write_text(KUBECONFIG.format(server=apiserver.url, token=token, context=context))
        return path

    return write


def test_a_kubeconfig_is_told_or_found_in_the_environment(
    apiserver: FakeApiserver, kubeconfig: Callable[..., Path]
) -> None:
    """What is told wins over KUBECONFIG, and that over the pod's own account."""
    told, found = str(kubeconfig("told", name="a")), str(kubeconfig("found", name="b"))
    variables = {"KUBECONFIG": found, "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    for access in (
        find_access(told, variables=variables),
        find_access(variables=variables),
        find_access(str(kubeconfig("x", context="", name="c")), "test", {}),
    ):
        api = Api(access)
        api.list_page(NODES, limit=1)
        api.close()
    assert [it.headers["authorization"] for it in apiserver.requests] == [
        "Bearer told",
        "Bearer found",
        "Bearer x",
    ]


def test_credentials_are_read_again_after_a_401(
    apiserver: FakeApiserver, kubeconfig: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """But not with every request."""
    api = Api(find_access(str(kubeconfig("old"))))
    kubeconfig("new")
    apiserver.script["list"] += [Reply(401, status(401, "Unauthorized"))] * 2
    for _ in range(2):
        with pytest.raises(ApiError):
            api.list_page(NODES, limit=1)
    monkeypatch.setattr("kube_sched_ext_cluster.access._RENEWAL_SECONDS", 0.0)
    api.list_page(NODES, limit=1)
    tokens = [it.headers["authorization"] for it in apiserver.requests]
    assert tokens == ["Bearer old", "Bearer old", "Bearer new"]


def test_no_access_says_where_it_was_looked_for(tmp_path: Path) -> None:
    """A missing file, a context that is not in it, a pod without an account."""
    missing = str(tmp_path / "missing")
    with pytest.raises(ConfigurationError, match="missing"):
        find_access(missing, variables={})
    (tmp_path / "broken").write_text("[")
    with pytest.raises(ConfigurationError, match="broken"):
        find_access(variables={"KUBECONFIG": str(tmp_path / "broken")})
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert in_cluster(pod)
    assert not in_cluster({})
    with pytest.raises(ConfigurationError, match="in the cluster"):
        find_access(variables=pod)
