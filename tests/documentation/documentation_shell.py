"""A reader's terminal."""

import os
from pathlib import Path

import pytest

HELM = "KUBE_SCHED_EXT_HELM"
"""The environment variable with the path of helm."""

_OF_THE_TEST = ("COVERAGE_", "NOX", "PYTEST_", "PYTHON", "UV_PROJECT", "UV_PYTHON", "VIRTUAL_ENV")
"""Beginnings of variables that tell programs which environment the tests run in."""


def shell_environment(folder: Path) -> dict[str, str]:
    """Return the environment of a terminal that has helm, if there is any, from `folder`."""
    programs = os.environ["PATH"]
    if HELM in os.environ:
        (folder / "helm").symlink_to(os.environ[HELM])
        programs = f"{folder}:{programs}"
    kept = {key: value for key, value in os.environ.items() if not key.startswith(_OF_THE_TEST)}
    return kept | {"PATH": programs}


def need_helm() -> None:
    """Skip a test without helm, or fail it where CI is true."""
    if HELM not in os.environ:
        reason = f"{HELM} is not set: `nox -s docs` builds that program and sets it"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason)
        pytest.skip(reason)
