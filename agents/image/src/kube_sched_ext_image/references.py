"""Image references, compared as container runtimes understand them."""

from collections.abc import Iterable

_NONE = "<none>"
"""What a runtime writes for a name, tag or digest that an image has lost."""


def image_key(reference: str) -> str | None:
    """Return the same text for all references to one image; None for what names no image.

    A digest names the content, whatever the repository and tag beside it. Otherwise the registry
    defaults to docker.io, its repositories without a user to library/, and the tag to latest, as
    in github.com/distribution/reference.
    """
    name, at, digest = reference.partition("@")
    if not name:
        return None
    key = digest if at else _tagged(name)
    return key if key and _NONE not in key else None


def image_keys(names: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct keys of the names that a node has for one image."""
    return tuple(dict.fromkeys(key for name in names if (key := image_key(name)) is not None))


def _tagged(name: str) -> str:
    registry, slash, repository = name.partition("/")
    if not slash or not _is_host(registry):
        registry, repository = "docker.io", name
    if registry == "index.docker.io":
        registry = "docker.io"
    if registry == "docker.io" and "/" not in repository:
        repository = f"library/{repository}"
    if ":" not in repository:
        repository += ":latest"
    return f"{registry}/{repository}"


def _is_host(part: str) -> bool:
    # Repositories have no capitals, so what has some can only be a host.
    return "." in part or ":" in part or part == "localhost" or part != part.lower()
