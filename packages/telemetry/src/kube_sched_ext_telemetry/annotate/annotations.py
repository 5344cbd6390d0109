"""The annotations: their published names, and numbers as every reader takes them."""

from collections.abc import Mapping
from math import isfinite
from typing import Final

from kube_sched_ext import UnparsableError, decimal

MANAGER: Final = "kube-sched-ext-annotate"
"""The field manager. What it applied before and applies no longer, the apiserver removes."""

RESOURCES: Final = ("cpu", "memory")
# The third is misspelt as published.
STATISTICS: Final = ("mean-free", "std-free", "forcasted-free")
USAGE: Final = tuple(f"{it}-{resource}" for resource in RESOURCES for it in STATISTICS)
"""From Prometheus: millicores and bytes."""

ALLOCATED: Final = ("cpu", "memory", "pods", "gpu", "ephemeral-storage")
ALLOCATION: Final = tuple(
    f"{it}-{resource}" for resource in ALLOCATED for it in ("requested", "free")
)
"""From the pods on a node: millicores, bytes and pieces."""

Annotations = Mapping[str, str]
"""Values by name."""


def as_text(number: float) -> str | None:
    """Return a whole number of at least 0 as digits, or None where there is no such number."""
    return str(round(number)) if isfinite(number) and number >= 0 else None


def is_near(text: str, other: str, tolerance: float) -> bool:
    """Tell whether a number is off from another by no more than that share of itself."""
    if text == other:
        return True
    try:
        number = decimal(text)
        return abs(decimal(other) - number) <= tolerance * abs(number)
    except UnparsableError:
        return False
