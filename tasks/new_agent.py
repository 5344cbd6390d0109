"""Makes agents/NAME from agents/foo, wired into everything that lists agents.

    python tasks/new_agent.py NAME

Wherever foo has an entry, the new agent gets the same behind it. Tasks, tests and the examples of
the chart find agents by themselves.
"""

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from workspace import PACKAGES, ROOT

from kube_sched_ext_testkit.new_agent.errors import NewAgentError
from kube_sched_ext_testkit.new_agent.names import AgentName, installed_names, parse_name
from kube_sched_ext_testkit.new_agent.template import renamed, render
from kube_sched_ext_testkit.new_agent.writing import write_all

BAKE: Final = "images/docker-bake.hcl"
ENTRIES: Final = (
    ("README.md", r"^\| \[foo\]\(agents/foo/README\.md\).*\n"),
    ("deploy/chart/values.yaml", r"^  foo:\n(?:    .*\n)+"),
    (BAKE, r'"foo", '),
    (BAKE, r'^target "foo" \{\n(?:.+\n)+\}\n\n'),
)
"""Files that list agents, and what foo's entry is there."""


def make_agent(text: str) -> AgentName:
    """Make an agent called `text`; return its name.

    Raises:
        NewAgentError: the name is not valid or taken, or a file has no entry of foo to go by.
        OSError: a file could not be written; none has been.
    """
    name = parse_name(text, _taken())
    folder = ROOT / "agents" / name.text
    if folder.exists():
        raise NewAgentError(f"{folder} is there already")
    files = {folder / place: made for place, made in render(ROOT / "agents/foo", name).items()}
    write_all(files | _with_entries(name))
    return name


def _taken() -> set[str]:
    """Return the names of packages, of installed agents' verbs, and of image targets."""
    targets = re.findall(r'^(?:group|target) "(.*)"', (ROOT / BAKE).read_text(), re.MULTILINE)
    return {*(package.name for package in PACKAGES), *installed_names(), *targets}


def _with_entries(name: AgentName) -> dict[Path, str]:
    """Return the files that list agents, with `name` in them."""
    texts: dict[Path, str] = {}
    for place, pattern in ENTRIES:
        path = ROOT / place
        text = texts.get(path) or path.read_text()
        found = list(re.finditer(pattern, text, re.MULTILINE))
        if len(found) != 1:
            raise NewAgentError(f"{place} has {len(found)} entries of foo like {pattern}, not 1")
        [entry] = found
        texts[path] = text[: entry.end()] + renamed(entry[0], name) + text[entry.end() :]
    return texts


def _told(name: AgentName) -> Iterator[str]:
    """Yield what there is now, and how to go on."""
    listed = ", ".join(dict.fromkeys(place for place, _ in ENTRIES))
    yield f"agents/{name.text} is there, and listed in {listed}"
    yield f'  nox -s "tests({name.text})" lint types   passes as it is'
    yield f"  nox -s examples                  renders deploy/examples/extender.{name.text}.yaml"
    yield "  agents/README.md                 tells how to go on"


def main() -> None:
    """Read the command line, and make the agent."""
    parser = argparse.ArgumentParser(description="Make agents/NAME from agents/foo.")
    parser.add_argument("name", metavar="NAME")
    try:
        name = make_agent(parser.parse_args().name)
    except (NewAgentError, OSError) as error:
        sys.exit(f"new_agent: {error}")
    sys.stdout.writelines(f"{line}\n" for line in _told(name))


if __name__ == "__main__":
    main()
