"""The sets of values that everything is tried with."""

from collections.abc import Mapping

import trustme
from render import agents_of_chart, enabling

AUTHORITY = trustme.CA()
CLIENT = AUTHORITY.issue_cert(common_name="system:kube-scheduler")
AS_DATA = {"use": "data", "caData": AUTHORITY.cert_pem.bytes().decode()}
KEY_AS_DATA = AS_DATA | {
    "certData": CLIENT.cert_chain_pems[0].bytes().decode(),
    "keyData": CLIENT.private_key_pem.bytes().decode(),
}

AGENTS = agents_of_chart()
PROMETHEUS = {"prometheus.url": "http://prometheus.monitoring:9090"}
SAFE = {"agents.safe.enabled": True}
SERVICE = SAFE | {"shape": "service"}
TLS = {"tls.enabled": True, "tls.secretName": "agents-tls"}
MUTUAL = TLS | {"tls.clients.required": True, "tls.clients.names": ["system:kube-scheduler"]}
CERT_MANAGER = {
    "tls.enabled": True,
    "tls.clients.required": True,
    "tls.certManager.enabled": True,
    "tls.certManager.issuer.name": "ca",
}
EVERYTHING = PROMETHEUS | CERT_MANAGER | {
    "replicas": 3,
    "image": {
        "registry": "registry.example/team",
        "tag": "1.2.3",
        "pullPolicy": "Always",
        "pullSecrets": [{"name": "pull"}],
    },
    "pathPrefix": "/my_scheduler_extension",
    "agentContainerPrefix": "",
    "agents.safe": {
        "enabled": True,
        "source": "prometheus",
        "nudge": True,
        "bind": True,
        "ignorable": False,
        "timeout": "800ms",
        "weight": 7,
        "settings": {"SAFEPERCENTILE": 20.5, "ONLY_SCHEDULERS": "one", "MAX_BODY_BYTES": 268435456},
        "managedResources": [{"name": "example.com/widget", "ignoredByScheduler": True}],
    },
    "agents.pigeon": {
        "enabled": True,
        "settings": {"PIGEON_HISTORY_FILE": "/var/lib/pigeon/history"},
        "volumes": [{"name": "history", "emptyDir": {"sizeLimit": "1Mi"}}],
        "volumeMounts": [{"name": "history", "mountPath": "/var/lib/pigeon"}],
        "resources": {"requests": {"cpu": "1"}},
    },
    "configuration": {
        "percentageOfNodesToScore": 100,
        "profiles": [
            {"schedulerName": "one", "disabledScores": ["*"]},
            {
                "schedulerName": "two",
                "disabledScores": ["ImageLocality"],
                "scoreWeights": {"NodeResourcesFit": 2},
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {
                            "scoringStrategy": {
                                "type": "MostAllocated",
                                "resources": [{"name": "cpu", "weight": 1}],
                            }
                        },
                    }
                ],
            },
        ],
        "extenders": [{"urlPrefix": "http://127.0.0.1:8888/", "filterVerb": "filter"}],
    },
    "serviceAccount.annotations": {"example.com/a": "b"},
    "networkPolicy.metricsFrom": [{"namespaceSelector": {"matchLabels": {"team": "monitoring"}}}],
    "networkPolicy.egress": [{"ports": [{"port": 6443}, {"port": 9090}]}],
    "metrics.serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "metrics.dashboard.enabled": True,
    "podSchedulerName": "default-scheduler",
    "podLabels": {"team": "a"},
    "podAnnotations": {"example.com/a": "b"},
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
    "affinity": {
        "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
                }
            ]
        }
    },
}  # fmt: skip
"""Every option that has not a set of its own."""

DETAILS = {
    "shape": "service",
    "fullnameOverride": "scheduling",
    "basePort": 7000,
    "agents.quiet": {
        "enabled": True,
        "filterVerb": "predicates/quiet",
        "prioritizeVerb": "prioritize",
        "preemptVerb": "preemption",
        "source": "prometheus",
        "sources": ["prometheus", "annotations"],
        "sourceSetting": "QUIET_SOURCE",
        "image": "registry.example/quiet:1",
        "nodePort": 30036,
        "resources": {"limits": {"memory": "256Mi"}},
    },
    "prometheus.url": "https://prometheus.example",
    "configuration": {
        "parallelism": 8,
        "qps": 200,
        "burst": 400,
        "kubeconfig": "/etc/scheduler.conf",
        "leaderElection": {
            "leaseName": "a-scheduler",
            "leaseNamespace": "scheduling",
            "leaseDuration": "30s",
            "renewDeadline": "20s",
            "retryPeriod": "4s",
        },
    },
    "service": {"reach": "nodePort", "nodeAddress": "192.0.2.10"},
    "tls": {
        "enabled": True,
        "secretName": "agents-tls",
        "serverName": "agents.example",
        "clients": {"required": True, "caSecretName": "clients-ca"},
        "scheduler": {
            "caFile": "/etc/kubernetes/kube-sched-ext/ca.crt",
            "certFile": "/etc/kubernetes/kube-sched-ext/tls.crt",
            "keyFile": "/etc/kubernetes/kube-sched-ext/tls.key",
        },
        "certManager": {
            "enabled": True,
            "issuer": {"name": "ca", "kind": "ClusterIssuer"},
            "duration": "720h",
            "renewBefore": "240h",
        },
    },
    "metrics": {
        "serviceMonitor": {"enabled": True, "interval": "15s"},
        "dashboard": {"enabled": True, "labels": {"dashboards": "ours"}},
    },
}
"""An agent of one's own behind a node port, with the details that other sets leave alone."""

SETS: dict[str, Mapping[str, object]] = {
    **{name: PROMETHEUS | {f"agents.{name}.enabled": True} for name in AGENTS},
    "all agents": enabling(AGENTS),
    "all agents, as a service": enabling(AGENTS) | {"shape": "service"},
    "service by name": SERVICE,
    "service by fixed address": SERVICE
    | {"service.reach": "clusterIP", "service.clusterIP": "10.0.0.50"},
    "service by node port": SERVICE
    | {"service.reach": "nodePort", "agents.safe.nodePort": 30036, "service.hostNetwork": True},
    "service on the host network": SERVICE | {"service.reach": "hostNetwork"},
    "without the node cache": SAFE | {"nodeCache": False},
    "TLS": SAFE | TLS,
    "TLS, as data": SAFE | TLS | {"tls.scheduler": AS_DATA},
    "mutual TLS": SAFE | MUTUAL | {"tls.scheduler.secretName": "scheduler-tls"},
    "mutual TLS, as data": SAFE
    | MUTUAL
    | {"tls.scheduler": KEY_AS_DATA},
    "mutual TLS, as a service": SERVICE | MUTUAL,
    "cert-manager": SAFE | CERT_MANAGER,
    "cert-manager, as a service": SERVICE | CERT_MANAGER | {"networkPolicy.verbsFrom": [
        {"ipBlock": {"cidr": "192.0.2.0/28"}}]},
    "v1beta3": SAFE | {"configuration.apiVersion": "v1beta3"},
    "v1beta2": SAFE | {"configuration.apiVersion": "v1beta2"},
    "an extender of someone else alone": {
        "configuration.extenders": [{"urlPrefix": "http://127.0.0.1:8888/"}]
    },
    "everything": EVERYTHING,
    "details": DETAILS,
    "a kube-scheduler of one's own": SAFE
    | {
        "scheduler": {
            "containerName": "scheduler",
            "image": "registry.example/kube-scheduler",
            "tag": "v1.35.2",
            "verbosity": 5,
            "resources": {"requests": {"cpu": "1"}, "limits": {"memory": "4Gi"}},
        }
    },
    "next to nothing": SAFE
    | {
        "podDisruptionBudget.enabled": False,
        "networkPolicy.enabled": False,
        "topologySpread": False,
        "configuration.leaderElection.enabled": False,
        "serviceAccount": {"create": False, "name": "there-already"},
        "priorityClassName": "",
    },
}  # fmt: skip
"""Values by what they are for."""
