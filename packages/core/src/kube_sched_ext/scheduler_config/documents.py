"""From the text of a file to the objects in it."""

import json
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import yaml

from kube_sched_ext.errors import ConfigurationError

_LISTS: Final = ("List", "ConfigMapList")


class Document(msgspec.Struct, frozen=True):
    """An object, and where it is."""

    place: str
    content: dict[str, Any]

    @property
    def kind(self) -> str:
        """Its kind, empty where it has none."""
        return str(self.get("kind") or "")

    @property
    def name(self) -> str:
        """Its name, empty where it has none."""
        metadata = self.get("metadata")
        return str(metadata.get("name") or "") if isinstance(metadata, dict) else ""

    def get(self, key: str) -> Any:
        """Return the value of `key`, in whatever case it is written."""
        values = [it for name, it in self.content.items() if str(name).lower() == key.lower()]
        return values[-1] if values else None


def read_documents(content: bytes, place: str) -> list[Document]:
    """Return the objects in `content`, those in a List one by one.

    Raises:
        ConfigurationError: it is neither JSON nor YAML.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError([f"{place}: is not UTF-8: byte {error.start}"]) from None
    return parse_documents(text, place)


def parse_documents(text: str, place: str) -> list[Document]:
    """As `read_documents`, of a text.

    Raises:
        ConfigurationError: it is neither JSON nor YAML.
    """
    try:
        loaded = _loaded(text)
        documents = [it for value in loaded for it in _documents(value, place)]
    except (ValueError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise ConfigurationError([f"{place}: is neither JSON nor YAML: {reason}"]) from None
    except RecursionError:
        raise ConfigurationError([f"{place}: is nested too deeply"]) from None
    return documents


def _loaded(text: str) -> list[Any]:
    # JSON first: it may be indented with tabs, which YAML refuses.
    try:
        return [json.loads(text)]
    except json.JSONDecodeError as error:
        try:
            return list(yaml.safe_load_all(text))
        except yaml.YAMLError:
            if text.lstrip().startswith("{"):
                raise error from None
            raise


def _documents(value: Any, place: str) -> Iterator[Document]:
    if not isinstance(value, dict):
        return
    document = Document(place, value)
    items = document.get("items")
    if document.kind in _LISTS and isinstance(items, list):
        for item in items:
            yield from _documents(item, place)
    elif document.name:
        yield Document(f"{place}, {document.kind} {document.name}", value)
    else:
        yield document
