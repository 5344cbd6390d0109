"""A configuration as YAML, with comments."""

import re
from collections.abc import Mapping, Sequence
from textwrap import indent, wrap
from typing import Any, Final

import msgspec
import yaml

from kube_sched_ext.scheduler_config.scheduler_configuration import (
    GROUP,
    ApiVersion,
    SchedulerConfiguration,
)

_KIND: Final = "KubeSchedulerConfiguration"
_WIDTH: Final = 98
# What YAML of any age takes for the text it is; all else is quoted.
_PLAIN: Final = re.compile(r"[A-Za-z/](?:[\w./:-]*[\w/])|\d+(?:ns|us|ms|s|m|h)", re.ASCII)


class _Dumper(yaml.SafeDumper):
    """Indents lists, and quotes what another reader might take for a number or a switch."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: FBT001, FBT002  # PyYAML's signature
        return super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = None if _PLAIN.fullmatch(value) and ": " not in value else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def render(
    configuration: SchedulerConfiguration,
    version: ApiVersion,
    header: Sequence[str],
    comments: Mapping[str, str],
) -> str:
    """Return the YAML.

    Args:
        configuration: what to print.
        version: which version of the configuration it is printed as.
        header: paragraphs of the comment at the top.
        comments: what stands above a key, such as `profiles`, or an item, such as `extenders[0]`.
    """
    content = _pruned(msgspec.to_builtins(configuration))
    lines = [_comment(paragraph) for paragraph in header]
    lines.append(_dump({"apiVersion": f"{GROUP}/{version}", "kind": _KIND}))
    for key, value in content.items():
        if key in comments:
            lines.append(_comment(comments[key]))
        if isinstance(value, list | tuple):
            lines.append(f"{key}:\n")
            for index, item in enumerate(value):
                above = comments.get(f"{key}[{index}]")
                text = (_comment(above) if above else "") + _dump([item])
                lines.append(indent(text, "  "))
        else:
            lines.append(_dump({key: value}))
    return "".join(lines)


def _pruned(value: Any) -> Any:
    """Leave out mappings in which nothing is left."""
    if isinstance(value, dict):
        kept = {key: _pruned(member) for key, member in value.items()}
        return {key: member for key, member in kept.items() if member != {}}
    if isinstance(value, list | tuple):
        return [_pruned(item) for item in value]
    return value


def _dump(value: object) -> str:
    return str(
        yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=float("inf"))
    )


def _comment(paragraph: str) -> str:
    hanging = "  " * (len(paragraph) - len(paragraph.lstrip()))
    lines = wrap(paragraph, _WIDTH, subsequent_indent=hanging, break_on_hyphens=False)
    return "".join(f"# {line}".rstrip() + "\n" for line in lines or [""])
