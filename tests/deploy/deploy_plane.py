"""The control plane as what is rendered meets it: objects installed, containers as processes.

There is no kubelet and no controller. What a kubelet would do for a container is done here: its
files come from the ConfigMaps and Secrets, its service account's token from the apiserver, and it
counts as ready when the probe in its manifest is answered.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import urllib3
import yaml
from control_plane import JSON, Api, ControlPlane
from e2e_cluster import EVENTS, NODES, PODS, Cluster
from e2e_programs import Program, free_port

_PATHS = {
    "ServiceAccount": "api/v1/namespaces/{namespace}/serviceaccounts",
    "ConfigMap": "api/v1/namespaces/{namespace}/configmaps",
    "Secret": "api/v1/namespaces/{namespace}/secrets",
    "Service": "api/v1/namespaces/{namespace}/services",
    "Pod": "api/v1/namespaces/{namespace}/pods",
    "Deployment": "apis/apps/v1/namespaces/{namespace}/deployments",
    "DaemonSet": "apis/apps/v1/namespaces/{namespace}/daemonsets",
    "PodDisruptionBudget": "apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets",
    "NetworkPolicy": "apis/networking.k8s.io/v1/namespaces/{namespace}/networkpolicies",
    "Role": "apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/roles",
    "RoleBinding": "apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings",
    "ClusterRole": "apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
}


def known(kind: str) -> bool:
    """Tell whether the apiserver knows objects of this kind without custom resources."""
    return kind in _PATHS


class Rig:
    """A cluster for one test; `close` takes away what it installed."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.cluster = Cluster(plane, folder)
        self._folder = folder
        self._installed: list[str] = []
        self._programs: list[Program] = []

    def accepts(self, item: JSON) -> None:
        """Check that the apiserver would take an object, and knows each of its fields.

        Raises:
            RefusedError: it does not.
        """
        path = self._path(item)
        self.plane.api("POST", f"{path}?dryRun=All&fieldValidation=Strict", item)

    def install(self, objects: Iterable[JSON]) -> None:
        """Create rendered objects for the length of the test; pods wait for their scheduler."""
        for item in objects:
            if item["kind"] == "Pod" or not known(item["kind"]):
                continue
            path = self._path(item)
            self.plane.api("POST", f"{path}?fieldValidation=Strict", item)
            self._installed.append(f"{path}/{item['metadata']['name']}")

    def create(self, pod: JSON) -> str:
        """Create a pod; return its name."""
        self.plane.api("POST", self._path(pod), pod)
        return str(pod["metadata"]["name"])

    def token(self, account: str, namespace: str = "kube-system") -> str:
        """Return a token of a service account, as a pod of it gets one."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        return str(self.plane.api("POST", path, {"spec": {}})["status"]["token"])

    def api_of(self, account: str, namespace: str = "kube-system") -> Api:
        """Return the apiserver as a service account sees it."""
        return Api(self.plane.url, self.token(account, namespace), self.plane._ca)

    def kubeconfig(self, account: str, namespace: str = "kube-system") -> Path:
        """Return a kubeconfig with the token of a service account."""
        token = self.token(account, namespace)
        config = json.loads(self.plane.kubeconfig("admin").read_text())
        config["users"] = [{"name": "admin", "user": {"token": token}}]
        target = self._folder / f"{namespace}-{account}.kubeconfig"
        target.write_text(json.dumps(config))
        return target

    def run(
        self,
        objects: Sequence[JSON],
        *,
        secrets: Mapping[str, Mapping[str, bytes]] | None = None,
        replaced: Mapping[str, str] | None = None,
        ports: Mapping[int, int] | None = None,
    ) -> "dict[str, Container]":
        """Start the containers of rendered workloads as processes; wait until they are ready.

        Args:
            objects: what is rendered, installed before.
            secrets: the files of Secrets that are not rendered.
            replaced: texts of the configuration to replace, such as addresses that only a
                cluster's network knows.
            ports: where containers listen instead, by the port in the manifest.
        """
        containers = {}
        for item in objects:
            if item["kind"] not in ("Deployment", "DaemonSet"):
                continue
            pod = item["spec"]["template"]["spec"]
            access = self.kubeconfig(pod["serviceAccountName"], item["metadata"]["namespace"])
            files = self._files(objects, pod, secrets or {}, replaced or {}, access)
            for spec in reversed(pod["containers"]):  # the scheduler is first, and asks the others
                place = Place(
                    files, access, self.plane.binary, self.plane._ca, self._folder, ports or {}
                )
                container = Container(spec, place)
                containers[spec["name"]] = container
                self._programs.append(container)
                container.wait_until("probes", container.is_ready)
        return containers

    @staticmethod
    def scores(url: str, pod: JSON, nodes: list[str]) -> dict[str, int]:
        """Return the scores that an agent answers."""
        body = json.dumps({"Pod": pod, "Nodes": None, "NodeNames": nodes})
        reply = urllib3.request("POST", url, body=body, retries=False)
        assert reply.status == 200, reply.data
        return {it["Host"]: it["Score"] for it in reply.json()}

    def close(self) -> None:
        """Stop and delete."""
        for program in reversed(self._programs):
            program.stop()
        for path in (PODS, NODES, EVENTS):
            # Not Cluster.close, which takes the built-in priority classes away.
            self.cluster._empty(path)
        for path in reversed(self._installed):
            self.plane.api("DELETE", path)
        leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"
        self.plane.api("DELETE", leases)
        for program in self._programs:
            assert "Traceback" not in program.log.read_text(errors="replace"), program.tail()

    def _files(
        self,
        objects: Sequence[JSON],
        pod: JSON,
        secrets: Mapping[str, Mapping[str, bytes]],
        replaced: Mapping[str, str],
        access: Path,
    ) -> dict[str, Path]:
        """Write the files of the pod's volumes; return their folders by volume."""
        contents = dict(secrets)
        for item in objects:
            if item["kind"] in ("ConfigMap", "Secret"):
                texts = item.get("data") or item["stringData"]
                contents[item["metadata"]["name"]] = {
                    key: text.encode() for key, text in texts.items()
                }
        folders = {}
        for volume in pod.get("volumes", []):
            folder = self._folder / access.stem / volume["name"]
            folder.mkdir(parents=True)
            folders[volume["name"]] = folder
            source = volume.get("configMap") or volume["secret"]
            content = contents[source.get("name") or source["secretName"]]
            for key in [it["key"] for it in source.get("items", [])] or content:
                (folder / key).write_bytes(content[key])
        if "configuration" in folders:
            self._localise(folders["configuration"] / "config.yaml", folders, replaced, access)
        return folders

    @staticmethod
    def _localise(
        path: Path, folders: Mapping[str, Path], replaced: Mapping[str, str], access: Path
    ) -> None:
        """Give the configuration what a pod finds by itself, and the files their places here."""
        text = path.read_text()
        for old, new in replaced.items():
            assert old in text
            text = text.replace(old, new)
        if "scheduler-tls" in folders:
            text = text.replace("/etc/kube-sched-ext/scheduler-tls", str(folders["scheduler-tls"]))
        content = yaml.safe_load(text)
        content["clientConnection"]["kubeconfig"] = str(access)
        path.write_text(yaml.safe_dump(content))

    def _path(self, item: JSON) -> str:
        namespace = item["metadata"].get("namespace", "default")
        return "/" + _PATHS[item["kind"]].format(namespace=namespace)


@dataclass(frozen=True)
class Place:
    """What a container finds around it."""

    volumes: Mapping[str, Path]
    access: Path
    binary: Path
    certificate: Path
    folder: Path
    ports: Mapping[int, int]


class Container(Program):
    """A container of a manifest as a process."""

    def __init__(self, spec: JSON, place: Place) -> None:
        self._probe = spec.get("readinessProbe", spec["livenessProbe"])["httpGet"]
        self._ca = str(place.certificate)
        self._port = place.ports.get(self._probe["port"], self._probe["port"])
        mounts = {it["mountPath"]: place.volumes[it["name"]] for it in spec.get("volumeMounts", [])}
        moved = {str(port): str(other) for port, other in place.ports.items()}

        def here(text: str) -> str:
            for path, local in mounts.items():
                text = text.replace(f"{path}/", f"{local}/")
            return moved.get(text, text)

        env = {it["name"]: here(it["value"]) for it in spec.get("env", [])}
        arguments = [here(it) for it in spec["args"]]
        if "command" in spec:
            self._port = free_port()
            program = [str(place.binary), *spec["command"]]
            arguments += [
                f"--authentication-kubeconfig={place.access}",
                f"--authorization-kubeconfig={place.access}",
                "--bind-address=127.0.0.1",
                f"--secure-port={self._port}",
                # Left alone it makes one in memory, which nobody can check.
                f"--tls-cert-file={place.certificate}",
                f"--tls-private-key-file={place.certificate.with_suffix('.key')}",
            ]
        else:  # the image's entry point
            program = [sys.executable, "-m", "kube_sched_ext"]
            env |= {"HTTP_HOST": "127.0.0.1", "KUBECONFIG": str(place.access)}
        super().__init__(spec["name"], [*program, *arguments], place.folder, **env)

    def is_ready(self) -> bool:
        """Ask the probe of the manifest."""
        scheme = self._probe.get("scheme", "HTTP").lower()
        url = f"{scheme}://127.0.0.1:{self._port}{self._probe['path']}"
        with urllib3.PoolManager(ca_certs=self._ca, retries=False, timeout=5.0) as pool:
            try:
                return pool.request("GET", url).status == 200
            except urllib3.exceptions.HTTPError:
                return False
