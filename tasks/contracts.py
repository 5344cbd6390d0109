"""import-linter's contracts: imports point one way, and models stand alone."""

from collections.abc import Sequence
from pathlib import Path

from workspace import ROOT, Package


def layers(packages: Sequence[Package]) -> list[str]:
    """Return the layers, the highest first: agents, shared packages by what they need, core."""
    by_distribution = {package.distribution: package for package in packages}

    def height(package: Package) -> int:
        return 1 + max((height(by_distribution[it]) for it in package.may_need), default=0)

    shared: dict[int, list[str]] = {}
    for package in packages:
        if not package.is_agent:
            shared.setdefault(height(package), []).append(package.module)
    agents = [package.module for package in packages if package.is_agent]
    return [" | ".join(it) for it in (agents, *(shared[it] for it in sorted(shared, reverse=True)))]


def contracts(packages: Sequence[Package], root: Path = ROOT) -> str:
    """Return import-linter's configuration."""
    agents = [package for package in packages if package.is_agent]
    shared = [package.module for package in packages if not package.is_agent]
    models = [
        f"{agent.module}.model"
        for agent in agents
        if (root / agent.folder / "src" / agent.module / "model.py").exists()
    ]
    sections: dict[str, dict[str, list[str] | str]] = {
        "importlinter": {"root_packages": [package.module for package in packages]},
        "importlinter:contract:layers": {
            "name": "agents -> shared packages -> core",
            "type": "layers",
            "layers": layers(packages),
        },
        "importlinter:contract:models": {
            "name": "models import nothing of ours",
            "type": "forbidden",
            "source_modules": models,
            "forbidden_modules": shared,
        },
    }
    lines = []
    for section, options in sections.items():
        lines.append(f"[{section}]")
        for option, value in options.items():
            text = value if isinstance(value, str) else "".join(f"\n    {it}" for it in value)
            lines.append(f"{option} = {text}")
    return "\n".join(lines) + "\n"
