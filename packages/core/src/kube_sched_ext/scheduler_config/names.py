"""Names that nobody knows."""

from collections.abc import Iterable
from difflib import get_close_matches

from kube_sched_ext.scheduler_config.decoding import shown


def unknown_name(name: str, what: str, known: Iterable[str]) -> str:
    """Return that `name` is no known `what`, with the closest of `known` or all of them."""
    names = list(known)
    close = get_close_matches(name, names, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    return f"{shown(name)} is no {what}; {hint}known are {', '.join(names)}"
