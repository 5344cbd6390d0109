"""Settings come from flags, environment and file, and everything wrong is told at once."""

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest

from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.settings import (
    Layer,
    environment,
    load,
    read_file,
    setting,
    settings_of,
    unknown_names,
)


class Example(msgspec.Struct, frozen=True):
    """One setting of each kind."""

    port: Annotated[int, setting("PORT", "A port.", ge=1, le=65535)] = 80
    ratio: Annotated[float, setting("RATIO", "A ratio.", gt=0)] = 0.5
    share: Annotated[float, setting("SHARE", "A share.", gt=0, le=1)] = 1.0
    least: Annotated[int, setting("LEAST", "At least none.", ge=0)] = 0
    word: Annotated[str, setting("WORD", "A word.", pattern=r"^[a-z]+\Z")] = "x"
    is_on: Annotated[bool, setting("IS_ON", "A switch.")] = False
    level: Annotated[Literal["LOW", "HIGH"], setting("LEVEL", "A level.")] = "LOW"
    weights: Annotated[dict[str, int], setting("WEIGHTS", "Weights.")] = {}
    own: Annotated[str, setting("OWN", "In own words.", allowed="whatever I say")] = ""
    prefix: Annotated[str, setting("PREFIX", "Before all.", may_be_empty=True)] = "/p"

    def __post_init__(self) -> None:
        """Refuse what no single field shows."""
        problems = []
        if self.least > self.port:
            problems.append(f"LEAST: {self.least} is more than PORT, {self.port}")
        if self.own == "mine":
            problems.append("OWN: is not yours")
        if problems:
            raise ValueError("\n".join(problems))


@pytest.mark.parametrize(
    ("name", "given", "value"),
    [
        ("PORT", "8080", 8080),
        ("PORT", 8080, 8080),
        ("RATIO", "1e-3", 0.001),
        ("RATIO", 2, 2.0),
        ("WORD", "abc", "abc"),
        ("IS_ON", "true", True),
        ("IS_ON", "0", False),
        ("IS_ON", True, True),
        ("LEVEL", "HIGH", "HIGH"),
        ("LEVEL", "high", "HIGH"),
        ("WEIGHTS", "a=1, b=2", {"a": 1, "b": 2}),
        ("WEIGHTS", {"a": 1}, {"a": 1}),
        ("WEIGHTS", {"a": "1"}, {"a": 1}),
    ],
)
def test_a_value_is_read_from_text_or_yaml(name: str, given: object, value: object) -> None:
    """Text as in the environment, values as in a file."""
    problems: list[str] = []
    loaded = load(Example, [Layer("{name}", {name: given})], problems)
    assert problems == []
    [field] = [it.field for it in settings_of(Example) if it.name == name]
    assert getattr(loaded, field) == value


@pytest.mark.parametrize(
    ("name", "given", "allowed"),
    [
        ("PORT", "x", "an integer, at least 1 and up to 65535"),
        ("PORT", "0", "an integer, at least 1 and up to 65535"),
        ("PORT", "80.5", "an integer, at least 1 and up to 65535"),
        ("PORT", True, "an integer, at least 1 and up to 65535"),
        ("PORT", [], "an integer, at least 1 and up to 65535"),
        ("RATIO", "0", "a number, above 0"),
        ("RATIO", "nan", "a number, above 0"),
        ("RATIO", "inf", "a number, above 0"),
        ("SHARE", "1.5", "a number, above 0 and up to 1"),
        ("LEAST", "-1", "an integer, at least 0"),
        ("WORD", "A", r"a text matching ^[a-z]+\Z"),
        ("IS_ON", "maybe", "true or false"),
        ("LEVEL", "MIDDLE", "one of LOW, HIGH"),
        ("WEIGHTS", "a", "NAME=NUMBER,..."),
        ("WEIGHTS", "=1", "NAME=NUMBER,..."),
        ("WEIGHTS", "a=b", "NAME=NUMBER,..."),
        ("OWN", ["a"], "whatever I say"),
    ],
)
def test_a_wrong_value_is_told_with_what_is_allowed(name: str, given: object, allowed: str) -> None:
    """The variable, the value, what is allowed."""
    problems: list[str] = []
    assert load(Example, [Layer("{name}", {name: given})], problems) is None
    [problem] = problems
    assert problem.startswith(f"{name}: ")
    assert problem.endswith(f" is not {allowed}")


def test_all_that_is_wrong_is_told_at_once() -> None:
    """Nobody likes to restart for each mistake."""
    problems: list[str] = []
    load(Example, [Layer("{name}", {"PORT": "x", "RATIO": "y"})], problems)
    assert len(problems) == 2


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"LEAST": "90", "OWN": "mine"}, ["LEAST: 90 is more than PORT, 80", "OWN: is not yours"]),
        (
            {"LEVEL": "x", "OWN": "mine"},
            ["LEVEL: 'x' is not one of LOW, HIGH", "OWN: is not yours"],
        ),
        # With the port that was meant it may be right.
        ({"PORT": "x", "LEAST": "90"}, ["PORT: 'x' is not an integer, at least 1 and up to 65535"]),
    ],
)
def test_what_is_wrong_with_fields_together_is_told_beside_the_rest(
    given: dict[str, str], told: list[str]
) -> None:
    """But not what only follows from a wrong value."""
    problems: list[str] = []
    assert load(Example, [Layer("{name}", given)], problems) is None
    assert problems == told


def test_what_fields_do_not_show_together_is_checked() -> None:
    """The struct's own words."""
    problems: list[str] = []
    assert load(Example, [Layer("{name}", {"LEAST": "90"})], problems) is None
    assert problems == ["LEAST: 90 is more than PORT, 80"]


def test_the_first_layer_wins_and_an_empty_variable_is_set_where_it_may_be(tmp_path: Path) -> None:
    """Flags over environment over file."""
    file = tmp_path / "settings.yaml"
    file.write_text("PORT: 1\nRATIO: 2\nWORD: file\n")
    flags = Layer("{name}", {"PORT": "3"})
    variables = environment({"PORT": "2", "RATIO": "3", "WORD": "", "PREFIX": ""})
    problems: list[str] = []
    loaded = load(Example, [flags, variables, read_file(file)], problems)
    assert loaded == Example(port=3, ratio=3.0, word="file", prefix="")


def test_a_wrong_value_in_the_file_is_told_with_the_file(tmp_path: Path) -> None:
    """So that one looks at the right place."""
    file = tmp_path / "settings.yaml"
    file.write_text("PORT: x\n")
    problems: list[str] = []
    load(Example, [read_file(file)], problems)
    assert problems == [f"PORT in {file}: 'x' is not an integer, at least 1 and up to 65535"]


def test_an_unknown_name_in_the_file_is_told_with_the_known_ones(tmp_path: Path) -> None:
    """A typing mistake must not pass for a setting."""
    file = tmp_path / "settings.yaml"
    file.write_text("POTR: 1\nPORT: 1\n")
    [problem] = unknown_names(read_file(file), [Example])
    assert problem.startswith(f"POTR in {file}: no such setting; known are ")
    assert "PORT" in problem


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a: [", "is not YAML"),
        (b"- a", "must map"),
        (b"1: 2", "must map"),
        (b"\xff", "is not YAML"),
    ],
)
def test_a_file_of_the_wrong_shape_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    """With its path."""
    file = tmp_path / "settings.yaml"
    file.write_bytes(content)
    with pytest.raises(ConfigurationError, match=words) as caught:
        read_file(file)
    assert str(file) in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """With its path and the reason."""
    with pytest.raises(ConfigurationError, match="No such file"):
        read_file(tmp_path / "none.yaml")


def test_an_empty_file_sets_nothing(tmp_path: Path) -> None:
    """As a ConfigMap that has not been filled yet."""
    file = tmp_path / "settings.yaml"
    file.write_text("# nothing\n")
    assert read_file(file).values == {}


def test_defaults_are_shown_as_one_would_write_them() -> None:
    """In the environment's notation."""
    shown = {it.name: it.default_text for it in settings_of(Example)}
    assert shown["PORT"] == "80"
    assert shown["IS_ON"] == "false"
    assert shown["WEIGHTS"] == ""
