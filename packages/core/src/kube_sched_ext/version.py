"""The version that all packages of the project share."""

from importlib.metadata import version
from typing import Final

VERSION: Final = version("kube-sched-ext")
