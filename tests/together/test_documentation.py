"""What the pages say is so, and what is so they say."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import yaml
from documentation_code import (
    AGENTS,
    PACKAGES,
    Package,
    chart_values,
    commands,
    metrics,
    options,
    settings,
    verbs,
)
from documentation_pages import PAGES, ROOT, Block, blocks

ALL_SETTINGS: Final = {name for package in PACKAGES for name in settings(package)}
ALL_METRICS: Final = {name for package in PACKAGES for name in metrics(package)}
ALL_VERBS: Final = {path for kind in AGENTS.values() for path in verbs(kind())}
TOGETHER: Final = {"filter", "prioritize", "preemption", "bind"}
"""Verbs that belong to no agent."""

OTHERS_WORDS: Final = re.compile(
    r"A_BINPACK|LOAD_BALANCE|KUBE_SCHED_EXT_[A-Z]+|CGO_ENABLED|HTTPS_PROXY|NO_PROXY|"
    r"OPENBLAS_NUM_THREADS|PIP_INDEX_URL|SOURCE_DATE_EPOCH"
)
"""What looks like a setting of ours, and is a value, or a variable of tests or other programs."""


def by_place(path: Path) -> str:
    return str(path.relative_to(ROOT))


def place_of(it: Package | Block) -> str:
    return it.place


pages = pytest.mark.parametrize("page", PAGES, ids=by_place)
packages = pytest.mark.parametrize("package", PACKAGES, ids=place_of)


@packages
def test_every_setting_is_in_its_package_s_pages_with_its_default(package: Package) -> None:
    """In a table: name, default."""
    tables = re.findall(
        r"^\| (?:setting|name) \| default .*\n((?:\|.*\n)+)", package.text, re.MULTILINE
    )
    rows = re.findall(r"^\| `([A-Z]\w*)` \|([^|]*)\|", "".join(tables), re.MULTILINE)
    assert {name: default.strip(" `") for name, default in rows} == settings(package)


@packages
def test_every_metric_is_in_its_package_s_pages(package: Package) -> None:
    """Under the name that Prometheus shows, and no other is."""
    rows = re.findall(r"^\| `(kube_sched_ext_\w+)[`{]", package.text, re.MULTILINE)
    assert set(rows) == metrics(package)


@pytest.mark.parametrize("name", sorted(AGENTS))
def test_every_verb_is_in_its_agent_s_readme(name: str) -> None:
    """By the path that kube-scheduler asks, and no other is."""
    text = (ROOT / "agents" / name / "README.md").read_text()
    paths = re.findall(r"`POST /scheduler/([^`]+)`", text)
    assert set(paths) - TOGETHER == verbs(AGENTS[name]())


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_is_on_some_page(name: str) -> None:
    """As it is typed."""
    assert any(f"kube-sched-ext {name}" in page.read_text() for page in PAGES)


@pages
def test_no_setting_is_named_that_does_not_exist(page: Path) -> None:
    """Whatever looks like one, in a code span or in a command."""
    words = re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b(?=[`=])", page.read_text())
    unknown = {word for word in words if not OTHERS_WORDS.fullmatch(word)}
    # The tutorial declares one of its own.
    declared = set(re.findall(r'^ +"([A-Z_]+)",$', page.read_text(), re.MULTILINE))
    assert unknown <= ALL_SETTINGS | declared


@pages
def test_no_metric_is_named_that_does_not_exist(page: Path) -> None:
    """With or without what a histogram adds to its name."""
    modules = {package.module for package in PACKAGES}
    modules |= {f"kube_sched_ext_{name.replace('-', '_')}" for name in _examples(page)}
    words = set(re.findall(r"kube_sched_ext_\w+", _prose(page))) - ALL_METRICS - modules
    assert {re.sub(r"_(?:bucket|count|sum)$", "", word) for word in words} <= ALL_METRICS


@pages
def test_no_verb_is_named_that_does_not_exist(page: Path) -> None:
    """In paths, and in configurations of kube-scheduler."""
    named = set(re.findall(r"\b((?:predicates|priorities)/[a-z][\w-]*)", _prose(page)))
    known = ALL_VERBS | {f"{kind}/{name}" for name in _examples(page) for kind in _KINDS}
    assert named <= known


_KINDS: Final = ("predicates", "priorities")


def _examples(page: Path) -> set[str]:
    """Return the agents that a page defines, or tells to make."""
    text = page.read_text()
    return {*re.findall(r'name = "([\w-]+)"', text), *re.findall(r"new_agent -- ([\w-]+)", text)}


@pages
def test_no_command_or_option_is_named_that_does_not_exist(page: Path) -> None:
    """Of `kube-sched-ext`."""
    known = commands()
    for line in (it for it in _typed(page) if "pip install" not in it):
        for name, rest in re.findall(r"kube-sched-ext ([a-z][\w-]*)([^|&;`]*)", line):
            assert name in known, line
            typed = {it.partition("=")[0] for it in rest.split() if it.startswith("--")}
            assert typed <= options(known[name]), line


@pages
def test_no_task_is_named_that_does_not_exist(page: Path) -> None:
    """Of `nox -s`."""
    noxfile = ast.parse((ROOT / "noxfile.py").read_text())
    tasks = {it.name for it in noxfile.body if isinstance(it, ast.FunctionDef)}
    for line in _typed(page):
        for named in re.findall(r"nox -s ((?:(?: ?[a-z]\w*|\"[^\"]+\")(?= |$))+)", line):
            assert set(re.findall(r"(?:^|[ \"])([a-z]\w*)", named)) <= tasks, line


def test_every_chart_value_is_in_its_readme() -> None:
    """By its path, but for what an agent's own entry has: that is in agentDefaults."""
    text = (ROOT / "deploy/chart/README.md").read_text()
    rows = set(re.findall(r"^\| `([\w.]+)` \|", text, re.MULTILINE))
    documented = {it for it in chart_values() if any(_is_within(it, row) for row in rows)}
    assert {it for it in chart_values() if not it.startswith("agents.")} <= documented
    assert rows <= chart_values()


def _is_within(path: str, row: str) -> bool:
    """Tell whether a row tells of a value, of the group that it is in, or of its own values."""
    return f"{path}.".startswith(f"{row}.") or row.startswith(f"{path}.")


@pages
def test_no_chart_value_is_named_that_does_not_exist(page: Path) -> None:
    """In code spans and behind `--set`."""
    tops = {path.partition(".")[0] for path in chart_values()}
    text = page.read_text()
    named = {*re.findall(r"`([a-z]\w*(?:\.[\w-]+)+)(?:: [^`]*|=[^`]*)?`", text)}
    named |= {*re.findall(r"--set(?:-string)? ([\w.-]+)=", text)}
    named = {re.sub(r"^agents\.[\w-]+", "agents.NAME", it) for it in named}
    ours = {it for it in named if it.partition(".")[0] in tops}
    others = re.compile(r"agents\.NAME\.settings\..*|tls\.(crt|key)|scheduler\.extra(Args|Volumes)")
    assert {it for it in ours if not others.fullmatch(it)} <= chart_values()


@pages
def test_links_inside_the_repository_resolve(page: Path) -> None:
    """Files and headings."""
    for target, heading in re.findall(r"\]\(([^)#:]*)(?:#([^)]*))?\)", _prose(page)):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        if heading:
            assert heading in _headings(linked), f"{target}#{heading}"


def _headings(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def _code_blocks() -> Iterator[Block]:
    for page in PAGES:
        yield from blocks(page)


@pytest.mark.parametrize(
    "block", [it for it in _code_blocks() if it.kind == "python"], ids=place_of
)
def test_python_on_a_page_imports_what_there_is(block: Block) -> None:
    """And it is Python."""
    for node in ast.walk(ast.parse(block.text)):
        if isinstance(node, ast.ImportFrom) and node.module and not _is_the_reader_s(node.module):
            module: Any = importlib.import_module(node.module)
            for alias in node.names:
                assert hasattr(module, alias.name), f"{node.module} has no {alias.name}"


def _is_the_reader_s(module: str) -> bool:
    known = {package.module for package in PACKAGES}
    return module.startswith("kube_sched_ext_") and module.partition(".")[0] not in known


@pytest.mark.parametrize(
    "block", [it for it in _code_blocks() if it.kind in ("yaml", "json")], ids=place_of
)
def test_yaml_on_a_page_is_yaml(block: Block) -> None:
    """Perhaps of several documents."""
    assert all(yaml.safe_load_all(block.text))


def _prose(page: Path) -> str:
    """Return a page without its blocks of code in other languages."""
    return re.sub(
        r"^````*(?:python|markdown)\n.*?^````*$",
        "",
        page.read_text(),
        flags=re.MULTILINE | re.DOTALL,
    )


def _typed(page: Path) -> Iterator[str]:
    """Yield what a page tells to type: code spans, and lines of commands."""
    yield from re.findall(r"`([^`\n]+)`", _prose(page))
    for block in blocks(page):
        if block.kind == "sh":
            yield from block.commands
