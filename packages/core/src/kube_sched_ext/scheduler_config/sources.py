"""Where a Policy is: by itself, in a ConfigMap, or behind an algorithmSource."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any, Final, NoReturn

import msgspec

from kube_sched_ext.errors import ConfigurationError
from kube_sched_ext.scheduler_config.decoding import Findings, decode
from kube_sched_ext.scheduler_config.documents import Document, parse_documents
from kube_sched_ext.scheduler_config.notes import Note
from kube_sched_ext.scheduler_config.policy import OldConfiguration, Policy, PolicySource

KEY: Final = "policy.cfg"
_CONFIGURATION: Final = "KubeSchedulerConfiguration"
_MEMBERS: Final = tuple(
    field.encode_name
    for field in msgspec.structs.fields(Policy)
    if field.name not in ("kind", "api_version")
)

ReadFile = Callable[[str], Sequence[Document] | None]
"""Returns what is in the file that an algorithmSource names; None where there is none."""


class Source(msgspec.Struct, frozen=True):
    """A Policy and the configuration that named it, decoded, and where both are."""

    policy: Policy
    place: str
    old: OldConfiguration | None
    old_place: str
    notes: tuple[Note, ...]


def find_source(documents: Sequence[Document], place: str, read_file: ReadFile) -> Source:
    """Return the one Policy in `documents`, as they stand in the file at `place`.

    Raises:
        ConfigurationError: there is none, or more than one, or something in it is wrong.
    """
    every = [*documents, *(it for document in documents for it in _in_config_map(document))]
    configurations = [it for it in every if it.kind == _CONFIGURATION]
    sourced = [it for it in configurations if it.get("algorithmSource") is not None]
    findings = Findings()
    if sourced:
        document = _only(sourced, place, f"{_CONFIGURATION}s with an algorithmSource")
        old = decode(document.content, OldConfiguration, document.place, findings)
        if old is None:
            raise ConfigurationError(findings.problems)
        notes = _unknown(findings)
        findings = Findings()
        found = _behind(old.algorithm_source.policy, document.place, every, read_file)
        if found is None:
            return Source(Policy(), document.place, old, document.place, notes)
        policy = decode(found.content, Policy, found.place, findings)
    else:
        found = _only([it for it in every if _is_policy(it)], place, "Policies", configurations)
        policy = decode(found.content, Policy, found.place, findings)
        document, old, notes = found, None, ()
    if policy is None:
        raise ConfigurationError(findings.problems)
    return Source(policy, found.place, old, document.place, (*_unknown(findings), *notes))


def _unknown(findings: Findings) -> tuple[Note, ...]:
    return tuple(Note(path, "ignored, as ever: no such field") for path in findings.unknown)


def _is_policy(document: Document) -> bool:
    if document.kind:
        return document.kind == "Policy"
    return any(document.get(key) is not None for key in _MEMBERS)


def _in_config_map(document: Document) -> Iterator[Document]:
    """Yield the objects in a ConfigMap's values; only a Policy's own key must have one."""
    data = document.get("data")
    if document.kind != "ConfigMap" or not isinstance(data, dict):
        return
    for key, value in data.items():
        if not isinstance(value, str):
            continue
        place = f"{document.place}, {key}"
        try:
            yield from parse_documents(value, place)
        except ConfigurationError:
            if key == KEY:
                raise


def _only(
    candidates: Sequence[Document],
    place: str,
    what: str,
    configurations: Sequence[Document] = (),
) -> Document:
    if len(candidates) == 1:
        return candidates[0]
    if candidates:
        places = "; ".join(it.place for it in candidates)
        _refuse(f"{place}: has {len(candidates)} {what}, where one is allowed: {places}")
    if configurations:
        _refuse(
            f"{configurations[0].place}: is a {configurations[0].get('apiVersion')} "
            f"{_CONFIGURATION} without an algorithmSource: there is no Policy to convert"
        )
    return _refuse(
        f"{place}: has no Policy; it must be one (kind: Policy), a ConfigMap with one under "
        f"{KEY}, or a {_CONFIGURATION} whose algorithmSource names one"
    )


def _behind(
    source: PolicySource | None, place: str, every: Sequence[Document], read_file: ReadFile
) -> Document | None:
    if source is None:
        return None
    if source.config_map is not None:
        path, name = "algorithmSource.policy.configMap", source.config_map.name
        maps = [it for it in every if it.kind == "ConfigMap" and it.name == name]
        if not maps:
            _refuse(
                f"{place}: {path}: no ConfigMap {name!r} is in the file; put it there too, or give "
                "the Policy itself"
            )
        return _of_config_map(maps[0])
    if source.file is not None:
        return _of_file(source.file.path, place, every, read_file)
    return _refuse(
        f"{place}: algorithmSource.policy: names nothing; it must have file or configMap"
    )


def _of_config_map(document: Document) -> Document:
    data = document.get("data")
    values: dict[Any, Any] = data if isinstance(data, dict) else {}
    if not isinstance(values.get(KEY), str):
        keys = ", ".join(map(str, values)) or "none"
        _refuse(f"{document.place}: has no {KEY}; its keys are {keys}")
    place = f"{document.place}, {KEY}"
    return _only([it for it in parse_documents(values[KEY], place) if _is_policy(it)], place, KEY)


def _of_file(path: str, place: str, every: Sequence[Document], read_file: ReadFile) -> Document:
    """In the container it was a file; here it may be a value beside the configuration."""
    ending = f", {PurePosixPath(path).name}"
    beside = [it for it in every if it.place.endswith(ending) and _is_policy(it)]
    if beside:
        return beside[0]
    read = read_file(path)
    if read is None:
        _refuse(
            f"{place}: algorithmSource.policy.file.path: {path!r} is not to be read here, and no "
            "ConfigMap in the file has it; give the Policy itself"
        )
    return _only([it for it in read if _is_policy(it)], path, "Policies")


def _refuse(problem: str) -> NoReturn:
    raise ConfigurationError([problem])
