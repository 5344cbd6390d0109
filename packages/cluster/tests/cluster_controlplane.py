"""The real etcd and kube-apiserver, and a few calls as the tests' own administrator."""

import json
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import urllib3
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

JSON = dict[str, Any]

USERS: Mapping[str, list[JSON]] = {
    "watcher": [
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]}
    ],
    "binder": [
        {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]},
    ],
    "nudger": [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]}
    ],
    "annotator": [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch", "patch"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    ],
    "nobody": [],
}
"""Users, each with a token of its own, and what they may do."""


class ControlPlane:
    """etcd and kube-apiserver in a folder."""

    def __init__(self, binary: Path, folder: Path) -> None:
        """Run `binary`, with all that it writes in `folder`."""
        self.folder = folder
        self._binary = binary
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        with ExitStack() as stack:
            sockets = [stack.enter_context(socket.socket()) for _ in range(3)]
            for held in sockets:
                held.bind(("127.0.0.1", 0))
            self._etcd, self._peer, self._port = (it.getsockname()[1] for it in sockets)
        self.url = f"https://127.0.0.1:{self._port}"
        self.ca = folder / "certs" / "apiserver.crt"

    def start(self) -> None:
        """Start both, and wait until they serve; set up the users."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (self.folder / "sa.key").write_bytes(pem)
        rows = ['admin-token,admin,admin,"system:masters"']
        rows += [f"{user}-token,{user},{user}" for user in USERS]
        (self.folder / "tokens.csv").write_text("\n".join(rows) + "\n")
        self._spawn(
            "etcd",
            "--name=default",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls=http://127.0.0.1:{self._etcd}",
            f"--advertise-client-urls=http://127.0.0.1:{self._etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{self._peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{self._peer}",
            f"--initial-cluster=default=http://127.0.0.1:{self._peer}",
            "--log-level=warn",
        )
        self.start_apiserver()
        self._allow()

    def start_apiserver(self) -> None:
        """Start the apiserver, and wait until it serves."""
        self._spawn(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._port}",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={self.ca.parent}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'sa.key'}",
            f"--service-account-signing-key-file={self.folder / 'sa.key'}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=0",
            "--max-mutating-requests-inflight=0",
        )
        self._wait("certificate", self.ca.exists)
        self._wait("certificate", lambda: "END CERTIFICATE" in self.ca.read_text())
        self._pool = urllib3.PoolManager(
            32, ca_certs=str(self.ca), maxsize=32, timeout=10.0, retries=False
        )
        self._wait("readyz", lambda: self._raw("GET", "/readyz") == (200, b"ok"))
        default = "/api/v1/namespaces/default"
        self._wait("namespace default", lambda: self._raw("GET", default)[0] == 200)

    def stop_apiserver(self) -> None:
        """Stop the apiserver."""
        self._end("kube-apiserver")

    def stop(self) -> None:
        """Stop both."""
        for name in reversed(list(self._processes)):
            self._end(name)

    def kubeconfig(self, user: str) -> Path:
        """Return a kubeconfig of `user`."""
        path = self.folder / f"{user}.kubeconfig"
        cluster = {"server": self.url, "certificate-authority": str(self.ca)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": f"{user}-token"}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        }
        path.write_text(json.dumps(config))
        return path

    def call(self, method: str, path: str, body: JSON | None = None) -> JSON:
        """Return what the apiserver answers the administrator."""
        code, answer = self._raw(method, path, body)
        assert code < 300, (method, path, answer)
        decoded: JSON = json.loads(answer)
        return decoded

    def create(self, path: str, bodies: Iterable[JSON]) -> None:
        """Create many objects, side by side."""
        with ThreadPoolExecutor(16) as workers:
            list(workers.map(lambda body: self.call("POST", path, body), bodies))

    def _raw(self, method: str, path: str, body: JSON | None = None) -> tuple[int, bytes]:
        patch = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"authorization": "Bearer admin-token", "content-type": patch}
        content = None if body is None else json.dumps(body).encode()
        try:
            reply = self._pool.request(method, self.url + path, body=content, headers=headers)
        except urllib3.exceptions.HTTPError:
            return 0, b""
        return reply.status, reply.data

    def _allow(self) -> None:
        group = "/apis/rbac.authorization.k8s.io/v1"
        for user, rules in USERS.items():
            meta = {"metadata": {"name": user}}
            self.call("POST", f"{group}/clusterroles", meta | {"rules": rules})
            kind = {"apiGroup": "rbac.authorization.k8s.io"}
            subject = kind | {"kind": "User", "name": user}
            role = kind | {"kind": "ClusterRole", "name": user}
            binding = meta | {"subjects": [subject], "roleRef": role}
            self.call("POST", f"{group}/clusterrolebindings", binding)

    def _spawn(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [self._binary, name, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )

    def _end(self, name: str) -> None:
        process = self._processes.pop(name)
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait(self, what: str, check: Callable[[], bool], seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while not check():
            for name, process in self._processes.items():
                log = self.folder / f"{name}.log"
                assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
            time.sleep(0.02)


def make_node(name: str, images: int = 0) -> JSON:
    """Return a node of 4 cores and 8Gi, with so many images under two names each."""
    names = [f"registry.example/team/service-{number:03d}" for number in range(images)]
    quantities = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": quantities,
            "allocatable": quantities,
            "images": [
                {
                    "names": [f"{image}@sha256:{number:064x}", f"{image}:v1.2.{number}"],
                    "sizeBytes": 100_000_000 + number,
                }
                for number, image in enumerate(names)
            ],
        },
    }


def make_pod(name: str, node: str = "") -> JSON:
    """Return a pod of 100m and 64Mi, on `node` if one is given."""
    requests = {"requests": {"cpu": "100m", "memory": "64Mi"}}
    spec: JSON = {
        "terminationGracePeriodSeconds": 0,
        "containers": [{"name": "c", "image": "registry.example/app:1", "resources": requests}],
    }
    if node:
        spec["nodeName"] = node
    return {"kind": "Pod", "metadata": {"name": name}, "spec": spec}
