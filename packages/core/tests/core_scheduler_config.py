"""Policies for the tests of scheduler-config, and what is made of them."""

import json
from pathlib import Path
from typing import Any

import yaml

from kube_sched_ext.config import CoreSettings
from kube_sched_ext.scheduler_config.agents import AgentVerbs
from kube_sched_ext.scheduler_config.options import Options
from kube_sched_ext.scheduler_config.printing import Printed, print_for

JSON = dict[str, Any]

SAFE = AgentVerbs("safe", ("safe-overload",), ("safe-overload", "safe-balance"))
CONGESTION = AgentVerbs("congestion", (), ("congestion",))
PIGEON = AgentVerbs("pigeon", ("pigeon-fits",), ("pigeon-holing",))
QUIET = AgentVerbs("quiet", ("quiet", "silent"), ())
AGENTS = {agent.name: agent for agent in (SAFE, CONGESTION, PIGEON, QUIET)}

RATIO = {
    "shape": [{"utilization": 0, "score": 0}, {"utilization": 100, "score": 10}],
    "resources": [{"name": "example.com/gpu", "weight": 5}, {"name": "cpu"}],
}

FULL_EXTENDER = {
    "urlPrefix": "https://extender.kube-system:8443/scheduler",
    "filterVerb": "filter",
    "prioritizeVerb": "prioritize",
    "preemptVerb": "preemption",
    "bindVerb": "bind",
    "weight": 7,
    "enableHttps": True,
    "tlsConfig": {"insecure": True, "serverName": "extender"},
    "httpTimeout": 30_000_000_000,
    "nodeCacheCapable": True,
    "managedResources": [{"name": "example.com/gpu", "ignoredByScheduler": True}],
    "ignorable": True,
}

PUBLISHED = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: my-scheduler-config
  namespace: kube-system
data:
  config.yaml: |
    apiVersion: kubescheduler.config.k8s.io/v1alpha1
    kind: KubeSchedulerConfiguration
    schedulerName: my-scheduler
    algorithmSource:
      policy:
        configMap:
          namespace: kube-system
          name: my-scheduler-policy
    leaderElection:
      leaderElect: true
      lockObjectName: my-scheduler
      lockObjectNamespace: kube-system
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: my-scheduler-policy
  namespace: kube-system
data:
 policy.cfg : |
  {
  \t"kind" : "Policy",
  \t"apiVersion" : "v1",
  \t"extenders" : [{
  \t  "urlPrefix": "http://localhost:5401/scheduler",
  \t  "filterVerb": "predicates/safe-overload",
  \t  "prioritizeVerb": "priorities/safe-overload",
  \t  "preemptVerb": "",
  \t  "bindVerb": "",
  \t  "weight": 1,
  \t  "enableHttps": false,
  \t  "nodeCacheCapable": false
  \t},
  \t{
  \t  "urlPrefix": "http://localhost:5402/scheduler",
  \t  "filterVerb": "",
  \t  "prioritizeVerb": "priorities/congestion",
  \t  "weight": 10,
  \t  "nodeCacheCapable": false
  \t}]
  }
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: my-scheduler
  namespace: kube-system
"""
"""As published with the first agents: a configuration, its Policy, a Deployment."""


def policy(**members: Any) -> JSON:
    """Return a Policy."""
    return {"kind": "Policy", "apiVersion": "v1", **members}


def print_agents(*names: str, **options: Any) -> Printed:
    """Print what agents by these names need."""
    agents = [AGENTS[name] for name in names]
    return print_for(Options(agents=names, **options), agents, CoreSettings())


def print_policy(content: object, folder: Path, *names: str, **options: Any) -> Printed:
    """Print what a Policy, as an object or as text, becomes."""
    file = folder / "policy.cfg"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return print_agents(*names, policy=str(file), **options)


def loaded(printed: Printed) -> JSON:
    """Return the configuration as its readers see it."""
    configuration: JSON = yaml.safe_load(printed.text)
    return configuration


def notes_in(printed: Printed) -> str:
    """Return the comment at the top, without its line breaks."""
    lines = printed.text.partition("\napiVersion:")[0].splitlines()
    return " ".join(" ".join(line.removeprefix("#") for line in lines).split())
