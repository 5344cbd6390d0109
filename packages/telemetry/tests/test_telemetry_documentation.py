"""What the README says is so."""

import re
from collections.abc import Callable
from pathlib import Path

from telemetry_host import Loaded, Process, telemetry_of

from kube_sched_ext_testkit.ask import ask_priority
from kube_sched_ext_testkit.builders import make_node, make_pod

README = (Path(__file__).parents[1] / "README.md").read_text()


def test_every_metric_is_documented(new_process: Callable[..., Process]) -> None:
    """Under the name and with the labels that Prometheus shows."""
    process = new_process(Loaded())
    telemetry_of(process, "http://127.0.0.1:1")
    registry = process.host.instruments.metrics.registry
    own = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in registry.collect()
        if family.name.startswith("kube_sched_ext_telemetry_")
    }
    assert set(re.findall(r"^\| `(kube_sched_ext_telemetry_\w+){", README, re.MULTILINE)) == own


def test_the_agent_of_the_readme_works() -> None:
    """As it stands there; without Prometheus all nodes score alike."""
    [source] = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    names: dict[str, type] = {}
    exec(compile(source, "README.md", "exec"), names)  # noqa: S102  # our own
    nodes = [make_node("a"), make_node("b")]
    assert ask_priority(names["Calm"](), "calm", make_pod(), nodes) == [5, 5]
