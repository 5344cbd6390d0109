"""An agent as a package of its own, outside of this project's repository."""

import re
from pathlib import Path, PurePosixPath
from typing import Final

from kube_sched_ext.version import VERSION
from kube_sched_ext_testkit.new_agent.errors import NewAgentError
from kube_sched_ext_testkit.new_agent.names import AgentName, installed_names, parse_name
from kube_sched_ext_testkit.new_agent.template import find_template, render
from kube_sched_ext_testkit.new_agent.writing import write_all

_PROJECT: Final = PurePosixPath("pyproject.toml")
_README: Final = PurePosixPath("README.md")
_ENTRY_POINTS: Final = '[project.entry-points."kube_sched_ext.agents"]\n'
_TEST_EXTRA: Final = f"""\
[project.optional-dependencies]
test = ["kube-sched-ext-testkit~={VERSION}"]

"""


def make_package(folder: Path) -> AgentName:
    """Make `folder` a package with an agent that is called as `folder` is; return the name.

    Raises:
        NewAgentError: the name is not valid or taken, `folder` is in use, or there is no template.
        OSError: a file could not be written; none has been.
    """
    name = parse_name(folder.name, installed_names())
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise NewAgentError(f"{folder} is in use; give a folder that is empty or not there")
    template = find_template()
    files = render(template, name)
    files[_PROJECT] = _independent(files[_PROJECT])
    files[_README] = files[_README].replace(f"./packages/core ./agents/{name.text}", ".")
    write_all({folder / place: text for place, text in files.items()})
    return name


def _independent(project: str) -> str:
    """Return a pyproject.toml that goes its own way from a compatible version on."""
    project = re.sub(r'^version = ".*"$', 'version = "0.1.0"', project, flags=re.MULTILINE)
    project = re.sub(r'^license = ".*"\n', "", project, flags=re.MULTILINE)
    project = re.sub(r'"kube-sched-ext==.*"', f'"kube-sched-ext~={VERSION}"', project)
    return project.replace(_ENTRY_POINTS, _TEST_EXTRA + _ENTRY_POINTS)
