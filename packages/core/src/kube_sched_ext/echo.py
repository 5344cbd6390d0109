"""Replies made of their request's bytes: names that go back as they came are not encoded anew.

They are most of a reply, and each is a small object when it is encoded.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from kube_sched_ext.agent import MAX_SCORE
from kube_sched_ext.wire import ExtenderFilterResult, encode

_BEFORE, _, _AFTER = encode(ExtenderFilterResult(node_names=[])).partition(b"[]")
_FIRST: Final = b'[{"Host":"'
_NEXT: Final = b',{"Host":"'
_SCORED: Final = [b'","Score":%d}' % score + _NEXT for score in range(MAX_SCORE + 1)]


def all_kept(names: bytes) -> msgspec.Raw:
    """Return the reply of a filter that keeps all of `names`, a JSON array."""
    return msgspec.Raw(_BEFORE + names + _AFTER)


def scored(names: bytes, scores: Sequence[int]) -> msgspec.Raw | None:
    """Return the reply of a prioritize call that gives `names`, a JSON array, these scores.

    None where the names cannot be told apart at a glance: escaped, or with blanks between them.
    """
    if b"\\" in names or not names.startswith(b'["') or not names.endswith(b'"]'):
        return None
    # A quote within a name would be escaped: this stands between names alone.
    hosts = names[2:-2].split(b'","')
    if len(hosts) != len(scores):
        return None
    pieces = [b""] * (2 * len(hosts))
    pieces[::2] = hosts
    pieces[1::2] = map(_SCORED.__getitem__, scores)
    return msgspec.Raw(_FIRST + b"".join(pieces)[: -len(_NEXT)] + b"]")
