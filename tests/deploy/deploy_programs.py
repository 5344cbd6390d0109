"""The programs that tests of the chart start: helm and the strict decoder."""

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from render import CHART, HELM, KUBERNETES, nested, template

JSON = dict[str, Any]

STRICT = "KUBE_SCHED_EXT_STRICT"
"""The environment variable with the path of the strict decoder of tests/deploy/tools."""


def rendered(values: Mapping[str, object], namespace: str = "kube-system") -> list[JSON]:
    """Return the chart's objects for a release `it`."""
    documents = yaml.safe_load_all(template("it", values, namespace))
    return [document for document in documents if document]


def refusal(values: Mapping[str, object]) -> str:
    """Return helm's words on values that it refuses."""
    try:
        template("it", values)
    except RuntimeError as error:
        return str(error)
    raise AssertionError(f"helm takes {values}")


def lint(values: Mapping[str, object]) -> str:
    """Return what `helm lint` prints; fail where it warns or errs."""
    command = [os.environ[HELM], "lint", str(CHART), "--strict", "--kube-version", KUBERNETES]
    text = yaml.safe_dump(nested(values))
    done = subprocess.run(
        [*command, "--values", "-"], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def notes(values: Mapping[str, object], kubeconfig: Path) -> str:
    """Return what helm would tell after installing."""
    command = [os.environ[HELM], "install", "it", str(CHART), "--dry-run=client", "--values", "-"]
    done = subprocess.run(
        [*command, f"--kubeconfig={kubeconfig}"],
        input=yaml.safe_dump(nested(values)),
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.partition("\nNOTES:\n")[2]


def of_kind(objects: Iterable[JSON], kind: str) -> list[JSON]:
    """Return the objects of a kind."""
    return [it for it in objects if it["kind"] == kind]


def the(objects: Iterable[JSON], kind: str) -> JSON:
    """Return the only object of a kind."""
    [found] = of_kind(objects, kind)
    return found


def workload(objects: Iterable[JSON]) -> JSON:
    """Return the Deployment or DaemonSet."""
    [found] = [it for it in objects if it["kind"] in ("Deployment", "DaemonSet")]
    return found


def configuration_text(objects: Iterable[JSON]) -> str:
    """Return the rendered KubeSchedulerConfiguration."""
    [found] = [it for it in objects if it["metadata"]["name"].endswith("-config")]
    content: JSON = found.get("data") or found["stringData"]
    return str(content["config.yaml"])


def configuration(objects: Iterable[JSON]) -> JSON:
    """Return the rendered KubeSchedulerConfiguration, decoded."""
    decoded: JSON = yaml.safe_load(configuration_text(objects))
    return decoded


def environment(container: JSON) -> dict[str, str]:
    """Return a container's environment."""
    return {it["name"]: it["value"] for it in container["env"]}


def check_strictly(text: str) -> None:
    """Check that YAML decodes into the published Go type, with nothing unknown."""
    done = subprocess.run(
        [os.environ[STRICT]], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
