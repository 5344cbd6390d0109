"""The real etcd, kube-apiserver and kube-scheduler, and users for whom to ask."""

import contextlib
import json
import secrets
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from e2e_programs import Program, free_port, wait_for

JSON = dict[str, Any]

BINARY = "KUBE_SCHED_EXT_CONTROLPLANE"
"""The environment variable with the path of the binary."""

_WORKERS = 16
_WATCH = {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["get", "list", "watch"]}
_BIND = {"apiGroups": [""], "resources": ["pods/binding"], "verbs": ["create"]}
_PATCH = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["patch"]}

ROLES: Mapping[str, Sequence[JSON]] = {
    "watcher": [_WATCH],
    "binder": [_WATCH, _BIND],
    "nudger": [_WATCH, _PATCH],
}
"""Whom our servers may be, and the least that each needs."""

SCHEDULER = "system:kube-scheduler"
ADMIN = "admin"


class RefusedError(AssertionError):
    """The apiserver answered with an error."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"{status}: {text}")
        self.status = status


class Api:
    """JSON over HTTPS for one user."""

    def __init__(self, url: str, token: str, ca: Path) -> None:
        self._url = url
        self._headers = {"authorization": f"Bearer {token}"}
        self._pool = urllib3.PoolManager(
            1, ca_certs=str(ca), maxsize=_WORKERS, block=True, timeout=15.0, retries=False
        )

    def text(self, method: str, path: str, body: JSON | None = None) -> str:
        """Return the answer as text.

        Raises:
            RefusedError: the status is none of success.
            OSError: there is no answer.
        """
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        try:
            reply = self._pool.request(
                method,
                self._url + path,
                body=None if body is None else json.dumps(body),
                headers=self._headers | {"content-type": kind},
            )
        except urllib3.exceptions.HTTPError as error:
            raise OSError(str(error)) from error
        text = reply.data.decode()
        if reply.status >= 300:
            raise RefusedError(reply.status, text)
        return text

    def __call__(self, method: str, path: str, body: JSON | None = None) -> JSON:
        """Return the answer, decoded."""
        answer: JSON = json.loads(self.text(method, path, body))
        return answer

    def each(self, method: str, calls: Iterable[tuple[str, JSON | None]]) -> list[JSON]:
        """Make many calls, side by side; return the answers in order."""
        with ThreadPoolExecutor(_WORKERS) as workers:
            return list(workers.map(lambda call: self(method, *call), calls))

    def lines(self, path: str) -> Iterator[bytes]:
        """Yield the lines of an answer as they come, as those of a watch."""
        reply = self._pool.request(
            "GET",
            self._url + path,
            headers=self._headers,
            preload_content=False,
            timeout=urllib3.Timeout(connect=15.0, read=None),
        )
        rest = b""
        with contextlib.suppress(urllib3.exceptions.HTTPError):  # the apiserver ends
            for piece in reply.stream(65536):
                *lines, rest = (rest + piece).split(b"\n")
                yield from lines

    def says_ok(self, path: str) -> bool:
        """Tell whether a probe is answered with ok."""
        try:
            return self.text("GET", path) == "ok"
        except (OSError, RefusedError):
            return False

    def close(self) -> None:
        """Close all connections."""
        self._pool.clear()


class ControlPlane:
    """etcd and kube-apiserver; schedulers are started as they are needed."""

    def __init__(self, binary: Path, folder: Path) -> None:
        """Run `binary`, with all that it writes in `folder`."""
        self.binary = binary
        self.folder = folder
        self._ca = folder / "certs" / "apiserver.crt"
        self._tokens = {user: secrets.token_hex(16) for user in (ADMIN, SCHEDULER, *ROLES)}
        self._etcd_url, self._peer_url = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        self.port = free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self._programs: list[Program] = []

    def start(self) -> None:
        """Start both, wait until they serve, and let the users do what they may."""
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (self.folder / "key.pem").write_bytes(pem)
        groups = {ADMIN: ',"system:masters"'}
        rows = [
            f"{token},{user},{user}{groups.get(user, '')}" for user, token in self._tokens.items()
        ]
        (self.folder / "tokens.csv").write_text("\n".join(rows) + "\n")
        self._run(
            "etcd",
            "--name=default",
            f"--data-dir={self.folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={self._peer_url}",
            f"--initial-advertise-peer-urls={self._peer_url}",
            f"--initial-cluster=default={self._peer_url}",
            "--log-level=warn",
        )
        self.apiserver = self._run(
            "kube-apiserver",
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={self._ca.parent}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder / 'key.pem'}",
            f"--service-account-signing-key-file={self.folder / 'key.pem'}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--enable-priority-and-fairness=false",
            "--max-requests-inflight=0",
            "--max-mutating-requests-inflight=0",
        )
        self.apiserver.wait_until(
            "certificate", lambda: self._ca.exists() and "END CERT" in self._ca.read_text()
        )
        self.api = Api(self.url, self._tokens[ADMIN], self._ca)
        self.wait_ready()
        wait_for("namespace default", self._has_default_namespace)
        self._allow()

    def wait_ready(self) -> None:
        """Wait until the apiserver serves."""
        self.apiserver.wait_until("ready", lambda: self.api.says_ok("/readyz"))

    def restart_apiserver(self) -> None:
        """Kill the apiserver, and start it again.

        In order it would end only when its clients do, or after a minute.
        """
        self.apiserver.kill()
        self.apiserver.start()
        self.wait_ready()

    def compact(self) -> None:
        """Let etcd forget all but the present."""
        etcd = urllib3.PoolManager(retries=False)
        status = etcd.request("POST", f"{self._etcd_url}/v3/maintenance/status", body=b"{}").json()
        body = {"revision": status["header"]["revision"], "physical": True}
        reply = etcd.request("POST", f"{self._etcd_url}/v3/kv/compaction", body=json.dumps(body))
        assert reply.status == 200, reply.data
        etcd.clear()

    def stop(self) -> None:
        """Stop both."""
        for program in reversed(self._programs):
            program.stop(seconds=5)
        if hasattr(self, "api"):
            self.api.close()

    def tails(self) -> list[tuple[str, str]]:
        """Return the ends of what both logged."""
        return [(program.name, program.tail()) for program in self._programs]

    def kubeconfig(self, user: str, port: int = 0) -> Path:
        """Return a kubeconfig of `user`, for another port than the apiserver's if one is given."""
        path = self.folder / f"{user.replace(':', '-')}-{port or self.port}.kubeconfig"
        url = f"https://127.0.0.1:{port or self.port}"
        cluster = {"server": url, "certificate-authority": str(self._ca)}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": self._tokens[user]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
        }
        path.write_text(json.dumps(config))  # JSON is YAML
        return path

    def start_scheduler(
        self, folder: Path, extenders: Sequence[JSON] = (), profile: JSON | None = None
    ) -> "Scheduler":
        """Start a kube-scheduler with these extenders and wait until it is ready."""
        access = self.kubeconfig(SCHEDULER)
        config = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            # The default of 50 a second hides every difference.
            "clientConnection": {"kubeconfig": str(access), "qps": 5000, "burst": 5000},
            "podMaxBackoffSeconds": 3,
            "profiles": [{"schedulerName": "default-scheduler", **(profile or {})}],
            "extenders": list(extenders),
        }
        path = folder / "scheduler.yaml"
        path.write_text(json.dumps(config))
        port = free_port()
        scheduler = Scheduler(
            "kube-scheduler",
            [
                self.binary,
                "kube-scheduler",
                f"--config={path}",
                f"--authentication-kubeconfig={access}",
                f"--authorization-kubeconfig={access}",
                "--bind-address=127.0.0.1",
                f"--secure-port={port}",
                # Left alone it makes one in memory, which nobody can check.
                f"--tls-cert-file={self._ca}",
                f"--tls-private-key-file={self._ca.with_suffix('.key')}",
            ],
            folder,
        )
        scheduler.api = Api(f"https://127.0.0.1:{port}", self._tokens[ADMIN], self._ca)
        try:
            scheduler.wait_until("ready", lambda: scheduler.api.says_ok("/readyz"))
        except BaseException:
            scheduler.stop()
            raise
        return scheduler

    def _run(self, name: str, *arguments: str) -> Program:
        program = Program(name, [self.binary, name, *arguments], self.folder)
        self._programs.append(program)
        return program

    def _has_default_namespace(self) -> bool:
        try:
            return bool(self.api("GET", "/api/v1/namespaces/default"))
        except RefusedError:
            return False

    def _allow(self) -> None:
        group = "/apis/rbac.authorization.k8s.io/v1"
        kind = {"apiGroup": "rbac.authorization.k8s.io"}
        for user, rules in ROLES.items():
            meta = {"metadata": {"name": user}}
            self.api("POST", f"{group}/clusterroles", meta | {"rules": list(rules)})
            subjects = [kind | {"kind": "User", "name": user}]
            role = kind | {"kind": "ClusterRole", "name": user}
            binding = meta | {"subjects": subjects, "roleRef": role}
            self.api("POST", f"{group}/clusterrolebindings", binding)


@contextmanager
def running(binary: str) -> Iterator[ControlPlane]:
    """Run a control plane, of which nothing stays."""
    with tempfile.TemporaryDirectory(prefix="kube-sched-ext-") as folder:
        plane = ControlPlane(Path(binary).resolve(), Path(folder))
        try:
            plane.start()
            yield plane
        finally:
            plane.stop()


class Scheduler(Program):
    """A kube-scheduler."""

    api: Api

    def metrics(self) -> dict[str, float]:
        """Return its metrics by name with labels, as they are written."""
        lines = self.api.text("GET", "/metrics").splitlines()
        pairs = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in pairs}

    def stop(self, seconds: float = 15.0) -> None:
        """End it in order."""
        super().stop(seconds)
        if hasattr(self, "api"):
            self.api.close()


def extender(  # noqa: PLR0913  # an extender has as many parts
    url: str,
    *,
    filter_verb: str = "",
    prioritize_verb: str = "",
    preempt_verb: str = "",
    bind_verb: str = "",
    weight: int = 1,
    names: bool = True,
    ignorable: bool = False,
    timeout: str = "5s",
) -> JSON:
    """Return an extender of a KubeSchedulerConfiguration; verbs are paths below `url`."""
    verbs = {
        "filterVerb": filter_verb,
        "prioritizeVerb": prioritize_verb,
        "preemptVerb": preempt_verb,
        "bindVerb": bind_verb,
    }
    return {
        "urlPrefix": url,
        "weight": weight,
        "nodeCacheCapable": names,
        "ignorable": ignorable,
        "httpTimeout": timeout,
        **{key: verb for key, verb in verbs.items() if verb},
    }


NO_SCORES: JSON = {"plugins": {"score": {"disabled": [{"name": "*"}]}}}
"""A profile in which only extenders score."""
