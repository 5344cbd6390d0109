"""New agents: names, the template under another one, and files written all or none."""

from pathlib import Path, PurePosixPath

import pytest
from click.testing import CliRunner

from kube_sched_ext_testkit.new_agent.command import new_agent
from kube_sched_ext_testkit.new_agent.errors import NewAgentError
from kube_sched_ext_testkit.new_agent.names import AgentName, installed_names, parse_name
from kube_sched_ext_testkit.new_agent.template import renamed, render
from kube_sched_ext_testkit.new_agent.writing import write_all

FOO = Path(__file__).parents[3] / "agents" / "foo"


@pytest.mark.parametrize(
    ("text", "snake", "camel"),
    [
        ("quiet", "quiet", "Quiet"),
        ("low-noise", "low_noise", "LowNoise"),
        ("gpu2", "gpu2", "Gpu2"),
        ("a-1", "a_1", "A1"),
        ("z" * 30, "z" * 30, "Z" + "z" * 29),
    ],
)
def test_a_name_names_a_module_and_a_class(text: str, snake: str, camel: str) -> None:
    """Hyphens are for neither."""
    name = parse_name(text)
    assert (name.snake, name.camel) == (snake, camel)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "'' is no name of an agent; allowed: a letter a-z, then letters, digits and single"),
        ("q", "'q' is no name of an agent"),
        ("z" * 31, "2 to 30 characters in all"),
        ("low_noise", "'low_noise' is no name of an agent"),
        ("lärm", "'lärm' is no name of an agent"),
        ("quiet\n", "is no name of an agent"),
        ("telemetry", "'telemetry' is a part of this project"),
        ("hers", "'hers' is taken; taken are hers, his"),
        ("true", "'true' would make a class True"),
        ("key-error", "'key-error' would make a class KeyError"),
        ("node-reader", "'node-reader' would make a class NodeReader"),
    ],
)
def test_a_name_that_is_not_valid_or_taken_is_refused(text: str, words: str) -> None:
    """In words that name it and what is allowed."""
    with pytest.raises(NewAgentError) as refused:
        parse_name(text, ["his", "hers"])
    assert words in str(refused.value)


def test_what_is_installed_is_taken() -> None:
    """Packages of ours, among them the one that makes agents."""
    assert "testkit" in installed_names()


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("foo", "low-noise"),
        ("class Foo(Agent):", "class LowNoise(Agent):"),
        ("kube_sched_ext_foo.agent:Foo", "kube_sched_ext_low_noise.agent:LowNoise"),
        ("kube-sched-ext-foo", "kube-sched-ext-low-noise"),
        ("tests/test_foo_agent.py", "tests/test_low_noise_agent.py"),
        ("def foo_is():", "def low_noise_is():"),
        ("food, Food and a fool", "food, Food and a fool"),
    ],
)
def test_foo_is_renamed_as_it_is_written(text: str, becomes: str) -> None:
    """In words, identifiers, classes and paths; not within other words."""
    assert renamed(text, AgentName("low-noise")) == becomes


def test_passages_about_the_template_are_left_out(tmp_path: Path) -> None:
    """With the blank line before them."""
    (tmp_path / "README.md").write_text(
        "# foo\n\n<!-- template: begin -->\nThe template.\n<!-- template: end -->\n\nFoo.\n"
    )
    assert render(tmp_path, AgentName("quiet")) == {
        PurePosixPath("README.md"): "# quiet\n\nQuiet.\n"
    }


def test_imports_are_in_order_under_the_new_name() -> None:
    """Which may stand behind the testkit's."""
    rendered = render(FOO, AgentName("zebra"))
    lines = rendered[PurePosixPath("tests/test_zebra_agent.py")].splitlines()
    imports = [line for line in lines if line.startswith("from kube_sched_ext")]
    assert imports == sorted(imports)
    assert "zebra" in imports[-1]


def test_files_are_written_with_their_folders(tmp_path: Path) -> None:
    """And replace what was there."""
    (tmp_path / "old.txt").write_text("old")
    write_all({tmp_path / "a" / "b" / "new.txt": "new", tmp_path / "old.txt": "newer"})
    assert (tmp_path / "a" / "b" / "new.txt").read_text() == "new"
    assert (tmp_path / "old.txt").read_text() == "newer"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "new.txt", "old.txt"]


@pytest.mark.parametrize("obstacle", ["x" * 300, "folder", "old.txt/below"])
def test_nothing_is_written_where_one_file_cannot_be(tmp_path: Path, obstacle: str) -> None:
    """Neither those before it nor their folders; what was there is as it was."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "old.txt").write_text("old")
    before = sorted(tmp_path.rglob("*"))
    files = [tmp_path / "old.txt", tmp_path / "a" / "b" / "new.txt", tmp_path / obstacle]
    with pytest.raises(OSError, match=r"Is a directory|Not a directory|File name too long"):
        write_all(dict.fromkeys(files, "new"))
    assert sorted(tmp_path.rglob("*")) == before
    assert (tmp_path / "old.txt").read_text() == "old"


@pytest.fixture
def template(monkeypatch: pytest.MonkeyPatch) -> None:
    """Foo is there, as in a checkout."""
    monkeypatch.syspath_prepend(FOO / "src")


@pytest.mark.usefixtures("template")
def test_the_command_makes_a_package(tmp_path: Path) -> None:
    """And says how to go on."""
    result = CliRunner().invoke(new_agent, [str(tmp_path / "low-noise")])
    assert result.exit_code == 0, result.output
    assert result.output.startswith(f"agent low-noise is in {tmp_path}/low-noise; next:\n")
    assert (
        'test = ["kube-sched-ext-testkit~=' in (tmp_path / "low-noise/pyproject.toml").read_text()
    )
    assert "pip install .\n" in (tmp_path / "low-noise/README.md").read_text()


@pytest.mark.usefixtures("template")
@pytest.mark.parametrize(
    ("folder", "words"),
    [
        ("Quiet", "'Quiet' is no name of an agent"),
        ("in-use", "in-use is in use; give a folder that is empty or not there"),
    ],
)
def test_the_command_refuses_what_cannot_be(tmp_path: Path, folder: str, words: str) -> None:
    """With exit code 2."""
    (tmp_path / "in-use").write_text("mine")
    result = CliRunner().invoke(new_agent, [str(tmp_path / folder)])
    assert result.exit_code == 2
    assert words in result.output
