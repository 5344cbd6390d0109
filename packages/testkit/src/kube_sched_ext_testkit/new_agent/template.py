"""What an agent is made from: the files of foo, with its name replaced."""

import re
from importlib.util import find_spec
from pathlib import Path, PurePosixPath
from typing import Final

from kube_sched_ext_testkit.new_agent.errors import NewAgentError
from kube_sched_ext_testkit.new_agent.names import AgentName

_PARTS: Final = ("pyproject.toml", "README.md", "src/**/*", "tests/**/*")
_FOO_ONLY: Final = re.compile(
    r"(?:^\n)?^.*template: begin.*\n(?:.*\n)*?.*template: end.*\n", re.MULTILINE
)
_FOO: Final = re.compile(r"(?<![A-Za-z])(foo|Foo)(?![A-Za-z])")
_OUR_IMPORTS: Final = re.compile(r"(?:^from kube_sched_ext\S* import [^(\n]+\n)+", re.MULTILINE)


def find_template() -> Path:
    """Return the folder of foo: as its wheel brings it, or in a checkout.

    Raises:
        NewAgentError: foo is not installed.
    """
    spec = find_spec("kube_sched_ext_foo")
    if spec is None or spec.origin is None:
        raise NewAgentError(
            "the template is not installed: pip install kube-sched-ext-foo brings it"
        )
    package = Path(spec.origin).parent
    shipped = package / "template"
    return shipped if shipped.is_dir() else package.parents[1]


def render(template: Path, name: AgentName) -> dict[PurePosixPath, str]:
    """Return the files of an agent called `name`, by their paths in its folder.

    Passages between lines with `template: begin` and `template: end` tell of foo alone.
    """
    paths = sorted(path for part in _PARTS for path in template.glob(part) if path.is_file())
    files = {}
    for path in paths:
        if path.suffix != ".pyc":
            place = PurePosixPath(renamed(path.relative_to(template).as_posix(), name))
            files[place] = _in_order(renamed(_FOO_ONLY.sub("", path.read_text()), name))
    return files


def renamed(text: str, name: AgentName) -> str:
    """Return `text` with `name` for foo, as a word, in identifiers and as a class."""

    def replacement(match: re.Match[str]) -> str:
        if match[0] == "Foo":
            return name.camel
        around = text[max(match.start() - 1, 0) : match.end() + 1]
        return name.snake if "_" in around else name.text

    return _FOO.sub(replacement, text)


def _in_order(text: str) -> str:
    """Return `text` with imports in order again, which another name may have changed."""
    return _OUR_IMPORTS.sub(lambda it: "".join(sorted(it[0].splitlines(keepends=True))), text)
