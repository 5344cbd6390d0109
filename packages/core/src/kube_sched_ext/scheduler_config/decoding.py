"""From what JSON or YAML gave to structs, as Go decodes: keys in any case, null is left out.

What is wrong is collected, each with its place, its value and what is allowed there.
"""

import binascii
import re
import reprlib
from base64 import b64decode
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final, TypeVar

import msgspec
from msgspec import inspect

from kube_sched_ext.errors import UnparsableError
from kube_sched_ext.scheduler_config.durations import duration_text, nanoseconds_of

StructT = TypeVar("StructT", bound=msgspec.Struct)

_LONGEST_DURATION: Final = 2**63 - 1


class Findings(msgspec.Struct):
    """What decoding came upon: what is wrong, and the paths of keys that no field has."""

    problems: list[str] = []
    unknown: list[str] = []


class _Where(msgspec.Struct, frozen=True):
    document: str
    path: str = ""

    def __str__(self) -> str:
        return f"{self.document}: {self.path}" if self.path else self.document

    def key(self, key: str) -> "_Where":
        return _Where(self.document, f"{self.path}.{key}" if self.path else key)

    def item(self, index: int) -> "_Where":
        return _Where(self.document, f"{self.path}[{index}]")


class _WrongError(Exception):
    """Something below is wrong, and told already."""


def decode(value: object, kind: type[StructT], document: str, findings: Findings) -> StructT | None:
    """Return `value` as `kind`, or None after adding what is wrong to `findings`."""
    try:
        decoded: StructT = _decoded(value, inspect.type_info(kind), _Where(document), findings)
    except _WrongError:
        return None
    return decoded


def shown(value: object) -> str:
    """Return `value` in a line, shortened where it is long."""
    short = reprlib.Repr()
    short.maxstring = short.maxother = 60
    short.maxlevel = 2
    return short.repr(value)


def _decoded(value: object, kind: inspect.Type, where: _Where, findings: Findings) -> Any:
    told: Mapping[str, Any] = {}
    if isinstance(kind, inspect.Metadata):
        told = kind.extra or {}
        kind = kind.type
    if isinstance(kind, inspect.UnionType):
        [kind] = [option for option in kind.types if not isinstance(option, inspect.NoneType)]
        return _decoded(value, kind, where, findings)
    if isinstance(kind, inspect.StructType):
        return _struct(value, kind, where, findings)
    if isinstance(kind, inspect.VarTupleType):
        return _list(value, kind, where, findings)
    try:
        return _READERS[str(told.get("kind", type(kind).__name__))](value, kind)
    except ValueError:
        allowed = told.get("allowed") or _allowed(kind)
        findings.problems.append(f"{where}: {shown(value)} is not {allowed}")
        raise _WrongError from None


def _struct(value: object, kind: inspect.StructType, where: _Where, findings: Findings) -> Any:
    if not isinstance(value, dict):
        findings.problems.append(f"{where}: {shown(value)} is not a mapping")
        raise _WrongError
    fields = {field.encode_name.lower(): field for field in kind.fields}
    values: dict[str, Any] = {}
    is_wrong = False
    for key, member in value.items():
        field = fields.get(str(key).lower())
        if field is None:
            findings.unknown.append(where.key(str(key)).path)
        elif member is not None:
            try:
                place = where.key(field.encode_name)
                values[field.name] = _decoded(member, field.type, place, findings)
            except _WrongError:
                is_wrong = True
                values[field.name] = None
    for field in kind.fields:
        if field.required and field.name not in values:
            place = where.key(field.encode_name)
            findings.problems.append(f"{place}: is missing; it must be {_told(field.type)}")
            is_wrong = True
    if is_wrong:
        raise _WrongError
    return kind.cls(**values)


def _list(value: object, kind: inspect.VarTupleType, where: _Where, findings: Findings) -> Any:
    if not isinstance(value, list):
        findings.problems.append(f"{where}: {shown(value)} is not a list")
        raise _WrongError
    items = []
    is_wrong = False
    for index, item in enumerate(value):
        try:
            items.append(_decoded(item, kind.item_type, where.item(index), findings))
        except _WrongError:
            is_wrong = True
    if is_wrong:
        raise _WrongError
    return tuple(items)


def _text(value: object, kind: inspect.Type) -> str:
    if not isinstance(value, str):
        raise UnparsableError(value, "a text")
    if isinstance(kind, inspect.StrType) and kind.pattern and not re.search(kind.pattern, value):
        raise UnparsableError(value, kind.pattern)
    return value


def _integer(value: object, kind: inspect.Type) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise UnparsableError(value, "an integer")
    lowest, highest = getattr(kind, "ge", None), getattr(kind, "le", None)
    if (lowest is not None and value < lowest) or (highest is not None and value > highest):
        raise UnparsableError(value, f"from {lowest} to {highest}")
    return value


def _number(value: object, _: inspect.Type) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        raise UnparsableError(value, "a number")
    return float(value)


def _truth(value: object, _: inspect.Type) -> bool:
    if not isinstance(value, bool):
        raise UnparsableError(value, "true or false")
    return value


def _duration(value: object, kind: inspect.Type) -> str:
    """Go's own type: in a Policy nanoseconds, in a configuration text."""
    if isinstance(value, str):
        return duration_text(nanoseconds_of(value))
    nanoseconds = _integer(value, kind)
    if not 0 <= nanoseconds <= _LONGEST_DURATION:
        raise UnparsableError(value, "nanoseconds")
    return duration_text(nanoseconds)


def _base64(value: object, kind: inspect.Type) -> str:
    text = _text(value, kind)
    try:
        b64decode(text, validate=True)
    except binascii.Error:
        raise UnparsableError(value, "base64") from None
    return text


_READERS: Final[Mapping[str, Callable[[object, inspect.Type], object]]] = {
    "StrType": _text,
    "IntType": _integer,
    "FloatType": _number,
    "BoolType": _truth,
    "AnyType": lambda value, _: value,
    "duration": _duration,
    "base64": _base64,
}

_WORDS: Final = {
    "StrType": "a text",
    "IntType": "an integer",
    "FloatType": "a number",
    "BoolType": "true or false",
}


def _told(kind: inspect.Type) -> str:
    if isinstance(kind, inspect.Metadata):
        return str((kind.extra or {}).get("allowed") or _allowed(kind.type))
    return _allowed(kind)


def _allowed(kind: inspect.Type) -> str:
    words = _WORDS[type(kind).__name__]
    lowest, highest = getattr(kind, "ge", None), getattr(kind, "le", None)
    if lowest is not None and highest is not None:
        return f"{words} from {lowest} to {highest}"
    return words
