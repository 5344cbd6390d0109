"""Message keys in any case, as Go's encoding/json reads them."""

from typing import Final

import msgspec
from msgspec import inspect


class GoMessage(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """A message, or part of one, whose keys Go matches without regard to case."""


_KEYED: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LISTED: Final = msgspec.json.Decoder(list[msgspec.Raw])


def with_go_names(body: bytes | bytearray, kind: type[GoMessage]) -> bytes:
    """Return `body` with the keys of `kind`, and of the messages in it, as Go writes them.

    Values that are no messages stay the bytes that they were. Of keys that differ in case alone
    the last one counts, as in Go.

    Raises:
        msgspec.DecodeError: `body` is not JSON.
    """
    return bytes(_renamed(msgspec.Raw(body), inspect.type_info(kind)))


def _renamed(raw: msgspec.Raw, kind: inspect.Type) -> msgspec.Raw:
    try:
        return _with_shape(raw, kind)
    except msgspec.ValidationError:
        # Of another shape than `kind`: whoever decodes the whole can say where.
        return raw


def _with_shape(raw: msgspec.Raw, kind: inspect.Type) -> msgspec.Raw:
    if isinstance(kind, inspect.UnionType):
        [kind] = [option for option in kind.types if not isinstance(option, inspect.NoneType)]
    renamed: object = raw
    if isinstance(kind, inspect.StructType) and issubclass(kind.cls, GoMessage):
        fields = {field.encode_name.lower(): field for field in kind.fields}
        renamed = {
            field.encode_name: _renamed(value, field.type)
            for key, value in _KEYED.decode(raw).items()
            if (field := fields.get(key.lower()))
        }
    elif isinstance(kind, inspect.DictType):
        members = _KEYED.decode(raw).items()
        renamed = {key: _renamed(value, kind.value_type) for key, value in members}
    elif isinstance(kind, inspect.ListType) and isinstance(kind.item_type, inspect.StructType):
        renamed = [_renamed(item, kind.item_type) for item in _LISTED.decode(raw)]
    return msgspec.Raw(msgspec.json.encode(renamed))
