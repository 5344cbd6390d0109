"""The Policy that schedulers up to 1.22 take, as JSON."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from kube_sched_ext.scheduler_config.durations import nanoseconds_of
from kube_sched_ext.scheduler_config.scheduler_configuration import Extender

USE: Final = """\
a Policy is for kube-scheduler up to 1.22: --policy-config-file=FILE, or, as policy.cfg in a
ConfigMap, --policy-configmap=NAME and --policy-configmap-namespace=NAMESPACE. Up to 1.18 a
KubeSchedulerConfiguration (v1alpha1, v1alpha2) may name it instead, in algorithmSource.policy as
file.path or configMap.name and configMap.namespace. Predicates and priorities that are not listed
stay the defaults. From 1.23 on use what this command prints without --legacy.
"""


def policy_json(extenders: Sequence[Extender], *, has_in_tree_scores: bool) -> str:
    """Return the Policy with `extenders`; without in-tree scores its priorities are empty."""
    policy: dict[str, Any] = {"kind": "Policy", "apiVersion": "v1"}
    if not has_in_tree_scores:
        policy["priorities"] = []
    policy["extenders"] = [_extender(extender) for extender in extenders]
    return msgspec.json.format(msgspec.json.encode(policy), indent=2).decode() + "\n"


def _extender(extender: Extender) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(extender)
    if "enableHTTPS" in fields:
        fields["enableHttps"] = fields.pop("enableHTTPS")
    if "httpTimeout" in fields:
        fields["httpTimeout"] = nanoseconds_of(extender.http_timeout)
    return fields
