"""The walks of deploy/README.md, command by command, as they stand there.

Not run are the build of images, and what controllers and kubelets do: the tests start the
containers of the objects that the commands have put into the apiserver, as processes, and write the
status of workloads.
"""

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from control_plane import ADMIN, JSON, SCHEDULER
from deploy_plane import Rig
from e2e_programs import Program, free_port
from render import DEPLOY, HELM

IDLE = {"mean-free-cpu": "3600", "std-free-cpu": "100", "mean-free-memory": str(7 * 2**30)}
HOT = {"mean-free-cpu": "100", "std-free-cpu": "300", "mean-free-memory": str(7 * 2**30)}
ROOT = DEPLOY.parent
SECTIONS = re.split("^## ", (DEPLOY / "README.md").read_text(), flags=re.MULTILINE)


def commands(title: str) -> list[list[str]]:
    """Return the commands of a section, block by block."""
    [section] = [it for it in SECTIONS if it.startswith(title)]
    blocks = re.findall(r"^```sh\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)
    return [block.splitlines() for block in blocks]


OWN, PLAIN = commands("A scheduler of its own")
INSTALL, SWITCH, BACK = commands("The scheduler that runs")
[[UPGRADE]] = commands("TLS")


class Shell:
    """Where a user types: helm, kubectl, and the folders of a machine of our own."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self._machine = folder / "etc-kubernetes"
        tools = folder / "bin"
        tools.mkdir()
        (tools / "helm").symlink_to(Path(os.environ[HELM]).resolve())
        kubectl = tools / "kubectl"
        kubectl.write_text(f'#!/bin/sh\nexec {rig.plane.binary} kubectl "$@"\n')
        kubectl.chmod(0o755)
        self._env = {
            "PATH": f"{tools}:{os.environ['PATH']}",
            "HOME": str(folder),
            "KUBECONFIG": str(rig.plane.kubeconfig(ADMIN)),
        }

    def run(self, command: str) -> str:
        """Run a line as it stands, with /etc/kubernetes elsewhere."""
        line = command.replace("/etc/kubernetes", str(self._machine))
        done = subprocess.run(
            ["/bin/sh", "-ec", line],
            cwd=ROOT,
            env=self._env,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout


@pytest.fixture
def shell(rig: Rig, tmp_path: Path) -> Iterator[Shell]:
    """A shell whose releases and plain objects are taken away afterwards."""
    shell = Shell(rig, tmp_path)
    yield shell
    for name in shell.run("helm list -n kube-system -q").split():
        shell.run(f"helm uninstall {name} -n kube-system")
    kinds = "deployment,daemonset,configmap,serviceaccount,poddisruptionbudget,networkpolicy"
    label = "-n kube-system -l app.kubernetes.io/name=kube-sched-ext"
    shell.run(f"kubectl delete {kinds},role,rolebinding {label}")
    shell.run(
        "kubectl delete clusterrole,clusterrolebinding -l app.kubernetes.io/name=kube-sched-ext"
    )


def play_kubelet(rig: Rig, kind: str, name: str, ports: Mapping[int, int]) -> None:
    """Run what the apiserver has of a workload, and let its status say so."""
    path = f"/apis/apps/v1/namespaces/kube-system/{kind}s/{name}"
    made = rig.plane.api("GET", path)
    config = rig.plane.api("GET", f"/api/v1/namespaces/kube-system/configmaps/{name}-config")
    made["kind"], config["kind"] = made.get("kind") or kind.title(), "ConfigMap"
    urls = {f"127.0.0.1:{port}/": f"127.0.0.1:{other}/" for port, other in ports.items()}
    in_text = {old: new for old, new in urls.items() if old in config["data"]["config.yaml"]}
    rig.run([made, config], ports=ports, replaced=in_text if kind == "deployment" else {})
    counts = (
        ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"]
        if kind == "deployment"
        else ["desiredNumberScheduled", "updatedNumberScheduled", "numberAvailable", "numberReady"]
        + ["currentNumberScheduled", "numberMisscheduled"]
    )
    status = dict.fromkeys(counts, 1) | {"observedGeneration": made["metadata"]["generation"]}
    rig.plane.api("PATCH", f"{path}/status", {"status": status})


def other_ports(*ports: int) -> dict[int, int]:
    """Return free ports for agents' ports, and for their health and metrics."""
    moved = {}
    for port in ports:
        moved[port] = free_port()
        moved[port + 1000] = moved[port] + 1000
    return moved


def test_it_takes_less_than_ten_commands() -> None:
    """From nothing to a scheduled pod."""
    assert len(OWN) < 10


def test_the_images_that_are_built_are_those_that_run() -> None:
    """The names of the first command are the targets of the bake file, and what the chart asks."""
    targets = OWN[0].partition("--push ")[2].split()
    bake = (ROOT / "images" / "docker-bake.hcl").read_text()
    assert all(f'target "{it}"' in bake for it in targets)
    assert all(f"agents.{it}.enabled=true" in OWN[1] for it in targets)
    [registry] = re.findall(r"^REGISTRY=(\S+)/ ", OWN[0])
    assert f"image.registry={registry}," in OWN[1]


@pytest.mark.parametrize("install", [OWN[1], PLAIN[0]], ids=["helm", "plain YAML"])
def test_a_scheduler_of_its_own(rig: Rig, shell: Shell, install: str) -> None:
    """To a scheduled test-pod."""
    rig.cluster.add_node("hot", annotations=HOT)
    rig.cluster.add_node("idle", annotations=IDLE)
    shell.run(install)
    said = ""
    for command in OWN[2:]:
        if command.startswith("kubectl rollout"):
            play_kubelet(rig, "deployment", "my-scheduler", other_ports(5401, 5402))
        said = shell.run(command)
    assert "Successfully assigned default/test-pod to idle" in said


def test_tls_is_switched_on_in_a_release_that_is_there(rig: Rig, shell: Shell) -> None:
    """The command is taken; the certificates themselves are cert-manager's."""
    shell.run(OWN[1])
    with_crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "certificates.cert-manager.io"},
        "spec": {
            "group": "cert-manager.io",
            "scope": "Namespaced",
            "names": {"kind": "Certificate", "plural": "certificates"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "x-kubernetes-preserve-unknown-fields": True,
                        }
                    },
                }
            ],
        },
    }
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    rig.plane.api("POST", crds, with_crd)
    try:
        shell.run("kubectl wait --for=condition=Established crd/certificates.cert-manager.io")
        shell.run(UPGRADE)
        made = json.loads(shell.run("kubectl get certificates -n kube-system -o json"))["items"]
        names = {it["metadata"]["name"] for it in made}
        assert names == {"my-scheduler-tls", "my-scheduler-scheduler-tls"}
        shell.run("helm uninstall my-scheduler -n kube-system")
    finally:
        rig.plane.api("DELETE", f"{crds}/certificates.cert-manager.io")


MANIFEST = """\
apiVersion: v1
kind: Pod
metadata:
  labels:
    component: kube-scheduler
    tier: control-plane
  name: kube-scheduler
  namespace: kube-system
spec:
  containers:
    - command:
        - kube-scheduler
        - --authentication-kubeconfig=/etc/kubernetes/scheduler.conf
        - --authorization-kubeconfig=/etc/kubernetes/scheduler.conf
        - --bind-address=127.0.0.1
        - --kubeconfig=/etc/kubernetes/scheduler.conf
        - --leader-elect=true
      image: registry.k8s.io/kube-scheduler:v1.36.3
      name: kube-scheduler
      volumeMounts:
        - mountPath: /etc/kubernetes/scheduler.conf
          name: kubeconfig
          readOnly: true
  hostNetwork: true
  priorityClassName: system-node-critical
  volumes:
    - hostPath:
        path: /etc/kubernetes/scheduler.conf
        type: FileOrCreate
      name: kubeconfig
"""
"""A static pod as kubeadm writes it, without what does not matter here."""


class ControlPlaneNode:
    """A machine with a static pod; its /etc/kubernetes is a folder here."""

    def __init__(self, rig: Rig, folder: Path) -> None:
        self._rig = rig
        self._folder = folder
        self.etc = folder / "etc-kubernetes"
        (self.etc / "manifests").mkdir(parents=True)
        self.manifest = self.etc / "manifests" / "kube-scheduler.yaml"
        self.manifest.write_text(self.here(MANIFEST))
        (self.etc / "scheduler.conf").write_text(rig.plane.kubeconfig(SCHEDULER).read_text())
        self._running: Program | None = None

    def here(self, text: str) -> str:
        """Return a text with the folder in place of /etc/kubernetes."""
        return text.replace("/etc/kubernetes", str(self.etc))

    def play_kubelet(self) -> None:
        """Run the static pod as its manifest says, in place of the one that ran."""
        self.stop()
        pod: JSON = yaml.safe_load(self.manifest.read_text())
        [container] = pod["spec"]["containers"]
        volumes = {it["name"]: it["hostPath"]["path"] for it in pod["spec"]["volumes"]}
        mounts = {it["mountPath"]: volumes[it["name"]] for it in container["volumeMounts"]}
        for argument in container["command"]:
            path = argument.partition("=")[2]
            if path.startswith("/"):
                [mounted] = [it for it in mounts if path == it or path.startswith(f"{it}/")]
                assert mounts[mounted] == mounted, "a container sees the file where it is"
        command = [self._rig.plane.binary, *container["command"], f"--secure-port={free_port()}"]
        self._running = Program("static-pod", command, self._folder)

    def stop(self) -> None:
        """Stop what runs."""
        if self._running:
            self._running.stop()
            self._running = None


@pytest.fixture
def node(rig: Rig, tmp_path: Path) -> Iterator[ControlPlaneNode]:
    """A control-plane node of kubeadm's kind."""
    node = ControlPlaneNode(rig, tmp_path)
    yield node
    node.stop()


def test_the_scheduler_that_runs_is_taken_through_it_and_back(
    rig: Rig, shell: Shell, node: ControlPlaneNode
) -> None:
    """A static pod asks the agents after it, and is as it was after going back."""
    before = node.manifest.read_text()
    ports = other_ports(5401)
    rig.cluster.add_node("hot", annotations=HOT)
    rig.cluster.add_node("idle", annotations=IDLE)
    shell.run(INSTALL[0])
    play_kubelet(rig, "daemonset", "agents", ports)
    shell.run(INSTALL[1])

    patch = node.here((DEPLOY / "static-pod.patch.yaml").read_text())
    local = node.etc / "static-pod.patch.yaml"
    local.write_text(patch)
    for command in SWITCH:
        shell.run(command.replace("deploy/static-pod.patch.yaml", str(local)))
    config = node.etc / "kube-sched-ext" / "config.yaml"
    # The agents listen elsewhere here.
    text = node.here(config.read_text()).replace(":5401/", f":{ports[5401]}/")
    config.write_text(text)
    node.play_kubelet()
    pods = rig.cluster.create_pods(f"with-{number}" for number in range(4))
    assert set(rig.cluster.wait_bound(pods).values()) == {"idle"}

    for command in BACK:
        shell.run(command)
    assert node.manifest.read_text() == before
    node.play_kubelet()
    names = [f"without-{number}" for number in range(4)]
    pods = rig.cluster.create_pods(names, requests={"cpu": "900m"})
    assert set(rig.cluster.wait_bound(pods).values()) == {"hot", "idle"}
