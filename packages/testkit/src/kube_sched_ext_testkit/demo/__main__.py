"""python -m kube_sched_ext_testkit.demo: ask the agents what kube-scheduler asked."""

import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import click
from rich.console import Console

from kube_sched_ext_testkit.builders import JSON, make_pod
from kube_sched_ext_testkit.demo import DemoError
from kube_sched_ext_testkit.demo.answers import Agents, Answers, Asker
from kube_sched_ext_testkit.demo.recorded import (
    Asked,
    AskedToPreempt,
    load_asked,
    load_asked_to_preempt,
    load_nodes,
    pods_recorded,
)
from kube_sched_ext_testkit.demo.show import Explanations, show_answers, show_preemption
from kube_sched_ext_testkit.errors import ExtenderError
from kube_sched_ext_testkit.serving import serve_process

_MODES: Final = {True: "names", False: "full"}
_ARTICLE_POD: Final = "article"
_ARTICLE_IMAGE: Final = "nginx:1.7.9"
_ARTICLE_SCORES: Final = {"master-node": 0, "worker-node1": 0, "worker-node2": 1}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--nodes",
    "nodes_file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The cluster: kubectl get nodes -o json.",
)
@click.argument("requests", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("agents", nargs=-1, metavar="[AGENT]...")
def main(nodes_file: Path, requests: Path, agents: Sequence[str]) -> None:
    """Ask agents what kube-scheduler asked, and show what they answer.

    REQUESTS is a folder of recorded requests, VERB.MODE.POD.json. The agents are foo, congestion,
    image and safe where none is named. Exit code 1: one fails, or answers wrongly.
    """
    try:
        _run(nodes_file, requests, agents or ("foo", "congestion", "image", "safe"))
    except (DemoError, ExtenderError, RuntimeError) as error:
        click.echo(f"demo: {error}", err=True)
        sys.exit(1)


def _run(nodes_file: Path, requests: Path, names: Sequence[str]) -> None:
    agents = Agents(names)
    with TemporaryDirectory() as folder:
        running = serve_process(
            *names,
            folder=Path(folder),
            nodes_file=nodes_file,
            environment={"LOG_LEVEL": "TRACE"},
        )
        with running as served, ExitStack() as stack:
            asker = Asker(served.url_prefix, agents, stack)
            answers = _ask(asker, requests, load_nodes(nodes_file))
            preemptions = _ask_to_preempt(asker, requests)
        if served.process.returncode != 0:
            raise DemoError(f"serve ended with exit code {served.process.returncode}")
        explanations = Explanations.read(served.log)
    console = Console()
    for it in answers:
        show_answers(console, agents, it, explanations)
    for asked, remaining in preemptions:
        show_preemption(console, asked, remaining, explanations)
    console.print("Whole-node requests got the same answers as names.")
    _check_article(console, answers[-1])


def _ask(asker: Asker, requests: Path, nodes: Mapping[str, JSON]) -> list[Answers]:
    """Ask about the pods recorded, and at last about that of the article."""
    answers = []
    for pod in pods_recorded(requests, "filter"):
        to_filter, to_prioritize = (
            {
                mode: load_asked(requests / f"{verb}.{word}.{pod}.json", nodes)
                for mode, word in _MODES.items()
            }
            for verb in ("filter", "prioritize")
        )
        answers.append(asker.ask(to_filter, to_prioritize))
    article = Asked(make_pod(_ARTICLE_POD, images=[_ARTICLE_IMAGE]), list(nodes.values()))
    both = dict.fromkeys(_MODES, article)
    return [*answers, asker.ask(both, both)]


def _ask_to_preempt(asker: Asker, requests: Path) -> list[tuple[AskedToPreempt, list[str]]]:
    answers = []
    for pod in pods_recorded(requests, "preempt"):
        asked = {
            mode: load_asked_to_preempt(requests / f"preempt.{word}.{pod}.json")
            for mode, word in _MODES.items()
        }
        answers.append((asked[True], asker.ask_to_preempt(asked)))
    return answers


def _check_article(console: Console, answers: Answers) -> None:
    scores = answers.scores.get("image_score")
    if scores is None:
        return
    shown = {node: scores.get(node) for node in _ARTICLE_SCORES}
    if shown != _ARTICLE_SCORES:
        raise DemoError(f"image_score for {_ARTICLE_IMAGE} is {shown}, not {_ARTICLE_SCORES}")
    told = ", ".join(f"{node} {score}" for node, score in shown.items())
    console.print(f"image_score for {_ARTICLE_IMAGE}: {told}, as published.", highlight=False)


if __name__ == "__main__":
    # Without this SIGTERM would end the demo and leave its server behind.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    main(prog_name="python -m kube_sched_ext_testkit.demo")
