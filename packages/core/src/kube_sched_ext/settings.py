"""Settings: declared once on a struct, read from the environment and one YAML file.

A field is declared as `Annotated[int, setting("HTTP_PORT", "Port of the verbs.", ge=1)] = 80`;
its name in the environment is its name in the file. The environment wins over the file.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec
import yaml

from kube_sched_ext.errors import ConfigurationError

StructT = TypeVar("StructT", bound=msgspec.Struct)


def setting(
    name: str,
    meaning: str,
    *,
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    pattern: str | None = None,
    allowed: str | None = None,
    may_be_empty: bool = False,
) -> msgspec.Meta:
    """Return the annotation that makes a struct's field a setting.

    Args:
        name: its name, in the environment and in the file.
        meaning: what it does, in a sentence or two.
        ge: the smallest value allowed.
        gt: what the value must be above.
        le: the largest value allowed.
        pattern: what a text must match.
        allowed: what is allowed, in words; made from the type and the bounds where left out.
        may_be_empty: whether an empty variable in the environment is a value, and not none.
    """
    return msgspec.Meta(  # type: ignore[call-overload, no-any-return]  # ge and gt exclude each other
        ge=ge,
        gt=gt,
        le=le,
        pattern=pattern,
        description=meaning,
        extra={"name": name, "allowed": allowed, "may_be_empty": may_be_empty},
    )


class Setting(msgspec.Struct, frozen=True):
    """One setting, as `kube-sched-ext settings` shows it."""

    name: str
    field: str
    kind: Any  # whatever typing takes for an annotation
    allowed: str
    default: object
    meaning: str
    may_be_empty: bool = False

    @property
    def is_switch(self) -> bool:
        """Whether it is true or false."""
        return get_args(self.kind)[0] is bool

    @property
    def default_text(self) -> str:
        """The default as one would write it in the environment."""
        return _as_text(self.default)


_KINDS: Final[Mapping[object, str]] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a text",
    dict: "NAME=NUMBER,...",
}


def settings_of(kind: type[msgspec.Struct]) -> list[Setting]:
    """Return the settings that `kind` declares."""
    hints = get_type_hints(kind, include_extras=True)
    settings = []
    for field in msgspec.structs.fields(kind):
        meta = next(meta for meta in hints[field.name].__metadata__ if meta.extra)
        settings.append(
            Setting(
                name=(meta.extra or {})["name"],
                field=field.name,
                kind=hints[field.name],
                allowed=(meta.extra or {})["allowed"] or _allowed(hints[field.name], meta),
                default=field.default if field.default is not msgspec.NODEFAULT else {},
                meaning=meta.description or "",
                may_be_empty=(meta.extra or {})["may_be_empty"],
            )
        )
    return settings


def _allowed(kind: Any, meta: msgspec.Meta) -> str:
    bare = get_args(kind)[0]
    if get_origin(bare) is Literal:
        return "one of " + ", ".join(get_args(bare))
    text = _KINDS[get_origin(bare) or bare]
    if meta.pattern is not None:
        return f"{text} matching {meta.pattern}"
    bounds = [
        words.format(bound)
        for words, bound in (
            ("at least {:g}", meta.ge),
            ("above {:g}", meta.gt),
            ("up to {:g}", meta.le),
        )
        if bound is not None
    ]
    return f"{text}, {' and '.join(bounds)}" if bounds else text


def _as_text(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={part}" for key, part in value.items())
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)


class Layer(msgspec.Struct, frozen=True):
    """Values of settings by name, and where they are, as errors tell it: `place` with {name}."""

    place: str
    values: Mapping[str, Any]
    skips_empty: bool = False
    """Whether an empty text counts as not set, but where a setting may be empty."""

    def has(self, declared: Setting) -> bool:
        """Tell whether it sets `declared`."""
        value = self.values.get(declared.name)
        is_skipped = value == "" and self.skips_empty and not declared.may_be_empty
        return value is not None and not is_skipped


Source = Sequence[Layer]
"""Where settings come from; the first layer that has one wins."""


def environment(variables: Mapping[str, str]) -> Layer:
    """Return the layer of environment variables; most that are empty count as not set."""
    return Layer("{name}", variables, skips_empty=True)


def read_file(path: Path) -> Layer:
    """Return the settings in a YAML file, a mapping of names to values.

    Raises:
        ConfigurationError: it cannot be read, is not YAML, or not a mapping of names to values.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise ConfigurationError([f"{path}: cannot be read: {error.strerror}"]) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigurationError([f"{path}: is not YAML: {error}"]) from None
    content = {} if content is None else content
    if not isinstance(content, dict) or not all(isinstance(name, str) for name in content):
        raise ConfigurationError([f"{path}: must map names of settings to values"])
    return Layer(f"{{name}} in {path}", content)


def load(kind: type[StructT], source: Source, problems: list[str]) -> StructT | None:
    """Return the settings of `kind`, or None after adding to `problems` all that is wrong."""
    values = {}
    wrong = []
    for declared in settings_of(kind):
        layer = next((it for it in source if it.has(declared)), None)
        if layer is None:
            continue
        given = layer.values[declared.name]
        try:
            values[declared.field] = _converted(given, declared.kind)
        except (msgspec.ValidationError, ValueError):
            place = layer.place.format(name=declared.name)
            problems.append(f"{place}: {_as_text(given)!r} is not {declared.allowed}")
            wrong.append(declared.name)
    try:
        settings = kind(**values)
    except ValueError as error:
        # What names a setting that is wrong itself may be no more than a consequence.
        lines = str(error).splitlines()
        problems += [line for line in lines if not any(name in line for name in wrong)]
        return None
    return None if wrong else settings


def unknown_names(layer: Layer, kinds: Iterable[type[msgspec.Struct]]) -> list[str]:
    """Return a line for each name in `layer` that is no setting of `kinds`."""
    known = sorted(declared.name for kind in kinds for declared in settings_of(kind))
    return [
        f"{layer.place.format(name=name)}: no such setting; known are {', '.join(known)}"
        for name in layer.values
        if name not in known
    ]


def _converted(given: object, kind: Any) -> Any:
    bare = get_args(kind)[0]
    if isinstance(given, str) and get_origin(bare) is dict:
        given = dict(_pairs(given))
    if isinstance(given, str) and get_origin(bare) is Literal:
        # The published agents took LOG_LEVEL=info too.
        given = next((it for it in get_args(bare) if it.lower() == given.lower()), given)
    value = msgspec.convert(given, kind, strict=not _has_text(given))
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not finite")
    return value


def _has_text(given: object) -> bool:
    return isinstance(given, str) or (
        isinstance(given, dict) and any(isinstance(value, str) for value in given.values())
    )


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ValueError(f"{pair!r} has no name or no value")
        yield name.strip(), value.strip()
