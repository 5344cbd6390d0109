"""Lists and watches as the apiserver writes them; the objects in them stay bytes."""

from typing import Final, Literal

import msgspec

from kube_sched_ext.wire import UNDECODABLE
from kube_sched_ext_cluster.errors import NoAnswerError


class ObjectMeta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """What tells objects and their versions apart."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class _Head(msgspec.Struct, frozen=True, gc=False):
    metadata: ObjectMeta


class PageMeta(msgspec.Struct, frozen=True, rename="camel"):
    """The version of a list, and where its next page begins; empty on the last."""

    resource_version: str = ""
    next_token: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, frozen=True):
    """One page of a list."""

    metadata: PageMeta
    items: list[msgspec.Raw] | None = None


class Event(msgspec.Struct, frozen=True):
    """One line of a watch."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: msgspec.Raw


_HEAD: Final = msgspec.json.Decoder(_Head)
_PAGE: Final = msgspec.json.Decoder(Page)
_EVENT: Final = msgspec.json.Decoder(Event)


def decode_page(body: bytes) -> Page:
    """Return the page in `body`.

    Raises:
        NoAnswerError: it is none.
    """
    try:
        page = _PAGE.decode(body)
    except UNDECODABLE as error:
        raise NoAnswerError("Malformed", f"list: {error}") from error
    if not page.metadata.resource_version:
        raise NoAnswerError("Malformed", "list: no resourceVersion")
    return page


def decode_event(line: bytes) -> Event:
    """Return the event in `line`.

    Raises:
        NoAnswerError: it is none.
    """
    try:
        return _EVENT.decode(line)
    except UNDECODABLE as error:
        raise NoAnswerError("Malformed", f"watch: {error}") from error


def decode_meta(item: msgspec.Raw) -> ObjectMeta:
    """Return what names `item`.

    Raises:
        NoAnswerError: nothing does, or it has no version.
    """
    try:
        meta = _HEAD.decode(item).metadata
    except UNDECODABLE as error:
        raise NoAnswerError("Malformed", f"object: {error}") from error
    if not meta.resource_version:
        raise NoAnswerError("Malformed", "object: no resourceVersion")
    return meta
