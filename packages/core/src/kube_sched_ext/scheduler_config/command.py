"""`kube-sched-ext scheduler-config`."""

import os
import sys
from functools import partial
from typing import Any, Final, get_args

import click
import msgspec

from kube_sched_ext.config import CoreSettings
from kube_sched_ext.configuration import attempt
from kube_sched_ext.scheduler_config.agents import load_verbs
from kube_sched_ext.scheduler_config.options import Options, problems_of
from kube_sched_ext.scheduler_config.printing import print_for
from kube_sched_ext.scheduler_config.scheduler_configuration import ApiVersion
from kube_sched_ext.settings import environment, load

_MISCONFIGURED: Final = 2


@click.command("scheduler-config")
@click.argument("agents", nargs=-1, metavar="[AGENT]...")
@click.option("--together", is_flag=True, help="One extender, for a process that serves them all.")
@click.option(
    "--policy",
    default="",
    metavar="FILE",
    help="Convert a legacy Policy: JSON or YAML, by itself, in a ConfigMap, or behind an "
    "algorithmSource; - is standard input. Agents given too come after its extenders.",
)
@click.option("--legacy", is_flag=True, help="Print a Policy (JSON) for schedulers up to 1.22.")
@click.option(
    "--api-version",
    type=click.Choice(get_args(ApiVersion)),
    default="v1",
    show_default=True,
    help="v1 from 1.25 on, v1beta3 for 1.24, v1beta2 for 1.23.",
)
@click.option(
    "--url-prefix",
    "url_prefixes",
    multiple=True,
    metavar="[AGENT=]URL",
    help="Where agents are served. [default: http://127.0.0.1:5401/scheduler, 5402, ...]",
)
@click.option(
    "--weight",
    "weights",
    multiple=True,
    metavar="[AGENT=]N",
    help="What scores count: 0..10 times ten times it. The in-tree scores sum to 1200 at most. "
    "[default: 5]",
)
@click.option(
    "--priority",
    "priorities",
    multiple=True,
    metavar="NAME",
    help="Ask this priority of its agent, and no other of that agent.",
)
@click.option(
    "--timeout",
    "timeouts",
    multiple=True,
    metavar="[AGENT=]TIME",
    help="How long a call may take, such as 500ms. [default: 5s]",
)
@click.option(
    "--node-cache/--no-node-cache",
    default=None,
    help="Ask by names, as agents that watch the nodes can be; or send whole nodes. "
    "[default: by names; of a Policy's extenders, as it says]",
)
@click.option(
    "--ignorable/--no-ignorable",
    default=None,
    help="Schedule without an extender that does not answer; or let pods wait. "
    "[default: ignorable; of a Policy's extenders, as it says]",
)
@click.option(
    "--bind", default="", metavar="AGENT", help="Let it bind pods; its process needs BIND=true."
)
@click.option(
    "--managed-resource",
    "managed_resources",
    multiple=True,
    metavar="AGENT=RESOURCE[:ignored]",
    help="Ask it only about pods that want the resource; ignored: only it counts the resource.",
)
@click.option("--tls-ca-file", default="", metavar="PATH", help="Call with TLS; trust this CA.")
@click.option("--tls-cert-file", default="", metavar="PATH", help="kube-scheduler's certificate.")
@click.option("--tls-key-file", default="", metavar="PATH", help="Its key.")
@click.option(
    "--tls-server-name",
    "tls_server_names",
    multiple=True,
    metavar="[AGENT=]NAME",
    help="Name in the agent's certificate, where the URL has another.",
)
@click.option("--tls-insecure", is_flag=True, help="Call with TLS, and check no certificate.")
@click.option(
    "--scheduler-name",
    "scheduler_names",
    multiple=True,
    metavar="NAME",
    help="A profile for pods with this schedulerName. [default: default-scheduler]",
)
@click.option(
    "--leader-election/--no-leader-election", default=None, help="[default: leader election]"
)
@click.option(
    "--lease",
    default="",
    metavar="[NAMESPACE/]NAME",
    help="Its Lease. [default: kube-system/kube-scheduler, or /NAME of the scheduler]",
)
@click.option(
    "--kubeconfig",
    default="",
    metavar="PATH",
    help="kube-scheduler's, which with --config must stand in this file.",
)
@click.option(
    "--percentage-of-nodes",
    type=click.IntRange(0, 100),
    metavar="N",
    help="Share of nodes that is enough to choose from; 0: by the size of the cluster.",
)
@click.option(
    "--in-tree-scores/--no-in-tree-scores",
    default=True,
    help="Whether kube-scheduler's own scores count. [default: they do]",
)
def scheduler_config(**given: Any) -> None:
    """Print the KubeSchedulerConfiguration for agents.

    Comments in it say what its weights mean and, with --policy, what each line of the Policy
    became or why it has no equivalent. Standard error tells those that need a decision.

    Paths are those of the settings (PATH_PREFIX, FILTER_PATH, ...) in the environment. Exit code
    2: something is wrong; all of it is listed, and nothing is printed.
    """
    options = msgspec.convert(given, Options)
    problems = problems_of(options)
    words = load(CoreSettings, [environment(os.environ)], problems)
    agents = attempt(problems, partial(load_verbs, options.agents))
    printed = None
    if words is not None and agents is not None and not problems:
        printed = attempt(problems, partial(print_for, options, agents, words))
    for problem in problems:
        click.echo(f"kube-sched-ext: {problem}", err=True)
    if printed is None:
        sys.exit(_MISCONFIGURED)
    click.echo(printed.text, nl=False)
    for remark in printed.remarks:
        click.echo(f"kube-sched-ext: {remark}", err=True)
