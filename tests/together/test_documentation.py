"""What the READMEs say is so."""

import re
from pathlib import Path
from typing import Any

import pytest

from kube_sched_ext import discovery
from kube_sched_ext.config import CoreSettings
from kube_sched_ext.metrics import Metrics
from kube_sched_ext.settings import settings_of

ROOT = Path(__file__).parents[2]
READMES = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not {".nox", ".venv", "node_modules"} & set(path.relative_to(ROOT).parts)
)
OWNERS: dict[str, Any] = {"packages/core": CoreSettings}
OWNERS |= {
    f"agents/{name}": kind.settings_type
    for name, kind in discovery.load_agents(discovery.installed().values()).parts.items()
}
OWNERS |= {
    f"packages/{name}": kind.settings_type
    for name, kind in discovery.load_extensions().parts.items()
}


@pytest.mark.parametrize("folder", sorted(OWNERS))
def test_every_setting_is_in_its_readme_with_its_default(folder: str) -> None:
    """In a table: name, default."""
    text = (ROOT / folder / "README.md").read_text()
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| ([^|]*?) +\|", text, re.MULTILINE))
    rows |= dict(re.findall(r"^\| `([A-Z_]+)` \|( +)\|", text, re.MULTILINE))
    declared = {it.name: it.default_text for it in settings_of(OWNERS[folder])}
    assert {name: default.strip(" `") for name, default in rows.items()} == declared


def test_every_metric_is_in_the_readme_of_the_core() -> None:
    """Under the name that Prometheus shows."""
    text = (ROOT / "packages/core/README.md").read_text()
    documented = set(re.findall(r"^\| `(kube_sched_ext_\w+)`", text, re.MULTILINE))
    own = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in Metrics().registry.collect()
        if family.name.startswith("kube_sched_ext_")
    }
    assert documented == own


@pytest.mark.parametrize("readme", READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_inside_the_repository_resolve(readme: Path) -> None:
    """Files and headings."""
    for target in re.findall(r"\]\(([^)#:]*)(?:#[^)]*)?\)", readme.read_text()):
        assert not target or (readme.parent / target).exists(), target
