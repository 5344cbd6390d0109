# ruff: noqa: INP001  # a script
"""Renders what is kept beside the chart: the plain examples, and the chart's README.

    nox -s examples                            all of it anew
    nox -s examples -- safe image              another combination, printed
    nox -s examples -- safe image --into DIR   the same as files

Needs helm: on the PATH, or where KUBE_SCHED_EXT_HELM says.
"""

import argparse
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

DEPLOY: Final = Path(__file__).parent
CHART: Final = DEPLOY / "chart"
EXAMPLES: Final = DEPLOY / "examples"
HELM: Final = "KUBE_SCHED_EXT_HELM"
KUBERNETES: Final = "1.36.3"
FIRST_PORT: Final = 5401
COMBINATIONS: Final = (("safe", "congestion"), ("safe", "pigeon"))
"""What is rendered besides each agent alone."""

_TABLE: Final = "| value | default | meaning |\n"
_ACCOUNT: Final = "service-account.yaml"
_ARTICLE: Final = "extended-scheduler.image.yaml"
_PROMETHEUS: Final = {"prometheus.url": "http://prometheus.monitoring:9090"}
_OF_HELM: Final = ("# Source: ", "helm.sh/chart: ", "app.kubernetes.io/managed-by: ")
_ACCOUNT_KIND: Final = re.compile(r"ServiceAccount|(Cluster)?Role(Binding)?")

_ACCOUNT_HEAD: Final = """\
# The account of my-scheduler, and what it may do: kube-scheduler's own roles, the Lease, and for
# the agents to watch nodes and pods. The extender.*.yaml need it.
"""
_EXTENDER_HEAD: Final = """\
# my-scheduler: a second kube-scheduler with {agents} beside it.
#
#     kubectl apply -f service-account.yaml -f {file}
#
# Put your registry before the images kube-sched-ext-*{also}.
# Rendered from deploy/chart by `nox -s examples`; change it there.
"""
_ARTICLE_HEAD: Final = """\
# extended-scheduler prefers nodes that have a pod's images: a kube-scheduler of its own, the agent
# on the network of its node behind NodePort 30036, and two pods that show it.
#
#     kubectl apply -f extended-scheduler.image.yaml
#
# With nginx:1.7.9 on worker-node2 only, the agent scores master-node 0, worker-node1 0 and
# worker-node2 1, and both pods go to worker-node2. nginx:1.7.9 is of 2014: runtimes of today may
# refuse to pull it, which comes after scheduling.
#
# The extender stands in the KubeSchedulerConfiguration: there is no Policy, and so no second
# ConfigMap for one, since Kubernetes 1.23. The scheduler asks by the Service's name; from outside
# the cluster's DNS it is http://NODE:30036/my_scheduler_extension.
#
# Put your registry before the image kube-sched-ext-image.
# Rendered from deploy/chart by `nox -s examples`; change it there.
"""
_ARTICLE_POD: Final = """\
apiVersion: v1
kind: Pod
metadata:
  name: {name}
  namespace: default
spec:
  schedulerName: extended-scheduler
  containers:
    - name: nginx
      image: nginx:1.7.9
"""


def agents_of_chart() -> list[str]:
    """Return the agents that the chart's values have an entry for."""
    content = yaml.safe_load((CHART / "values.yaml").read_text())
    return sorted(content["agents"])


def template(release: str, given: Mapping[str, object], namespace: str = "kube-system") -> str:
    """Return what `helm template` prints.

    Raises:
        RuntimeError: helm refuses; its words are the message.
    """
    command = [os.environ.get(HELM, "helm"), "template", release, str(CHART)]
    command += ["--namespace", namespace, "--kube-version", KUBERNETES, "--values", "-"]
    text = yaml.safe_dump(nested(given))
    done = subprocess.run(  # noqa: S603  # helm, by a path that the caller chose
        command, input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip())
    return done.stdout


def nested(given: Mapping[str, object]) -> dict[str, object]:
    """Return values by dotted path as helm reads them from a file."""
    result: dict[str, object] = {}
    for path, value in given.items():
        *parents, last = path.split(".")
        place = result
        for parent in parents:
            place = place.setdefault(parent, {})  # type: ignore[assignment]  # made here
        place[last] = value
    return result


def enabling(agents: Sequence[str]) -> dict[str, object]:
    """Return the values that install agents, on ports in this order."""
    result: dict[str, object] = dict(_PROMETHEUS)
    for number, agent in enumerate(agents):
        result[f"agents.{agent}.enabled"] = True
        result[f"agents.{agent}.port"] = FIRST_PORT + number
    return result


def combination(agents: Sequence[str]) -> dict[str, str]:
    """Return the files of my-scheduler with these agents, by name."""
    documents = _plain(template("my-scheduler", enabling(agents)))
    account = [it for it in documents if _ACCOUNT_KIND.fullmatch(_kind(it))]
    rest = [it for it in documents if it not in account]
    name = f"extender.{'.'.join(agents)}.yaml"
    also = ", and your Prometheus into PROMETHEUS_URL" if "PROMETHEUS_URL" in "".join(rest) else ""
    head = _EXTENDER_HEAD.format(agents=" and ".join(agents), file=name, also=also)
    return {name: _joined(head, rest), _ACCOUNT: _joined(_ACCOUNT_HEAD, account)}


def article() -> str:
    """Return the image article's set-up as one file."""
    release = "image-extender"
    agent = template(
        release,
        {
            "shape": "service",
            "pathPrefix": "/my_scheduler_extension",
            "service.reach": "nodePort",
            "service.nodeAddress": f"{release}.kube-system.svc",
            "service.hostNetwork": True,
            "agents.image.enabled": True,
            "agents.image.port": FIRST_PORT,
            "agents.image.nodePort": 30036,
            "agents.image.prioritizeVerb": "my_new_priorities/image_score",
            "agents.image.settings": {"PRIORITIES_PATH": "my_new_priorities"},
        },
    )
    objects = [yaml.safe_load(it) for it in _plain(agent)]
    [configuration] = [it["data"]["config.yaml"] for it in objects if it["kind"] == "ConfigMap"]
    scheduler = template(
        "extended-scheduler",
        {
            "scheduler.containerName": "extended-scheduler-ctr",
            "configuration.profiles": [{"schedulerName": "extended-scheduler"}],
            "configuration.extenders": yaml.safe_load(configuration)["extenders"],
        },
    )
    # The agent's ConfigMap is for a scheduler that runs; here the scheduler has it in its own.
    documents = [it for it in _plain(agent) if _kind(it) != "ConfigMap"] + _plain(scheduler)
    pods = [_ARTICLE_POD.format(name=f"nginx-{number}") for number in (1, 2)]
    return _joined(_ARTICLE_HEAD, documents + pods)


def examples() -> dict[str, str]:
    """Return all files that are kept in examples/, but the test pod, by name."""
    files = {_ARTICLE: article()}
    for agents in (*((it,) for it in agents_of_chart()), *COMBINATIONS):
        files |= combination(agents)
    return files


def chart_readme() -> str:
    """Return the chart's README: what stands above its table, and the table from the values."""
    head, _, _ = (CHART / "README.md").read_text().partition(_TABLE)
    rows = "".join(f"| `{path}` | {default} | {meaning} |\n" for path, default, meaning in values())
    return f"{head}{_TABLE}|---|---|---|\n{rows}"


def values() -> Iterator[tuple[str, str, str]]:
    """Yield path, default and meaning of each value; its meaning is the comment above it.

    A group of values has no default, and a row only where it has a comment.
    """
    comment: list[str] = []
    path: list[str] = []
    for line in (CHART / "values.yaml").read_text().splitlines():
        text = line.strip()
        if text.startswith("#"):
            comment.append(text.removeprefix("#").strip())
        elif found := re.match(r"( *)([A-Za-z]+):(.*)", line):
            indent, key, default = found.groups()
            path[len(indent) // 2 :] = [key]
            name = ".".join(path)
            if not name.startswith("agents.") and (default or comment):
                yield name, f"`{default.strip()}`" if default else "", " ".join(comment)
            comment = []
        else:
            comment = []


def _plain(rendered: str) -> list[str]:
    """Return the documents without what only helm needs."""
    kept = [it for it in rendered.splitlines() if not it.strip().startswith(_OF_HELM)]
    documents = re.split("^---$", "\n".join(kept), flags=re.MULTILINE)
    return [it.strip() + "\n" for it in documents if it.strip()]


def _kind(document: str) -> str:
    return str(yaml.safe_load(document)["kind"])


def _joined(head: str, documents: Sequence[str]) -> str:
    return head + "".join(f"---\n{it}" for it in documents)


def main() -> None:
    """Read the command line, and render."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("agents", nargs="*", metavar="AGENT", help=", ".join(agents_of_chart()))
    parser.add_argument("--into", type=Path, metavar="DIR", help="write files here")
    options = parser.parse_args()
    unknown = sorted(set(options.agents) - set(agents_of_chart()))
    if unknown:
        parser.error(f"no agent: {', '.join(unknown)}; there are {', '.join(agents_of_chart())}")
    try:
        files = combination(options.agents) if options.agents else examples()
    except (OSError, RuntimeError) as error:
        sys.exit(f"helm: {error}")
    into: Path | None = options.into
    if options.agents and into is None:
        sys.stdout.write("".join(reversed(files.values())))
        return
    into = into or EXAMPLES
    into.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (into / name).write_text(text)
    if not options.agents and into == EXAMPLES:
        (CHART / "README.md").write_text(chart_readme())


if __name__ == "__main__":
    main()
